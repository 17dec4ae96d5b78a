//! One field of a recurring schedule: numbers or names, ranges, steps and lists, as a set of bits.
//!
//! ```text
//! field = part (',' part)*        part = ('*' | value | value '-' value) ('/' step)?
//! ```
//! `5/15` is 5, 20, 35, …: a single value with a step goes on to the end, as cron has it.

use std::fmt;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// Sunday is 0, as cron counts; it is 7 as well.
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// In the order in which they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
}

impl Field {
    pub const ALL: [Self; 5] = [Self::Minute, Self::Hour, Self::DayOfMonth, Self::Month, Self::DayOfWeek];

    /// As faults say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
        }
    }

    /// The smallest and the largest number.
    #[must_use]
    pub fn range(self) -> (u8, u8) {
        match self {
            Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 7),
        }
    }

    /// The numbers that the text stands for, one bit each.
    pub(super) fn parse(self, text: &str) -> Result<u64, FieldFault> {
        let mut bits = 0;
        for part in text.split(',') {
            bits |= self.parse_part(part)?;
        }
        if self == Self::DayOfWeek && bits >> 7 & 1 == 1 {
            bits = bits & !(1 << 7) | 1;
        }
        Ok(bits)
    }

    fn parse_part(self, part: &str) -> Result<u64, FieldFault> {
        let (values, step) = match part.split_once('/') {
            Some((values, step)) => (values, Some(self.parse_step(step)?)),
            None => (part, None),
        };
        let (min, max) = self.range();
        let (from, to) = match values.split_once('-') {
            _ if values == "*" => (min, if self == Self::DayOfWeek { 6 } else { max }),
            Some((from, to)) => (self.parse_value(from)?, self.parse_value(to)?),
            None => {
                let value = self.parse_value(values)?;
                (value, if step.is_some() { max } else { value })
            }
        };
        if from > to {
            return Err(FieldFault::Backwards { from, to });
        }
        Ok((from..=to).step_by(usize::from(step.unwrap_or(1))).fold(0, |bits, value| bits | 1 << value))
    }

    fn parse_step(self, text: &str) -> Result<u8, FieldFault> {
        match number(text) {
            Some(0) => Err(FieldFault::StepOfZero),
            Some(step) if step <= self.range().1 => Ok(step),
            Some(_) => Err(FieldFault::OutOfRange { text: text.to_owned() }),
            None => Err(FieldFault::NotAValue { text: text.to_owned() }),
        }
    }

    fn parse_value(self, text: &str) -> Result<u8, FieldFault> {
        let (min, max) = self.range();
        match number(text).or_else(|| self.named(text)) {
            Some(value) if (min..=max).contains(&value) => Ok(value),
            Some(_) => Err(FieldFault::OutOfRange { text: text.to_owned() }),
            None => Err(FieldFault::NotAValue { text: text.to_owned() }),
        }
    }

    fn named(self, text: &str) -> Option<u8> {
        let (names, first): (&[&str], usize) = match self {
            Self::Month => (&MONTHS, 1),
            Self::DayOfWeek => (&WEEKDAYS, 0),
            Self::Minute | Self::Hour | Self::DayOfMonth => return None,
        };
        let at = names.iter().position(|name| name.eq_ignore_ascii_case(text))?;
        u8::try_from(at + first).ok()
    }
}

/// Digits only; what is too large to be any value is the largest.
fn number(text: &str) -> Option<u8> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u8::MAX))
}

/// Why a field is not one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FieldFault {
    NotAValue { text: String },
    OutOfRange { text: String },
    Backwards { from: u8, to: u8 },
    StepOfZero,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAValue { text } if text.is_empty() => write!(f, "a value is missing"),
            Self::NotAValue { text } => write!(f, "`{}` is not a value", text.escape_debug()),
            Self::OutOfRange { text } => write!(f, "{text} is out of range"),
            Self::Backwards { from, to } => write!(f, "the range {from}-{to} runs backwards"),
            Self::StepOfZero => write!(f, "a step of 0 goes nowhere"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(bits: u64) -> Vec<u8> {
        (0..64).filter(|value| bits >> value & 1 == 1).collect()
    }

    // proves: SCH-02
    #[test]
    fn fields_are_sets() {
        let check = |field: Field, text: &str, expected: &[u8]| {
            assert_eq!(field.parse(text).map(values), Ok(expected.to_vec()), "{text}");
        };
        check(Field::Minute, "0", &[0]);
        check(Field::Minute, "*/15", &[0, 15, 30, 45]);
        check(Field::Minute, "5/20", &[5, 25, 45]);
        check(Field::Minute, "1-5", &[1, 2, 3, 4, 5]);
        check(Field::Minute, "1-10/4,59,3", &[1, 3, 5, 9, 59]);
        check(Field::Hour, "*/23", &[0, 23]);
        check(Field::Hour, "08", &[8]);
        check(Field::DayOfMonth, "*/10", &[1, 11, 21, 31]);
        check(Field::Month, "jan,MAR-May", &[1, 3, 4, 5]);
        check(Field::DayOfWeek, "mon-fri", &[1, 2, 3, 4, 5]);
        check(Field::DayOfWeek, "*", &[0, 1, 2, 3, 4, 5, 6]);
        check(Field::DayOfWeek, "7", &[0]);
        check(Field::DayOfWeek, "5-7", &[0, 5, 6]);
        check(Field::DayOfWeek, "sun,6", &[0, 6]);
    }

    #[test]
    fn faults_say_what_is_wrong() {
        let check = |field: Field, text: &str, message: &str| {
            let fault = field.parse(text).expect_err(text);
            assert_eq!(fault.to_string(), message, "{text}");
        };
        check(Field::Minute, "60", "60 is out of range");
        check(Field::Minute, "9999999", "9999999 is out of range");
        check(Field::Minute, "-1", "a value is missing");
        check(Field::Minute, "1,,2", "a value is missing");
        check(Field::Minute, "1-", "a value is missing");
        check(Field::Minute, "1/", "a value is missing");
        check(Field::Minute, "*/0", "a step of 0 goes nowhere");
        check(Field::Minute, "*/60", "60 is out of range");
        check(Field::Minute, "5-1", "the range 5-1 runs backwards");
        check(Field::Minute, "mon", "`mon` is not a value");
        check(Field::Minute, "*5", "`*5` is not a value");
        check(Field::Minute, "+5", "`+5` is not a value");
        check(Field::Minute, "1-2-3", "`2-3` is not a value");
        check(Field::DayOfMonth, "0", "0 is out of range");
        check(Field::DayOfMonth, "L", "`L` is not a value");
        check(Field::Month, "13", "13 is out of range");
        check(Field::DayOfWeek, "fri-mon", "the range 5-1 runs backwards");
        check(Field::DayOfWeek, "8", "8 is out of range");
    }
}
