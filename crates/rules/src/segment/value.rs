//! Values as conditions compare them. Times are numbers: milliseconds since 1970.

use crate::ids::Millis;
use std::cmp::Ordering;

#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    Many(Vec<Value>),
}

/// How two values are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
    StartsWith,
}

impl Value {
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of the next 200,000 years are exact")]
    pub fn time(at: Millis) -> Self {
        Self::Number(at.0 as f64)
    }

    /// Numbers and texts have an order, each among themselves.
    fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.partial_cmp(other),
            (Self::Text(one), Self::Text(other)) => Some(one.cmp(other)),
            (Self::Null | Self::Flag(_) | Self::Number(_) | Self::Text(_) | Self::Many(_), _) => None,
        }
    }
}

impl Op {
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Equal, "=="),
        (Self::Unequal, "!="),
        (Self::LessOrEqual, "<="),
        (Self::Less, "<"),
        (Self::GreaterOrEqual, ">="),
        (Self::Greater, ">"),
        (Self::Contains, "contains"),
        (Self::StartsWith, "startsWith"),
    ];

    pub fn compare(self, left: &Value, right: &Value) -> bool {
        let is = |wanted: &[Ordering]| left.order(right).is_some_and(|order| wanted.contains(&order));
        match self {
            Self::Equal => left == right,
            Self::Unequal => left != right,
            Self::Less => is(&[Ordering::Less]),
            Self::LessOrEqual => is(&[Ordering::Less, Ordering::Equal]),
            Self::Greater => is(&[Ordering::Greater]),
            Self::GreaterOrEqual => is(&[Ordering::Greater, Ordering::Equal]),
            Self::Contains => match (left, right) {
                (Value::Many(all), one) => all.contains(one),
                (Value::Text(text), Value::Text(part)) => text.contains(part.as_str()),
                (Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_), _) => false,
            },
            Self::StartsWith => match (left, right) {
                (Value::Text(text), Value::Text(part)) => text.starts_with(part.as_str()),
                (Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) | Value::Many(_), _) => {
                    false
                }
            },
        }
    }
}
