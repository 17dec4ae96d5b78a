//! Ids of the contract: an area of two or three capitals, a dash, two digits. Written alone (`FAN-01`), as a range
//! (`FAN-01..04`) or with a second number (`DED-11/12`).

use std::fmt;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Id {
    pub area: String,
    pub number: u8,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:02}", self.area, self.number)
    }
}

#[must_use]
pub fn is_area(word: &str) -> bool {
    matches!(word.len(), 2 | 3) && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// All ids in a line of prose.
#[must_use]
pub fn find_all(line: &str) -> Vec<Id> {
    let mut ids = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_alphanumeric()) {
        rest = &rest[start..];
        match parse_group(rest) {
            Some((group, after)) => {
                ids.extend(group);
                rest = after;
            }
            None => rest = rest.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric()),
        }
    }
    ids
}

/// The ids that a claim lists, up to where prose begins. `Err` names the first word that should be an id.
pub fn parse_list(list: &str) -> Result<Vec<Id>, String> {
    let mut ids = Vec::new();
    for word in list.split([',', ' ', '\t']).filter(|word| !word.is_empty()) {
        match parse_group(word) {
            Some((group, after)) if after.chars().all(|letter| ".;:)`*/".contains(letter)) => {
                ids.extend(group)
            }
            _ if ids.is_empty() || looks_like_id(word) => return Err(word.to_string()),
            _ => break,
        }
    }
    if ids.is_empty() { Err(list.trim().to_string()) } else { Ok(ids) }
}

/// A mistyped id must not pass as the beginning of prose.
fn looks_like_id(word: &str) -> bool {
    word.bytes().take_while(u8::is_ascii_uppercase).count() >= 2
        && word.bytes().any(|byte| byte.is_ascii_digit())
}

/// One id with the range or second numbers behind it, and what follows.
fn parse_group(text: &str) -> Option<(Vec<Id>, &str)> {
    let (area, number, mut rest) = parse_one(text)?;
    let mut numbers = vec![number];
    loop {
        if let Some((last, after)) = rest.strip_prefix("..").and_then(|tail| parse_range_end(area, tail)) {
            let first = *numbers.last().expect("begins with one number");
            numbers.extend(first.saturating_add(1)..=last);
            rest = after;
        } else if let Some((number, after)) = rest.strip_prefix('/').and_then(parse_number) {
            numbers.push(number);
            rest = after;
        } else {
            break;
        }
    }
    let ids = numbers.into_iter().map(|number| Id { area: area.to_string(), number }).collect();
    Some((ids, rest))
}

fn parse_one(text: &str) -> Option<(&str, u8, &str)> {
    let (area, rest) = text.split_once('-')?;
    let (number, rest) = parse_number(rest)?;
    is_area(area).then_some((area, number, rest))
}

fn parse_range_end<'a>(area: &str, text: &'a str) -> Option<(u8, &'a str)> {
    match parse_one(text) {
        Some((same, number, rest)) => (same == area).then_some((number, rest)),
        None => parse_number(text),
    }
}

/// Exactly two digits.
fn parse_number(text: &str) -> Option<(u8, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits != 2 {
        return None;
    }
    Some((text[..2].parse().ok()?, &text[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_found(line: &str, expected: &str) {
        let ids: Vec<String> = find_all(line).iter().map(Id::to_string).collect();
        assert_eq!(ids.join(" "), expected, "{line}");
    }

    #[test]
    fn ids_are_found_in_prose() {
        check_found("- DED-11/12 the ledger is on disk. DED-13 tenant-prefixed.", "DED-11 DED-12 DED-13");
        check_found("- SMS-02 GSM-7/UCS-2, 12–225/s 10DLC, RFC 8058, X-01, FOUR-01", "SMS-02");
        check_found("(FAN-01..03, **RT-09**)", "FAN-01 FAN-02 FAN-03 RT-09");
        check_found("FAN-012 and xFAN-01", "");
        check_found("FAN-04..02", "FAN-04");
    }
}
