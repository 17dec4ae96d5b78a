//! Reading a condition: words, then structure. Every fault names its place in the text.

use super::value::{Op, Value};
use super::{Condition, Filter, Operand, Place};
use crate::channel_kind::ChannelKind;
use crate::limits::{
    SEGMENT_DEPTH_MAX, SEGMENT_FILTER_BYTES_MAX, SEGMENT_TESTS_MAX, SEGMENT_TOPICS_MAX, SEGMENT_VALUES_MAX,
};

/// What is wrong with a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Where, in bytes from the beginning.
    pub at: usize,
    pub what: String,
}

#[derive(Clone, PartialEq, Debug)]
enum Word {
    Name(String),
    Text(String),
    Number(f64),
    /// `30d`, in milliseconds.
    Span(u64),
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 14] = ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", ".", "&&", "||"];

pub fn parse(text: &str) -> Result<Filter, Fault> {
    if text.len() > SEGMENT_FILTER_BYTES_MAX {
        return fault(0, format!("must have at most {SEGMENT_FILTER_BYTES_MAX} bytes"));
    }
    let words = words(text)?;
    let mut parser = Parser { words, next: 0, topics: Vec::new(), tests: 0, values: 0 };
    let condition = parser.condition(0)?;
    parser.expect_end()?;
    Ok(Filter { condition, topics: parser.topics })
}

fn fault<T>(at: usize, what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { at, what: what.into() })
}

fn words(text: &str) -> Result<Vec<(usize, Word)>, Fault> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (word, length) = if first == '"' {
            quoted(rest, at)?
        } else if first.is_ascii_digit() || first == '-' {
            number(rest, at)?
        } else if first.is_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Word::Name(rest[..length].to_owned()), length)
        } else {
            match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Word::Sign(sign), sign.len()),
                None => return fault(at, format!("`{first}` means nothing here")),
            }
        };
        words.push((at, word));
        at += length;
    }
    words.push((text.len(), Word::End));
    Ok(words)
}

/// A text in quotes, with `\"`, `\\` and `\n`.
fn quoted(rest: &str, at: usize) -> Result<(Word, usize), Fault> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((place, one)) = chars.next() {
        match one {
            '"' => return Ok((Word::Text(text), place + 1)),
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                Some(_) | None => return fault(at + place, "only \\\", \\\\ and \\n are known"),
            },
            other => text.push(other),
        }
    }
    fault(at, "this text does not end")
}

/// A number, or a time with its unit.
fn number(rest: &str, at: usize) -> Result<(Word, usize), Fault> {
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(rest.len());
    let unit = rest[digits..].find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len() - digits);
    let (figures, unit) = (&rest[..digits], &rest[digits..digits + unit]);
    if unit.is_empty() {
        let number = figures.parse().ok().filter(|number: &f64| number.is_finite());
        return number
            .map_or_else(|| fault(at, "this is no number"), |number| Ok((Word::Number(number), digits)));
    }
    let unit_ms = match unit {
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => return fault(at + digits, "units are m, h, d and w"),
    };
    let span = figures.parse::<u64>().ok().and_then(|count| count.checked_mul(unit_ms));
    let length = digits + unit.len();
    span.map_or_else(|| fault(at, "this is no time"), |span| Ok((Word::Span(span), length)))
}

struct Parser {
    words: Vec<(usize, Word)>,
    next: usize,
    topics: Vec<String>,
    tests: usize,
    values: usize,
}

impl Parser {
    fn peek(&self) -> (usize, &Word) {
        let (at, word) = &self.words[self.next.min(self.words.len() - 1)];
        (*at, word)
    }

    fn take(&mut self) -> (usize, Word) {
        let found = self.words[self.next.min(self.words.len() - 1)].clone();
        self.next += 1;
        found
    }

    /// Goes on if the next word is one of these.
    fn accept(&mut self, names: &[&str]) -> bool {
        let is_it = match self.peek().1 {
            Word::Name(name) => names.contains(&name.as_str()),
            Word::Sign(sign) => names.contains(sign),
            Word::Text(_) | Word::Number(_) | Word::Span(_) | Word::End => false,
        };
        self.next += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), Fault> {
        if self.accept(&[sign]) { Ok(()) } else { fault(self.peek().0, format!("`{sign}` is missing here")) }
    }

    fn expect_end(&self) -> Result<(), Fault> {
        match self.peek() {
            (_, Word::End) => Ok(()),
            (at, _) => fault(at, "`and`, `or` or the end is expected here"),
        }
    }

    fn condition(&mut self, depth: usize) -> Result<Condition, Fault> {
        if depth > SEGMENT_DEPTH_MAX {
            return fault(self.peek().0, format!("nests deeper than {SEGMENT_DEPTH_MAX}"));
        }
        let mut parts = vec![self.all(depth)?];
        while self.accept(&["or", "||"]) {
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::Any(parts) })
    }

    fn all(&mut self, depth: usize) -> Result<Condition, Fault> {
        let mut parts = vec![self.one(depth)?];
        while self.accept(&["and", "&&"]) {
            parts.push(self.one(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::All(parts) })
    }

    fn one(&mut self, depth: usize) -> Result<Condition, Fault> {
        if depth > SEGMENT_DEPTH_MAX {
            return fault(self.peek().0, format!("nests deeper than {SEGMENT_DEPTH_MAX}"));
        }
        if self.accept(&["not"]) {
            return Ok(Condition::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.accept(&["("]) {
            let inner = self.condition(depth + 1)?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.test()
    }

    fn test(&mut self) -> Result<Condition, Fault> {
        self.tests += 1;
        if self.tests > SEGMENT_TESTS_MAX {
            return fault(self.peek().0, format!("has more than {SEGMENT_TESTS_MAX} tests"));
        }
        let at = self.peek().0;
        let place = self.place()?;
        if self.accept(&["in"]) {
            self.expect("[")?;
            let mut values = vec![self.operand()?];
            while self.accept(&[","]) {
                values.push(self.operand()?);
            }
            self.expect("]")?;
            return Ok(Condition::OneOf(place, values));
        }
        for (op, sign) in Op::ALL {
            if self.accept(&[sign]) {
                return Ok(Condition::Compares(place, op, self.operand()?));
            }
        }
        if place.is_flag() {
            return Ok(Condition::Holds(place));
        }
        fault(at, "has to be compared with something")
    }

    fn place(&mut self) -> Result<Place, Fault> {
        let (at, word) = self.take();
        let Word::Name(name) = word else { return fault(at, "a name is expected here") };
        Ok(match name.as_str() {
            "everyone" => Place::Everyone,
            "attributes" => Place::Attribute(self.path()?),
            "locale" => Place::Locale,
            "language" => Place::Language,
            "timezone" => Place::Timezone,
            "createdAt" => Place::CreatedAt,
            "updatedAt" => Place::UpdatedAt,
            "lastSeenAt" => Place::LastSeenAt,
            "reachable" => Place::Reachable(self.channel()?),
            "consented" => Place::Consented(self.channel()?),
            "enabled" => Place::Enabled(self.channel()?),
            "wants" => Place::Wants(self.argument()?.1),
            "topic" => {
                let (at, topic) = self.argument()?;
                let known = self.topics.iter().position(|known| *known == topic);
                let place = known.unwrap_or(self.topics.len());
                if place == SEGMENT_TOPICS_MAX {
                    return fault(at, format!("speaks of more than {SEGMENT_TOPICS_MAX} topics"));
                }
                if known.is_none() {
                    self.topics.push(topic);
                }
                Place::Topic(place)
            }
            _ => return fault(at, format!("`{name}` is not known about users")),
        })
    }

    /// `.name` or `["name"]`, once or more.
    fn path(&mut self) -> Result<Vec<String>, Fault> {
        let mut path = Vec::new();
        loop {
            if self.accept(&["."]) {
                match self.take() {
                    (_, Word::Name(name)) => path.push(name),
                    (at, _) => return fault(at, "a name is expected here"),
                }
            } else if self.accept(&["["]) {
                match self.take() {
                    (_, Word::Text(name)) => path.push(name),
                    (at, _) => return fault(at, "a name in quotes is expected here"),
                }
                self.expect("]")?;
            } else if path.is_empty() {
                return fault(self.peek().0, "a name is expected here");
            } else {
                return Ok(path);
            }
        }
    }

    /// `("text")`
    fn argument(&mut self) -> Result<(usize, String), Fault> {
        self.expect("(")?;
        let (at, word) = self.take();
        let Word::Text(text) = word else { return fault(at, "a text in quotes is expected here") };
        self.expect(")")?;
        Ok((at, text))
    }

    fn channel(&mut self) -> Result<ChannelKind, Fault> {
        let (at, name) = self.argument()?;
        let kind = ChannelKind::parse(&name).filter(|kind| *kind != ChannelKind::InApp);
        kind.map_or_else(|| fault(at, "channels are push, email, sms and webhook"), Ok)
    }

    fn operand(&mut self) -> Result<Operand, Fault> {
        self.values += 1;
        if self.values > SEGMENT_VALUES_MAX {
            return fault(self.peek().0, format!("has more than {SEGMENT_VALUES_MAX} values"));
        }
        let (at, word) = self.take();
        Ok(Operand::Value(match word {
            Word::Text(text) => Value::Text(text),
            Word::Number(number) => Value::Number(number),
            Word::Name(name) => match name.as_str() {
                "true" => Value::Flag(true),
                "false" => Value::Flag(false),
                "null" => Value::Null,
                "date" => date(self.argument()?)?,
                "ago" => {
                    self.expect("(")?;
                    let (at, word) = self.take();
                    let Word::Span(ms) = word else { return fault(at, "a time like 30d is expected here") };
                    self.expect(")")?;
                    return Ok(Operand::Ago(ms));
                }
                _ => return fault(at, "a value is expected here, texts in quotes"),
            },
            Word::Span(_) | Word::Sign(_) | Word::End => return fault(at, "a value is expected here"),
        }))
    }
}

/// A day in UTC, or an instant.
fn date((at, text): (usize, String)) -> Result<Value, Fault> {
    let day = text.parse::<jiff::civil::Date>().ok().filter(|_| text.len() == 10);
    let day = day.and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok()).map(|day| day.timestamp());
    let instant = day.or_else(|| text.parse::<jiff::Timestamp>().ok());
    let ms = instant.and_then(|instant| u64::try_from(instant.as_millisecond()).ok());
    let what = "dates are written 2026-01-31 or 2026-01-31T12:00:00Z";
    ms.map_or_else(|| fault(at, what), |ms| Ok(Value::time(crate::ids::Millis(ms))))
}

impl Place {
    /// It is true or false, or may be.
    fn is_flag(&self) -> bool {
        match self {
            Self::Everyone
            | Self::Attribute(_)
            | Self::Reachable(_)
            | Self::Consented(_)
            | Self::Enabled(_)
            | Self::Wants(_)
            | Self::Topic(_) => true,
            Self::Locale
            | Self::Language
            | Self::Timezone
            | Self::CreatedAt
            | Self::UpdatedAt
            | Self::LastSeenAt => false,
        }
    }
}
