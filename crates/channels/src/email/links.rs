//! Links that are told of when somebody follows them, and the picture that tells of a mail that was opened.
//!
//! The document is taken apart once for all recipients; each gets its own links between the same pieces. What leads to
//! ourselves (preferences, the way out) stays as it is, and so does everything that does not lead to the web.

use super::html::{Tag, Token, tokens, unescaped};
use super::limits::LINKS_MAX;
use fantail_ports::channel::Callbacks;
use fantail_rules::tracked_link;

/// A document, ready for each recipient's links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Linked {
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Fixed(String),
    /// The value of an `href`: where it leads, and as it is written.
    Link {
        url: String,
        written: String,
    },
    /// Where the picture goes.
    Picture,
}

impl Linked {
    #[must_use]
    pub fn read(html: &str, callbacks: &Callbacks) -> Self {
        let mut pieces = vec![Piece::Fixed(String::new())];
        let mut links = 0;
        let mut offset = 0;
        let end_of_body = end_of_body(html);
        for token in tokens(html) {
            if offset == end_of_body {
                pieces.push(Piece::Picture);
            }
            let whole = match token {
                Token::Text(text) | Token::Aside(text) => text,
                Token::Tag(tag) => tag.whole,
            };
            offset += whole.len();
            let link = match token {
                Token::Tag(tag) if links < LINKS_MAX => link(&tag, callbacks),
                Token::Tag(_) | Token::Text(_) | Token::Aside(_) => None,
            };
            match link {
                Some((begin, url, written)) => {
                    links += 1;
                    push(&mut pieces, &whole[..begin]);
                    pieces.push(Piece::Link { url, written: written.to_owned() });
                    push(&mut pieces, &whole[begin + written.len()..]);
                }
                None => push(&mut pieces, whole),
            }
        }
        if offset == end_of_body {
            pieces.push(Piece::Picture);
        }
        Self { pieces }
    }

    /// The document of one delivery.
    #[must_use]
    pub fn write(&self, reference: &str, callbacks: &Callbacks) -> String {
        let mut html = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Fixed(text) => html.push_str(text),
                Piece::Link { url, written } => {
                    let tracked = tracked_link::click(&callbacks.base_url, reference, url, &callbacks.key);
                    html.push_str(tracked.as_deref().unwrap_or(written));
                }
                Piece::Picture => {
                    let url = tracked_link::open(&callbacks.base_url, reference);
                    html.push_str(&format!(
                        "<img src=\"{url}\" width=\"1\" height=\"1\" alt=\"\" style=\"display:block\">"
                    ));
                }
            }
        }
        html
    }
}

fn push(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        Some(Piece::Fixed(fixed)) => fixed.push_str(text),
        Some(Piece::Link { .. } | Piece::Picture) | None => pieces.push(Piece::Fixed(text.to_owned())),
    }
}

/// Where the last `</body>` begins, or the end.
fn end_of_body(html: &str) -> usize {
    let mut offset = 0;
    let mut found = html.len();
    for token in tokens(html) {
        match token {
            Token::Tag(tag) => {
                if tag.closes && tag.is("body") {
                    found = offset;
                }
                offset += tag.whole.len();
            }
            Token::Text(text) | Token::Aside(text) => offset += text.len(),
        }
    }
    found
}

/// Where the value begins, where it leads, and the value as it is written.
fn link<'a>(tag: &Tag<'a>, callbacks: &Callbacks) -> Option<(usize, String, &'a str)> {
    if tag.closes || !(tag.is("a") || tag.is("area")) {
        return None;
    }
    let href = tag.attribute("href")?;
    let url = unescaped(href.value.trim());
    let is_ours = url.strip_prefix(&callbacks.base_url).is_some_and(|rest| rest.starts_with('/'));
    let is_tracked = !is_ours && tracked_link::click("", "", &url, &callbacks.key).is_some();
    is_tracked.then_some((href.value_at, url, href.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn callbacks() -> Callbacks {
        Callbacks { base_url: "https://n.example".into(), key: [1; 16] }
    }

    fn check(html: &str, expected: &str) {
        let callbacks = callbacks();
        let written = Linked::read(html, &callbacks).write("r1", &callbacks);
        let link =
            |url: &str| tracked_link::click("https://n.example", "r1", url, &[1; 16]).expect("tracked");
        let pixel =
            r#"<img src="https://n.example/t/o/r1.gif" width="1" height="1" alt="" style="display:block">"#;
        let expected = expected
            .replace("PIXEL", pixel)
            .replace("LINK1", &link("https://a.example/?x=1&y=2"))
            .replace("LINK2", &link("http://b.example"));
        assert_eq!(written, expected, "{html}");
    }

    // proves: EML-04
    #[test]
    fn links_of_the_web_lead_through_us_and_nothing_else_does() {
        check("<a href='https://a.example/?x=1&amp;y=2'>x</a>", "<a href='LINK1'>x</a>PIXEL");
        check("<A class=b HREF=http://b.example>x</A>", "<A class=b HREF=LINK2>x</A>PIXEL");
        check("<area href=\" http://b.example \">", "<area href=\"LINK2\">PIXEL");
        for same in [
            "<a href='mailto:a@b.example'>x</a>",
            "<a href='#x'>x</a>",
            "<a href='https://n.example/h/out'>x</a>",
            "<img src='https://a.example/logo.png'>",
            "<link href='https://a.example/style.css'>",
            "<!--[if mso]><a href='https://a.example'>x</a><![endif]-->",
            "https://a.example",
            "",
        ] {
            check(same, &format!("{same}PIXEL"));
        }
    }

    // proves: EML-04
    #[test]
    fn the_picture_stands_at_the_end_of_the_body() {
        check("<body>x</body></html>", "<body>xPIXEL</body></html>");
        check("x</body>y</BODY>", "x</body>yPIXEL</BODY>");
    }

    proptest! {
        #[test]
        fn what_is_no_link_stays(html in r#"[<>a-z"'=/ &;]{0,60}"#) {
            let callbacks = callbacks();
            let written = Linked::read(&html, &callbacks).write("r1", &callbacks);
            let begin = written.find("<img src=\"https://n.example/t/o/").expect("a picture");
            let end = begin + written[begin..].find('>').expect("a tag") + 1;
            prop_assert_eq!(format!("{}{}", &written[..begin], &written[end..]), html);
        }
    }
}
