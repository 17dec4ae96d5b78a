//! The template engine, set up once per way of escaping: strict about what is not there, bounded in steps, with the
//! listed filters and tests only, and with no way to load anything.

use crate::filters;
use crate::limits::{FILTER_BYTES_MAX, FUEL_DOCUMENT, FUEL_TEXT};
use minijinja::value::{Object, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, tests as checks};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How values are written. Set by the place of a source, never by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// Emails: `<`, `>`, `&` and quotes become entities.
    Html,
    /// Webhooks: every value is a JSON value.
    Json,
    /// As it is; whoever frames the text escapes it whole.
    Text,
}

pub struct Engine(Environment<'static>);

impl Engine {
    pub fn new(mode: Mode) -> Self {
        let mut env = Environment::empty();
        let (escape, fuel) = match mode {
            Mode::Html => (AutoEscape::Html, FUEL_DOCUMENT),
            Mode::Json => (AutoEscape::Json, FUEL_DOCUMENT),
            Mode::Text => (AutoEscape::None, FUEL_TEXT),
        };
        env.set_auto_escape_callback(move |_| escape.clone());
        env.set_undefined_behavior(UndefinedBehavior::Strict);
        env.set_fuel(Some(fuel));
        env.set_recursion_limit(64);
        if mode == Mode::Text {
            env.set_formatter(|out, _, value| match value.is_undefined() {
                true => Err(Error::from(ErrorKind::UndefinedError)),
                // What is put together from safe parts is not safe itself: there is no markup here.
                false => write_plain(out, value),
            });
        }
        filters::register(&mut env);
        register_tests(&mut env);
        Self(env)
    }

    pub fn add(&mut self, name: String, source: String) -> Result<(), Error> {
        self.0.add_template_owned(name, source)
    }

    /// Writes at most `bytes_max`, and says how many steps it took.
    pub fn render(&self, name: &str, root: Value, out: &mut Vec<u8>, bytes_max: usize) -> Result<u64, Error> {
        let capped = Capped { out, bytes_max };
        let done = self.0.get_template(name)?.render_captured_to(root, capped)?;
        Ok(done.state().fuel_levels().map_or(0, |(consumed, _)| consumed))
    }
}

impl Engine {
    /// Which variables on a line of a template have no value, or of all of it. Of those of a loop the engine does not say it.
    pub fn missing(&self, cause: &Error, name: &str, root: &Value) -> String {
        let nothing = || "a variable has no value".to_owned();
        let Ok(template) = self.0.get_template(cause.name().unwrap_or(name)) else { return nothing() };
        let line = cause.line().unwrap_or(1);
        let source = template.source();
        let on_line = source.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let is_called = |name: &str| source.contains(&format!("{name}("));
        let mut names: Vec<String> = template.undeclared_variables(true).into_iter().collect();
        names.retain(|name| !is_called(name) && has_no_value(root, name));
        names.sort_unstable();
        if names.iter().any(|name| on_line.contains(name.as_str())) {
            names.retain(|name| on_line.contains(name.as_str()));
        }
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        match &quoted[..] {
            [] => nothing(),
            [one] => format!("{one} has no value"),
            [first @ .., last] => format!("{} and {last} have no value", first.join(", ")),
        }
    }
}

/// Follows a path like `user.attributes.firstName`.
fn has_no_value(root: &Value, path: &str) -> bool {
    let mut value = root.clone();
    for part in path.split('.') {
        match value.get_attr(part) {
            Ok(next) if !next.is_undefined() => value = next,
            Ok(_) | Err(_) => return true,
        }
    }
    false
}

fn write_plain(out: &mut minijinja::Output<'_>, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.write_str(text)?,
        None => write!(out, "{value}")?,
    }
    Ok(())
}

fn register_tests(env: &mut Environment<'static>) {
    env.add_test("boolean", checks::is_boolean);
    env.add_test("defined", checks::is_defined);
    env.add_test("undefined", checks::is_undefined);
    env.add_test("divisibleby", checks::is_divisibleby);
    env.add_test("startingwith", checks::is_startingwith);
    env.add_test("endingwith", checks::is_endingwith);
    env.add_test("eq", checks::is_eq);
    env.add_test("equalto", checks::is_eq);
    env.add_test("ne", checks::is_ne);
    env.add_test("lt", checks::is_lt);
    env.add_test("lessthan", checks::is_lt);
    env.add_test("le", checks::is_le);
    env.add_test("gt", checks::is_gt);
    env.add_test("greaterthan", checks::is_gt);
    env.add_test("ge", checks::is_ge);
    env.add_test("in", checks::is_in);
    env.add_test("even", checks::is_even);
    env.add_test("odd", checks::is_odd);
    env.add_test("true", checks::is_true);
    env.add_test("false", checks::is_false);
    env.add_test("none", checks::is_none);
    env.add_test("number", checks::is_number);
    env.add_test("int", checks::is_integer);
    env.add_test("integer", checks::is_integer);
    env.add_test("float", checks::is_float);
    env.add_test("string", checks::is_string);
    env.add_test("sequence", checks::is_sequence);
    env.add_test("iterable", checks::is_iterable);
    env.add_test("mapping", checks::is_mapping);
    env.add_test("lower", checks::is_lower);
    env.add_test("upper", checks::is_upper);
}

/// What is the same for all texts of one render.
#[derive(Debug)]
pub struct Facts {
    pub variables: Value,
    /// `None` if no text asks for it.
    pub user: Option<Value>,
    pub notification: Option<Value>,
    pub tenant: Option<Value>,
    pub zone: Option<Box<str>>,
    /// Bytes that filters worked through.
    pub paid: AtomicUsize,
}

/// The outermost names of one text.
#[derive(Debug)]
pub struct Root {
    pub facts: Arc<Facts>,
    /// The language of the text, which is not always the user's.
    pub language: Arc<str>,
}

impl Root {
    /// How filters find it. Cannot be written in a template.
    pub const OWN_NAME: &str = "\0";

    pub fn language(&self) -> &str {
        &self.language
    }

    pub fn zone(&self) -> Result<&str, Error> {
        let missing = || Error::new(ErrorKind::InvalidOperation, "there is no user, so there is no zone");
        self.facts.zone.as_deref().ok_or_else(missing)
    }

    /// Whether there was enough left. One thread renders; the counter is atomic because objects are shared.
    pub fn pay(&self, bytes: usize) -> bool {
        self.facts.paid.fetch_add(bytes.min(FILTER_BYTES_MAX + 1), Ordering::Relaxed) + bytes
            <= FILTER_BYTES_MAX
    }
}

impl Object for Root {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, name: &str) -> Option<Value> {
        match name {
            "user" => self.facts.user.clone(),
            "notification" => self.facts.notification.clone(),
            "tenant" => self.facts.tenant.clone(),
            Self::OWN_NAME => Some(Value::from_dyn_object(Arc::clone(self))),
            name => self.facts.variables.get_attr(name).ok().filter(|value| !value.is_undefined()),
        }
    }
}

/// JSON as a value of the engine.
pub fn value_of(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(yes) => Value::from(*yes),
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::Array(items) => Value::from(items.iter().map(value_of).collect::<Vec<Value>>()),
        serde_json::Value::Object(fields) => {
            Value::from_pairs(fields.iter().map(|(name, value)| (name.as_str(), value_of(value))))
        }
    }
}

struct Capped<'a> {
    out: &'a mut Vec<u8>,
    bytes_max: usize,
}

impl io::Write for Capped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.out.len() + bytes.len() > self.bytes_max {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Renders for a user in Vienna, in English, without variables. `error: ` and its beginning is expected of errors.
    pub fn check(source: &str, expected: &str) {
        let mut engine = Engine::new(Mode::Text);
        engine.add("t".to_owned(), source.to_owned()).expect("compiles");
        let facts = Facts {
            variables: value_of(&serde_json::json!({})),
            user: None,
            notification: None,
            tenant: None,
            zone: Some("Europe/Vienna".into()),
            paid: AtomicUsize::new(0),
        };
        let root = Root { facts: Arc::new(facts), language: "en".into() };
        let mut out = Vec::new();
        match engine.render("t", Value::from_object(root), &mut out, 10_000) {
            Ok(_) => assert_eq!(String::from_utf8(out).expect("text"), expected, "{source}"),
            Err(error) => {
                let shown = format!("error: {}", error.detail().unwrap_or_default());
                assert!(expected.starts_with("error: ") && shown.starts_with(expected), "{source}: {error}");
            }
        }
    }

    #[test]
    fn every_listed_test_exists() {
        for name in crate::walk::TESTS {
            let argument = match *name {
                "divisibleby" | "eq" | "equalto" | "ge" | "greaterthan" | "gt" | "le" | "lessthan" | "lt"
                | "ne" => "(1)",
                "endingwith" | "startingwith" => "('a')",
                "in" => "([1])",
                _ => "",
            };
            let subject = if argument == "('a')" { "'a'" } else { "1" };
            check(&format!("{{{{ 'x' if {subject} is {name}{argument} or true }}}}"), "x");
        }
    }
}
