//! Receipts: what became of deliveries after a provider took them.

use crate::list::ItemError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Up to 1,000 receipts. Each is taken or refused on its own; saying one again changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Receipts {
    pub receipts: Vec<Receipt>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Receipt {
    /// The reference that the message carried.
    pub reference: String,
    pub status: ReceiptStatus,
    /// When it happened; when it was heard of if left out, or if it lies ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub at: Option<String>,
    /// The provider's word for it, up to 64 visible ASCII characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// Later ones of `delivered`, `opened`, `clicked`, `complained` imply the earlier ones. None of them is taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReceiptStatus {
    Delivered,
    Opened,
    Clicked,
    /// The recipient called it spam. Nothing more is sent to the address.
    Complained,
    /// It did not arrive, and will not.
    Failed,
    /// The address does not exist. Nothing more is sent to it.
    Bounced,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptsTaken {
    /// Receipts that said something new.
    pub changed: u64,
    /// Receipts of what was known already, or of less.
    pub unchanged: u64,
    /// Receipts that were not taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ItemError>,
}
