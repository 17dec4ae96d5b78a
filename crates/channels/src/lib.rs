//! The ways out of the house: one folder per provider, with the same files in each. `settings.rs` says what an operator
//! chooses, `payload.rs` and `answer.rs` are pure (what is sent, what came of it), `client.rs` does the IO.
//!
//! What must never happen: a decision whether to try again (the caller writes the answer down and decides), a wait that
//! does not go through the ports, or a secret, address or answered body in a log.

pub mod accounts;
pub mod failover;
pub mod part;
pub mod probe;
pub mod receipt;
pub mod remembered;

pub mod mixed;

pub mod alerts;
pub mod dead_guard;
mod digest;
pub mod fields;
pub mod targets;

mod collapse;
mod push_content;
mod retry_after;
mod shorten;

pub mod stub;

pub mod apns;

pub mod fcm;

pub mod twilio;

pub mod webpush;

pub mod webhook;

pub mod email;
pub mod ses;
pub mod smtp;
