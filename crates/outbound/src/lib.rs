//! Clients of other people's HTTP services: what every provider over HTTP shares, so that each of them is only its own
//! payload and its own answers.
//!
//! What must never happen: a request that is said to be unsent without proof, a redirect that is followed, a proxy of the
//! environment, a wait that does not go through the ports, a secret in a log or an error, or a connection that the operator's
//! policy does not allow.
//!
//! Reading order: what a target is (`url`, `address`), whether it may be connected to (`policy`), the connection
//! (`resolve`, `connector`, `tls`), and what is spoken on it.

pub mod url;

pub mod address;

pub mod policy;

pub mod resolve;

pub mod connector;

pub mod tls;

pub mod pool;

pub mod jwt;

pub mod sigv4;
