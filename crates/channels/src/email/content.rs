//! What a template gives for a mail: a JSON object with `subject`, and `html` or `text` or both. Content that was written for no
//! channel has `title` and `body` instead.

use super::limits::{CONTENT_BYTES_MAX, SUBJECT_BYTES_MAX};
use crate::digest::Digest;
use serde_json::Value;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    pub subject: String,
    pub html: Option<String>,
    pub text: Option<String>,
    /// What it tells of, if it is a digest.
    pub digest: Option<Digest>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ContentError {
    #[error("the content has more than {CONTENT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the content is no JSON object")]
    NotAnObject,
    #[error("the content has no subject")]
    NoSubject,
    #[error("the content has neither HTML nor text")]
    NoBody,
}

impl Content {
    pub fn read(bytes: &[u8]) -> Result<Self, ContentError> {
        if bytes.len() > CONTENT_BYTES_MAX {
            return Err(ContentError::TooLarge);
        }
        let Ok(Value::Object(mut object)) = serde_json::from_slice(bytes) else {
            return Err(ContentError::NotAnObject);
        };
        let digest = object.remove("digest").as_ref().and_then(Digest::read);
        let mut text = |name: &str| match object.remove(name) {
            Some(Value::String(text)) => Some(text),
            Some(_) | None => None,
        };
        let (title, body) = (text("title"), text("body"));
        let mut subject = text("subject").or_else(|| title.clone()).ok_or(ContentError::NoSubject)?;
        subject.truncate(subject.floor_char_boundary(SUBJECT_BYTES_MAX));
        let content = Self { subject, html: text("html"), text: text("text").or(body).or(title), digest };
        if content.html.is_none() && content.text.is_none() {
            return Err(ContentError::NoBody);
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: AGG-05
    // fixes: usability C9
    #[test]
    fn a_digest_is_read() {
        let content = Content::read(br#"{"subject":"s","text":"t","digest":{"count":3,"eventIds":["a"]}}"#);
        let digest = content.expect("a content").digest;
        assert_eq!(digest, Some(Digest { count: 3, event_ids: vec!["a".to_owned()] }));
    }

    #[test]
    fn contents_are_read_or_refused() {
        let content = Content::read(br#"{"subject":"s","html":"<p>h</p>","other":1}"#).expect("a content");
        assert_eq!((content.subject.as_str(), content.text), ("s", None));
        for (bytes, expected) in [
            (&br#"{"title":"t","body":"b"}"#[..], ("t", "b")),
            (br#"{"title":"t"}"#, ("t", "t")),
            (br#"{"subject":"s","text":"x","title":"t","body":"b"}"#, ("s", "x")),
        ] {
            let content = Content::read(bytes).expect("a content");
            assert_eq!((content.subject.as_str(), content.text.as_deref()), (expected.0, Some(expected.1)));
        }
        for (bytes, expected) in [
            (&b"[]"[..], ContentError::NotAnObject),
            (b"", ContentError::NotAnObject),
            (br#"{"html":"x"}"#, ContentError::NoSubject),
            (br#"{"subject":"x","html":1}"#, ContentError::NoBody),
        ] {
            assert_eq!(Content::read(bytes), Err(expected));
        }
        assert_eq!(Content::read(&vec![b' '; CONTENT_BYTES_MAX + 1]), Err(ContentError::TooLarge));
    }
}
