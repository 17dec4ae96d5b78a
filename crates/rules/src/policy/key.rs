//! Keys that say what belongs together: text with places for fields of an event, like `{{ type }}:{{ object }}`.
//!
//! A field is one of the event's own (`type`, `category`, `actor`, `source`), or else one of its data. What an event does not
//! have is left empty. There is nothing else to it: no filters, no conditions, so a key costs what its text costs.

use crate::limits::KEY_TEMPLATE_BYTES_MAX;

/// A key that was checked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyTemplate(String);

/// What is wrong with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyFault {
    /// Nothing, or more than [`KEY_TEMPLATE_BYTES_MAX`] bytes.
    Length,
    /// `{{` without `}}`, or the other way round.
    Braces,
    /// Not letters, digits, `_` and inner `.`, beginning with a letter.
    Field,
    ControlCharacter,
}

impl KeyFault {
    /// As a caller is told.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Length => "must have 1 to 256 bytes",
            Self::Braces => "must have a }} for every {{",
            Self::Field => "fields are letters, digits, _ and inner dots",
            Self::ControlCharacter => "must not contain control characters",
        }
    }
}

enum Piece<'a> {
    Text(&'a str),
    Field(&'a str),
}

impl KeyTemplate {
    pub fn parse(text: &str) -> Result<Self, KeyFault> {
        if text.is_empty() || text.len() > KEY_TEMPLATE_BYTES_MAX {
            return Err(KeyFault::Length);
        }
        if text.chars().any(char::is_control) {
            return Err(KeyFault::ControlCharacter);
        }
        pieces(text)?;
        Ok(Self(text.to_owned()))
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Every field is asked for by its name; those that nobody knows are empty.
    #[must_use]
    pub fn fill(&self, mut field: impl FnMut(&str) -> Option<String>) -> String {
        let mut key = String::new();
        for piece in pieces(&self.0).unwrap_or_default() {
            match piece {
                Piece::Text(text) => key.push_str(text),
                Piece::Field(name) => key.push_str(&field(name).unwrap_or_default()),
            }
        }
        key
    }
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, KeyFault> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find("{{") {
        let (before, inside) = (&rest[..at], &rest[at + 2..]);
        let end = inside.find("}}").ok_or(KeyFault::Braces)?;
        let name = inside[..end].trim_matches(' ');
        if before.contains("}}") {
            return Err(KeyFault::Braces);
        }
        if !is_field(name) {
            return Err(KeyFault::Field);
        }
        pieces.push(Piece::Text(before));
        pieces.push(Piece::Field(name));
        rest = &inside[end + 2..];
    }
    if rest.contains("}}") {
        return Err(KeyFault::Braces);
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

fn is_field(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    !name.is_empty() && name.split('.').all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // proves: AGG-01
    #[test]
    fn keys_are_text_with_fields() {
        let known = |name: &str| match name {
            "type" => Some("like".to_owned()),
            "object" => Some("post 7".to_owned()),
            "data.deep" => Some("d".to_owned()),
            _ => None,
        };
        for (text, filled) in [
            ("{{ type }}:{{ object }}", Ok("like:post 7")),
            ("{{type}}", Ok("like")),
            ("always the same", Ok("always the same")),
            ("{{ nobody }}/{{ data.deep }}", Ok("/d")),
            ("{ type }", Ok("{ type }")),
            ("", Err(KeyFault::Length)),
            ("{{ type", Err(KeyFault::Braces)),
            ("type }}", Err(KeyFault::Braces)),
            ("}}{{ type }}", Err(KeyFault::Braces)),
            ("{{ }}", Err(KeyFault::Field)),
            ("{{ type | upper }}", Err(KeyFault::Field)),
            ("{{ .type }}", Err(KeyFault::Field)),
            ("{{ 1st }}", Err(KeyFault::Field)),
            ("a\nb", Err(KeyFault::ControlCharacter)),
        ] {
            let key = KeyTemplate::parse(text).map(|key| key.fill(known));
            assert_eq!(key.as_deref().map_err(|fault| *fault), filled, "{text:?}");
        }
        assert_eq!(KeyTemplate::parse(&"k".repeat(257)), Err(KeyFault::Length));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z{} .|]{0,40}") {
            if let Ok(key) = KeyTemplate::parse(&text) {
                prop_assert!(!key.fill(|name| Some(name.to_owned())).contains("{{"));
                prop_assert_eq!(key.text(), text);
            }
        }
    }
}
