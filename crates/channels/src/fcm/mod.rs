//! Firebase Cloud Messaging, HTTP v1: one request per message, a token of a service account for each project.
//!
//! What must never happen: a token that is asked for by every caller at once, a project that is sent more than its quota, or
//! a malformed message that retires the devices it was sent to.
//!
//! Reading order: what an operator sets (`settings`), what is sent (`payload`), what came of it (`answer`), which project and
//! when (`shard`, `pace`), then the IO (`token`, `project`,
//! `client`).

pub mod settings;

pub mod payload;

pub mod answer;

pub mod shard;

pub mod pace;

mod token;

mod project;

mod client;

pub use client::Fcm;
pub use settings::{Secrets, Settings};
