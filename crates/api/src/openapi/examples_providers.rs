//! Examples of accounts with providers.

use super::Example;
use super::examples::{FAR_AHEAD, examples, text};
use fantail_wire::provider::{
    Provider, ProviderHop, ProviderKind, ProviderPut, ProviderRotate, ProviderStanding, ProviderTest,
    Providers,
};
use serde_json::{Map, Value, json};

const TIME: &str = "2026-11-15T08:30:00.000Z";

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn settings() -> Map<String, Value> {
    object(json!({"teamId": "ABCDE12345", "keyId": "KEY1234567", "topic": "com.example.app"}))
}

fn provider() -> Provider {
    Provider {
        provider_id: text("ios"),
        kind: ProviderKind::Apns,
        channel: text("push"),
        settings: settings(),
        order: 0,
        weight: 1,
        per_second: Some(5_000),
        concurrency: Some(2_000),
        enabled: true,
        credentials_expire_at: Some(text(TIME)),
        version: 3,
        created_at: text(TIME),
        updated_at: text(TIME),
        application_server_key: Some(text("BCV… (of webPush only)")),
        callback_url: None,
        former_callback_url_until: None,
        standing: Some(ProviderStanding {
            usable: true,
            resting: false,
            in_flight: 12,
            answered: 4_500,
            rests: 2,
            failures: 1,
        }),
    }
}

examples! {
    ProviderPut => ProviderPut {
        kind: ProviderKind::Smtp,
        settings: object(json!({
            "host": "smtp.example.com", "port": 587, "security": "starttls", "fromAddress": "news@example.com",
        })),
        credentials: Some(object(json!({"username": "news", "password": "a password"}))),
        order: 0,
        weight: 1,
        per_second: Some(50),
        concurrency: Some(10),
        enabled: true,
        credentials_expire_at: Some(text(FAR_AHEAD)),
    };
    ProviderRotate => ProviderRotate { keep_seconds: Some(86_400) };
    Provider => provider();
    Providers => Providers { providers: vec![provider()], sandbox: false };
    ProviderTest => ProviderTest {
        ok: true,
        hops: vec![ProviderHop { name: text("connect"), ok: true, detail: text("api.push.apple.com:443") }],
    };
}
