//! A reader of HTML that takes it apart into texts and tags, and loses nothing: the parts put together are the whole.
//!
//! What must never happen: a panic, or a tag that is taken to end inside a quoted value. What is not understood is text.
//!
//! Invariant: reading takes a number of steps that is linear in the length of the document, whatever stands in it.

use super::limits::{TAG_BYTES_MAX, UNENDED_TAGS_BYTES_MAX};

/// A part of a document, as it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    Text(&'a str),
    Tag(Tag<'a>),
    /// Comments (those of Outlook too), declarations, and what stands in a script or a style.
    Aside(&'a str),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag<'a> {
    /// With its brackets.
    pub whole: &'a str,
    pub name: &'a str,
    pub closes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute<'a> {
    pub name: &'a str,
    /// Without its quotes, entities as they are written.
    pub value: &'a str,
    /// Where the value begins in the tag.
    pub value_at: usize,
}

/// Elements whose content is not shown and not markup.
const RAW: &[&str] = &["script", "style", "title", "textarea"];

pub struct Tokens<'a> {
    rest: &'a str,
    /// Inside this element, whose content is not markup.
    raw: Option<&'a str>,
    /// Bytes that may still be looked at in vain for the end of a tag. Then what is left is text.
    patience: usize,
}

pub fn tokens(html: &str) -> Tokens<'_> {
    Tokens { rest: html, raw: None, patience: UNENDED_TAGS_BYTES_MAX }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        if let Some(name) = self.raw.take() {
            let end = end_of_raw(self.rest, name);
            if end > 0 {
                return Some(Token::Aside(self.cut(end)));
            }
        }
        if !self.rest.starts_with('<') {
            let end = self.rest.find('<').unwrap_or(self.rest.len());
            return Some(Token::Text(self.cut(end)));
        }
        if self.rest.starts_with("<!--") {
            let end = self.rest.find("-->").map_or(self.rest.len(), |place| place + 3);
            return Some(Token::Aside(self.cut(end)));
        }
        if self.rest.starts_with("<!") || self.rest.starts_with("<?") {
            let end = self.rest.find('>').map_or(self.rest.len(), |place| place + 1);
            return Some(Token::Aside(self.cut(end)));
        }
        Some(self.tag())
    }
}

impl<'a> Tokens<'a> {
    fn cut(&mut self, end: usize) -> &'a str {
        let (part, rest) = self.rest.split_at(end);
        self.rest = rest;
        part
    }

    /// At a `<`.
    fn tag(&mut self) -> Token<'a> {
        if self.patience == 0 {
            let end = self.rest.len();
            return Token::Text(self.cut(end));
        }
        let inside = &self.rest[1..];
        let (closes, inside) = inside.strip_prefix('/').map_or((false, inside), |inside| (true, inside));
        let name_end =
            inside.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != ':' && letter != '-');
        let name = &inside[..name_end.unwrap_or(inside.len())];
        let end = match name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            true => self.end_of_tag(),
            false => None,
        };
        match end {
            Some(end) => {
                let whole = self.cut(end);
                let is_raw = !closes && RAW.iter().any(|raw| raw.eq_ignore_ascii_case(name));
                self.raw = is_raw.then_some(name).filter(|_| !whole.ends_with("/>"));
                Token::Tag(Tag { whole, name, closes })
            }
            None => Token::Text(self.cut(1)),
        }
    }

    /// A tag that does not end within its limit is none; the bytes that were looked at for it are counted.
    fn end_of_tag(&mut self) -> Option<usize> {
        let bytes = self.rest.as_bytes();
        let bytes = &bytes[..bytes.len().min(TAG_BYTES_MAX)];
        let end = end_of_tag(bytes);
        step(end.unwrap_or(bytes.len()));
        if end.is_none() {
            self.patience = self.patience.saturating_sub(bytes.len());
        }
        end
    }
}

/// Behind the `>`; quotes count where a value begins.
fn end_of_tag(bytes: &[u8]) -> Option<usize> {
    let mut quote = None;
    let mut last = b' ';
    for (place, &byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') if last == b'=' => quote = Some(byte),
            (None, b'>') => return Some(place + 1),
            (None, _) => {}
        }
        if !byte.is_ascii_whitespace() {
            last = byte;
        }
    }
    None
}

fn end_of_raw(text: &str, name: &str) -> usize {
    let mut from = 0;
    while let Some(place) = text[from..].find("</") {
        let at = from + place;
        if text[at + 2..].get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return at;
        }
        from = at + 2;
    }
    text.len()
}

impl<'a> Tag<'a> {
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The first of this name, if it has a value.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<Attribute<'a>> {
        let mut at = 1 + usize::from(self.closes) + self.name.len();
        while let Some((found, next)) = attribute(self.whole, at) {
            if found.name.eq_ignore_ascii_case(name) {
                return (found.value_at > 0).then_some(found);
            }
            at = next;
        }
        None
    }
}

/// The attribute from here on, and where the next one may begin. `value_at` is 0 if it has no value.
fn attribute(tag: &str, from: usize) -> Option<(Attribute<'_>, usize)> {
    let is_between = |letter: char| letter.is_ascii_whitespace() || letter == '/' || letter == '>';
    let begin = from + tag[from..].find(|letter: char| !is_between(letter))?;
    let name_end = tag[begin..].find(|letter: char| is_between(letter) || letter == '=');
    // An equals sign where a name should be is part of a name.
    let name_end = begin + name_end.unwrap_or(tag.len() - begin).max(1);
    let name_end = (name_end..=tag.len()).find(|place| tag.is_char_boundary(*place))?;
    let name = &tag[begin..name_end];
    let behind = tag[name_end..].trim_ascii_start();
    let Some(value) = behind.strip_prefix('=').map(str::trim_ascii_start) else {
        return Some((Attribute { name, value: "", value_at: 0 }, name_end));
    };
    let value_at = tag.len() - value.len();
    if let Some(quote) = value.chars().next().filter(|quote| matches!(quote, '"' | '\'')) {
        let inside = &value[1..];
        let length = inside.find(quote).unwrap_or(inside.len());
        let next = (value_at + 1 + length + 1).min(tag.len());
        return Some((Attribute { name, value: &inside[..length], value_at: value_at + 1 }, next));
    }
    let length =
        value.find(|letter: char| letter.is_ascii_whitespace() || letter == '>').unwrap_or(value.len());
    Some((Attribute { name, value: &value[..length], value_at }, value_at + length))
}

/// Entities become what they stand for. Unknown ones stay as they are.
#[must_use]
pub fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('&') {
        plain.push_str(&rest[..place]);
        rest = &rest[place..];
        let near = &rest.as_bytes()[..rest.len().min(ENTITY_BYTES_MAX + 1)];
        step(near.len());
        let entity = near.iter().position(|byte| *byte == b';').map(|end| &rest[1..end]);
        match entity.and_then(|name| named(name).map(|letter| (name, letter))) {
            Some((name, letter)) => {
                plain.push(letter);
                rest = &rest[name.len() + 2..];
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

const ENTITY_BYTES_MAX: usize = 10;

/// Bytes that are looked at beyond those that are read once: counted by tests.
#[cfg(not(test))]
fn step(_bytes: usize) {}

#[cfg(test)]
fn step(bytes: usize) {
    tests::STEPS.with(|steps| steps.set(steps.get() + bytes));
}

fn named(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let number = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(number).filter(|letter| !letter.is_control() || *letter == '\n');
    }
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, letter)| *letter)
}

/// Those that people write; everything else is better written as itself.
const NAMES: &[(&str, char)] = &[
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", '\u{a0}'),
    ("shy", '\u{ad}'),
    ("zwnj", '\u{200c}'),
    ("copy", '©'),
    ("reg", '®'),
    ("trade", '™'),
    ("euro", '€'),
    ("pound", '£'),
    ("yen", '¥'),
    ("cent", '¢'),
    ("sect", '§'),
    ("deg", '°'),
    ("hellip", '…'),
    ("mdash", '—'),
    ("ndash", '–'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("bull", '•'),
    ("middot", '·'),
    ("times", '×'),
    ("rarr", '→'),
    ("larr", '←'),
    ("auml", 'ä'),
    ("ouml", 'ö'),
    ("uuml", 'ü'),
    ("Auml", 'Ä'),
    ("Ouml", 'Ö'),
    ("Uuml", 'Ü'),
    ("szlig", 'ß'),
    ("eacute", 'é'),
    ("egrave", 'è'),
    ("agrave", 'à'),
    ("ccedil", 'ç'),
    ("ntilde", 'ñ'),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        pub static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    fn steps(html: &str) -> usize {
        STEPS.with(|steps| steps.set(0));
        for token in tokens(html) {
            if let Token::Text(text) = token {
                assert!(unescaped(text).len() <= text.len());
            }
        }
        STEPS.with(Cell::get) + html.len()
    }

    /// The worst that was thought of, each part many times.
    // fixes: security H4
    #[test]
    fn reading_takes_steps_that_are_linear_in_the_length() {
        for part in [
            "<a",
            "<a =\"",
            "<a ='\"",
            "&",
            "&amp",
            "<a b=\"'>",
            "</",
            "<!",
            "<script>",
            "<x>&#",
            "<a href='",
        ] {
            let [once, twice] = [16_384, 32_768].map(|count| steps(&part.repeat(count)));
            assert!(twice <= 3 * once, "{part:?}: {once} steps, twice as much takes {twice}");
            assert!(twice <= 16 * part.len() * 32_768 + UNENDED_TAGS_BYTES_MAX, "{part:?}: {twice}");
        }
    }

    // fixes: security H4
    #[test]
    fn a_tag_without_an_end_is_text_and_the_next_one_is_a_tag() {
        let html = format!("<a {}<b>bold</b>", "x='1' ".repeat(3_000));
        let tags = tokens(&html).filter(|token| matches!(token, Token::Tag(_))).count();
        assert_eq!(tags, 2);
        assert_eq!(
            tokens(&html)
                .map(|token| match token {
                    Token::Text(text) | Token::Aside(text) => text.len(),
                    Token::Tag(tag) => tag.whole.len(),
                })
                .sum::<usize>(),
            html.len(),
            "nothing is lost"
        );
    }
    use proptest::prelude::*;

    fn told(html: &str) -> Vec<String> {
        let told = |token| match token {
            Token::Text(text) => format!("text {text}"),
            Token::Tag(tag) => format!("{} {}", if tag.closes { "end" } else { "tag" }, tag.name),
            Token::Aside(text) => format!("aside {text}"),
        };
        tokens(html).map(told).collect()
    }

    #[test]
    fn documents_are_taken_apart() {
        assert_eq!(
            told("<!doctype html><p class='a>b'>1 < 2</p><!-- <a href=x> --><style>p > a {}</style>"),
            [
                "aside <!doctype html>",
                "tag p",
                "text 1 ",
                "text <",
                "text  2",
                "end p",
                "aside <!-- <a href=x> -->",
                "tag style",
                "aside p > a {}",
                "end style",
            ]
        );
        assert_eq!(told("<a href=\"x\"><b"), ["tag a", "text <", "text b"]);
    }

    #[test]
    fn attributes_are_found() {
        for (tag, expected) in [
            ("<a href=\"x&amp;y\">", Some("x&amp;y")),
            ("<a class='b' HREF = 'x y' id=1>", Some("x y")),
            ("<a href=x/y>", Some("x/y")),
            ("<a disabled href=x>", Some("x")),
            ("<a href>", None),
            ("<a data-href=x>", None),
            ("<a title=\"href=y\">", None),
            ("<a ü href=x>", Some("x")),
            ("<a =ü href=x>", Some("x")),
            ("<a>", None),
        ] {
            let Some(Token::Tag(read)) = tokens(tag).next() else { panic!("{tag} is a tag") };
            let found = read.attribute("href");
            assert_eq!(found.map(|found| found.value), expected, "{tag}");
            if let Some(found) = found {
                assert!(tag[found.value_at..].starts_with(found.value), "{tag}");
            }
        }
    }

    #[test]
    fn entities_become_letters() {
        for (text, expected) in [
            ("a &amp; b", "a & b"),
            ("&#228;&#xE4;&auml;", "äää"),
            ("&nothing; &", "&nothing; &"),
            ("&amp;lt;", "&lt;"),
            ("&#0;&#13;", "&#0;&#13;"),
        ] {
            assert_eq!(unescaped(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost(html in r#"[<>a-z"'=/! ü&;-]{0,60}"#) {
            let whole: String = tokens(&html)
                .map(|token| match token {
                    Token::Text(text) | Token::Aside(text) => text,
                    Token::Tag(tag) => tag.whole,
                })
                .collect();
            prop_assert_eq!(&whole, &html);
            for token in tokens(&html) {
                if let Token::Tag(tag) = token
                    && let Some(found) = tag.attribute("a")
                {
                    prop_assert!(tag.whole[found.value_at..].starts_with(found.value));
                }
            }
            prop_assert!(unescaped(&html).len() <= html.len());
        }
    }
}
