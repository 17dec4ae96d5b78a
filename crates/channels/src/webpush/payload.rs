//! What a service worker is given: a JSON object with what a notification shows, what it carries, and its reference.
//!
//! ```json
//! {"title": "…", "body": "…", "image": "…", "icon": "…", "url": "…", "actions": [{"id": "…", "title": "…", "url": "…"}],
//!  "data": {…}, "tag": "…", "reference": "…"}
//! ```
//! What must never happen: more bytes than fit into a body of 4,096 when they are encrypted. The body text is shortened, or
//! the message refused.

use crate::push_content::PushContent;
use crate::shorten::fit;
use serde_json::{Map, Value};

/// What a push service must take, less header (86), tag (16) and delimiter (1): RFC 8030, 8188.
pub const PLAINTEXT_BYTES_MAX: usize = 3_993;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PayloadError {
    #[error("the payload is larger than {PLAINTEXT_BYTES_MAX} bytes even without its body")]
    TooLarge,
}

/// Everything but the reference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepared {
    /// JSON without its last brace.
    head: String,
}

impl Prepared {
    /// `tag` is the collapse key: a worker gives it to the notification, so that a later one replaces it.
    pub fn new(
        content: &PushContent,
        tag: Option<&str>,
        reference_bytes: usize,
    ) -> Result<Self, PayloadError> {
        let written = |body: &str| head(content, body, tag);
        let measure = |body: &str| written(body).len() + REFERENCE.len() + reference_bytes + "\"\"}".len();
        let body = content.body.as_deref().unwrap_or_default();
        let body = fit(body, PLAINTEXT_BYTES_MAX, measure).ok_or(PayloadError::TooLarge)?;
        Ok(Self { head: written(&body) })
    }

    #[must_use]
    pub fn plaintext(&self, reference: &str) -> Vec<u8> {
        let reference = Value::from(reference).to_string();
        [self.head.as_bytes(), REFERENCE.as_bytes(), reference.as_bytes(), b"}"].concat()
    }
}

const REFERENCE: &str = ",\"reference\":";

fn head(content: &PushContent, body: &str, tag: Option<&str>) -> String {
    let mut fields = Map::new();
    let texts = [
        ("title", content.title.as_deref()),
        ("body", Some(body).filter(|body| !body.is_empty())),
        ("image", content.image.as_deref()),
        ("icon", content.icon.as_deref()),
        ("url", content.url.as_deref()),
        ("tag", tag),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            fields.insert(name.to_owned(), text.into());
        }
    }
    if !content.actions.is_empty() {
        fields.insert("actions".to_owned(), content.actions_json());
    }
    // Always there, so that the reference can follow whatever the content is.
    fields.insert("data".to_owned(), Value::Object(content.data.clone()));
    let mut text = Value::Object(fields).to_string();
    text.pop();
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn prepare(content: &Value) -> Result<Vec<u8>, PayloadError> {
        let content = PushContent::read(content.to_string().as_bytes()).expect("content");
        Ok(Prepared::new(&content, None, 38)?.plaintext("ref-1"))
    }

    #[test]
    fn a_long_body_is_shortened_and_long_data_refused() {
        let plaintext = prepare(&json!({"title": "T", "body": "ü".repeat(4_000)})).expect("it fits");
        let read: Value = serde_json::from_slice(&plaintext).expect("JSON");
        assert!(read["body"].as_str().is_some_and(|body| body.ends_with('…') && body.len() > 3_000));
        assert_eq!((&read["reference"], &read["data"]), (&json!("ref-1"), &json!({})));
        let large = json!({"title": "T", "data": {"a": "x".repeat(3_993)}});
        assert_eq!(prepare(&large), Err(PayloadError::TooLarge));
    }

    proptest! {
        #[test]
        fn payloads_fit(
            title in "\\PC{0,40}", body in "\\PC{0,3000}", tag in proptest::option::of("\\PC{0,90}"),
            data in proptest::collection::btree_map("\\PC{1,9}", "\\PC{0,900}", 0..4),
        ) {
            let content = json!({"title": title, "body": body, "data": data}).to_string();
            let Ok(content) = PushContent::read(content.as_bytes()) else { return Ok(()) };
            let Ok(prepared) = Prepared::new(&content, tag.as_deref(), 38) else { return Ok(()) };
            let plaintext = prepared.plaintext(&"r".repeat(38));
            prop_assert!(plaintext.len() <= PLAINTEXT_BYTES_MAX);
            let read: Value = serde_json::from_slice(&plaintext).expect("JSON");
            prop_assert_eq!(&read["data"], &json!(data));
        }
    }
}
