//! One thing that holds for a value, and how a schema says it.

use fantail_rules::limits::NAME_BYTES_MAX;
use fantail_rules::name::invisible;
use fantail_rules::producer_event::ProducerEvent;
use serde_json::{Value, json};

pub enum Rule {
    /// Of something that there may be.
    Name,
    /// Of something that this creates, unless it exists.
    NewName,
    /// A text that is not empty.
    Text(usize),
    /// A text that may be empty.
    Long(usize),
    Matching(&'static str, usize),
    /// From, through.
    Number(u64, u64),
    /// How many items: from, through.
    Items(usize, usize),
    /// How many items at least: there is no other limit than that of the words.
    Count(usize),
    /// How many properties at most.
    Entries(usize),
    Words(fn() -> Vec<&'static str>),
    /// For each item, or the value of each property.
    Each(&'static Rule),
}

impl Rule {
    pub fn say(&self, schema: &mut Value) {
        match self {
            Self::Name => Self::Matching(pattern::NO_CONTROL, NAME_BYTES_MAX).say(schema),
            Self::NewName => {
                text(schema, 1, NAME_BYTES_MAX);
                schema["pattern"] = json!(new_name());
            }
            Self::Text(max) => text(schema, 1, *max),
            Self::Long(max) => schema["maxLength"] = json!(max),
            Self::Matching(pattern, max) => {
                let min = usize::from(*pattern != pattern::VISIBLE_OR_NOTHING);
                text(schema, min, *max);
                schema["pattern"] = json!(pattern);
            }
            Self::Number(min, max) => {
                schema["minimum"] = json!(min);
                schema["maximum"] = json!(max);
            }
            Self::Items(min, max) => {
                schema["minItems"] = json!(min);
                schema["maxItems"] = json!(max);
            }
            Self::Count(min) => schema["minItems"] = json!(min),
            Self::Entries(max) => schema["maxProperties"] = json!(max),
            Self::Words(words) => *schema = with_words(schema, &words()),
            Self::Each(rule) => {
                let place = if schema["items"].is_object() { "items" } else { "additionalProperties" };
                rule.say(&mut schema[place]);
            }
        }
    }
}

fn text(schema: &mut Value, min: usize, max: usize) {
    if min > 0 {
        schema["minLength"] = json!(min);
    }
    schema["maxLength"] = json!(max);
}

/// The same place with these words, or with some of those of a larger set.
fn with_words(schema: &Value, words: &[&str]) -> Value {
    let mut said = json!({"type": "string", "enum": words});
    if let Some(description) = schema.get("description") {
        said["description"] = description.clone();
    }
    said
}

pub fn producer_events() -> Vec<&'static str> {
    ProducerEvent::ALL.into_iter().map(ProducerEvent::name).collect()
}

/// What `rules::name` says, as far as one pattern can: characters behind the first 65,536 are left out.
fn new_name() -> String {
    let mut refused = String::from(r"\u0000-\u001f\u007f-\u009f");
    for (first, last) in invisible().iter().filter(|(_, last)| *last <= 0xffff) {
        refused.push_str(&format!("\\u{first:04x}-\\u{last:04x}"));
    }
    format!(r"^(?!\.\.?$)(?! )(?!.* $)[^{refused}]+$")
}

/// Patterns as ECMAScript and Python read them.
pub mod pattern {
    pub const NO_CONTROL: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";
    pub const VISIBLE: &str = "^[!-~]+$";
    pub const VISIBLE_OR_NOTHING: &str = "^[!-~]*$";
    pub const NO_BLANKS: &str = r"^[^\u0000-\u0020\u007f-\u00a0]+$";
    pub const EMAIL: &str = r"^[!-?A-~]{1,64}@[A-Za-z0-9.-]+\.[A-Za-z0-9-]+$";
    /// With the separators that people write.
    pub const PHONE: &str = r"^\+[1-9]([ .()-]*[0-9]){7,14}$";
    pub const LOCALE: &str = "^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$";
    pub const ZONE: &str = "^[A-Za-z0-9_+/-]+$";
    /// The longest name of a zone has 32.
    pub const ZONE_LETTERS_MAX: usize = 64;
    pub const WEB_URL: &str = r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s]+$";
    pub const HTTPS_URL: &str = r"^[Hh][Tt][Tt][Pp][Ss]://[^\s]+$";
    pub const ANY_URL: &str = r"^[A-Za-z][A-Za-z0-9+.-]*:[^\s]+$";
    pub const CLOCK: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]$";
    pub const LOCAL_TIME: &str = "^([0-9]{4}-[0-9]{2}-[0-9]{2}T)?([01][0-9]|2[0-3]):[0-5][0-9]$";
    /// 24 to 64 bytes, or a private key of 32 or 64.
    pub const SECRET: &str = "^wh(sec|sk)_[A-Za-z0-9+/]+={0,2}$";
    pub const SECRET_LETTERS_MAX: usize = 94;
    pub const APP_ID: &str = "^[A-Za-z0-9_.:-]+$";
    pub const P256DH: &str = "^[A-Za-z0-9_-]{87}=?$";
    pub const PUSH_AUTH: &str = "^[A-Za-z0-9_-]{22}={0,2}$";
    pub const PROVIDER: &str = "^[a-z0-9_-]+$";
    /// A link that is followed is as long as its URL, in base64.
    pub const SEAL_LETTERS_MAX: usize = 4_096;
    pub const SLUG: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";
    /// An id, a name or a cursor.
    pub const CURSOR_LETTERS_MAX: usize = 1_024;
    pub const CONTENT_TYPE_LETTERS_MAX: usize = 128;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_said_where_they_belong() {
        for (rule, schema, said) in [
            (
                Rule::Text(5),
                json!({"type": "string"}),
                json!({"type": "string", "minLength": 1, "maxLength": 5}),
            ),
            (Rule::Long(5), json!({}), json!({"maxLength": 5})),
            (Rule::Number(1, 2), json!({"minimum": 0}), json!({"minimum": 1, "maximum": 2})),
            (Rule::Items(1, 2), json!({"items": {}}), json!({"items": {}, "minItems": 1, "maxItems": 2})),
            (Rule::Each(&Rule::Long(5)), json!({"items": {}}), json!({"items": {"maxLength": 5}})),
            (
                Rule::Each(&Rule::Long(5)),
                json!({"additionalProperties": {}}),
                json!({"additionalProperties": {"maxLength": 5}}),
            ),
            (
                Rule::Words(|| vec!["a"]),
                json!({"description": "x", "anyOf": []}),
                json!({"description": "x", "type": "string", "enum": ["a"]}),
            ),
        ] {
            let mut found = schema;
            rule.say(&mut found);
            assert_eq!(found, said);
        }
    }

    #[test]
    fn the_pattern_of_new_names_has_every_range() {
        let pattern = new_name();
        assert!(pattern.contains(r"\u200b") || pattern.contains(r"\u2000-\u200f"), "{pattern}");
        assert!(!pattern.contains(r"\u1f"), "nothing behind the first plane is written with five digits");
    }
}
