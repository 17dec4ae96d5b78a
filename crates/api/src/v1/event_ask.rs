//! From a CloudEvent to what the node is asked: every field checked, defaults filled in, the content made canonical.
//!
//! What must never happen: two requests that mean the same with different hashes, or the reverse. The hash is over
//! the decoded values, so white space, field order and extension attributes do not matter.

use crate::check::{Faults, image_url_fault, url_fault};
use crate::pointer::Pointer;
use crate::v1::option_ask::{check_channels, options_of, ttl_of};
use aws_lc_rs::digest::{Context, SHA256};
use fantail_node::ask::{AudienceAsk, ChannelKind, EventAsk, OptionsAsk, Priority};
use fantail_node::named::Named;
use fantail_rules::ids::Millis;
use fantail_rules::limits::{
    ACTIONS_MAX, BODY_TEXT_BYTES_MAX, CATEGORY_BYTES_MAX, CONTENT_BYTES_MAX, EXPLICIT_USERS_MAX,
    NAME_BYTES_MAX, TITLE_BYTES_MAX,
};
use fantail_rules::schedule::Appointment;
use fantail_wire::event::{
    Audience, Channel as WireChannel, CloudEvent, Content, EventData, Priority as WirePriority,
};
use serde_json::json;

const CATEGORY_DEFAULT: &str = "general";

/// Checks one event; `at` is where it stands in the request. Faults go to `faults`, and then the result is not used. A new event
/// needs a name that people can see; what an event only mentions, as its type or its actor, may be called anything.
pub fn ask_of(
    event: CloudEvent,
    at: Pointer<'_>,
    now: Millis,
    is_taken: &dyn Fn(Named<'_>) -> bool,
    faults: &mut Faults,
) -> EventAsk {
    if event.specversion != "1.0" {
        faults.add(at.key("specversion"), "must be 1.0");
    }
    let itself = Named::Event { source: &event.source, id: &event.id };
    faults.new_name(at.key("id"), &event.id, || is_taken(itself));
    faults.name(at.key("source"), &event.source);
    faults.name(at.key("type"), &event.kind);
    if let Some(actor) = &event.actor {
        faults.name(at.key("actor"), actor);
    }
    if event.time.is_some_and(|time| time.parse::<jiff::Timestamp>().is_err()) {
        faults.add(at.key("time"), "must be a time like 2026-01-31T12:00:00Z");
    }
    let data = at.key("data");
    let content = told_of(&event.data, data, faults);
    let (audience, actor) =
        audience_of(event.data.audience, event.actor, data.key("audience"), at.key("actor"), faults);
    let category = event.data.category.unwrap_or_else(|| CATEGORY_DEFAULT.to_owned());
    faults.text(data.key("category"), &category, CATEGORY_BYTES_MAX);
    faults.name(data.key("category"), &category);
    let priority = event.data.priority.map_or_else(|| Priority::of_category(&category), priority_of);
    let channels = event.data.channels.iter().copied().map(channel_of).collect();
    let wishes = data.key("options");
    let options = options_of(&event.data.options, wishes, now, faults);
    check_channels(&options, &event.data.channels, data.key("channels"), faults);
    let ttl_ms = match (event.data.ttl, event.data.options.ttl) {
        (own @ Some(_), Some(_)) => {
            faults.add(wishes.key("ttl"), "is said by data.ttl already");
            ttl_of(own, data.key("ttl"), faults)
        }
        (None, Some(ttl)) => ttl_of(Some(ttl), wishes.key("ttl"), faults),
        (ttl, None) => ttl_of(ttl, data.key("ttl"), faults),
    };
    let mut ask = EventAsk {
        source: event.source,
        id: event.id,
        kind: event.kind,
        actor,
        audience,
        category,
        priority,
        channels,
        ttl_ms,
        options,
        content,
        body_hash: [0; 16],
    };
    if faults.is_empty() {
        ask.body_hash = hash_of(&ask);
    }
    ask
}

/// What is told; for a template, which one and with what, until it is rendered.
fn told_of(told: &EventData, data: Pointer<'_>, faults: &mut Faults) -> Vec<u8> {
    match (&told.content, &told.template_id) {
        (Some(content), None) => content_of(content, data.key("content"), faults),
        (None, Some(id)) => {
            faults.name(data.key("templateId"), id);
            json!({"template": id, "version": told.template_version, "variables": told.variables})
                .to_string()
                .into_bytes()
        }
        (Some(_), Some(_)) | (None, None) => {
            faults.add(data.key("content"), content_fault(told.content.is_some()));
            Vec::new()
        }
    }
}

/// For a request with both of them, or with none.
pub fn content_fault(is_given: bool) -> &'static str {
    match is_given {
        true => "give either content or templateId, not both",
        false => "either content or templateId is required",
    }
}

fn audience_of(
    audience: Audience,
    actor: Option<String>,
    at: Pointer<'_>,
    actor_at: Pointer<'_>,
    faults: &mut Faults,
) -> (AudienceAsk, Option<String>) {
    match audience {
        Audience::Users(users) => {
            let list = at.key("users");
            if users.is_empty() || users.len() > EXPLICIT_USERS_MAX {
                faults.add(list, format!("must have 1 to {EXPLICIT_USERS_MAX} users"));
            }
            for (index, user) in users.iter().enumerate().take(EXPLICIT_USERS_MAX) {
                faults.name(list.index(index), user);
            }
            (AudienceAsk::Users(users), actor)
        }
        Audience::FollowersOf(owner) => {
            faults.name(at.key("followersOf"), &owner);
            if actor.as_ref().is_some_and(|actor| *actor != owner) {
                faults.add(actor_at, "must be the owner of the list in followersOf");
            }
            (AudienceAsk::FollowersOf(owner.clone()), Some(owner))
        }
        Audience::Topic(topic) => {
            faults.name(at.key("topic"), &topic);
            (AudienceAsk::Topic(topic), actor)
        }
        Audience::Segment(segment) => {
            faults.name(at.key("segment"), &segment);
            (AudienceAsk::Segment(segment), actor)
        }
    }
}

/// Checks the content and returns its canonical JSON: fields in frozen order, keys of `data` sorted.
pub fn content_of(content: &Content, at: Pointer<'_>, faults: &mut Faults) -> Vec<u8> {
    faults.text(at.key("title"), &content.title, TITLE_BYTES_MAX);
    if let Some(body) = &content.body
        && body.len() > BODY_TEXT_BYTES_MAX
    {
        faults.add(at.key("body"), format!("must have at most {BODY_TEXT_BYTES_MAX} bytes"));
    }
    if let Some(url) = &content.image_url {
        faults.add_some(at.key("imageUrl"), image_url_fault(url));
    }
    check_actions(content, at, faults);
    let bytes = serde_json::to_vec(content).expect("content has string keys and finite numbers");
    if bytes.len() > CONTENT_BYTES_MAX {
        faults.add(at, format!("must have at most {CONTENT_BYTES_MAX} bytes as JSON"));
    }
    bytes
}

fn check_actions(content: &Content, at: Pointer<'_>, faults: &mut Faults) {
    let list = at.key("actions");
    if content.actions.len() > ACTIONS_MAX {
        faults.add(list, format!("must have at most {ACTIONS_MAX} actions"));
        return;
    }
    for (index, action) in content.actions.iter().enumerate() {
        let at = list.index(index);
        faults.name(at.key("id"), &action.id);
        faults.text(at.key("title"), &action.title, NAME_BYTES_MAX);
        if let Some(url) = &action.url {
            faults.add_some(at.key("url"), url_fault(url));
        }
        if content.actions[..index].iter().any(|earlier| earlier.id == action.id) {
            faults.add(at.key("id"), "used by an earlier action");
        }
    }
}

pub fn channel_of(channel: WireChannel) -> ChannelKind {
    match channel {
        WireChannel::InApp => ChannelKind::InApp,
        WireChannel::Push => ChannelKind::Push,
        WireChannel::Email => ChannelKind::Email,
        WireChannel::Sms => ChannelKind::Sms,
        WireChannel::Webhook => ChannelKind::Webhook,
    }
}

pub fn priority_of(priority: WirePriority) -> Priority {
    match priority {
        WirePriority::Critical => Priority::Critical,
        WirePriority::High => Priority::High,
        WirePriority::Normal => Priority::Normal,
        WirePriority::Low => Priority::Low,
    }
}

/// Everything the event says except its own name (`source`, `id`), each part with its length, so that no two
/// different requests write the same bytes.
fn hash_of(ask: &EventAsk) -> [u8; 16] {
    let mut hash = Context::new(&SHA256);
    let mut part = |bytes: &[u8]| {
        hash.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(bytes);
    };
    part(ask.kind.as_bytes());
    part(ask.actor.as_deref().unwrap_or_default().as_bytes());
    match &ask.audience {
        AudienceAsk::Users(users) => {
            part(b"users");
            part(&u64::try_from(users.len()).unwrap_or(u64::MAX).to_be_bytes());
            users.iter().for_each(|user| part(user.as_bytes()));
        }
        AudienceAsk::FollowersOf(owner) => {
            part(b"followersOf");
            part(owner.as_bytes());
        }
        AudienceAsk::Topic(topic) => {
            part(b"topic");
            part(topic.as_bytes());
        }
        AudienceAsk::Segment(segment) => {
            part(b"segment");
            part(segment.as_bytes());
        }
    }
    part(ask.category.as_bytes());
    part(&[ask.priority as u8]);
    // What an earlier version could not say adds nothing, so that its hashes stay.
    if !ask.channels.is_empty() {
        part(&[ask.channels.bits()]);
        part(&ask.ttl_ms.to_be_bytes());
    }
    if ask.options != OptionsAsk::default() {
        let OptionsAsk { due, appointment, cancellation_key, collapse_key, is_sensitive } = &ask.options;
        let appointment = Appointment::to_word(*appointment);
        let said = json!([due.map(|due| due.0), appointment, cancellation_key, collapse_key, is_sensitive]);
        part(b"options");
        part(said.to_string().as_bytes());
    }
    part(&ask.content);
    let digest = hash.finish();
    let mut head = [0; 16];
    head.copy_from_slice(&digest.as_ref()[..16]);
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn base() -> Value {
        json!({
            "specversion": "1.0", "id": "1", "source": "/s", "type": "post.created",
            "data": {"audience": {"followersOf": "ann"}, "content": {"title": "Hello"}},
        })
    }

    fn ask(event: &Value) -> Result<EventAsk, Vec<String>> {
        let event = serde_json::from_value(event.clone()).map_err(|error| vec![error.to_string()])?;
        let mut faults = Faults::default();
        let ask = ask_of(event, Pointer::ROOT, Millis(1_769_860_800_000), &|_| false, &mut faults);
        match faults.into_result() {
            Ok(()) => Ok(ask),
            Err(problem) => Err(problem.errors.into_iter().map(|error| error.pointer).collect()),
        }
    }

    /// The base event with one place changed.
    fn with(pointer: &str, value: Value) -> Value {
        let mut event = base();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        event.pointer_mut(parent).expect("a parent")[key] = value;
        event
    }

    #[test]
    fn faults_point_at_their_field() {
        let long = "x".repeat(10_000);
        let many: Vec<_> = (0..6).map(|n| json!({"id": n.to_string(), "title": "t"})).collect();
        let cases = [
            ("/specversion", json!("0.3"), "/specversion"),
            ("/id", json!(""), "/id"),
            ("/source", json!("a\nb"), "/source"),
            ("/type", json!(long), "/type"),
            ("/actor", json!("bob"), "/actor"),
            ("/data/audience", json!({"users": []}), "/data/audience/users"),
            ("/data/audience", json!({"users": ["a", ""]}), "/data/audience/users/1"),
            ("/data/audience", json!({"topic": ""}), "/data/audience/topic"),
            ("/data/category", json!("x".repeat(65)), "/data/category"),
            ("/data/options", json!({"ttl": 59}), "/data/options/ttl"),
            ("/data/options", json!({"collapseKey": "a b"}), "/data/options/collapseKey"),
            ("/data/options", json!({"scheduledAt": "soon"}), "/data/options/scheduledAt"),
            ("/data/options", json!({"cancellationKey": ""}), "/data/options/cancellationKey"),
            ("/data/templateId", json!("both"), "/data/content"),
            ("/data/content", json!(null), "/data/content"),
            ("/data/content", json!({"title": ""}), "/data/content/title"),
            ("/data/content", json!({"title": "t", "body": long}), "/data/content/body"),
            ("/data/content", json!({"title": "t", "imageUrl": "javascript:x"}), "/data/content/imageUrl"),
            ("/data/content", json!({"title": "t", "data": {"x": "y".repeat(40_000)}}), "/data/content"),
            ("/data/content", json!({"title": "t", "actions": many}), "/data/content/actions"),
            (
                "/data/content",
                json!({"title": "t", "actions": [{"id": "a", "title": "A"}, {"id": "a", "title": "B"}]}),
                "/data/content/actions/1/id",
            ),
            (
                "/data/content",
                json!({"title": "t", "actions": [{"id": "a", "title": "A", "url": "data:x"}]}),
                "/data/content/actions/0/url",
            ),
        ];
        for (place, value, pointer) in cases {
            assert_eq!(ask(&with(place, value)).expect_err(pointer), [pointer]);
        }
        assert!(ask(&base()).is_ok());
        let mut twice = with("/data/ttl", json!(60));
        twice["data"]["options"] = json!({"ttl": 60});
        assert_eq!(ask(&twice).expect_err("said twice"), ["/data/options/ttl"]);
    }

    // proves: API-02, DED-08
    #[test]
    fn equal_meaning_has_equal_hash() {
        let first = r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","actor":"ann","traceparent":"a",
            "data":{"audience":{"followersOf":"ann"},"category":"general","priority":"normal",
            "content":{"title":"x","data":{"b":[1,{"d":2,"c":3}],"a":1.0}}}}"#;
        let second = r#"{"data":{"content":{"data":{"a":1.0,"b":[1,{"c":3,"d":2}]},"title":"\u0078","actions":[]},
            "audience":{"followersOf":"ann"}},"type":"t","source":"/s","id":"1","specversion":"1.0",
            "traceparent":"b"}"#;
        let hash = |text: &str| {
            let event: Value = serde_json::from_str(text).expect("JSON");
            ask(&event).expect("valid").body_hash
        };
        assert_eq!(hash(first), hash(second));
    }

    #[test]
    fn other_meaning_has_other_hash() {
        let changes = [
            ("/type", json!("other")),
            ("/data/audience", json!({"topic": "ann"})),
            ("/data/audience", json!({"users": ["ann"]})),
            ("/data/audience", json!({"users": ["an", "n"]})),
            ("/data/category", json!("likes")),
            ("/data/priority", json!("low")),
            ("/data/options", json!({"collapseKey": "k"})),
            ("/data/options", json!({"cancellationKey": "k"})),
            ("/data/options", json!({"sensitive": true})),
            ("/data/options", json!({"scheduledAt": "2026-01-31T13:00:00Z"})),
            ("/data/options", json!({"sendAtLocal": "13:00"})),
            ("/data/options", json!({"sendAtLocal": "2026-01-31T13:00"})),
            ("/data/options", json!({"offPeak": {"start": "13:00", "end": "14:00"}})),
            ("/data/content", json!({"title": "Hello", "body": ""})),
            ("/data/content", json!({"title": "Hello", "data": {"a": 1}})),
            ("/data/content", json!({"title": "Hello", "data": {"a": "1"}})),
        ];
        let mut seen = vec![ask(&base()).expect("valid").body_hash];
        for (place, value) in changes {
            let hash = ask(&with(place, value)).expect("valid").body_hash;
            assert!(!seen.contains(&hash), "{place}");
            seen.push(hash);
        }
        for (template, version, variables) in [
            ("a", None, json!({})),
            ("b", None, json!({})),
            ("a", Some(1), json!({})),
            ("a", None, json!({"x": 1})),
        ] {
            let mut event = base();
            event["data"] = json!({
                "audience": {"followersOf": "ann"}, "templateId": template, "templateVersion": version,
                "variables": variables,
            });
            let hash = ask(&event).expect("valid").body_hash;
            assert!(!seen.contains(&hash), "{template} {version:?} {variables}");
            seen.push(hash);
        }
        let renamed = ask(&with("/id", json!("2"))).expect("valid").body_hash;
        assert_eq!(renamed, seen[0], "the name of the event is not its content");
    }

    // proves: DEL-19, API-02
    #[test]
    fn options_that_say_nothing_are_as_none() {
        let plain = ask(&base()).expect("valid");
        let said = ask(&with("/data/options", json!({"sensitive": false}))).expect("valid");
        assert_eq!((said.body_hash, said.ttl_ms), (plain.body_hash, plain.ttl_ms));
        let both = [with("/data/options", json!({"ttl": 60})), with("/data/ttl", json!(60))];
        let [first, second] = both.map(|event| ask(&event).expect("valid"));
        assert_eq!((first.ttl_ms, first.body_hash), (60_000, second.body_hash));
    }

    // proves: PRI-03
    #[test]
    fn priority_follows_the_category_unless_given() {
        let cases = [
            ("security", Priority::Critical),
            ("transaction", Priority::Critical),
            ("message", Priority::High),
            ("mention", Priority::High),
            ("marketing", Priority::Low),
            ("digest", Priority::Low),
            ("anything", Priority::Normal),
        ];
        for (category, expected) in cases {
            let mut event = with("/data/category", json!(category));
            assert_eq!(ask(&event).expect("valid").priority, expected, "{category}");
            event["data"]["priority"] = json!("low");
            assert_eq!(ask(&event).expect("valid").priority, Priority::Low);
        }
        assert_eq!(ask(&base()).expect("valid").category, "general");
    }

    #[test]
    fn an_actor_is_only_mentioned_and_may_be_called_anything() {
        let actor = "Shop\u{200b} ";
        for audience in [json!({"users": ["bob"]}), json!({"topic": "t"}), json!({"followersOf": actor})] {
            let mut event = with("/data/audience", audience.clone());
            event["actor"] = json!(actor);
            assert_eq!(ask(&event).expect("valid").actor.as_deref(), Some(actor), "{audience}");
        }
        let owner = with("/data/audience", json!({"followersOf": actor}));
        assert_eq!(ask(&owner).expect("valid").actor.as_deref(), Some(actor));
        for never in ["", "a\nb"] {
            assert_eq!(ask(&with("/actor", json!(never))).expect_err("never a name"), ["/actor", "/actor"]);
        }
    }

    #[test]
    fn the_owner_of_the_list_is_the_actor() {
        assert_eq!(ask(&base()).expect("valid").actor.as_deref(), Some("ann"));
        assert_eq!(ask(&with("/actor", json!("ann"))).expect("valid").actor.as_deref(), Some("ann"));
        let topic = with("/data/audience", json!({"topic": "t"}));
        assert_eq!(ask(&topic).expect("valid").actor, None);
    }
}
