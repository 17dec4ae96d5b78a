//! Tenants and their keys as callers ask for them and see them.

use fantail_rules::ids::{Millis, TenantId};
pub use fantail_rules::pacing::Rate;
pub use fantail_rules::quota::{Amounts, Quota, Resource};

#[derive(Clone, Debug)]
pub struct TenantAsk {
    pub slug: String,
    pub name: String,
}

/// Fields that are `None` stay as they are.
#[derive(Clone, Debug, Default)]
pub struct TenantPatch {
    pub name: Option<String>,
    /// Followers from which events become pointers.
    pub tier_up: Option<u32>,
    pub retention_days: Option<u32>,
    /// How fast its producers may ask; 0 a second: as fast as they like.
    pub rate: Option<Rate>,
    /// How much it may have; all of it is replaced.
    pub quota: Option<Quota>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantView {
    pub id: TenantId,
    pub slug: String,
    pub name: String,
    pub tier_up: u32,
    pub retention_days: u32,
    pub created_at: Millis,
    /// `None`: as the server says.
    pub rate: Option<Rate>,
    pub quota: Quota,
}

#[derive(Clone, Debug)]
pub struct KeyAsk {
    /// Public part of the key, chosen by the caller (random).
    pub id: String,
    /// Hash of the secret part. The secret itself never enters the node.
    pub secret_hash: [u8; 32],
    pub scopes: Vec<String>,
    pub expires_at: Option<Millis>,
    pub rate: Option<Rate>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyView {
    pub tenant: TenantId,
    pub id: String,
    pub secret_hash: [u8; 32],
    pub scopes: Vec<String>,
    pub created_at: Millis,
    pub expires_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
    /// `None`: as the server says.
    pub rate: Option<Rate>,
}
