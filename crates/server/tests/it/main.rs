//! End to end: the real binary on a free port, driven over HTTP. Each test has its own server and data directory.

mod server;
mod world;

mod actors;
mod alerts;
mod appointments;
mod audit;
mod audit_of_user;
mod auth;
mod books;
mod bulk;
mod bulk_command;
mod bulk_inbox;
#[cfg(target_os = "linux")]
mod caps;
mod categories;
mod clock;
mod config;
mod crash;
mod crash_deliveries;
mod deliveries;
mod devices;
mod digest_kinds;
mod digests;
mod editions;
mod erasures;
mod events;
mod exports;
#[cfg(target_os = "linux")]
mod failing_sync;
mod fallbacks;
mod hosted;
mod inbox;
mod life;
mod marks;
mod matrix;
mod moved_clock;
mod outages;
mod people;
mod problems;
mod producers;
mod proofs;
mod receipts;
mod recovery;
mod respect;
mod schedules;
mod sending;
mod stories;
mod templates;
mod tenants;
mod throttles;
mod tls;
mod traces;
mod visibility;
mod webhooks;
mod withdrawal;
