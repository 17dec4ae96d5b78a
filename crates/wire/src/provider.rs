//! Accounts with providers: what a tenant's push, mail and text messages go through.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ProviderKind {
    Apns,
    Fcm,
    WebPush,
    Ses,
    Smtp,
    Twilio,
}

/// The body of `PUT providers/{provider}`: all that is to hold for the account.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderPut {
    pub kind: ProviderKind,
    /// Of the kind: see docs/providers. Nothing secret belongs here.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// Of the kind: keys, passwords and tokens. Kept sealed and never shown again. Left out, those of before stay, unless the
    /// settings send them elsewhere or protect them less; a new account of `webPush` makes its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Map<String, Value>>,
    /// Accounts of a lower order are asked first.
    #[serde(default)]
    pub order: u16,
    /// The share of users among accounts of the same order. Each user stays with one of them.
    #[serde(default = "one")]
    pub weight: u16,
    /// Messages that may begin in a second; as usual for the kind if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u32>,
    /// Messages that may be under way at once; as usual for the kind if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    #[serde(default = "yes")]
    pub enabled: bool,
    /// When the credentials end, if that is known: an alarm is raised in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub credentials_expire_at: Option<String>,
}

fn one() -> u16 {
    1
}

fn yes() -> bool {
    true
}

/// An account, without its credentials.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    pub provider_id: String,
    pub kind: ProviderKind,
    /// push, email or sms.
    pub channel: String,
    pub settings: Map<String, Value>,
    pub order: u16,
    pub weight: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    pub enabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub credentials_expire_at: Option<String>,
    pub version: u32,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
    /// Of `webPush`: what pages give to `PushManager.subscribe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_server_key: Option<String>,
    /// Where the provider calls back: topics of SNS and numbers of Twilio are pointed at it, reports of mail servers (`smtp`) are
    /// posted to it. The one of `smtp` has a secret in it: whoever knows it can say that mails bounced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// Until when an address before this one is believed, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub former_callback_url_until: Option<String>,
    /// How it is doing on this server; left out while it is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<ProviderStanding>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderStanding {
    /// Settings and credentials could be read.
    pub usable: bool,
    /// It asked for a rest, or does not work and is left alone for a while.
    pub resting: bool,
    pub in_flight: u32,
    /// Answers since the account was last changed: about the message, for a rest, and failures.
    pub answered: u64,
    pub rests: u64,
    pub failures: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Providers {
    pub providers: Vec<Provider>,
    /// Whether what is sent goes to the sandbox inside the server, and to nobody: as long as there was never an account.
    pub sandbox: bool,
}

/// The body of `POST providers/{provider}/rotate`. An empty body is an empty object.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderRotate {
    /// How long the address before is believed; a week if left out. With 0 no address before is believed any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_seconds: Option<u64>,
}

/// What a test of an account found, hop by hop. Nothing was sent to anybody.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderTest {
    pub ok: bool,
    pub hops: Vec<ProviderHop>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderHop {
    pub name: String,
    pub ok: bool,
    pub detail: String,
}
