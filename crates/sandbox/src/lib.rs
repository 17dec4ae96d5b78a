//! The providers, on this machine: emulators good enough that other people's client libraries accept them, faults on
//! demand, and a judge of what arrived.
//!
//! What must never happen: anything that leaves this machine, a message that arrived and is forgotten in silence, or code
//! that is shared with the pipeline. A mistake in the pipeline must not be able to hide here.
//!
//! Deliberately not here: ports, the ledger, and everything else of Fantail. The sandbox is a test double with a clock and a
//! runtime of its own.

pub mod sandbox;
pub use sandbox::{Options, Running, Sandbox, StartError};

pub mod emulator;

mod emulators;

pub mod apns;

pub mod fcm;

pub mod webpush;

pub mod smtp;

pub mod ses;

pub mod sns;

mod sigv4;
pub mod twilio;

pub mod webhook;

pub mod outgoing;

pub mod jwt;

pub mod ids;

pub mod world;

pub mod connection;

mod listen;

mod http2;

mod http1;

mod frames;

mod rewind;

pub mod authority;

mod hosts;

pub mod clock;

pub mod faults;

pub mod record;

pub mod judge;

mod control;

mod control_guard;
