//! One full value of every shape, for readers of the document and for the test that shapes and schemas agree.

use super::{Example, SOON};
use fantail_wire::code::Code;
use fantail_wire::device::{
    Device, DeviceKind, DeviceRegister, DeviceRegistered, Devices, EndpointStatus, Platform, PushService,
    Suppression, SuppressionPut, SuppressionReason, TokenKind,
};
use fantail_wire::event::{
    AcceptedStatus, Action, Audience, Channel, CloudEvent, Content, EventAccepted, EventData, EventResult,
    EventsAccepted, Priority,
};
use fantail_wire::health::{Backup, Check, ClockAccepted, Readiness};
use fantail_wire::inbox::{Counts, Inbox, MarkResult, Marks, Notification, Snooze, Unsnooze};
use fantail_wire::list::{
    EdgesChanged, Follow, FollowState, Followers, Follows, FollowsBatch, ItemError, Subscribers,
    SubscribersBatch,
};
use fantail_wire::notification::SendOptions;
use fantail_wire::preference::ConsentPut;
use fantail_wire::problem::{FieldError, Problem};
use fantail_wire::tenant::{
    Key, KeyCreate, KeyCreated, Keys, Quota, RateLimit, Scope, Tenant, TenantChange, TenantCreate, Tenants,
    Usage,
};
use fantail_wire::user::{User, UserChannel, UserItem, UserPatch, UserPut, UsersBatch, UsersPut};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

const EVENT: &str = "01KG9V7W0R0000000000000001";
const REQUEST: &str = "01KG9V7W0R00000000000000RQ";
const TIME: &str = "2026-01-31T12:00:00.000Z";
const RATE: RateLimit = RateLimit { per_second: 100, burst: Some(500) };
const QUOTA: Quota = Quota {
    users: Some(100_000),
    devices: Some(300_000),
    schedules: Some(20),
    waiting: Some(10_000),
    stored_bytes: Some(1_073_741_824),
};
pub(super) const FAR_AHEAD: &str = "2099-01-31T12:00:00.000Z";
const CURSOR: &str = "AQIk3w8AAAAAAAAABw";

pub(super) fn text(text: &str) -> String {
    text.to_owned()
}

fn raw(json: &'static str) -> &'static RawValue {
    serde_json::from_str(json).expect("examples are JSON")
}

pub(super) fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn item_errors() -> Vec<ItemError> {
    vec![ItemError { index: 3, code: Code::UserNotFound, detail: text("no such user: zoe") }]
}

macro_rules! examples {
    ($($shape:ty => $value:expr;)*) => {
        $(impl Example for $shape {
            fn example() -> Self {
                $value
            }
        })*
    };
}
pub(super) use examples;

examples! {
    CloudEvent => CloudEvent {
        specversion: text("1.0"),
        id: text("post-42"),
        source: text("/blog"),
        kind: text("post.created"),
        actor: Some(text("ann")),
        time: Some(text(TIME)),
        data: EventData {
            audience: Audience::FollowersOf(text("ann")),
            channels: vec![Channel::Push],
            ttl: None,
            options: SendOptions { ttl: Some(3_600), collapse_key: Some(text("ann-posts")), ..SendOptions::default() },
            category: Some(text("posts")),
            priority: Some(Priority::Normal),
            content: Some(Content {
                title: text("Ann wrote a post"),
                body: Some(text("Ten things about gardens")),
                data: Some(map(json!({"postId": 42}))),
                image_url: Some(text("https://example.com/garden.jpg")),
                actions: vec![Action {
                    id: text("open"),
                    title: text("Read"),
                    url: Some(text("https://example.com/posts/42")),
                }],
            }),
            template_id: None,
            template_version: None,
            variables: Map::new(),
        },
    };
    EventAccepted => EventAccepted {
        request_id: text(REQUEST),
        event_id: text(EVENT),
        status: AcceptedStatus::Accepted,
    };
    EventsAccepted => EventsAccepted {
        request_id: text(REQUEST),
        events: vec![
            EventResult::Accepted { event_id: text(EVENT), replayed: false },
            EventResult::Refused { code: Code::DuplicateNotification, detail: text("used for another event") },
        ],
    };
    UserPut => UserPut {
        attributes: map(json!({"plan": "pro"})),
        email: Some(text("bob@example.com")),
        phone: Some(text("+436601234567")),
        locale: Some(text("de-AT")),
        timezone: Some(text("Europe/Vienna")),
    };
    UserPatch => UserPatch {
        attributes: Some(map(json!({"plan": "pro"}))),
        email: Some(text("bob@example.com")),
        phone: Some(text("+436601234567")),
        locale: Some(text("de-AT")),
        timezone: Some(text("Europe/Vienna")),
    };
    UsersBatch => UsersBatch {
        users: vec![UserItem {
            user_id: text("bob"),
            attributes: map(json!({"plan": "free"})),
            email: Some(text("bob@example.com")),
            phone: Some(text("+436601234567")),
            locale: Some(text("de-AT")),
            timezone: Some(text("Europe/Vienna")),
        }],
    };
    User<'static> => User {
        user_id: "bob",
        attributes: raw(r#"{"plan":"pro"}"#),
        email: Some("bob@example.com"),
        phone: Some("+436601234567"),
        locale: Some("de-AT"),
        timezone: Some("Europe/Vienna"),
        channels: vec![UserChannel { channel: text("email"), status: EndpointStatus::Active }],
        created_at: text(TIME),
        updated_at: text(TIME),
    };
    UsersPut => UsersPut { created: 1, updated: 2, errors: item_errors() };
    DeviceRegister => DeviceRegister {
        user_id: text("bob"),
        device_id: text("bobs-phone"),
        kind: DeviceKind::Push,
        platform: Some(Platform::Android),
        token: Some(text("fcm-registration-token")),
        service: Some(PushService::Fcm),
        environment: None,
        token_kind: Some(TokenKind::Token),
        app_id: Some(text("my-project")),
        subscription: None,
        url: None,
        secret: None,
        previous_secret: None,
        previous_until: None,
        app_version: Some(text("4.2.0")),
        consent: Some(ConsentPut::example()),
    };
    DeviceRegistered => DeviceRegistered {
        device_id: text("bobs-phone"),
        status: EndpointStatus::Pending,
    };
    Devices => Devices {
        devices: vec![Device {
            device_id: text("bobs-phone"),
            kind: DeviceKind::Push,
            platform: Some(Platform::Ios),
            app_version: Some(text("4.2.0")),
            status: EndpointStatus::Active,
            registered_at: text(TIME),
            last_seen_at: text(TIME),
        }],
    };
    SuppressionPut => SuppressionPut { reason: SuppressionReason::HardBounce };
    Suppression => Suppression {
        channel: text("email"),
        address: text("bob@example.com"),
        reason: SuppressionReason::HardBounce,
        since: text(TIME),
    };
    FollowsBatch => FollowsBatch { follows: vec![Follow { user: text("bob"), actor: text("ann") }] };
    SubscribersBatch => SubscribersBatch { users: vec![text("bob")] };
    EdgesChanged => EdgesChanged { changed: 2, unchanged: 1, errors: item_errors() };
    FollowState => FollowState { following: true };
    Follows => Follows { follows: vec![text("ann")], count: 1, next_cursor: Some(text(CURSOR)) };
    Followers => Followers { followers: vec![text("bob")], count: 1, next_cursor: Some(text(CURSOR)) };
    Subscribers => Subscribers { subscribers: vec![text("bob")], count: 1, next_cursor: Some(text(CURSOR)) };
    Notification<'static> => Notification {
        event_id: text(EVENT),
        notification_id: Some("order-42-shipped"),
        created_at: text(TIME),
        kind: "post.created",
        category: "posts",
        priority: Priority::Normal,
        actor: Some("ann"),
        content: Some(Cow::Borrowed(raw(r#"{"title":"Ann wrote a post","data":{"postId":42}}"#))),
        seen: true,
        read: false,
        archived: false,
        snoozed_until: Some(text(TIME)),
    };
    Inbox<'static> => Inbox {
        notifications: vec![Notification::example()],
        next_cursor: Some(text(CURSOR)),
        since_cursor: text(CURSOR),
        unread: 1,
        unseen: 0,
    };
    Marks => Marks { ids: Some(vec![text("order-42-shipped")]), all: None, before: None };
    Snooze => Snooze { ids: vec![text("order-42-shipped")], until: text(SOON) };
    Unsnooze => Unsnooze { ids: vec![text("order-42-shipped")] };
    Counts => Counts { unread: 1, unseen: 0 };
    MarkResult => MarkResult { unread: 3, unseen: 1, unknown: vec![text("01KG9V7W0R0000000000000001")] };
    TenantCreate => TenantCreate { slug: text("acme"), name: Some(text("Acme")) };
    TenantChange => TenantChange {
        name: Some(text("Acme")),
        celebrity_threshold: Some(10_000),
        retention_days: Some(90),
        rate_limit: Some(RATE),
        quota: Some(QUOTA),
    };
    Tenant => Tenant {
        slug: text("acme"),
        name: text("Acme"),
        celebrity_threshold: 10_000,
        retention_days: 90,
        rate_limit: Some(RATE),
        quota: QUOTA,
        usage: Usage { users: 1_204, devices: 2_310, schedules: 3, waiting: 17, stored_bytes: 1_048_576 },
        created_at: text(TIME),
    };
    Tenants => Tenants { tenants: vec![Tenant::example()] };
    KeyCreate => KeyCreate {
        scopes: vec![Scope::EventsWrite, Scope::InboxRead],
        expires_at: Some(text(FAR_AHEAD)),
        rate_limit: Some(RATE),
    };
    KeyCreated => KeyCreated {
        key_id: text("3mBqZ81kXw0P"),
        key: text("ft_3mBqZ81kXw0P_…"),
        scopes: vec![text("events:write"), text("inbox:read")],
        created_at: text(TIME),
        expires_at: Some(text(TIME)),
        rate_limit: Some(RATE),
    };
    Keys => Keys {
        keys: vec![Key {
            key_id: text("3mBqZ81kXw0P"),
            scopes: vec![text("inbox:read")],
            created_at: text(TIME),
            expires_at: Some(text(TIME)),
            revoked_at: Some(text(TIME)),
            rate_limit: Some(RATE),
        }],
    };
    Readiness => Readiness {
        ready: true,
        version: text("0.1.0"),
        checks: vec![Check { name: text("journal"), ok: true, detail: text("sealed, 3 segments") }],
    };
    ClockAccepted => ClockAccepted { now: text("2026-11-18T09:30:00.000Z"), offset_seconds: 1_209_600 };
    Backup => Backup { path: text("/var/lib/fantail/backups/01KG9V7W0R"), bytes: 1_048_576 };
    Problem => Problem {
        kind: text("/errors/invalid-request"),
        title: text(Code::InvalidRequest.title()),
        status: 422,
        detail: text("a field is invalid"),
        code: Code::InvalidRequest,
        request_id: text(REQUEST),
        errors: vec![FieldError::new("/data/content/title", "must not be empty")],
    };
}
