//! Text messages over Twilio.
//!
//! What must never happen: a text that is sent again while nobody knows whether the first one was taken (there is no
//! idempotency key, so a lost answer is unknown), a sender that is asked for more than it may send, or a number in a log.
//!
//! Reading order: what an operator sets (`settings`), who a message is from and when it may leave (`route`, `pace`), what is
//! sent (`payload`, `form`), what came of it (`answer`), the IO (`client`); then what Twilio tells us later (`signature`,
//! `callback`).

pub mod settings;

mod pace;
mod route;

pub mod form;
mod payload;

mod answer;

mod client;

pub mod callback;
pub mod signature;

pub(crate) mod limits;

pub use client::Twilio;
pub use settings::{Secrets, Settings};
