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
    /// The same, of so many letters.
    ShortNewName(usize),
    /// A text that is not empty.
    Text(usize),
    /// A text that may be empty.
    Long(usize),
    Matching(&'static str, usize),
    /// A language of its own, and how long at most.
    Formatted(&'static str, usize),
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
            Self::NewName => Self::ShortNewName(NAME_BYTES_MAX).say(schema),
            Self::ShortNewName(max) => {
                text(schema, 1, *max);
                schema["pattern"] = json!(new_name());
            }
            Self::Text(max) => text(schema, 1, *max),
            Self::Long(max) => schema["maxLength"] = json!(max),
            Self::Matching(pattern, max) => {
                let min = usize::from(*pattern != pattern::VISIBLE_OR_NOTHING);
                text(schema, min, *max);
                schema["pattern"] = json!(pattern);
            }
            Self::Formatted(format, max) => {
                text(schema, 0, *max);
                schema["format"] = json!(format);
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

/// Whether the field may be left out by a `null`.
fn may_be_null(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    let listed = schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(is_null));
    listed || schema["anyOf"].as_array().is_some_and(|ways| ways.iter().any(|way| is_null(&way["type"])))
}

/// The same place with these words, or with some of those of a larger set.
fn with_words(schema: &Value, words: &[&str]) -> Value {
    let mut said = json!({"type": "string", "enum": words});
    if may_be_null(schema) {
        said = json!({"type": ["string", "null"], "enum": words.iter().map(|word| json!(word)).chain([Value::Null]).collect::<Vec<_>>()});
    }
    if let Some(description) = schema.get("description") {
        said["description"] = description.clone();
    }
    said
}

pub fn producer_events() -> Vec<&'static str> {
    ProducerEvent::ALL.into_iter().map(ProducerEvent::name).collect()
}

/// The pattern of the names that `rules::name` accepts. Characters above U+FFFF are written as themselves, because not every regex engine
/// has an escape for them.
fn new_name() -> String {
    let mut refused = String::from(r"\u0000-\u001f\u007f-\u009f");
    for (first, last) in invisible() {
        match (char::from_u32(*first), char::from_u32(*last)) {
            (Some(first), Some(last)) if first > '\u{ffff}' => refused.extend([first, '-', last]),
            _ => refused.push_str(&format!("\\u{first:04x}-\\u{last:04x}")),
        }
    }
    format!(r"^(?!\.\.?$)(?! )(?!.* $)[^{refused}]+$")
}

/// Patterns as ECMAScript and Python read them.
pub mod pattern {
    pub const NO_CONTROL: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";
    pub const VISIBLE: &str = "^[!-~]+$";
    pub const VISIBLE_OR_NOTHING: &str = "^[!-~]*$";
    pub const NO_BLANKS: &str = r"^[^\u0000-\u0020\u007f-\u00a0]+$";
    /// Atoms with dots between them; then labels, of which the last is no number.
    pub const EMAIL: &str = r"^(?=[^@]{1,64}@)[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+(?![0-9]+$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$";
    /// With the separators that people write.
    pub const PHONE: &str = r"^\+[1-9]([ .()-]*[0-9]){7,14}$";
    pub const LOCALE: &str = "^[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*$";
    /// The longest name of a zone has 32.
    pub const ZONE_LETTERS_MAX: usize = 64;
    pub const WEB_URL: &str = r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s\u0000-\u0020\u007f-\u00a0]+$";
    /// Of schemes that run or reveal something on the reader's side there is none.
    pub const ANY_URL: &str = r"^(?!([Jj][Aa][Vv][Aa]|[Vv][Bb])[Ss][Cc][Rr][Ii][Pp][Tt]:|[Dd][Aa][Tt][Aa]:|[Ff][Ii][Ll][Ee]:|[Bb][Ll][Oo][Bb]:|[Aa][Bb][Oo][Uu][Tt]:)[A-Za-z][A-Za-z0-9+.-]*:[^\s\u0000-\u0020\u007f-\u00a0]+$";
    pub const CLOCK: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]$";
    /// A leap day is a day, too, which a pattern cannot tell.
    pub const LOCAL_TIME: &str = "^([12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))T)?([01][0-9]|2[0-3]):[0-5][0-9]$";
    pub const SECRET_LETTERS_MAX: usize = 94;
    pub const APP_ID: &str = "^(?!-$)[A-Za-z0-9_.:-]+$";
    pub const P256DH: &str = "^[A-Za-z0-9_-]{87}=?$";
    pub const PUSH_AUTH: &str = "^[A-Za-z0-9_-]{22}={0,2}$";
    pub const PROVIDER: &str = "^[a-z0-9_-]+$";
    /// A link that is followed is as long as its URL, in base64.
    pub const SEAL_LETTERS_MAX: usize = 4_096;
    /// Of a CloudEvent; those of an extension have no underscore.
    pub const ATTRIBUTE: &str = "^[a-z0-9]{1,64}$";
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
