//! Templates: checked when written, replaced only by who has seen what is in force, rolled back, previewed.

use crate::server::Server;
use crate::world::{ALL_SCOPES, bare, expect, refused, tenant_with_key};
use fantail_server::client::{Client, Request, Response};
use serde_json::{Value, json};

const GUIDE: &str = include_str!("../../../../docs/templates.md");
const PATH: &str = "/api/v1/templates/order-shipped";

/// The definition of the guide.
fn definition() -> Value {
    let (_, rest) = GUIDE.split_once("```json\n").expect("the guide has an example");
    let (text, _) = rest.split_once("```").expect("which ends");
    serde_json::from_str(text).expect("it is JSON")
}

fn with_title(title: &str) -> Value {
    let mut changed = definition();
    changed["channels"]["push"]["title"] = json!(title);
    changed
}

fn send(
    client: &mut Client,
    (method, path): (&str, &str),
    condition: Option<(&str, &str)>,
    body: &Value,
) -> std::io::Result<Response> {
    let headers: Vec<_> = [("content-type", "application/json")].into_iter().chain(condition).collect();
    client.send(&Request { method, path, headers: &headers, body: body.to_string().as_bytes() })
}

fn put(client: &mut Client, condition: Option<(&str, &str)>, body: &Value) -> std::io::Result<Response> {
    send(client, ("PUT", PATH), condition, body)
}

fn create(client: &mut Client) {
    let response = put(client, Some(("if-none-match", "*")), &definition()).expect("an answer");
    assert_eq!(response.status, 201, "{}", response.text());
    assert_eq!(response.header("etag"), Some("\"1\""));
}

fn preview(client: &mut Client, ask: &Value) -> Value {
    expect(client.post(&format!("{PATH}/preview"), ask), 200)
}

// proves: TPL-01, TPL-02, TPL-05
#[test]
fn versions_have_authors_and_are_rolled_back() {
    let server = Server::start();
    let mut client = server.client();
    create(&mut client);
    let read = client.get(PATH).expect("an answer");
    assert_eq!(read.header("etag"), Some("\"1\""));
    let read = read.json();
    assert_eq!(
        (&read["definition"], &read["version"], &read["active"]),
        (&definition(), &json!(1), &json!(true))
    );
    let noted = send(
        &mut client,
        ("PUT", &format!("{PATH}?note=shorter+title")),
        Some(("if-match", "\"1\"")),
        &with_title("On its way"),
    );
    let second = expect(noted, 200);
    assert_eq!((&second["activeVersion"], &second["category"]), (&json!(2), &json!("orders")));
    let versions = expect(client.get(&format!("{PATH}/versions")), 200);
    let key = server.key("default.key");
    let author = key.split('_').nth(1).expect("the id of the key");
    assert_eq!(versions["versions"][0]["note"], "shorter title");
    assert_eq!(
        (&versions["versions"][1]["version"], &versions["versions"][1]["author"]),
        (&json!(1), &json!(author))
    );
    assert_ne!(versions["versions"][0]["hash"], versions["versions"][1]["hash"]);
    let diff = expect(client.get(&format!("{PATH}/diff?from=1&to=2")), 200);
    assert_eq!(diff["changes"][0]["pointer"], "/channels/push/title");
    assert_eq!(diff["changes"][0]["new"], "On its way");
    assert_eq!(expect(client.get(&format!("{PATH}/diff")), 200), diff, "the last change");
    let back = expect(client.post(&format!("{PATH}/activate"), &json!({"version": 1})), 200);
    assert_eq!((&back["activeVersion"], &back["newestVersion"]), (&json!(1), &json!(2)));
    assert_eq!(expect(client.get(PATH), 200)["definition"], definition());
    assert_eq!(expect(client.get(&format!("{PATH}?version=2")), 200)["activeVersion"], 1);
    refused(client.get(&format!("{PATH}?version=3")), "TEMPLATE_NOT_FOUND");
    refused(client.post(&format!("{PATH}/activate"), &json!({"version": 3})), "TEMPLATE_NOT_FOUND");
    let off = expect(client.json("PATCH", PATH, &json!({"active": false})), 200);
    assert_eq!((&off["active"], &off["activeVersion"]), (&json!(false), &json!(1)));
    let on = expect(client.post(&format!("{PATH}/activate"), &json!({"version": 2})), 200);
    assert_eq!((&on["active"], &on["activeVersion"]), (&json!(true), &json!(2)));
}

// proves: TPL-01, TPL-03, API-03
#[test]
fn bad_templates_are_refused_with_their_places() {
    let server = Server::start();
    let mut client = server.client();
    let mut bad = definition();
    bad["channels"]["push"]["title"] = json!("Order {{ orderNo }} of {{ items|colour }}");
    bad["channels"]["email"]["html"] = json!("<a href={{ orderId }}>x</a>");
    let problem = refused(put(&mut client, None, &bad), "INVALID_TEMPLATE");
    let found: Vec<_> = problem["errors"].as_array().expect("places").iter().map(place).collect();
    assert_eq!(
        found,
        [
            ("/channels/email/html", "unsafeHtml"),
            ("/channels/push/title", "unknownFilter"),
            ("/channels/push/title", "unknownVariable"),
        ]
    );
    refused(client.get(PATH), "TEMPLATE_NOT_FOUND");
    let mut circle = definition();
    circle["partials"] = json!({"a": "{% include 'b' %}", "b": "{% include 'a' %}"});
    circle["channels"]["sms"]["body"] = json!("{% include 'a' %}");
    let problem = refused(put(&mut client, None, &circle), "INVALID_TEMPLATE");
    assert!(problem["errors"].as_array().expect("places").iter().any(|at| place(at).1 == "cyclicInclude"));
    let mut other = definition();
    other["id"] = json!("other");
    assert_eq!(refused(put(&mut client, None, &other), "INVALID_REQUEST")["errors"][0]["pointer"], "/id");
    let mut misspelt = definition();
    misspelt["channels"]["push"]["titel"] = json!("x");
    let problem = refused(put(&mut client, None, &misspelt), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/channels/push/titel");
    let mut large = definition();
    large["partials"] = (0..3).map(|no| (format!("p{no}"), json!("x".repeat(100 << 10)))).collect();
    let problem = refused(put(&mut client, None, &large), "INVALID_TEMPLATE");
    assert_eq!(place(&problem["errors"][0]), ("", "tooLarge"));
    large["partials"]["p0"] = json!("x".repeat(1 << 20));
    refused(put(&mut client, None, &large), "BODY_TOO_LARGE");
    let long = send(&mut client, ("PUT", &format!("{PATH}?note={}", "x".repeat(513))), None, &definition());
    assert_eq!(refused(long, "INVALID_REQUEST")["errors"][0]["pointer"], "/note");
    assert!(!server.log().contains("orderNo"), "definitions are in no log");
}

fn place(error: &Value) -> (&str, &str) {
    (error["pointer"].as_str().expect("a pointer"), error["code"].as_str().expect("a code"))
}

// proves: TPL-05
#[test]
fn of_many_who_replace_a_version_one_does() {
    let server = Server::start();
    let mut client = server.client();
    create(&mut client);
    let created = put(&mut client, Some(("if-none-match", "*")), &with_title("again"));
    refused(created, "VERSION_CONFLICT");
    refused(put(&mut client, None, &with_title("unsaid")), "VERSION_CONFLICT");
    let racers: Vec<_> = (0..8)
        .map(|no| {
            let mut client = server.client();
            let body = with_title(&format!("Racer {no}"));
            std::thread::spawn(move || {
                put(&mut client, Some(("if-match", "\"1\"")), &body).expect("an answer")
            })
        })
        .collect();
    let answers: Vec<Response> = racers.into_iter().map(|racer| racer.join().expect("it ends")).collect();
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    for late in answers.into_iter().filter(|answer| answer.status != 200) {
        assert_eq!((late.status, late.header("etag")), (412, Some("\"2\"")));
        let problem = refused(Ok(late), "VERSION_CONFLICT");
        assert!(problem["detail"].as_str().is_some_and(|text| text.contains("version 2")), "{problem}");
    }
    let current = expect(client.get(PATH), 200);
    let repeated = put(&mut client, Some(("if-match", "\"1\"")), &current["definition"]);
    assert_eq!(expect(repeated, 200)["activeVersion"], 2, "a repeat of what is in force was done already");
    assert_eq!(
        expect(client.get(&format!("{PATH}/versions")), 200)["versions"].as_array().map(Vec::len),
        Some(2)
    );
    let old = Some(("if-match", "\"1\""));
    refused(send(&mut client, ("DELETE", PATH), old, &Value::Null), "VERSION_CONFLICT");
    refused(send(&mut client, ("PATCH", PATH), old, &json!({"active": false})), "VERSION_CONFLICT");
    let weak = put(&mut client, Some(("if-match", "2")), &definition());
    assert_eq!(refused(weak, "INVALID_REQUEST")["errors"][0]["pointer"], "/If-Match");
    expect(send(&mut client, ("DELETE", PATH), Some(("if-match", "\"2\"")), &Value::Null), 204);
    refused(bare(&mut client, "DELETE", PATH), "TEMPLATE_NOT_FOUND");
    let fresh = put(&mut client, None, &definition()).expect("an answer");
    assert_eq!((fresh.status, fresh.header("etag")), (201, Some("\"3\"")), "numbers are not used again");
}

// proves: TPL-03, TPL-06, TPL-07
#[test]
fn previews_show_locales_variants_and_costs() {
    let server = Server::start();
    let mut client = server.client();
    let mut with_variants = definition();
    with_variants["variants"] = json!([
        {"name": "plain", "weight": 1},
        {"name": "loud", "weight": 1, "channels": {"push": {"title": "{{ orderId }}!!"}}},
    ]);
    expect(put(&mut client, None, &with_variants), 201);
    expect(client.json("PATCH", PATH, &json!({"active": false})), 200);
    let items = json!([{"title": "Tea & <cake>"}]);
    let variables = json!({"orderId": "A-42", "items": items});
    let sms = |locale: &str| json!({"channel": "sms", "locale": locale, "variables": variables});
    let english = preview(&mut client, &sms("en-GB"));
    assert_eq!(
        (&english["locale"], &english["content"]["body"]),
        (&json!("en"), &json!("Order A-42 is on its way"))
    );
    assert_eq!(
        english["cost"],
        json!({
            "channel": "sms", "encoding": "gsm7", "units": 24, "segments": 1, "unitsPerSegment": 160,
        })
    );
    let german = preview(&mut client, &sms("de-AT"));
    assert_eq!(german["locale"], "de");
    assert_eq!(
        (&german["content"]["body"], &german["version"]),
        (&json!("Bestellung A-42 ist unterwegs"), &json!(1))
    );
    let ann = json!({"id": "ann", "attributes": {"firstName": "Ann"}});
    let mut push = json!({"channel": "push", "variables": variables, "userFacts": ann});
    let own = preview(&mut client, &push);
    assert_eq!(preview(&mut client, &push), own, "ann keeps her variant");
    assert_eq!(own["cost"]["fits"], true);
    assert_eq!(own["content"]["body"], "1 parcel for you");
    push["variant"] = json!("loud");
    assert_eq!(preview(&mut client, &push)["content"]["title"], "A-42!!");
    push["variant"] = json!("silent");
    let problem = refused(client.post(&format!("{PATH}/preview"), &push), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/variant");
    let mut email = json!({"channel": "email", "variables": variables});
    let problem = refused(client.post(&format!("{PATH}/preview"), &email), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/userFacts");
    email["userFacts"] = ann;
    let html = preview(&mut client, &email)["content"]["html"].as_str().expect("a text").to_owned();
    assert!(html.contains("Hello Ann") && html.contains("Tea &amp; &lt;cake&gt;"), "{html}");
    email["variables"]["items"] = json!("none");
    let problem = refused(client.post(&format!("{PATH}/preview"), &email), "INVALID_VARIABLES");
    assert_eq!(problem["errors"][0]["pointer"], "/variables/items");
    email["channel"] = json!("inApp");
    email["variables"]["items"] = items;
    let problem = refused(client.post(&format!("{PATH}/preview"), &email), "INVALID_REQUEST");
    assert_eq!(problem["errors"][0]["pointer"], "/channel");
}

#[test]
fn work_without_end_is_stopped() {
    let server = Server::start();
    let mut client = server.client();
    let body = "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}\
                {% endfor %}{% endfor %}x";
    let endless =
        json!({"id": "e", "category": "c", "defaultLocale": "en", "channels": {"sms": {"body": body}}});
    let ask = json!({"definition": endless, "channel": "sms"});
    let problem = refused(client.post("/api/v1/templates/preview", &ask), "RENDER_FAILED");
    assert_eq!(problem["errors"][0]["pointer"], "/definition/channels/sms/body");
    let mut doubling = endless.clone();
    doubling["channels"]["sms"]["body"] =
        json!("{% set x = 'xx' %}{% for a in range(60) %}{% set x = x ~ x %}{% endfor %}{{ x }}");
    let ask = json!({"definition": doubling, "channel": "sms"});
    let problem = refused(client.post("/api/v1/templates/preview", &ask), "INVALID_TEMPLATE");
    assert_eq!(problem["errors"][0]["pointer"], "/definition/channels/sms/body");
    let mut draft = definition();
    draft["channels"]["sms"]["body"] = json!("Draft {{ orderId }}");
    let ask = json!({"definition": draft, "channel": "sms", "variables": {"orderId": "1", "items": []}});
    let shown = expect(client.post("/api/v1/templates/preview", &ask), 200);
    assert_eq!((&shown["content"]["body"], &shown["version"]), (&json!("Draft 1"), &Value::Null));
    assert_eq!(expect(client.get("/api/v1/templates"), 200)["templates"], json!([]), "drafts are not kept");
}

// proves: TEN-01
#[test]
fn tenants_have_their_own_templates_in_pages() {
    let server = Server::start();
    let mut admin = server.admin();
    let mut acme = server.with_key(&tenant_with_key(&mut admin, "acme", ALL_SCOPES));
    let mut globex = server.with_key(&tenant_with_key(&mut admin, "globex", ALL_SCOPES));
    for id in ["b", "a/1", "c", "ü"] {
        let path = format!("/api/v1/templates/{}", id.replace('/', "%2F").replace('ü', "%C3%BC"));
        let mut named = definition();
        named["id"] = json!(id);
        expect(send(&mut acme, ("PUT", &path), None, &named), 201);
        refused(globex.get(&path), "TEMPLATE_NOT_FOUND");
        refused(bare(&mut globex, "DELETE", &path), "TEMPLATE_NOT_FOUND");
    }
    assert_eq!(expect(globex.get("/api/v1/templates"), 200)["templates"], json!([]));
    let ids = |page: &Value| -> Vec<String> {
        let templates = page["templates"].as_array().expect("a list");
        templates.iter().map(|one| one["id"].as_str().expect("an id").to_owned()).collect()
    };
    let first = expect(acme.get("/api/v1/templates?limit=3"), 200);
    assert_eq!(ids(&first), ["a/1", "b", "c"]);
    let cursor = first["nextCursor"].as_str().expect("there is more");
    let second = expect(acme.get(&format!("/api/v1/templates?limit=3&cursor={cursor}")), 200);
    assert_eq!((ids(&second), &second["nextCursor"]), (vec!["ü".to_owned()], &Value::Null));
    refused(globex.get(&format!("/api/v1/templates?cursor={cursor}")), "INVALID_REQUEST");
}

#[test]
fn templates_survive_a_crash() {
    let server = Server::start();
    let mut client = server.client();
    create(&mut client);
    expect(put(&mut client, Some(("if-match", "\"1\"")), &with_title("Second")), 200);
    expect(client.post(&format!("{PATH}/activate"), &json!({"version": 1})), 200);
    let seen = |client: &mut Client| {
        let ask = json!({"channel": "push", "version": 2, "variables": {"orderId": "1", "items": []}});
        let read = expect(client.get(PATH), 200);
        json!([read, expect(client.get(&format!("{PATH}/versions")), 200), preview(client, &ask)])
    };
    let before = seen(&mut client);
    assert_eq!(before[2]["content"]["title"], "Second");
    let data = server.data.clone();
    let _directory = server.kill();
    let server = Server::start_in(&data, &[], &[]);
    assert_eq!(seen(&mut server.client()), before);
    server.stop();
}
