//! The filters that templates can use, each with what it gives, so that the checks and the engine agree. Filters that
//! could switch off escaping, call others by name or make long texts from nothing are left out.
//!
//! Fuel counts a filter as one step whatever it works through, so every filter pays for its input and output in bytes.

mod lists;
mod number;
mod plural;
mod text;
mod time;

use crate::engine::Root;
use minijinja::{Environment, Error, ErrorKind, State};

pub use time::{pattern_fault, zone_fault};

/// What is known of a filter's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    Number,
    Text,
    /// Of the same kind as the input.
    Same,
    /// One item of the input.
    Item,
    /// The input or an argument.
    Either,
    Any,
}

#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub gives: Gives,
    /// Shows a time in the user's zone, unless it is given one.
    pub in_zone: bool,
}

const FILTERS: &[(&str, Gives)] = &[
    ("abs", Gives::Number),
    ("capitalize", Gives::Text),
    ("count", Gives::Number),
    ("d", Gives::Either),
    ("date", Gives::Text),
    ("datetime", Gives::Text),
    ("default", Gives::Either),
    ("dictsort", Gives::Any),
    ("first", Gives::Item),
    ("float", Gives::Number),
    ("int", Gives::Number),
    ("items", Gives::Any),
    ("join", Gives::Text),
    ("last", Gives::Item),
    ("length", Gives::Number),
    ("list", Gives::Same),
    ("lower", Gives::Text),
    ("map", Gives::Any),
    ("max", Gives::Item),
    ("min", Gives::Item),
    ("number", Gives::Text),
    ("plural", Gives::Text),
    ("replace", Gives::Text),
    ("reverse", Gives::Same),
    ("round", Gives::Number),
    ("sort", Gives::Same),
    ("split", Gives::Any),
    ("string", Gives::Text),
    ("sum", Gives::Number),
    ("time", Gives::Text),
    ("title", Gives::Text),
    ("tojson", Gives::Text),
    ("trim", Gives::Text),
    ("truncate", Gives::Text),
    ("unique", Gives::Same),
    ("upper", Gives::Text),
    ("urlencode", Gives::Text),
];

pub fn find(name: &str) -> Option<Known> {
    let (name, gives) = FILTERS.iter().find(|(known, _)| *known == name)?;
    Some(Known { gives: *gives, in_zone: matches!(*name, "date" | "time" | "datetime") })
}

pub fn register(env: &mut Environment<'static>) {
    text::register(env);
    lists::register(env);
    env.add_filter("number", number::number);
    env.add_filter("plural", plural::plural);
    env.add_filter("date", time::date);
    env.add_filter("time", time::time);
    env.add_filter("datetime", time::datetime);
}

/// Pays for work of this size.
fn pay(state: &State<'_, '_>, bytes: usize) -> Result<(), Error> {
    if scene(state)?.pay(bytes) { Ok(()) } else { Err(Error::from(ErrorKind::OutOfFuel)) }
}

/// Facts of the render at hand.
fn scene(state: &State<'_, '_>) -> Result<std::sync::Arc<Root>, Error> {
    let root = state.lookup(Root::OWN_NAME).and_then(|value| value.downcast_object::<Root>());
    root.ok_or_else(|| invalid("filters work in renders only"))
}

fn invalid(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_filter_exists_and_no_other() {
        let mut env = Environment::empty();
        register(&mut env);
        let exists = |name: &str| {
            let source = format!("{{% if '{name}' is filter %}}yes{{% endif %}}");
            let mut env = env.clone();
            env.add_test("filter", minijinja::tests::is_filter);
            env.render_str(&source, ()).expect("renders") == "yes"
        };
        for (name, _) in FILTERS {
            assert!(exists(name), "{name}");
        }
        for name in
            ["safe", "escape", "e", "format", "indent", "attr", "select", "batch", "pprint", "groupby"]
        {
            assert!(!exists(name) && find(name).is_none(), "{name}");
        }
    }
}
