//! How fast small messages are rendered on one core, and how long the worst templates take to be stopped:
//! `cargo run --release -p fantail-templates --example render_rate`.

#![allow(clippy::print_stdout, reason = "an example that reports what it measured")]

use fantail_rules::ids::Millis;
use fantail_templates::{Compiled, NotificationFacts, RenderAsk, TenantFacts, UserFacts, compile};
use fantail_wire::template::{Channel, Definition};
use serde_json::{Value, json};
use std::time::Instant;

fn main() {
    let compiled = template(json!({
        "push": {
            "title": "Order {{ order.id }} is on its way",
            "body": "Hi {{ user.attributes.firstName }}, it arrives {{ order.day }}.",
            "data": {"screen": "order", "id": "{{ order.id }}"},
        },
        "sms": {"body": "Your code is {{ order.id }}"},
        "email": {
            "subject": "Order {{ order.id }}",
            "html": "<p>Hi {{ user.attributes.firstName }}</p>{% for item in items %}<tr><td>{{ item.name }}</td><td>{{ item.price|number(2) }}</td></tr>{% endfor %}",
            "text": "Hi {{ user.attributes.firstName }}",
        },
    }));
    let items: Vec<Value> = (0..20).map(|n| json!({"name": format!("Item {n}"), "price": 9.5})).collect();
    let variables = json!({"order": {"id": "A-1001", "day": "tomorrow"}, "items": items});
    for (channel, count) in [(Channel::Push, 500_000), (Channel::Sms, 500_000), (Channel::Email, 20_000)] {
        report(
            &format!("{} (variables checked once)", channel.text()),
            count,
            || {
                let prepared = compiled.variables(&variables).expect("valid");
                Box::new(move |compiled: &Compiled| render(compiled, channel, &prepared)) as Run
            },
            &compiled,
        );
    }
    let small = json!({"order": {"id": "A-1001", "day": "tomorrow"}, "items": []});
    report(
        "push (variables checked each time)",
        300_000,
        || {
            let small = small.clone();
            Box::new(move |compiled: &Compiled| {
                let prepared = compiled.variables(&small).expect("valid");
                render(compiled, Channel::Push, &prepared)
            }) as Run
        },
        &compiled,
    );
    worst();
}

type Run = Box<dyn Fn(&Compiled) -> usize>;

fn report(what: &str, count: u32, make: impl Fn() -> Run, compiled: &Compiled) {
    let run = make();
    let mut bytes = 0;
    for _ in 0..count / 10 {
        bytes += run(compiled);
    }
    let begin = Instant::now();
    for _ in 0..count {
        bytes += run(compiled);
    }
    let took = begin.elapsed();
    let rate = f64::from(count) / took.as_secs_f64();
    println!("{what}: {rate:.0}/s, {} bytes each", bytes / (count + count / 10) as usize);
}

fn render(compiled: &Compiled, channel: Channel, variables: &fantail_templates::Variables) -> usize {
    let attributes = json!({"firstName": "Ada"});
    let ask = RenderAsk {
        channel,
        locale: "en-GB",
        variant: None,
        variables,
        user: Some(UserFacts { id: "u1", locale: "en-GB", zone: "Europe/London", attributes: &attributes }),
        notification: NotificationFacts { id: "n1" },
        tenant: TenantFacts { id: "acme", name: "Acme" },
        now: Millis(1_769_860_800_000),
    };
    compiled.render(&ask).map_or(0, |rendered| rendered.bytes.len())
}

fn worst() {
    let long = "x".repeat(30_000);
    let maps: Vec<Value> = (0..160).map(|n| json!({"a": n, "b": "x"})).collect();
    let many = vec![7; 990];
    for source in [
        "{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}",
        "{% for i in range(1000) %}{% for j in range(9) %}{% if v ~ v ~ v ~ v == 'x' %}{% endif %}{% endfor %}{% endfor %}",
        "{% for i in range(1000) %}{% for j in range(9) %}{% if 9 in items %}{% endif %}{% endfor %}{% endfor %}",
        "{% for i in range(1000) %}{% for j in range(9) %}{% if items[0] == items[1] %}{% endif %}{% endfor %}{% endfor %}",
        "{% for i in range(1000) %}{% if v|replace('x', v) == 'x' %}{% endif %}{% endfor %}",
        "{% for i in range(1000) %}{{ v }}{% endfor %}",
    ] {
        // The subject uses nearly all of its own fuel, and then the document all of its own.
        let subject = "{% for i in range(430) %}{% if 9 in items %}{% endif %}{% endfor %}x";
        let subject = if source.contains("9 in items") { subject } else { "x" };
        let compiled = template(json!({"email": {"subject": subject, "html": source}}));
        for variables in
            [json!({"v": long}), json!({"v": "x", "items": many}), json!({"v": "x", "items": [maps, maps]})]
        {
            let Ok(prepared) = compiled.variables(&variables) else { continue };
            let begin = Instant::now();
            let bytes = render(&compiled, Channel::Email, &prepared);
            println!("{:?}, {bytes} bytes: {}", begin.elapsed(), &source[..70.min(source.len())]);
        }
    }
}

fn template(channels: Value) -> Compiled {
    let definition: Definition = serde_json::from_value(json!({
        "id": "order", "category": "transaction", "defaultLocale": "en", "channels": channels,
        "schema": {"type": "object", "properties": {
            "order": {"type": "object", "properties": {"id": {"type": "string"}, "day": {"type": "string"}}},
            "items": {"type": "array"},
            "v": {"type": "string"},
        }},
    }))
    .expect("a definition");
    compile(&definition).expect("compiles")
}
