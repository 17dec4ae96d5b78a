//! Clients of other people's HTTP services: what every provider over HTTP shares, so that each of them is only its own
//! payload and its own answers.
//!
//! What must never happen: a request that is said to be unsent without proof, a redirect that is followed, a proxy of the
//! environment, a wait that does not go through the ports, or a secret in a log or an error.
//!
//! Deliberately not here: targets that strangers choose. Those are judged by `channels/webhook` first.

pub mod tls;

pub mod pool;

pub mod jwt;

pub mod sigv4;
