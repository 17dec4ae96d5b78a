//! Leads partitions: plan, append, apply, answer. Async over ports; names no runtime, so that the simulator drives
//! the very code that serves.
//!
//! Reading order: what can be asked (`ask`, `node`), how a node starts (`start`, `recover`), the walk of an event
//! (`producers`, `addressed`, `accept`, `queue`, `lead` with `batch`, `tail`, `take`, `inbox`), how it leaves the house (`schedule`, `bulk`,
//! `dispatch`, `deliver`, `digests`, `groups`, `editions`, `receipts`), what is kept of it for ever (`audit`) and told to its
//! producer (`webhooks`), everything else (`people`, `devices`, `segments`, `uploads`, `chosen`, `links`, `templates`, `tenants`, `errands`,
//! `erasures`, `exports`, `todos`, `claims`, `housekeeping`, `books`).

pub mod ask;
pub mod node;

pub mod ports;
pub mod start;
pub mod supervise;

mod recover;

mod accept;
mod addressed;
mod batch;
mod cancel;
mod chosen;
mod layout;
mod lead;
mod lifecycle;
mod loops;
mod machines;
mod queue;
mod tail;
mod take;
mod todos;
mod tries;

pub mod backlog;
mod backoff;
mod bell;
pub mod bulk;
pub mod content;
pub mod dead_letters;
mod deliver;
pub mod deliveries;
mod digests;
mod dispatch;
mod due;
mod editions;
mod groups;
mod notify;
pub mod producers;
pub mod quotas;
mod receipts;
pub mod recurring;
mod schedule;
pub mod spans;

pub mod audit;
pub mod webhooks;

pub mod callback_secrets;
pub mod providers;

mod devices;
mod inbox;
mod known;
pub mod links;
pub mod named;
mod people;
pub mod policies;
pub mod respect;
pub mod segments;
mod templates;
mod tenants;
mod uploads;

pub mod books;
mod claims;
mod directory_todos;
mod endpoint_tally;
pub mod erasures;
mod errands;
pub mod exports;
mod fanout_share;
mod guard_sweep;
pub mod housekeeping;
mod long_effects;

mod clock;
mod control;
mod core;
mod crowds;
mod disk_share;
pub mod health;
pub mod latency;
pub mod meter;
pub mod reasons;

pub use node::Node;
