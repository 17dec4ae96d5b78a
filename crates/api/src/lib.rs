//! The HTTP API: the first step of the walk.
//!
//! Comes from: a connection of `server`. Decides: who calls, whether they may, whether what they say is well formed.
//! Goes to: one method of `Node`; its answer becomes JSON, its refusal a problem document.
//! Deliberately not here: sockets, TLS and timeouts of connections (`server`), anything a notification means
//! (`rules`, `machine`). What must never happen: a handler that runs without its tenant, or before its scope check.

pub mod app;
pub mod route;
pub mod routes;

mod pipeline;
mod shape_fault;
mod well_formed;

pub mod access;
pub mod address_limits;
pub mod client_address;
pub mod host_rules;
pub mod known_caller;
pub mod listener_kinds;
mod refusal_lines;

mod aside;
pub mod auth;
pub mod bodies;
mod body;
mod call;
mod check;
mod condition;
pub mod cursor;
mod exports_under_way;
mod idempotency;
pub mod key;
mod merge_turns;
mod objects;
mod places;
mod pointer;
pub mod problem;
mod reply;
mod template_problem;
pub mod time;

mod callbacks;
mod hosted;
pub mod openapi;
mod pages;
mod probes;
pub mod runs;
pub mod telemetry;
mod v1;

pub use app::{App, Host, Settings};
pub use pipeline::{ListenerRules, ProbesOnly, router};
pub use well_formed::TwoLengths;
