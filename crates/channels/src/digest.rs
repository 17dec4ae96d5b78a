//! What a digest tells of, as its content has it under `digest`: how many events, and the newest of their ids. Pushes carry it
//! in `data`, mails in headers.

use serde_json::Value;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest {
    pub count: u64,
    /// The newest first.
    pub event_ids: Vec<String>,
}

impl Digest {
    /// `None` if it has no count. Ids that are no plain words are left out: they go into headers.
    #[must_use]
    pub fn read(value: &Value) -> Option<Self> {
        let count = value["count"].as_u64()?;
        let ids = value["eventIds"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_plain = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let event_ids = ids.iter().filter_map(Value::as_str).filter(is_plain).map(str::to_owned).collect();
        Some(Self { count, event_ids })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ids_are_words() {
        let read = Digest::read(&json!({"count": 2, "eventIds": ["01M7", "a\r\nBcc: x", "", 1, "b"]}));
        assert_eq!(read, Some(Digest { count: 2, event_ids: vec!["01M7".into(), "b".into()] }));
        assert_eq!(Digest::read(&json!({"count": 1})), Some(Digest { count: 1, event_ids: Vec::new() }));
        for bad in [json!(1), json!({}), json!({"count": "1"})] {
            assert_eq!(Digest::read(&bad), None, "{bad}");
        }
    }
}
