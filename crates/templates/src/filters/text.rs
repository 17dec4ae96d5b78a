//! Filters on texts. Lengths are in characters; a cut never separates a letter from the marks that belong to it.

use super::{invalid, pay};
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, State, filters};
use std::borrow::Cow;

pub fn register(env: &mut Environment<'static>) {
    env.add_filter("upper", |state: &State, text: Cow<'_, str>| {
        paid(state, &text, |text| text.to_uppercase())
    });
    env.add_filter("lower", |state: &State, text: Cow<'_, str>| {
        paid(state, &text, |text| text.to_lowercase())
    });
    env.add_filter("trim", |state: &State, text: Cow<'_, str>| {
        paid(state, &text, |text| text.trim().to_owned())
    });
    env.add_filter("capitalize", |state: &State, text: Cow<'_, str>| paid(state, &text, capitalize));
    env.add_filter("title", |state: &State, text: Cow<'_, str>| paid(state, &text, title));
    env.add_filter("replace", replace);
    env.add_filter("truncate", truncate);
    env.add_filter("split", split);
    env.add_filter("string", string);
    env.add_filter("tojson", tojson);
    env.add_filter("urlencode", urlencode);
}

fn paid(state: &State<'_, '_>, text: &str, make: impl FnOnce(&str) -> String) -> Result<String, Error> {
    pay(state, text.len())?;
    Ok(make(text))
}

fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.as_str().to_lowercase().chars()).collect()
}

fn title(text: &str) -> String {
    let mut begins = true;
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if begins {
            out.extend(letter.to_uppercase())
        } else {
            out.extend(letter.to_lowercase())
        }
        begins = !letter.is_alphanumeric() && letter != '\'' && letter != '\u{2019}';
    }
    out
}

fn replace(state: &State, text: Cow<'_, str>, from: Cow<'_, str>, to: Cow<'_, str>) -> Result<String, Error> {
    if from.is_empty() {
        return Err(invalid("replace needs something to look for"));
    }
    let growth = text.matches(from.as_ref()).count().saturating_mul(to.len());
    pay(state, text.len().saturating_add(growth))?;
    Ok(text.replace(from.as_ref(), &to))
}

fn truncate(
    state: &State,
    text: Cow<'_, str>,
    length: usize,
    end: Option<Cow<'_, str>>,
) -> Result<String, Error> {
    pay(state, text.len())?;
    if text.chars().nth(length).is_none() {
        return Ok(text.into_owned());
    }
    let end = end.as_deref().unwrap_or("…");
    let kept = length.saturating_sub(end.chars().count());
    let letters: Vec<(usize, char)> = text.char_indices().take(kept + 1).collect();
    let splits = |cut: usize| cut > 0 && (belongs(letters[cut].1) || letters[cut - 1].1 == '\u{200d}');
    let cut = (0..=kept).rev().find(|cut| !splits(*cut)).unwrap_or(0);
    Ok(text[..letters[cut].0].trim_end().to_owned() + end)
}

/// Marks, selectors and joiners that change the letter before them.
fn belongs(letter: char) -> bool {
    matches!(letter,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{93a}'..='\u{94f}' | '\u{e31}' | '\u{e34}'..='\u{e3a}' | '\u{1ab0}'..='\u{1aff}'
        | '\u{1dc0}'..='\u{1dff}' | '\u{200d}' | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}')
}

fn split(state: &State, text: Cow<'_, str>, by: Cow<'_, str>) -> Result<Value, Error> {
    if by.is_empty() {
        return Err(invalid("split needs something to split by"));
    }
    // A part costs more than its letters.
    pay(state, text.len().saturating_mul(8))?;
    Ok(Value::from(text.split(by.as_ref()).map(Value::from).collect::<Vec<Value>>()))
}

fn string(state: &State, value: &Value) -> Result<String, Error> {
    let text = plain(value)?.to_string();
    pay(state, text.len())?;
    Ok(text)
}

fn tojson(state: &State, value: &Value) -> Result<Value, Error> {
    let json = filters::tojson(value, None, std::iter::empty::<(&str, Value)>().collect::<Kwargs>())?;
    pay(state, json.as_str().map_or(0, str::len).saturating_mul(2))?;
    Ok(json)
}

fn urlencode(state: &State, value: &Value) -> Result<String, Error> {
    let text = filters::urlencode(plain(value)?)?;
    pay(state, text.len().saturating_mul(2))?;
    Ok(text)
}

/// A text or a number: what a list or an object looks like as text is nobody's intention.
fn plain(value: &Value) -> Result<&Value, Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => Ok(value),
        other => Err(invalid(format!("needs a text or a number, not {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::tests::check;

    #[test]
    fn texts() {
        check("{{ 'straße x'|upper }}", "STRASSE X");
        check("{{ 'ÉA'|lower }}", "éa");
        check("{{ 'hELLO wORLD'|capitalize }}", "Hello world");
        check("{{ \"it's o'clock-time\"|title }}", "It's O'clock-Time");
        check("[{{ '  a '|trim }}]", "[a]");
        check("{{ 'a-b-c'|replace('-', '+') }}", "a+b+c");
        check("{{ 'a,b'|split(',')|join('|') }}", "a|b");
        check("{{ 'a b&c/d'|urlencode }}", "a%20b%26c/d");
        check("{{ {'a': [1, 'x']}|tojson }}", "{\"a\": [1, \"x\"]}");
        check("{{ 3|string ~ '!' }}", "3!");
        check("{{ 'x'|replace('', 'y') }}", "error: replace needs");
        check("{{ [1]|string }}", "error: needs a text");
    }

    #[test]
    fn cuts_keep_letters_whole() {
        check("{{ 'abcdef'|truncate(6) }}", "abcdef");
        check("{{ 'abcdef'|truncate(4) }}", "abc…");
        check("{{ 'abcdef'|truncate(4, '..') }}", "ab..");
        check("{{ 'abc def'|truncate(5) }}", "abc…");
        check("{{ 'abcdef'|truncate(0) }}", "…");
        // e + acute accent stays together, and so does a family.
        check("{{ 'abe\u{301}fg'|truncate(4) }}", "ab…");
        check("{{ 'a👩\u{200d}👧bc'|truncate(4) }}", "a…");
        check("{{ 'a👍🏽bcd'|truncate(3) }}", "a…");
    }
}
