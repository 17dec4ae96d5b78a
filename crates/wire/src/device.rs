//! Devices of users, and addresses that nothing is sent to.

use crate::preference::ConsentPut;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A device, or a webhook of a user. Registering it again under the same `deviceId` replaces its token.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceRegister {
    pub user_id: String,
    /// The producer's name for the device; stable across tokens.
    pub device_id: String,
    #[serde(default)]
    pub kind: DeviceKind,
    /// Needed for push.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// What the push service gave the app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Which service pushes to it, if it is another than the platform's own: `apns` for ios, `fcm` for android, `webPush` for web.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<PushService>,
    /// Of APNs: a build for development has tokens of the sandbox. `production` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<PushEnvironment>,
    /// Of FCM: whether `token` is a registration token or an installation id. `token` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_kind: Option<TokenKind>,
    /// The app that the token belongs to: a bundle id (APNs) or a project id (FCM). Needed only if the tenant has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// What `PushManager.subscribe` gave the page, instead of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<Subscription>,
    /// Where a webhook is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// With what its calls are signed; needed for webhooks: `whsec_` and the base64 of 24 to 64 bytes, or `whsk_` and a
    /// private key (Ed25519).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The secret of before, with which calls are signed too until `previousUntil`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_secret: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub previous_until: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    /// What the user said about push when the app asked; without a grant nothing is pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<ConsentPut>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PushService {
    Apns,
    Fcm,
    WebPush,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PushEnvironment {
    #[default]
    Production,
    Sandbox,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TokenKind {
    #[default]
    Token,
    Fid,
}

/// A subscription as browsers give it. What else they put in is passed over.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subscription {
    pub endpoint: String,
    pub keys: SubscriptionKeys,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionKeys {
    /// The browser's public key, base64url.
    pub p256dh: String,
    pub auth: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DeviceKind {
    #[default]
    Push,
    Webhook,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Platform {
    Ios,
    Android,
    Web,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EndpointStatus {
    /// Stored; used as soon as whoever had the address before has let go of it, usually within milliseconds.
    Pending,
    Active,
    /// Silent for 30 days: nothing is sent there until it registers again.
    Stale,
    /// Silent for 270 days.
    Expired,
    /// The provider says that nobody is there.
    Dead,
    /// The address belongs to another user now.
    Released,
    /// The address is on the suppression list.
    Suppressed,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRegistered {
    pub device_id: String,
    pub status: EndpointStatus,
}

/// A registered device. Tokens, URLs and secrets are not shown again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    pub device_id: String,
    pub kind: DeviceKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    pub status: EndpointStatus,
    #[schemars(extend("format" = "date-time"))]
    pub registered_at: String,
    #[schemars(extend("format" = "date-time"))]
    pub last_seen_at: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Devices {
    pub devices: Vec<Device>,
}

/// Why nothing is sent to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SuppressionReason {
    DeadEndpoint,
    HardBounce,
    Complaint,
    Stop,
    #[default]
    Manual,
}

/// The body of `PUT suppressions/{channel}/{address}`. An empty body is an empty object.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SuppressionPut {
    #[serde(default)]
    pub reason: SuppressionReason,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suppression {
    /// A keyed hash of channel and address, the same in the list: 32 hexadecimal digits.
    pub address_hash: String,
    pub channel: String,
    /// As it is written down, which may differ from how it was asked for.
    pub address: String,
    pub reason: SuppressionReason,
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
}

/// A page of the suppression list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suppressions {
    pub suppressions: Vec<ListedSuppression>,
    /// There may be more, also behind an empty page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An entry of the suppression list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedSuppression {
    /// A keyed hash of channel and address, the same in `GET suppressions/{channel}/{address}`: 32 hexadecimal digits.
    pub address_hash: String,
    /// Known as long as a user or a recipient without a name has the address, as are `address` and `userId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// A mail address or a phone number. Push tokens and URLs are never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    pub reason: SuppressionReason,
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
}
