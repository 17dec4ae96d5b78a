//! Web Push: RFC 8030 (how it is sent), 8291 (how it is encrypted) and 8292 (who sent it).
//!
//! What must never happen: a connection to an address that was not judged (subscriptions come from browsers, and anybody can
//! make one up), a key pair or salt that is used for two messages, or a plaintext that a push service could read.
//!
//! Reading order: what an operator sets (`settings`, `keys`), where a message goes (`target`), what is sent (`payload`,
//! `encrypt`, `vapid`), what came of it (`answer`), then keys made ahead (`reservoir`) and the IO (`origins`, `client`).

pub mod settings;

pub mod keys;

pub mod target;

pub mod payload;

pub mod encrypt;

mod vapid;

pub mod answer;

pub mod reservoir;

mod origins;

mod client;

pub use client::WebPush;
pub use keys::{Secrets, generate_vapid};
pub use settings::Settings;
