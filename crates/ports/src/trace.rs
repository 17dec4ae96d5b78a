//! Spans: what was done when, for whoever wants to look at it elsewhere.
//!
//! What must never happen: anybody who waits for a span, or a span that says who a recipient is or what was told.

use fantail_rules::ids::Millis;
use fantail_rules::trace::{Place, SpanId};

/// Something that was done, from then until then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    pub place: Place,
    /// In the same trace.
    pub parent: Option<SpanId>,
    /// In others.
    pub link: Option<Place>,
    pub name: &'static str,
    /// Wall times.
    pub began: Millis,
    pub ended: Millis,
    pub attributes: Vec<(&'static str, Attribute)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attribute {
    Text(String),
    Number(u64),
}

/// Takes spans, at once and without a promise: one that cannot be kept is counted and dropped.
pub trait Tracer: Send + Sync {
    fn record(&self, span: Span);
}
