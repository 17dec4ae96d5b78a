//! Forms as browsers post them: how messages are sent to Twilio, and how its callbacks come in.

use super::limits::{CALLBACK_BYTES_MAX, CALLBACK_PARAMETERS_MAX};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};

/// What stays as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*');

#[must_use]
pub fn write(fields: &[(&str, &str)]) -> String {
    let mut form = String::new();
    for (name, value) in fields {
        if !form.is_empty() {
            form.push('&');
        }
        form.extend(utf8_percent_encode(name, ENCODED));
        form.push('=');
        form.extend(utf8_percent_encode(value, ENCODED));
    }
    form
}

/// Names and values in their order, or none if it is too large or no UTF-8.
#[must_use]
pub fn read(form: &[u8]) -> Option<Vec<(String, String)>> {
    if form.len() > CALLBACK_BYTES_MAX {
        return None;
    }
    let parts: Vec<&[u8]> = form.split(|byte| *byte == b'&').filter(|part| !part.is_empty()).collect();
    if parts.len() > CALLBACK_PARAMETERS_MAX {
        return None;
    }
    parts.into_iter().map(field).collect()
}

fn field(part: &[u8]) -> Option<(String, String)> {
    let mut halves = part.splitn(2, |byte| *byte == b'=');
    let mut half = || {
        let plain: Vec<u8> = halves
            .next()
            .unwrap_or_default()
            .iter()
            .map(|byte| if *byte == b'+' { b' ' } else { *byte })
            .collect();
        percent_decode(&plain).decode_utf8().ok().map(|text| text.into_owned())
    };
    Some((half()?, half()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forms_of_others_are_read() {
        for (form, expected) in [
            ("", vec![]),
            ("a=b&c=d", vec![("a", "b"), ("c", "d")]),
            (
                "To=%2B1202&Body=a+b%26c%3Dd&Empty=&Bare",
                vec![("To", "+1202"), ("Body", "a b&c=d"), ("Empty", ""), ("Bare", "")],
            ),
            ("a=b=c&&a=%C3%A9", vec![("a", "b=c"), ("a", "é")]),
        ] {
            let expected: Vec<(String, String)> =
                expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            assert_eq!(read(form.as_bytes()), Some(expected), "{form}");
        }
        assert_eq!(read(b"a=%ff"), None);
        assert_eq!(read("a&".repeat(201).as_bytes()), None);
        assert_eq!(read(&vec![b'a'; CALLBACK_BYTES_MAX + 1]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(fields in proptest::collection::vec(("\\PC{1,9}", "(?s).{0,40}"), 0..20)) {
            let borrowed: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
            prop_assert_eq!(read(write(&borrowed).as_bytes()), Some(fields));
        }

        #[test]
        fn reading_never_panics(form: Vec<u8>) {
            let _read = read(&form);
        }
    }
}
