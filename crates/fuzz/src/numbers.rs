//! Numbers of an input become those at which arithmetic breaks: written in decimal, in fixed bytes of either order, or packed
//! (seven bits a byte).

use crate::dice::Dice;

/// Where types end, and what their neighbours are.
const EDGES: [u64; 20] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 53,
    (1 << 62) - 1,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];
/// Words that a reader of decimal numbers may take for one.
const WORDS: [&str; 8] =
    ["-1", "-0", "00", "1e308", "1e999", "0.1", "18446744073709551616", "-9223372036854775809"];

pub fn change(input: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(input.len() + 1);
    match dice.below(4) {
        0 => decimal(input, at, dice),
        1 => fixed(input, at, dice),
        2 => packed(input, at, dice),
        _ => step(input, at, dice),
    }
}

/// The number in decimal at this place, or the first one behind it, becomes another one.
fn decimal(input: &mut Vec<u8>, at: usize, dice: &mut Dice) {
    let Some(found) = input[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else { return };
    let start = found - input[..found].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let end = found + input[found..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = match dice.below(4) {
        0 => (*dice.pick(&WORDS)).to_owned(),
        1 => dice.pick(&EDGES).to_string(),
        // The neighbour of the number.
        _ => {
            let kept = std::str::from_utf8(&input[start..end]).ok().and_then(|text| text.parse::<u64>().ok());
            let by = if dice.below(2) == 0 { 1 } else { u64::MAX };
            kept.unwrap_or_default().wrapping_add(by).to_string()
        }
    };
    input.splice(start..end, text.into_bytes());
}

/// One, two, four or eight bytes.
fn fixed(input: &mut [u8], at: usize, dice: &mut Dice) {
    let bytes = 1 << dice.below(4);
    let Some(place) = input.get_mut(at..at + bytes) else { return };
    let edge = *dice.pick(&EDGES);
    match dice.below(2) {
        0 => place.copy_from_slice(&edge.to_le_bytes()[..bytes]),
        _ => place.copy_from_slice(&edge.to_be_bytes()[8 - bytes..]),
    }
}

/// A packed number, as long as it is, becomes another one.
fn packed(input: &mut Vec<u8>, at: usize, dice: &mut Dice) {
    let more = input[at..].iter().take(9).take_while(|byte| **byte & 0x80 != 0).count();
    let end = (at + more + 1).min(input.len());
    let (mut edge, mut bytes) = (*dice.pick(&EDGES), Vec::new());
    while edge >= 0x80 {
        bytes.push(edge as u8 | 0x80);
        edge >>= 7;
    }
    bytes.push(edge as u8);
    // Too long by a byte: a number that is not written as a writer would.
    if dice.below(8) == 0 {
        *bytes.last_mut().expect("a number has a byte") |= 0x80;
        bytes.push(0);
    }
    input.splice(at..end, bytes);
}

/// A byte, and so a length or a count, is one more or less.
fn step(input: &mut [u8], at: usize, dice: &mut Dice) {
    if let Some(byte) = input.get_mut(at) {
        *byte = byte.wrapping_add(if dice.below(2) == 0 { 1 } else { u8::MAX });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_others_and_nothing_else_does() {
        for seed in 0..500 {
            let mut text = b"a: 123, b".to_vec();
            decimal(&mut text, 4, &mut Dice::new(seed));
            assert!(text.starts_with(b"a: ") && text.ends_with(b", b"), "{}", String::from_utf8_lossy(&text));
            assert_ne!(text, b"a: 123, b");
            let mut bytes = vec![1, 0x80, 0x80, 2, 3];
            packed(&mut bytes, 1, &mut Dice::new(seed));
            assert!(bytes.starts_with(&[1]) && bytes.ends_with(&[3]), "{bytes:?}");
            let mut sized = vec![9; 20];
            fixed(&mut sized, 6, &mut Dice::new(seed));
            assert!(sized[..6] == [9; 6] && sized[14..] == [9; 6], "{sized:?}");
        }
    }
}
