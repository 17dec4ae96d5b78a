//! Tenants, and the keys that act for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantCreate {
    /// Short name used in paths and headers: lower-case letters, digits and inner hyphens, at most 63.
    pub slug: String,
    /// The slug if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What is left out stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From this many followers on, a post is stored once and merged when followers read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celebrity_threshold: Option<u32>,
    /// How long inboxes keep an entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u32>,
    /// How fast its producers may ask, together. Only the server's admin key can change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// How much it may have. All limits are replaced: what is left out is as the server says, 0 is no limit. Only the
    /// server's admin key can change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// How much a tenant may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quota {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<u64>,
    /// Push tokens and webhooks of users, whatever their status; addresses of profiles are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<u64>,
    /// Recurring schedules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedules: Option<u64>,
    /// Notifications and events that wait for the time they are scheduled at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// Bytes of users, their devices and addresses, events, schedules and templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
}

/// What a tenant has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub users: u64,
    pub devices: u64,
    pub schedules: u64,
    pub waiting: u64,
    pub stored_bytes: u64,
}

/// A rate with a burst. A notification costs one for each recipient, an event one for each user it names and one if it
/// goes to a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    /// 0: no limit, whatever the server's default is.
    pub per_second: u32,
    /// What may be asked for at once after a rest; one second's worth if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    pub slug: String,
    pub name: String,
    pub celebrity_threshold: u32,
    pub retention_days: u32,
    /// Left out: the server's default holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// The limits that hold for it, its own or the server's; what is left out has none.
    pub quota: Quota,
    pub usage: Usage,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// Only while the tenant is being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<TenantDeletion>,
}

/// How far the deletion of a tenant is. When it is over, there is no such tenant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantDeletion {
    #[schemars(extend("format" = "date-time"))]
    pub requested_at: String,
    /// Rows that were removed so far. Counted anew from the last note after a crash, so it may be too low.
    pub removed_rows: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tenants {
    pub tenants: Vec<Tenant>,
}

/// What a key may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Scope {
    /// Post and retract events.
    #[serde(rename = "events:write")]
    EventsWrite,
    /// Send and cancel notifications, redrive and drop dead letters.
    #[serde(rename = "notifications:write")]
    NotificationsWrite,
    /// Say that something is critical, beside the scope to send it at all: it passes quiet hours and preferences.
    #[serde(rename = "send:critical")]
    SendCritical,
    /// Say what became of deliveries, as providers and those who speak for them do, and nothing else.
    #[serde(rename = "receipts:write")]
    ReceiptsWrite,
    /// Read what became of notifications.
    #[serde(rename = "notifications:read")]
    NotificationsRead,
    #[serde(rename = "inbox:read")]
    InboxRead,
    /// Mark, snooze and delete notifications.
    #[serde(rename = "inbox:write")]
    InboxWrite,
    /// Read users, follows and subscribers.
    #[serde(rename = "users:read")]
    UsersRead,
    #[serde(rename = "users:write")]
    UsersWrite,
    /// Read and preview templates.
    #[serde(rename = "templates:read")]
    TemplatesRead,
    #[serde(rename = "templates:write")]
    TemplatesWrite,
    /// Read what holds for categories and for users who say nothing.
    #[serde(rename = "categories:read")]
    CategoriesRead,
    #[serde(rename = "categories:write")]
    CategoriesWrite,
    /// Register and unregister devices, of any user: for a key on your server, never in an app. A webhook and a consent need
    /// `users:write`, too.
    #[serde(rename = "devices:write")]
    DevicesWrite,
    /// Manage the webhooks that tell what becomes of notifications.
    #[serde(rename = "webhooks:write")]
    WebhooksWrite,
    /// Manage accounts with providers.
    #[serde(rename = "providers:write")]
    ProvidersWrite,
    /// Read the audit log and its proofs.
    #[serde(rename = "audit:read")]
    AuditRead,
    /// Change the tenant's settings and its keys.
    #[serde(rename = "admin")]
    Admin,
}

impl Scope {
    pub const ALL: &[Self] = &[
        Self::EventsWrite,
        Self::NotificationsWrite,
        Self::SendCritical,
        Self::ReceiptsWrite,
        Self::NotificationsRead,
        Self::InboxRead,
        Self::InboxWrite,
        Self::UsersRead,
        Self::UsersWrite,
        Self::TemplatesRead,
        Self::TemplatesWrite,
        Self::CategoriesRead,
        Self::CategoriesWrite,
        Self::DevicesWrite,
        Self::WebhooksWrite,
        Self::ProvidersWrite,
        Self::AuditRead,
        Self::Admin,
    ];

    /// The frozen name.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::EventsWrite => "events:write",
            Self::NotificationsWrite => "notifications:write",
            Self::SendCritical => "send:critical",
            Self::ReceiptsWrite => "receipts:write",
            Self::NotificationsRead => "notifications:read",
            Self::InboxRead => "inbox:read",
            Self::InboxWrite => "inbox:write",
            Self::UsersRead => "users:read",
            Self::UsersWrite => "users:write",
            Self::TemplatesRead => "templates:read",
            Self::TemplatesWrite => "templates:write",
            Self::CategoriesRead => "categories:read",
            Self::CategoriesWrite => "categories:write",
            Self::DevicesWrite => "devices:write",
            Self::WebhooksWrite => "webhooks:write",
            Self::ProvidersWrite => "providers:write",
            Self::AuditRead => "audit:read",
            Self::Admin => "admin",
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyCreate {
    pub scopes: Vec<Scope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
    /// How fast its holder may ask; the tenant's own limit holds as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
}

/// A new key. `key` is shown this once and stored only as a hash.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyCreated {
    pub key_id: String,
    /// The secret: `Authorization: Bearer` and this.
    pub key: String,
    pub scopes: Vec<String>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
    /// Left out: the server's default holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    pub key_id: String,
    pub scopes: Vec<String>,
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub revoked_at: Option<String>,
    /// Left out: the server's default holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Keys {
    pub keys: Vec<Key>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_names_equal_their_json() {
        for scope in Scope::ALL {
            assert_eq!(serde_json::to_value(scope).expect("serializes"), scope.text());
        }
    }
}
