//! What a push says, read out of rendered content: the fields of a push template, and a few that only some platforms know.
//!
//! Fields of other channels are passed over, because a notification without a push text of its own shows what the inbox
//! shows. What must never happen: a push that shows nothing and carries nothing.

use crate::digest::Digest;
use serde_json::{Map, Value, json};

#[derive(Clone, PartialEq, Debug, Default)]
pub struct PushContent {
    pub title: Option<String>,
    pub body: Option<String>,
    pub image: Option<String>,
    /// A small picture beside the text; Web Push alone.
    pub icon: Option<String>,
    /// Where a click leads.
    pub url: Option<String>,
    /// Android: in which of the app's channels it shows, and the intent of a click.
    pub channel_id: Option<String>,
    pub click_action: Option<String>,
    pub apple: Apple,
    pub actions: Vec<Action>,
    pub data: Map<String, Value>,
}

/// What only Apple's devices know.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Apple {
    pub subtitle: Option<String>,
    pub sound: Option<String>,
    pub badge: Option<u32>,
    /// One that the app has registered buttons for.
    pub category: Option<String>,
    /// Notifications of one thread are shown together.
    pub thread: Option<String>,
    /// A device that is not reached at once never gets it.
    pub is_now_or_never: bool,
}

/// A button.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    pub id: String,
    pub title: String,
    pub url: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ContentError {
    #[error("the content is no JSON object")]
    NotAnObject,
    #[error("the content has no title, no body and no data")]
    Empty,
    #[error("an action needs an id and a title, and there are at most {ACTIONS_MAX}")]
    BadActions,
}

/// The field of `data` that says what a digest tells of, unless the template has one of that name.
const DIGEST_KEY: &str = "digest";
/// More than any platform shows.
pub const ACTIONS_MAX: usize = 8;

impl PushContent {
    pub fn read(bytes: &[u8]) -> Result<Self, ContentError> {
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(bytes) else {
            return Err(ContentError::NotAnObject);
        };
        let mut text = |names: &[&str]| names.iter().find_map(|name| plain(fields.remove(*name)));
        let (title, body) = (text(&["title"]), text(&["body"]));
        let (image, icon, url) = (text(&["imageUrl", "image"]), text(&["iconUrl", "icon"]), text(&["url"]));
        let (channel_id, click_action) = (text(&["channelId"]), text(&["clickAction"]));
        let apple = Apple {
            subtitle: text(&["subtitle"]),
            sound: text(&["sound"]),
            category: text(&["category"]),
            thread: text(&["threadId"]),
            badge: fields.get("badge").and_then(Value::as_u64).and_then(|badge| u32::try_from(badge).ok()),
            is_now_or_never: fields.get("store") == Some(&Value::Bool(false)),
        };
        let actions = read_actions(fields.remove("actions"))?;
        let mut data = match fields.remove("data") {
            Some(Value::Object(data)) => data,
            _ => Map::new(),
        };
        if let Some(digest) = fields.remove("digest").as_ref().and_then(Digest::read) {
            data.entry(DIGEST_KEY)
                .or_insert_with(|| json!({"count": digest.count, "eventIds": digest.event_ids}));
        }
        if title.is_none() && body.is_none() && data.is_empty() {
            return Err(ContentError::Empty);
        }
        Ok(Self { title, body, image, icon, url, channel_id, click_action, apple, actions, data })
    }

    /// Carries data alone: an app is woken, and nobody is shown anything.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.title.is_none() && self.body.is_none()
    }

    /// As a list of objects.
    #[must_use]
    pub fn actions_json(&self) -> Value {
        let action = |action: &Action| {
            let mut fields = Map::new();
            fields.insert("id".to_owned(), action.id.clone().into());
            fields.insert("title".to_owned(), action.title.clone().into());
            if let Some(url) = &action.url {
                fields.insert("url".to_owned(), url.clone().into());
            }
            Value::Object(fields)
        };
        self.actions.iter().map(action).collect()
    }
}

fn plain(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

fn read_actions(value: Option<Value>) -> Result<Vec<Action>, ContentError> {
    let Some(Value::Array(items)) = value else { return Ok(Vec::new()) };
    if items.len() > ACTIONS_MAX {
        return Err(ContentError::BadActions);
    }
    let action = |item: Value| {
        let Value::Object(mut fields) = item else { return Err(ContentError::BadActions) };
        let mut text = |name: &str| plain(fields.remove(name));
        match (text("id"), text("title")) {
            (Some(id), Some(title)) => Ok(Action { id, title, url: text("url") }),
            _ => Err(ContentError::BadActions),
        }
    };
    items.into_iter().map(action).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<PushContent, ContentError>) {
        assert_eq!(PushContent::read(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn the_fields_of_templates_are_read() {
        let some = |text: &str| Some(text.to_owned());
        check(
            r#"{"title":"T","body":"B","imageUrl":"https://i","actions":[{"id":"a","title":"A","url":"https://u"}]}"#,
            Ok(PushContent {
                title: some("T"),
                body: some("B"),
                image: some("https://i"),
                actions: vec![Action { id: "a".into(), title: "A".into(), url: some("https://u") }],
                ..PushContent::default()
            }),
        );
        check(
            r#"{"title":"T","subject":"of mail"}"#,
            Ok(PushContent { title: some("T"), ..PushContent::default() }),
        );
        assert!(PushContent::read(br#"{"data":{"a":1}}"#).is_ok_and(|content| content.is_silent()));
    }

    // proves: AGG-05
    // fixes: usability C9
    #[test]
    fn a_digest_says_what_it_tells_of_in_its_data() {
        let said = r#""digest":{"count":5,"actors":["ann"],"eventIds":["b","a"]}"#;
        let read = |text: &str| PushContent::read(text.as_bytes()).expect("content").data;
        let of_digest = json!({"count": 5, "eventIds": ["b", "a"]});
        let data = read(&format!(r#"{{"title":"T","data":{{"k":1}},{said}}}"#));
        assert_eq!(Value::Object(data), json!({"k": 1, "digest": of_digest}));
        assert_eq!(Value::Object(read(&format!(r#"{{"title":"T",{said}}}"#))), json!({"digest": of_digest}));
        let own = read(&format!(r#"{{"title":"T","data":{{"digest":"own"}},{said}}}"#));
        assert_eq!(Value::Object(own), json!({"digest": "own"}));
        assert!(read(r#"{"title":"T","digest":1}"#).is_empty());
    }

    #[test]
    fn what_shows_nothing_is_refused() {
        for text in ["", "[]", "1", "{"] {
            check(text, Err(ContentError::NotAnObject));
        }
        for text in ["{}", r#"{"title":""}"#, r#"{"title":1,"data":[]}"#] {
            check(text, Err(ContentError::Empty));
        }
        for actions in [r#"[1]"#, r#"[{"id":"a"}]"#, "[{},{},{},{},{},{},{},{},{}]"] {
            check(&format!(r#"{{"title":"T","actions":{actions}}}"#), Err(ContentError::BadActions));
        }
    }
}
