//! The sandbox from outside: over sockets, as a client library meets it.

mod apns;
mod client;
mod control;
mod faults;
mod fcm;
mod listen;
mod twilio;
mod webhook;
mod webpush;
mod wire;

mod mail;
