//! Where a text stands, and what must hold for it there.

use crate::content::Rule;
use crate::engine::Mode;
use crate::limits::TEXT_SOURCE_BYTES_MAX;
use crate::links;
use fantail_wire::template::ProblemCode;
use serde::de::IgnoredAny;

pub const CONTENT_TYPE_DEFAULT: &str = "application/json";
const CONTENT_TYPE_BYTES_MAX: usize = 128;

/// Where a text stands.
#[derive(Clone)]
pub struct Place {
    pub pointer: String,
    pub mode: Mode,
    pub rule: Rule,
    pub bytes_max: usize,
    pub mjml: bool,
}

impl Place {
    pub const TEXT: Self = Self {
        pointer: String::new(),
        mode: Mode::Text,
        rule: Rule::Plain,
        bytes_max: TEXT_SOURCE_BYTES_MAX,
        mjml: false,
    };
}

/// What is wrong with a text without tags, which is checked once, when it is written.
pub fn literal_fault(source: &str, rule: Rule) -> Option<(ProblemCode, String)> {
    let shown = source.trim();
    match rule {
        _ if source.contains('\0') => Some((ProblemCode::InvalidHeader, "must not contain NUL".to_owned())),
        Rule::Plain | Rule::Html => None,
        Rule::Header => shown
            .chars()
            .any(char::is_control)
            .then(|| (ProblemCode::InvalidHeader, "must be one line without control characters".to_owned())),
        Rule::Image => links::image_fault(shown).map(|detail| (ProblemCode::InvalidUrl, detail)),
        Rule::Link => links::link_fault(shown).map(|detail| (ProblemCode::InvalidUrl, detail)),
        Rule::Json => serde_json::from_str::<IgnoredAny>(shown)
            .err()
            .map(|error| (ProblemCode::InvalidJson, error.to_string())),
    }
}

pub fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.ends_with("/json") || essence.ends_with("+json")
}

pub fn is_content_type(text: &str) -> bool {
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    let essence = text.split(';').next().unwrap_or_default();
    let printable = text.bytes().all(|b| (b' '..=b'~').contains(&b));
    let parts = essence.trim_end().split_once('/');
    text.len() <= CONTENT_TYPE_BYTES_MAX
        && printable
        && parts.is_some_and(|(kind, sub)| word(kind) && word(sub))
}
