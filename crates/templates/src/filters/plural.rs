//! `plural(one=…, few=…, other=…)`: the form of a word that goes with a number, in the language of the text. The rules
//! are the cardinal plural rules of CLDR for the languages listed in `category`; every other language has `one` for 1.
//!
//! A form that is not given falls back to `other`, which must be.

use super::{invalid, scene};
use minijinja::value::{Kwargs, Value};
use minijinja::{Error, State};

pub fn plural(state: &State, value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let scene = scene(state)?;
    let form = category(scene.language(), Operands::of(value)?);
    let mut chosen = None;
    for name in ["zero", "one", "two", "few", "many", "other"] {
        let text = kwargs.get::<Option<&str>>(name)?;
        if name == form || (name == "other" && chosen.is_none()) {
            chosen = text.or(chosen);
        }
    }
    kwargs.assert_all_used()?;
    if !kwargs.has("other") {
        return Err(invalid("plural needs other="));
    }
    chosen.map(str::to_owned).ok_or_else(|| invalid("plural needs other="))
}

/// A number as it is written, in the terms of CLDR: `i` before the point, `f` the digits after it and `v` how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Operands {
    i: u128,
    v: usize,
    f: u64,
}

impl Operands {
    fn of(value: &Value) -> Result<Self, Error> {
        if value.is_integer() {
            let number = i128::try_from(value.clone())?;
            return Ok(Self { i: number.unsigned_abs(), v: 0, f: 0 });
        }
        let number = if value.is_number() { f64::try_from(value.clone())? } else { f64::NAN };
        if !number.is_finite() {
            return Err(invalid(format!("plural needs a number, not {}", value.kind())));
        }
        let written = format!("{}", number.abs());
        let (whole, fraction) = written.split_once('.').unwrap_or((&written, ""));
        let fraction = &fraction[..fraction.len().min(15)];
        Ok(Self {
            i: whole.parse().unwrap_or(u128::MAX),
            v: fraction.len(),
            f: fraction.parse().unwrap_or(0),
        })
    }

    /// The number is whole and its last two digits are in the range.
    fn ends_in(self, range: std::ops::RangeInclusive<u128>) -> bool {
        self.v == 0 && range.contains(&(self.i % 100))
    }

    fn is(self, number: u128) -> bool {
        self.v == 0 && self.i == number
    }

    /// A round number of millions, which some languages count as a thing of its own.
    fn is_millions(self) -> bool {
        self.v == 0 && self.i != 0 && self.i.is_multiple_of(1_000_000)
    }
}

fn category(language: &str, n: Operands) -> &'static str {
    let whole = n.v == 0;
    match language {
        "ja" | "zh" | "ko" | "vi" | "th" | "id" | "ms" | "lo" | "my" | "km" | "yue" => "other",
        "fr" if n.i <= 1 => "one",
        "pt" if n.i <= 1 => "one",
        "it" | "ca" | "es" if n.is(1) => "one",
        "fr" | "pt" | "it" | "ca" | "es" if n.is_millions() => "many",
        "hi" | "bn" | "fa" | "gu" | "kn" | "am" | "zu" | "as" if n.i == 0 || n.is(1) => "one",
        "da" if n.is(1) || (!whole && n.i <= 1) => "one",
        "ru" | "uk" | "be" | "pl" | "cs" | "sk" | "sr" | "hr" | "bs" | "sl" | "lt" => slavic(language, n),
        "lv" => latvian(n),
        "ro" if n.is(1) => "one",
        "ro" if !whole || n.i == 0 || n.ends_in(1..=19) => "few",
        "ar" => match n.i {
            _ if !whole => "other",
            0 => "zero",
            1 => "one",
            2 => "two",
            _ if n.ends_in(3..=10) => "few",
            _ if n.ends_in(11..=99) => "many",
            _ => "other",
        },
        "he" if n.is(1) || (n.i == 0 && !whole) => "one",
        "he" if n.is(2) => "two",
        "ga" => match n.i {
            _ if !whole => "other",
            1 => "one",
            2 => "two",
            3..=6 => "few",
            7..=10 => "many",
            _ => "other",
        },
        "cy" => match n.i {
            _ if !whole => "other",
            0 => "zero",
            1 => "one",
            2 => "two",
            3 => "few",
            6 => "many",
            _ => "other",
        },
        "mt" => match n.i {
            _ if !whole => "other",
            1 => "one",
            2 => "two",
            _ if n.i == 0 || n.ends_in(3..=10) => "few",
            _ if n.ends_in(11..=19) => "many",
            _ => "other",
        },
        // en, de, nl, sv, no, fi, et, hu, tr, el, bg, and all that are not listed.
        _ if n.is(1) => "one",
        _ => "other",
    }
}

/// Slavic languages and Lithuanian look at the last digits.
fn slavic(language: &str, n: Operands) -> &'static str {
    let (whole, last, last_two) = (n.v == 0, n.i % 10, n.i % 100);
    let teens = (11..=14).contains(&last_two);
    match language {
        "ru" | "uk" | "be" => match last {
            _ if !whole => "other",
            1 if !teens => "one",
            2..=4 if !teens => "few",
            _ => "many",
        },
        "pl" => match last {
            _ if !whole => "other",
            _ if n.i == 1 => "one",
            2..=4 if !teens => "few",
            _ => "many",
        },
        "cs" | "sk" => match n.i {
            _ if !whole => "many",
            1 => "one",
            2..=4 => "few",
            _ => "other",
        },
        "sl" => match last_two {
            _ if !whole => "few",
            1 => "one",
            2 => "two",
            3 | 4 => "few",
            _ => "other",
        },
        "lt" => match last {
            _ if !whole => "many",
            1 if !n.ends_in(11..=19) => "one",
            2..=9 if !n.ends_in(11..=19) => "few",
            _ => "other",
        },
        _ => south_slavic(n),
    }
}

/// The digits that are said last decide: those after the point, if there are any.
fn south_slavic(n: Operands) -> &'static str {
    let said = if n.v == 0 { n.i } else { u128::from(n.f) };
    let teens = (11..=14).contains(&(said % 100));
    match said % 10 {
        1 if !teens => "one",
        2..=4 if !teens => "few",
        _ => "other",
    }
}

fn latvian(n: Operands) -> &'static str {
    let said = if n.v == 0 { n.i } else { u128::from(n.f) };
    let teens = (11..=19).contains(&(said % 100)) && (n.v == 0 || n.v == 2);
    match said % 10 {
        _ if teens => "zero",
        0 if n.v == 0 => "zero",
        1 => "one",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::check;

    #[test]
    fn languages_count_in_their_own_way() {
        // One letter per number: zero, One, two (w), few, many, other.
        let letter = |form: &str| match form {
            "zero" => 'z',
            "one" => '1',
            "two" => '2',
            "few" => 'f',
            "many" => 'm',
            _ => 'o',
        };
        let numbers =
            [0_u32, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 14, 15, 19, 20, 21, 22, 100, 101, 102, 103, 111, 112];
        for (language, expected) in [
            ("en", "o1ooooooooooooooooooooo"),
            ("de", "o1ooooooooooooooooooooo"),
            ("xx", "o1ooooooooooooooooooooo"),
            ("fr", "11ooooooooooooooooooooo"),
            ("pt", "11ooooooooooooooooooooo"),
            ("es", "o1ooooooooooooooooooooo"),
            ("hi", "11ooooooooooooooooooooo"),
            ("ja", "ooooooooooooooooooooooo"),
            ("ru", "m1fffmmmmmmmmmm1fm1ffmm"),
            ("uk", "m1fffmmmmmmmmmm1fm1ffmm"),
            ("pl", "m1fffmmmmmmmmmmmfmmffmm"),
            ("cs", "o1fffoooooooooooooooooo"),
            ("sk", "o1fffoooooooooooooooooo"),
            ("hr", "o1fffoooooooooo1fo1ffoo"),
            ("sl", "o12ffooooooooooooo12foo"),
            ("lt", "o1fffffffooooo".get(..8).unwrap_or_default()),
            ("lv", "z1oooooo"),
            ("ro", "f1ffffffffffffoooofffff".get(..8).unwrap_or_default()),
            ("ar", "z12ffffffmmmmmmmmooo"),
            ("he", "o12ooooo"),
            ("ga", "o12ffffmmooo"),
            ("cy", "z12foomo"),
            ("mt", "f12ffffffmmmmmoo"),
        ] {
            let operands = |n: &u32| Operands { i: u128::from(*n), v: 0, f: 0 };
            let found: String = numbers.iter().map(|n| letter(category(language, operands(n)))).collect();
            assert!(found.starts_with(expected), "{language}: {found} not {expected}");
        }
    }

    #[test]
    fn large_and_broken_numbers() {
        let of = |value: f64| Operands::of(&Value::from(value)).expect("a number");
        for (language, number, expected) in [
            ("en", 1.5, "other"),
            ("en", 1.0, "one"),
            ("fr", 1.5, "one"),
            ("fr", 2_000_000.0, "many"),
            ("es", 1_000_000.0, "many"),
            ("it", 1_500_000.0, "other"),
            ("ru", 1.5, "other"),
            ("pl", 2.5, "other"),
            ("cs", 1.5, "many"),
            ("lt", 1.5, "many"),
            ("lt", 21.0, "one"),
            ("lt", 12.0, "other"),
            ("lv", 21.0, "one"),
            ("lv", 11.0, "zero"),
            ("lv", 0.1, "one"),
            ("hr", 0.2, "few"),
            ("ro", 20.0, "other"),
            ("ro", 119.0, "few"),
            ("ro", 0.5, "few"),
            ("ar", 0.5, "other"),
            ("ar", 1_000.0, "other"),
            ("he", 0.5, "one"),
            ("da", 0.5, "one"),
            ("da", 2.5, "other"),
            ("sl", 1.5, "few"),
            ("de", -1.0, "one"),
        ] {
            assert_eq!(category(language, of(number)), expected, "{language} {number}");
        }
    }

    #[test]
    fn forms_fall_back_to_other() {
        check(
            "{{ 1|plural(one='file', other='files') }} {{ 2|plural(one='file', other='files') }}",
            "file files",
        );
        check("{{ 1|plural(other='files') }}", "files");
        check("{{ 1|plural(one='file') }}", "error: plural needs other=");
        check("{{ 1|plural(one='file', other='files', nope='x') }}", "error: ");
        check("{{ 'x'|plural(other='files') }}", "error: plural needs a number");
    }
}
