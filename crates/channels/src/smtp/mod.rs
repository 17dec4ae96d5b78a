//! Mail over SMTP (RFC 5321), through a relay that the operator names.
//!
//! What must never happen: credentials over a connection that others can read, a mail that is said to be unsent although its
//! final dot has left, or an address that is given up because of what a server thinks of us.
//!
//! Reading order: what an operator sets, what is sent (`payload`), how servers speak (`reply`) and what it means (`answer`), then
//! the IO (`session`, `pool`, `domains`, `client`); and what comes back later (`report`).

pub mod settings;

pub mod payload;

pub mod reply;

pub mod answer;

mod session;

mod pool;

mod domains;

mod client;

pub mod report;

mod limits;

pub use client::Smtp;
pub use settings::{Secrets, Security, Settings};
