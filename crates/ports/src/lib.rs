//! What the machines and the node ask of the world. Traits are small, batch-shaped and object-safe; each doc
//! comment is a contract, held by the suite of the same name in `fantail-conformance` for every engine.
//!
//! Reading order follows a fact: it is appended to the `journal`, folded into the `store` (whose parts are
//! `tables`, `lists` and `inbox`), told to the `audit` log, copied to `blobs`. Messages leave by a `channel`, through `accounts` of their tenant. Names are
//! sealed by the `keyring`; who was erased stands in the `erasure_list`. `clock`, `entropy` and `tasks` are the only ways to time, chance and concurrency. What was done is told to a `trace`.

use std::future::Future;
use std::pin::Pin;

pub mod journal;

pub mod store;

pub mod inbox;
pub mod lists;
pub mod tables;

pub mod audit;

pub mod accounts;
pub mod blobs;
pub mod channel;
pub mod erasure_list;
pub mod keyring;

pub mod clock;
pub mod entropy;
pub mod tasks;

pub mod trace;

/// A future that an object-safe port can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
