//! What a walk refuses, and what it finds out.

use super::*;
use crate::source::parse_source;
use serde_json::json;

fn schema() -> Schema {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "n": {"type": "integer"},
            "order": {
                "type": "object",
                "properties": {"id": {"type": "string"}, "total": {"type": "number"}},
                "additionalProperties": false,
            },
            "items": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
            "any": {},
        },
    });
    Schema::compile(schema.as_object(), &mut Problems::default()).expect("a schema")
}

const PARTIALS: &[(&str, &str)] = &[
    ("row", "<td>{{ item.sku }}</td>"),
    ("bad", "{{ nope }}"),
    ("base", "{% for item in items %}{% block row %}{{ item.sku }}{% endblock %}{% endfor %}"),
    ("again", "{% include 'again' %}"),
    ("ping", "{% include 'pong' %}"),
    ("pong", "{% include 'ping' %}"),
    ("1", "{% include '2' %}"),
    ("2", "{% include '3' %}"),
    ("3", "{% include '4' %}"),
    ("4", "{% include '5' %}"),
    ("5", "end"),
    ("grow", "{% set x = x ~ x %}"),
];

fn walked(source: &str) -> (Uses, Vec<fantail_wire::template::Problem>) {
    let mut problems = Problems::default();
    let mut library = Library::new();
    for (name, source) in PARTIALS {
        let pointer = format!("/partials/{name}");
        let root = parse_source(source, &pointer, &mut problems).expect("a partial");
        library.insert(name, Tree { pointer, root });
    }
    let root = parse_source(source, "/x", &mut problems).unwrap_or_else(|| panic!("{source}: {problems:?}"));
    let tree = Tree { pointer: "/x".to_owned(), root };
    let uses = walk(&tree, &library, &schema(), &mut 0, &mut problems);
    (uses, problems.into_vec())
}

fn check(source: &str, code: ProblemCode, part: &str) {
    let (_, problems) = walked(source);
    let found = problems.iter().any(|problem| problem.code == code && problem.detail.contains(part));
    assert!(found, "{source}: {problems:?}");
}

fn check_good(source: &str) {
    let (_, problems) = walked(source);
    assert_eq!(problems, [], "{source}");
}

// proves: TPL-01
// proves: TPL-03
#[test]
fn variables_are_known_to_the_schema() {
    for source in [
        "{{ name }} {{ order.id }} {{ order['total'] }} {{ any.thing.at.all }}",
        "{{ user.id }} {{ user.attributes.first_name }} {{ user.locale }} {{ user.zone }}",
        "{{ notification.id }} {{ notification.at }} {{ tenant.name }}",
        "{% for item in items %}{{ loop.index }} {{ item.sku }}{% else %}none{% endfor %}",
        "{% for item in items if item.sku %}{{ item.sku }}{% endfor %}",
        "{% for k, v in any|items %}{{ k }}{{ v }}{% endfor %}",
        "{{ items[0].sku }} {{ items|map(attribute='sku')|join(', ') }}",
        "{% set x = order %}{{ x.id }}",
        "{% with x = items[0] %}{{ x.sku }}{% endwith %}",
        "{% for item in items %}{% include 'row' %}{% endfor %}",
        "{% extends 'base' %}{% block row %}{{ item.sku }}!{{ super() }}{% endblock %}",
        "{{ 'a' if n > 1 else 'b' }} {{ n * 2 }} {{ order.total * 1.2 }} {{ (n + 1) * 3 }} {{ any|int * 2 }}",
        "{% for i in range(3) %}{{ i * 2 }}{{ loop.index0 * 2 }}{{ loop.cycle('a', 'b') }}{% endfor %}",
        "{{ items|length * 3 }}{{ name is defined }}{{ n is divisibleby(2) }}",
        "{% if name and not n %}{{ name ~ ' ' ~ order.id }}{% elif 'a' in name %}{{ name[:3] }}{% endif %}",
        "{% set x = name ~ '!' %}{% set x = x ~ '?' %}{{ x }}",
        "{{ ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'][n] }}",
    ] {
        check_good(source);
    }
    for (source, path) in [
        ("{{ nope }}", "nope"),
        ("{% if nope %}{% endif %}", "nope"),
        ("{{ name.first }}", "name.first"),
        ("{{ order.totl }}", "order.totl"),
        ("{{ order['totl'] }}", "order.totl"),
        ("{{ user.email }}", "user.email"),
        ("{{ notification.nope }}{{ tenant.id }}", "notification.nope"),
        ("{{ tenant.nope }}", "tenant.nope"),
        ("{% for item in items %}{{ item.skv }}{% endfor %}", "item.skv"),
        ("{% for item in items %}{% endfor %}{{ item }}", "item"),
        ("{{ items|map(attribute='skv')|join }}", "skv"),
        ("{% set x = order %}{{ x.nope }}", "x.nope"),
        ("{% include 'row' %}", "item"),
        ("{{ loop.index }}", "loop"),
        ("{% for i in items %}{{ loop.nope }}{% endfor %}", "loop.nope"),
        ("{{ nope is defined }}", "nope"),
        ("{{ name|default(nope) }}", "nope"),
        ("{% extends 'base' %}{% block row %}{{ item.nope }}{% endblock %}", "item.nope"),
    ] {
        check(source, ProblemCode::UnknownVariable, path);
    }
    let (_, problems) = walked("line\n{% include 'bad' %}");
    assert_eq!(problems[0].pointer, "/partials/bad");
    let (_, problems) = walked("line\n\n{{ nope }}");
    assert!(problems[0].detail.starts_with("line 3: "), "{problems:?}");
}

#[test]
fn what_is_not_listed_is_refused() {
    for source in [
        "{% set x %}a{% endset %}",
        "{% autoescape false %}{{ name }}{% endautoescape %}",
        "{% filter upper %}a{% endfilter %}",
        "{% import 'row' as r %}",
        "{% from 'row' import r %}",
        "{% do any() %}",
        "{% for i in items recursive %}{% endfor %}",
        "{% include name %}",
        "{% include ['row', 'bad'] %}",
        "{% if n %}{% extends 'base' %}{% endif %}",
        "{% set any.x = 1 %}",
        "{{ items|map('upper') }}",
        "{{ items|map(attribute=name) }}",
        "{{ name * 3 }}",
        "{{ 'x' * 1000000000 }}",
        "{{ [1] * 5 }}",
        "{{ any * 2 }}",
        "{{ name|default(*items) }}",
    ] {
        check(source, ProblemCode::NotAllowed, "");
    }
    for (source, code) in [
        ("{{ name|safe }}", ProblemCode::UnknownFilter),
        ("{{ name|e }}", ProblemCode::UnknownFilter),
        ("{{ name|nope }}", ProblemCode::UnknownFilter),
        ("{{ name is safe }}", ProblemCode::UnknownTest),
        ("{{ name is filter }}", ProblemCode::UnknownTest),
        ("{{ debug() }}", ProblemCode::UnknownFunction),
        ("{{ namespace() }}", ProblemCode::UnknownFunction),
        ("{{ dict(a=1) }}", ProblemCode::UnknownFunction),
        ("{{ any.method() }}", ProblemCode::UnknownFunction),
        ("{{ self.row() }}", ProblemCode::UnknownFunction),
        ("{{ super() }}", ProblemCode::UnknownFunction),
        ("{% set x = super() %}", ProblemCode::UnknownFunction),
        ("{% set user = name %}", ProblemCode::ReservedVariable),
        ("{% for tenant in items %}{% endfor %}", ProblemCode::ReservedVariable),
        ("{% include 'nowhere' %}", ProblemCode::UnknownPartial),
        ("{% extends 'nowhere' %}", ProblemCode::UnknownPartial),
        ("{% include 'again' %}", ProblemCode::CyclicInclude),
        ("{% include 'ping' %}", ProblemCode::CyclicInclude),
        ("{{ n|date('%B') }}", ProblemCode::InvalidFormat),
        ("{{ n|date(zone='Nowhere/City') }}", ProblemCode::InvalidFormat),
    ] {
        check(source, code, "");
    }
}

#[test]
fn nothing_grows_without_bound() {
    let doubling = "{% set x = name %}".to_owned() + &"{% set x = x ~ x %}".repeat(40) + "{{ x }}";
    let nested = "{% set x = [name] %}".to_owned() + &"{% set x = [x, x] %}".repeat(40) + "{{ x }}";
    let lists = "{% set x = items %}".to_owned() + &"{% set x = x + x %}".repeat(40) + "{{ x }}";
    let with = "{% with x = name ~ name, y = name %}".repeat(3)
        + &"{% set y = y ~ y %}".repeat(9)
        + &"{% endwith %}".repeat(3);
    let deep = "{% for a in items %}".repeat(5) + &"{% endfor %}".repeat(5);
    let branches = "{% set x = name %}".to_owned()
        + &"{% if n %}{% set x = x ~ x %}{% else %}{% set x = 'a' %}{% endif %}".repeat(9);
    for source in [
        doubling.as_str(),
        &nested,
        &lists,
        &with,
        &deep,
        &branches,
        "{% set x = '' %}{% for i in items %}{% set x = x ~ 'a' %}{% endfor %}",
        "{% for i in items %}{% set x = name %}{% for j in items %}{% set x = x ~ x %}{% endfor %}{% endfor %}",
        "{% for i in items %}{% set y = x|default('') %}{% set x = y ~ name %}{% endfor %}",
        "{% set x = name %}{% for i in items %}{% include 'grow' %}{% endfor %}",
        "{% include '1' %}",
    ] {
        let (_, problems) = walked(source);
        assert!(problems.iter().any(|p| p.code == ProblemCode::TooComplex), "{source}: {problems:?}");
    }
}

#[test]
fn walks_find_what_a_source_depends_on() {
    for (source, user, zone) in [
        ("{{ name }}", false, false),
        ("{{ user.id }}", true, false),
        ("{% if user.attributes.vip %}x{% endif %}", true, false),
        ("{{ n|date }}", false, true),
        ("{{ n|datetime('%H') }}", false, true),
        ("{{ n|time(zone='UTC') }}", false, false),
        ("{{ n|time(zone=user.zone) }}", true, false),
        ("{{ n|number(2) }}{{ n|plural(other='x') }}", false, false),
    ] {
        let (uses, problems) = walked(source);
        assert_eq!((uses.user, uses.zone, problems.len()), (user, zone, 0), "{source}: {problems:?}");
        assert_eq!(uses.needs_user(), user || zone);
    }
    let (uses, _) = walked("{{ tenant.name }}{{ notification.id }}");
    assert!(uses.tenant && uses.notification && !uses.needs_user());
}

/// Includes that multiply are cut off, not walked to the end.
#[test]
fn walks_end() {
    let mut problems = Problems::default();
    let sources: Vec<(String, String)> = (0..4)
        .map(|n| (format!("p{n}"), format!("{{% include 'p{}' %}}", n + 1).repeat(60)))
        .chain([("p4".to_owned(), "x".to_owned())])
        .collect();
    let mut library = Library::new();
    for (name, source) in &sources {
        let root = parse_source(source, "/p", &mut problems).expect("a partial");
        library.insert(name, Tree { pointer: "/p".to_owned(), root });
    }
    let root = parse_source("{% include 'p1' %}", "/x", &mut problems).expect("a source");
    let mut steps = 0;
    let tree = Tree { pointer: "/x".to_owned(), root };
    for _ in 0..10 {
        walk(&tree, &library, &schema(), &mut steps, &mut problems);
    }
    let problems = problems.into_vec();
    assert!(problems.iter().any(|problem| problem.code == ProblemCode::TooComplex), "{problems:?}");
    assert!(steps < WALK_STEPS_MAX * 2);
}
