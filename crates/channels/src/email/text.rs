//! The text of a mail whose template gives HTML alone: for readers who want no HTML, and for filters that count mails
//! without a text as a sign of junk.
//!
//! It reads as the page does, top to bottom: one line per block, links behind their words, pictures by what they are called.

use super::html::{Token, tokens, unescaped};

/// Elements that begin on a line of their own.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "blockquote",
    "center",
    "dd",
    "div",
    "dl",
    "dt",
    "footer",
    "form",
    "header",
    "li",
    "main",
    "nav",
    "ol",
    "section",
    "table",
    "tr",
    "ul",
];
/// Those with an empty line around them.
const PARAGRAPHS: &[&str] = &["h1", "h2", "h3", "h4", "h5", "h6", "hr", "p", "pre"];

#[must_use]
pub fn text_of(html: &str) -> String {
    let mut page = Page::default();
    let mut link: Option<String> = None;
    for token in tokens(html) {
        match token {
            Token::Text(text) => page.write(&unescaped(text)),
            Token::Aside(_) => {}
            Token::Tag(tag) => {
                let is_in = |names: &[&str]| names.iter().any(|name| tag.is(name));
                if is_in(PARAGRAPHS) {
                    page.break_line(2);
                } else if is_in(BLOCKS) {
                    page.break_line(1);
                } else if tag.is("td") || tag.is("th") {
                    page.gap = true;
                }
                match tag.closes {
                    false if tag.is("br") => page.add_line(),
                    false if tag.is("li") => page.write("- "),
                    false if tag.is("hr") => {
                        page.write("---");
                        page.break_line(2);
                    }
                    false if tag.is("img") => {
                        page.write(&tag.attribute("alt").map(|alt| unescaped(alt.value)).unwrap_or_default());
                    }
                    false if tag.is("a") => {
                        link = tag.attribute("href").map(|href| unescaped(href.value.trim()));
                        page.words_of_link.clear();
                    }
                    true if tag.is("a") => {
                        if let Some(url) =
                            link.take().filter(|url| is_worth_telling(url, &page.words_of_link))
                        {
                            page.write(&format!(" ({url})"));
                        }
                    }
                    true | false => {}
                }
            }
        }
    }
    page.text.truncate(page.text.trim_end().len());
    page.text
}

fn is_worth_telling(url: &str, words: &str) -> bool {
    let words = words.trim();
    let is_place = ["http://", "https://", "mailto:", "tel:"].iter().any(|scheme| url.starts_with(scheme));
    is_place
        && url != words
        && url.split_once(':').is_none_or(|(_, rest)| rest.trim_start_matches('/') != words)
}

#[derive(Default)]
struct Page {
    text: String,
    /// White space that is due before the next word.
    gap: bool,
    /// Line breaks that are due before the next word.
    lines: usize,
    /// What was written since the last link began.
    words_of_link: String,
}

impl Page {
    fn write(&mut self, text: &str) {
        for letter in text.chars() {
            if letter.is_whitespace() && letter != '\u{a0}' {
                self.gap = true;
                continue;
            }
            // Invisible: fillers of preview lines.
            if matches!(letter, '\u{200b}'..='\u{200f}' | '\u{ad}' | '\u{feff}' | '\u{34f}')
                || letter.is_control()
            {
                continue;
            }
            if !self.text.is_empty() && self.lines > 0 {
                (0..self.lines).for_each(|_| self.text.push('\n'));
            } else if !self.text.is_empty() && self.gap && !self.text.ends_with([' ', '\n']) {
                self.text.push(' ');
            }
            if self.gap && !self.words_of_link.is_empty() {
                self.words_of_link.push(' ');
            }
            (self.gap, self.lines) = (false, 0);
            self.text.push(letter);
            self.words_of_link.push(letter);
        }
    }

    fn break_line(&mut self, lines: usize) {
        self.lines = self.lines.max(lines);
        self.gap = false;
    }

    /// Two of them make an empty line, more do not.
    fn add_line(&mut self) {
        self.lines = (self.lines + 1).min(2);
        self.gap = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(html: &str, expected: &str) {
        assert_eq!(text_of(html), expected, "{html}");
    }

    // proves: EML-06
    #[test]
    fn pages_read_top_to_bottom() {
        check("Hello\n  there", "Hello there");
        check("<p>Hello <b>Ann</b>,</p><p>welcome.</p>", "Hello Ann,\n\nwelcome.");
        check("<ul><li>one</li><li>two</li></ul>", "- one\n- two");
        check("a<br>b<br/>c<br><br><br>d", "a\nb\nc\n\nd");
        check("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc");
        check(
            "<head><title>No</title><style>p {}</style></head><body>Yes<script>no()</script></body>",
            "Yes",
        );
        check("<!-- no --><p>5 &lt; 6 &amp; &euro;</p>", "5 < 6 & €");
        check("<div><div><div>x</div></div></div><div>y</div>", "x\ny");
        check("<h1>Title</h1>text<hr>more", "Title\n\ntext\n\n---\n\nmore");
        check("<img alt='A &quot;logo&quot;' src=x> shop", "A \"logo\" shop");
        check("", "");
    }

    #[test]
    fn links_are_told_once() {
        check("<a href='https://a.example/?x=1&amp;y=2'>Look</a>!", "Look (https://a.example/?x=1&y=2)!");
        check("<a href='https://a.example'>https://a.example</a>", "https://a.example");
        check("<a href='mailto:ann@a.example'>ann@a.example</a>", "ann@a.example");
        check("<a href='#top'>Up</a>", "Up");
        check("<a>Nowhere</a>", "Nowhere");
    }

    proptest! {
        #[test]
        fn any_page_has_a_text_without_tags(html in "[<>a-z/ &;\n]{0,80}") {
            let text = text_of(&html);
            prop_assert!(!text.contains("\n\n\n"));
            prop_assert_eq!(text.trim_end(), &text);
        }
    }
}
