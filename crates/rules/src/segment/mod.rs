//! Segments: users chosen by what is known about them, in a small language of conditions.
//!
//! ```text
//! condition = all { "or" all }              all = one { "and" one }             one = "not" one | "(" condition ")" | test
//! test      = place | place ("==" | "!=" | "<" | "<=" | ">" | ">=" | "contains" | "startsWith") value | place "in" "[" values "]"
//! place     = everyone | attributes.a.b | attributes["a b"] | locale | language | timezone | createdAt | updatedAt | lastSeenAt
//!           | reachable("push") | consented("push") | enabled("push") | wants("category") | topic("name")
//! value     = "text" | 12.5 | true | false | null | ago(30d) | date("2026-01-31")
//! ```
//! Comes from: a tenant, as text; [`Filter::parse`] says where it is wrong. Decides: whether a user is in it. Goes to: the
//! walk of a bulk send, which records what was decided.
//!
//! What must never happen: a condition that fails, loops or costs more than its size. What is not there is `null`; values of
//! different kinds are different, and neither is less than the other.

mod parse;
#[cfg(test)]
mod tests;
mod value;

pub use parse::Fault;
pub use value::Value;

use crate::channel_kind::{ChannelKind, ChannelSet};
use crate::ids::Millis;
use crate::zone::ZoneNo;
use value::Op;

/// A condition that was understood.
#[derive(Clone, PartialEq, Debug)]
pub struct Filter {
    condition: Condition,
    topics: Vec<String>,
}

/// What has to be known about a user before a filter can be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Locale, zone and times of the profile.
    pub profile: bool,
    pub attributes: bool,
    /// Where the user can be reached, and what the user switched off or agreed to.
    pub column: bool,
    pub last_seen: bool,
    /// What the user said about categories.
    pub choices: bool,
}

/// A user, as far as the filter's [`Needs`] go.
pub struct Person<'a> {
    pub locale: &'a str,
    pub zone: ZoneNo,
    pub created: Millis,
    pub updated: Millis,
    /// When a device of the user was heard of.
    pub last_seen: Option<Millis>,
    pub reachable: ChannelSet,
    pub consented: ChannelSet,
    /// Where the user did not say no.
    pub enabled: ChannelSet,
    /// The categories the user said no to.
    pub unwanted: &'a [String],
    /// Whether the user is on each of the filter's topics, in their order.
    pub topics: &'a [bool],
    /// What lies under these names, one in the other.
    pub attribute: &'a dyn Fn(&[String]) -> Value,
}

#[derive(Clone, PartialEq, Debug)]
enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Holds(Place),
    Compares(Place, Op, Operand),
    OneOf(Place, Vec<Operand>),
}

#[derive(Clone, PartialEq, Debug)]
enum Place {
    Everyone,
    Attribute(Vec<String>),
    Locale,
    Language,
    Timezone,
    CreatedAt,
    UpdatedAt,
    LastSeenAt,
    Reachable(ChannelKind),
    Consented(ChannelKind),
    Enabled(ChannelKind),
    Wants(String),
    /// One of the filter's topics.
    Topic(usize),
}

#[derive(Clone, PartialEq, Debug)]
enum Operand {
    Value(Value),
    /// So many milliseconds before now.
    Ago(u64),
}

impl Filter {
    /// Understands a condition, or says what is wrong with it and where.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        parse::parse(text)
    }

    /// The topics it speaks of.
    #[must_use]
    pub fn topics(&self) -> &[String] {
        &self.topics
    }

    #[must_use]
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        self.condition.visit(&mut |place| match place {
            Place::Attribute(_) => needs.attributes = true,
            Place::Locale | Place::Language | Place::Timezone | Place::CreatedAt | Place::UpdatedAt => {
                needs.profile = true;
            }
            Place::LastSeenAt => needs.last_seen = true,
            Place::Reachable(_) | Place::Consented(_) | Place::Enabled(_) => needs.column = true,
            Place::Wants(_) => needs.choices = true,
            Place::Everyone | Place::Topic(_) => {}
        });
        needs
    }

    #[must_use]
    pub fn matches(&self, person: &Person<'_>, now: Millis) -> bool {
        self.condition.holds(person, now)
    }
}

impl Condition {
    fn holds(&self, person: &Person<'_>, now: Millis) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(person, now)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(person, now)),
            Self::Not(part) => !part.holds(person, now),
            Self::Holds(place) => place.of(person) == Value::Flag(true),
            Self::Compares(place, op, operand) => op.compare(&place.of(person), &operand.at(now)),
            Self::OneOf(place, operands) => {
                let value = place.of(person);
                operands.iter().any(|operand| value == operand.at(now))
            }
        }
    }

    fn visit(&self, see: &mut dyn FnMut(&Place)) {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.visit(see)),
            Self::Not(part) => part.visit(see),
            Self::Holds(place) | Self::Compares(place, ..) | Self::OneOf(place, _) => see(place),
        }
    }
}

impl Place {
    fn of(&self, person: &Person<'_>) -> Value {
        let text = |text: &str| if text.is_empty() { Value::Null } else { Value::Text(text.to_owned()) };
        match self {
            Self::Everyone => Value::Flag(true),
            Self::Attribute(path) => (person.attribute)(path),
            Self::Locale => text(person.locale),
            Self::Language => text(person.locale.split(['-', '_']).next().unwrap_or_default()),
            Self::Timezone => person.zone.name().map_or(Value::Null, text),
            Self::CreatedAt => Value::time(person.created),
            Self::UpdatedAt => Value::time(person.updated),
            Self::LastSeenAt => person.last_seen.map_or(Value::Null, Value::time),
            Self::Reachable(kind) => Value::Flag(person.reachable.contains(*kind)),
            Self::Consented(kind) => Value::Flag(person.consented.contains(*kind)),
            Self::Enabled(kind) => Value::Flag(person.enabled.contains(*kind)),
            Self::Wants(category) => Value::Flag(!person.unwanted.contains(category)),
            Self::Topic(at) => Value::Flag(person.topics.get(*at) == Some(&true)),
        }
    }
}

impl Operand {
    fn at(&self, now: Millis) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Ago(ms) => Value::time(Millis(now.0.saturating_sub(*ms))),
        }
    }
}
