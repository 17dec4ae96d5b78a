//! Version 1, one file per resource. Each handler reads its request, asks the node, and words the answer.

pub mod event_ask;
pub mod event_ids;
pub mod events;
mod option_ask;

pub mod addresses;
pub mod bulk;
pub mod categories;
pub mod consents;
pub mod deadletters;
pub mod defaults;
pub mod devices;
pub mod erasures;
pub mod exports;
pub mod links;
pub mod notification_ask;
pub mod notifications;
pub mod preferences;
pub mod receipts;
mod rendering;
pub mod schedules;
mod story;
pub mod suppressions;
mod trace;

pub mod edges;
pub mod follows;
pub mod segments;
pub mod server;
pub mod topics;
pub mod upload;
pub mod users;

pub mod inbox;
pub mod marks;

pub mod previews;
pub mod templates;

pub mod audit;
mod audit_fact;

pub mod providers;
pub mod push_target;
pub mod webhooks;

pub mod backups;
pub mod clock;
pub mod keys;
pub mod tenants;

mod batch;
