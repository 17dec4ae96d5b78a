//! Events by template: every follower is told in the own language and the own variant, by every channel alike.

use crate::deliveries::{Post, explain, notification, register, send, status};
use crate::world::{eventually, expect, follow, inbox, post, put_user, refused};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const TEMPLATE: &str = "/api/v1/templates/post";

fn template(variants: Value) -> Value {
    json!({
        "id": "post", "category": "posts", "defaultLocale": "en",
        "schema": {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}},
        "channels": {
            "push": {"title": "New: {{ title }}", "data": {"who": "push"}},
            "inApp": {"title": "{{ title }} is out"},
        },
        "translations": {
            "de": {"push": {"title": "Neu: {{ title }}"}, "inApp": {"title": "{{ title }} ist da"}},
            "pt-BR": {"push": {"title": "Novo: {{ title }}"}},
        },
        "variants": variants,
    })
}

fn event(id: &str, title: &str) -> Value {
    json!({
        "specversion": "1.0", "id": id, "source": "/test", "type": "post",
        "data": {"audience": {"followersOf": "star"}, "templateId": "post", "variables": {"title": title},
                 "channels": ["push"]},
    })
}

fn speaks(client: &mut Client, user: &str, locale: &str) {
    let locale = (!locale.is_empty()).then_some(locale);
    let put = client.json("PUT", &format!("/api/v1/users/{user}"), &json!({"locale": locale}));
    assert!(matches!(put.expect("an answer").status, 200 | 201));
}

fn follower(client: &mut Client, user: &str, locale: &str) {
    put_user(client, user);
    speaks(client, user, locale);
    follow(client, user, "star");
    register(client, user, "phone", &format!("stub:ok/{user}"));
}

fn done(client: &mut Client, id: &str) {
    eventually("done", || (status(client, id)["status"] == "done").then_some(()));
}

/// How often each title was pushed.
fn pushed(post: &Post) -> BTreeMap<String, usize> {
    let arrived = std::fs::read_to_string(&post.arrivals).expect("arrivals");
    let mut titles = BTreeMap::new();
    for line in arrived.lines() {
        let content = line.splitn(4, ' ').nth(3).expect("four fields");
        let content: Value = serde_json::from_str(content).expect("JSON");
        *titles.entry(content["title"].as_str().expect("a title").to_owned()).or_default() += 1;
    }
    titles
}

fn shown(client: &mut Client, user: &str) -> String {
    let page = inbox(client, user, "limit=1");
    page["notifications"][0]["content"]["title"].as_str().expect("a title").to_owned()
}

// proves: TPL-04, TPL-06
#[test]
fn followers_are_told_in_their_own_language_and_it_stays() {
    let desk = Post::new();
    let server = desk.start(&[]);
    let mut client = server.client();
    expect(client.json("PUT", TEMPLATE, &template(json!([]))), 201);
    let readers =
        [("ann", "de-AT"), ("bob", ""), ("cid", "pt-BR"), ("dan", "pt"), ("eva", "de"), ("fay", "fr")];
    for (user, locale) in readers {
        follower(&mut client, user, locale);
    }
    let id = post(&mut client, &event("e1", "Gardens"));
    done(&mut client, &id);
    let expected = [("Neu: Gardens", 2), ("New: Gardens", 3), ("Novo: Gardens", 1)];
    let expected: BTreeMap<String, usize> =
        expected.into_iter().map(|(title, count)| (title.to_owned(), count)).collect();
    assert_eq!(pushed(&desk), expected);
    let seen = |client: &mut Client| readers.map(|(user, _)| shown(client, user));
    let (english, german) = ("Gardens is out", "Gardens ist da");
    assert_eq!(seen(&mut client), [german, english, english, english, german, english]);
    let told = explain(&mut client, &id, "cid");
    assert!(told.contains("version 1 of post, in en for inApp, in pt-BR for push"), "{told}");
    let told = explain(&mut client, &id, "ann");
    assert!(told.contains("version 1 of post, in de for inApp, push"), "{told}");
    // What was told stays as it was; what comes is in the new language.
    speaks(&mut client, "ann", "en");
    assert_eq!(shown(&mut client, "ann"), german);
    let told = explain(&mut client, &id, "ann");
    assert!(told.contains("in de for inApp, push"), "{told}");
    let next = post(&mut client, &event("e2", "Trees"));
    done(&mut client, &next);
    assert_eq!(shown(&mut client, "ann"), "Trees is out");
    assert_eq!(pushed(&desk)["Neu: Trees"], 1, "to eva alone");
}

// proves: TPL-07, TRK-06
#[test]
fn followers_keep_their_variant_as_in_notifications_of_their_own() {
    let desk = Post::new();
    let server = desk.start(&[]);
    let mut client = server.client();
    let loud = json!({"push": {"title": "NEW: {{ title }}!"}, "inApp": {"title": "{{ title }}!"}});
    let variants = json!([{"name": "plain", "weight": 1}, {"name": "loud", "weight": 1, "channels": loud}]);
    expect(client.json("PUT", TEMPLATE, &template(variants)), 201);
    let users: Vec<String> = (0..12).map(|no| format!("u{no}")).collect();
    for user in &users {
        follower(&mut client, user, "en");
    }
    let id = post(&mut client, &event("e1", "Gardens"));
    done(&mut client, &id);
    let mut loud = 0;
    for user in &users {
        let of_event = shown(&mut client, user);
        let own = json!({"templateId": "post", "content": null, "variables": {"title": "Gardens"},
                         "channels": ["inApp"]});
        let own = send(&mut client, &notification(&format!("n-{user}"), &[user], own));
        done(&mut client, &own);
        assert_eq!(shown(&mut client, user), of_event, "{user} has one variant");
        let variant = if of_event == "Gardens!" { "variant loud" } else { "variant plain" };
        loud += usize::from(of_event == "Gardens!");
        for id in [&id, &own] {
            let told = explain(&mut client, id, user);
            assert!(told.contains(variant) && told.contains("version 1 of post"), "{told}");
        }
    }
    let pushed = pushed(&desk);
    assert_eq!(pushed.get("NEW: Gardens!").copied().unwrap_or(0), loud);
    assert_eq!(pushed.get("New: Gardens").copied().unwrap_or(0), users.len() - loud);
    assert!(loud > 0 && loud < users.len(), "names of both variants: {loud}");
}

// proves: TPL-06, API-03
#[test]
fn a_template_that_says_too_much_for_one_event_is_refused() {
    let desk = Post::new();
    let server = desk.start(&[]);
    let mut client = server.client();
    put_user(&mut client, "ann");
    let variants: Vec<Value> = (0..8).map(|no| json!({"name": format!("v{no}"), "weight": 1})).collect();
    let locales = ["de", "fr", "it", "es", "pt", "nl", "sv", "da"];
    let mut many = template(Value::Array(variants));
    for locale in locales {
        many["translations"][locale] = json!({"push": {"title": format!("{locale} {{{{ title }}}}")}});
    }
    expect(client.json("PUT", TEMPLATE, &many), 201);
    let problem = refused(client.post("/api/v1/events", &event("e1", "x")), "TOO_MANY_RENDERINGS");
    assert!(problem["detail"].as_str().is_some_and(|text| text.starts_with("80 ")), "{problem}");
    let own = json!({"templateId": "post", "content": null, "variables": {"title": "x"}});
    send(&mut client, &notification("n1", &["ann"], own));
    let mut large = json!({
        "id": "mail", "category": "posts", "defaultLocale": "en", "channels": {}, "translations": {},
    });
    let text = |locale: &str| format!("<p>{locale} {}</p>", "x".repeat(50 << 10));
    large["channels"] = json!({"email": {"subject": "x", "html": text("en")}});
    for locale in &locales[..3] {
        large["translations"][locale] = json!({"email": {"html": text(locale)}});
    }
    expect(client.json("PUT", "/api/v1/templates/mail", &large), 201);
    let mut mail = event("e1", "x");
    mail["data"]["templateId"] = json!("mail");
    mail["data"]["channels"] = json!(["email"]);
    mail["data"]["variables"] = json!({});
    let problem = refused(client.post("/api/v1/events", &mail), "TOO_MANY_RENDERINGS");
    assert!(problem["detail"].as_str().is_some_and(|text| text.ends_with("196608 bytes")), "{problem}");
    let work = "{% for a in range(600) %}{% endfor %}x";
    let variants: Vec<Value> = (0..8).map(|no| json!({"name": format!("v{no}"), "weight": 1})).collect();
    let texts = json!({"push": {"title": work, "body": work}, "inApp": {"title": work}});
    let mut slow = json!({
        "id": "slow", "category": "posts", "defaultLocale": "en", "channels": texts, "translations": {},
        "variants": variants,
    });
    for locale in &locales[..7] {
        slow["translations"][locale] = json!({"push": {"title": work}});
    }
    expect(client.json("PUT", "/api/v1/templates/slow", &slow), 201);
    let mut slowly = event("e1", "x");
    slowly["data"]["templateId"] = json!("slow");
    slowly["data"]["variables"] = json!({});
    let problem = refused(client.post("/api/v1/events", &slowly), "TOO_MANY_RENDERINGS");
    assert!(problem["detail"].as_str().is_some_and(|text| text.ends_with("200000 steps")), "{problem}");
}

// fixes: torture 5
#[test]
fn inboxes_show_what_other_channels_say_as_a_title_and_a_text() {
    let desk = Post::new();
    let server = desk.start(&[]);
    let mut client = server.client();
    follower(&mut client, "ann", "en");
    let mut full = template(json!([]));
    full["channels"]["email"] =
        json!({"subject": "Mail: {{ title }}", "text": "Read {{ title }}", "html": "<p>x</p>"});
    full["channels"]["sms"] = json!({"body": "SMS: {{ title }}"});
    full["channels"]["webhook"] = json!({"body": "{\"title\": {{ title }}}"});
    let mut bare = full.clone();
    bare["id"] = json!("bare");
    bare["channels"].as_object_mut().expect("channels").remove("inApp");
    bare["translations"] = json!({});
    expect(client.json("PUT", TEMPLATE, &full), 201);
    expect(client.json("PUT", "/api/v1/templates/bare", &bare), 201);
    for (id, template, channel, expected) in [
        ("n1", "post", "email", json!({"title": "Gardens is out"})),
        ("n2", "bare", "email", json!({"title": "Mail: Gardens", "body": "Read Gardens"})),
        ("n3", "bare", "sms", json!({"title": "SMS: Gardens"})),
        ("n4", "bare", "webhook", Value::Null),
    ] {
        let own = json!({"templateId": template, "content": null, "variables": {"title": "Gardens"}, "channels": [channel]});
        let sent = send(&mut client, &notification(id, &["ann"], own));
        done(&mut client, &sent);
        let page = inbox(&mut client, "ann", "limit=1");
        assert_eq!(page["notifications"][0]["content"], expected, "{id} by {channel}");
    }
}
