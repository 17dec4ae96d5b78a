//! Forms, as clients of Twilio post them and as its callbacks are written.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*');

/// Names and values in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Form(pub Vec<(String, String)>);

impl Form {
    #[must_use]
    pub fn read(text: &str) -> Self {
        let decoded =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let parts = text.split('&').filter(|part| !part.is_empty());
        Self(
            parts
                .map(|part| part.split_once('=').unwrap_or((part, "")))
                .map(|(name, value)| (decoded(name), decoded(value)))
                .collect(),
        )
    }

    #[must_use]
    pub fn write(&self) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, KEPT).to_string().replace("%20", "+");
        let parts: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        parts.join("&")
    }

    /// What is empty is as if it were absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, value)| other == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    pub fn push(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_the_same() {
        let form = Form(vec![("To".into(), "+1 é&=".into()), ("Body".into(), String::new())]);
        assert_eq!(form.write(), "To=%2B1+%C3%A9%26%3D&Body=");
        assert_eq!(Form::read(&form.write()), form);
        assert_eq!((form.get("To"), form.get("Body"), form.get("From")), (Some("+1 é&="), None, None));
    }
}
