//! Filters on lists, and the few that look at any value: the engine's own, paid for by the number of items.

use super::{invalid, pay};
use crate::limits::RANGE_MAX;
use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Environment, Error, State, filters};

/// What one item of a list costs.
const ITEM_BYTES: usize = 16;

pub fn register(env: &mut Environment<'static>) {
    env.add_filter("abs", filters::abs);
    env.add_filter("count", filters::length);
    env.add_filter("d", filters::default);
    env.add_filter("default", filters::default);
    env.add_filter("first", filters::first);
    env.add_filter("float", filters::float);
    env.add_filter("int", filters::int);
    env.add_filter("last", filters::last);
    env.add_filter("length", filters::length);
    env.add_filter("round", filters::round);
    env.add_filter("items", |state: &State, value: &Value| {
        pay_items(state, value)?;
        filters::items(value)
    });
    env.add_filter("dictsort", |state: &State, value: &Value, kwargs: Kwargs| {
        pay_items(state, value)?;
        filters::dictsort(value, kwargs)
    });
    env.add_filter("reverse", |state: &State, value: &Value| {
        pay_items(state, value)?;
        filters::reverse(value)
    });
    env.add_filter("list", |state: &State, value: Value| {
        pay_items(state, &value)?;
        filters::list(state, value)
    });
    env.add_filter("sort", |state: &State, value: Value, kwargs: Kwargs| {
        pay_items(state, &value)?;
        filters::sort(state, value, kwargs)
    });
    env.add_filter("unique", |state: &State, value: Value, kwargs: Kwargs| {
        pay_items(state, &value)?;
        filters::unique(state, value, kwargs)
    });
    env.add_filter("min", |state: &State, value: Value, kwargs: Kwargs| {
        pay_items(state, &value)?;
        filters::min(state, value, kwargs)
    });
    env.add_filter("max", |state: &State, value: Value, kwargs: Kwargs| {
        pay_items(state, &value)?;
        filters::max(state, value, kwargs)
    });
    env.add_filter("sum", sum);
    env.add_filter("map", map);
    env.add_filter("join", join);
    env.add_function("range", range);
}

fn pay_items(state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    let items = value.len().unwrap_or(RANGE_MAX.unsigned_abs() as usize);
    pay(state, items.saturating_mul(ITEM_BYTES))
}

/// Numbers only; `attribute` names a member of each item.
fn sum(state: &State, value: Value, kwargs: Kwargs) -> Result<Value, Error> {
    pay_items(state, &value)?;
    let attribute = kwargs.get::<Option<&str>>("attribute")?;
    kwargs.assert_all_used()?;
    let (mut whole, mut broken, mut all_whole) = (0_i128, 0_f64, true);
    for item in value.try_iter()? {
        let item = attribute.map_or_else(|| Ok(item.clone()), |path| member(&item, path))?;
        match i128::try_from(item.clone()) {
            Ok(number) if item.is_integer() => {
                whole = whole.checked_add(number).ok_or_else(|| invalid("the sum is too large"))?;
            }
            _ if item.is_number() => {
                all_whole = false;
                broken += f64::try_from(item)?;
            }
            _ => return Err(invalid("sum needs numbers")),
        }
    }
    Ok(if all_whole { Value::from(whole) } else { Value::from(whole as f64 + broken) })
}

fn map(state: &State, value: Value, kwargs: Kwargs) -> Result<Value, Error> {
    pay_items(state, &value)?;
    let attribute = kwargs.get::<&str>("attribute")?;
    kwargs.assert_all_used()?;
    let items: Result<Vec<Value>, Error> = value.try_iter()?.map(|item| member(&item, attribute)).collect();
    Ok(Value::from(items?))
}

/// As strict as a path in the template.
fn member(item: &Value, path: &str) -> Result<Value, Error> {
    let mut found = item.clone();
    for name in path.split('.') {
        found = found.get_attr(name)?;
        if found.is_undefined() {
            return Err(Error::new(minijinja::ErrorKind::UndefinedError, format!("an item has no {path}")));
        }
    }
    Ok(found)
}

fn join(state: &State, value: Value, between: Option<&str>, rest: Rest<Value>) -> Result<String, Error> {
    if !rest.is_empty() {
        return Err(invalid("join takes one text"));
    }
    pay_items(state, &value)?;
    let mut out = String::new();
    for (index, item) in value.try_iter()?.enumerate() {
        let before = out.len();
        if index > 0 {
            out.push_str(between.unwrap_or_default());
        }
        match item.as_str() {
            Some(text) => out.push_str(text),
            None if item.is_number() => out.push_str(&item.to_string()),
            None => return Err(invalid(format!("join needs texts or numbers, not {}", item.kind()))),
        }
        pay(state, out.len() - before)?;
    }
    Ok(out)
}

fn range(lower: i64, upper: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let (from, to) = upper.map_or((0, lower), |upper| (lower, upper));
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(invalid("range needs a step"));
    }
    let span = if step > 0 { i128::from(to) - i128::from(from) } else { i128::from(from) - i128::from(to) };
    let size = i128::from(step).abs();
    let count = if span <= 0 { 0 } else { (span + size - 1) / size };
    if count > i128::from(RANGE_MAX) {
        return Err(invalid(format!("range has more than {RANGE_MAX} numbers")));
    }
    let count = i64::try_from(count).expect("at most RANGE_MAX");
    Ok(Value::from((0..count).map(|index| Value::from(from + index * step)).collect::<Vec<Value>>()))
}

#[cfg(test)]
mod tests {
    use crate::engine::tests::check;

    #[test]
    fn lists() {
        check("{{ [3, 1, 2]|sort|join(',') }}", "1,2,3");
        check("{{ [1, 1, 2]|unique|join(',') }}", "1,2");
        check("{{ [3, 1]|min }}{{ [3, 1]|max }}{{ [3, 1]|first }}{{ [3, 1]|last }}", "1331");
        check("{{ [1, 2]|sum }} {{ [1, 0.5]|sum }} {{ [{'n': 4}]|sum(attribute='n') }}", "3 1.5 4");
        check("{{ ['a']|sum }}", "error: sum needs");
        check("{{ [{'n': 'x'}, {'n': 'y'}]|map(attribute='n')|join }}", "xy");
        check("{{ [{'m': 1}]|map(attribute='n')|join }}", "error: an item has no n");
        check("{{ [[1]]|join }}", "error: join needs");
        check("{% for k, v in {'b': 1, 'a': 2}|dictsort %}{{ k }}{{ v }}{% endfor %}", "a2b1");
        check("{% for k, v in {'a': 2}|items %}{{ k }}{{ v }}{% endfor %}", "a2");
        check("{{ 'abc'|length }}{{ [1]|count }}{{ 'ab'|reverse }}", "31ba");
        check("{{ 2.6|round }} {{ '7'|int + 1 }} {{ '1.5'|float }} {{ -3|abs }}", "3.0 8 1.5 3");
        check("{{ missing|default('x') }}{{ missing|d('y') }}", "xy");
    }

    #[test]
    fn ranges() {
        check("{{ range(3)|join(',') }}", "0,1,2");
        check("{{ range(1, 6, 2)|join(',') }}", "1,3,5");
        check("{{ range(3, 0, -1)|join(',') }}", "3,2,1");
        check("{{ range(3, 0)|join(',') }}", "");
        check("{{ range(0, 3, 0) }}", "error: range needs");
        check("{{ range(1000000000) }}", "error: range has more");
        check("{{ range(-9223372036854775808, 9223372036854775807) }}", "error: ");
    }
}
