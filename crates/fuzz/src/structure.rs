//! Changes that know a little of what text is made of: tokens, lines, and what stands between brackets, quotes or tags. What
//! comes out is often well-formed, so it gets far into a reader.

use crate::dice::Dice;
use std::ops::Range;

pub fn change(input: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let (one, two) = (dice.below(input.len() + 1), dice.below(input.len() + 1));
    let there = dice.below(other.len() + 1);
    match dice.below(9) {
        0 => again(input, token(input, one)),
        1 => drop(input.drain(token(input, one))),
        2 => swap(input, token(input, one), token(input, two)),
        3 => replace(input, token(input, one), &other[token(other, there)]),
        4 => again(input, line(input, one)),
        5 => drop(input.drain(line(input, one))),
        6 => swap(input, line(input, one), line(input, two)),
        // A part of this input, or of another one, in the place of a part.
        7 => {
            let (part, from) = (enclosed(input, one), enclosed(other, there));
            replace(input, part, &other[from]);
        }
        _ => {
            let part = enclosed(input, one);
            match dice.below(4) {
                0 => drop(input.drain(part)),
                1 => again(input, part),
                2 => replace(input, part, b"null"),
                _ => nest(input, part),
            }
        }
    }
}

/// The token around this place: letters and digits together, everything else by itself.
fn token(input: &[u8], at: usize) -> Range<usize> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80;
    if !input.get(at).is_some_and(is_word) {
        return at..(at + 1).min(input.len());
    }
    let before = input[..at].iter().rev().take_while(|byte| is_word(byte)).count();
    let behind = input[at..].iter().take_while(|byte| is_word(byte)).count();
    at - before..at + behind
}

/// The line around this place, with its end.
fn line(input: &[u8], at: usize) -> Range<usize> {
    let start = input[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let end =
        input[at..].iter().position(|byte| *byte == b'\n').map_or(input.len(), |newline| at + newline + 1);
    start..end
}

/// What the next bracket, quote or tag behind this place encloses, with both ends; nothing if it is not closed.
fn enclosed(input: &[u8], at: usize) -> Range<usize> {
    let Some(start) = input[at..].iter().position(|byte| b"{[(<\"".contains(byte)).map(|found| at + found)
    else {
        return at..at;
    };
    let open = input[start];
    let close = match open {
        b'{' => b'}',
        b'[' => b']',
        b'(' => b')',
        b'<' => b'>',
        _ => b'"',
    };
    let mut depth = 0usize;
    for (place, byte) in input.iter().enumerate().skip(start) {
        // A quote closes what a quote opened.
        let is_closing = *byte == close && (open != close || place > start);
        match is_closing {
            true if depth == 1 => return start..place + 1,
            true => depth -= 1,
            false => depth += usize::from(*byte == open),
        }
    }
    start..start
}

fn again(input: &mut Vec<u8>, part: Range<usize>) {
    let copy = input[part.clone()].to_vec();
    input.splice(part.end..part.end, copy);
}

fn replace(input: &mut Vec<u8>, part: Range<usize>, by: &[u8]) {
    input.splice(part, by.iter().copied());
}

/// Two parts change places, if they do not overlap.
fn swap(input: &mut Vec<u8>, one: Range<usize>, two: Range<usize>) {
    let (first, second) = if one.start <= two.start { (one, two) } else { (two, one) };
    if first.end > second.start {
        return;
    }
    let (before, behind) = (input[first.clone()].to_vec(), input[second.clone()].to_vec());
    input.splice(second, before);
    input.splice(first, behind);
}

/// A part inside itself, by its own brackets.
fn nest(input: &mut Vec<u8>, part: Range<usize>) {
    if part.len() >= 2 {
        let (open, close) = (input[part.start], input[part.end - 1]);
        input.insert(part.end, close);
        input.insert(part.start, open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_and_changed() {
        let text = br#"{"a": [1, {"b": "x"}], "c": 22}"#;
        assert_eq!(&text[token(text, 28)], b"22");
        assert_eq!(&text[enclosed(text, 0)], text);
        assert_eq!(&text[enclosed(text, 5)], br#"[1, {"b": "x"}]"#);
        assert_eq!(&text[enclosed(text, 13)], br#"": ""#);
        assert_eq!(enclosed(b"{{}", 0), 0..0, "not closed");
        let lines = b"a: 1\r\nb: 2\r\nc";
        assert_eq!((line(lines, 0), line(lines, 7), line(lines, 13)), (0..6, 6..12, 12..13));
        let mut swapped = lines.to_vec();
        swap(&mut swapped, line(lines, 7), line(lines, 1));
        assert_eq!(swapped, b"b: 2\r\na: 1\r\nc");
        let mut nested = b"[1]".to_vec();
        nest(&mut nested, 0..3);
        assert_eq!(nested, b"[[1]]");
        let mut doubled = lines.to_vec();
        again(&mut doubled, 0..6);
        assert!(doubled.starts_with(b"a: 1\r\na: 1\r\nb"));
    }
}
