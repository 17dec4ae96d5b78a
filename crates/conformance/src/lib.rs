//! One suite per port, passed by every engine. A suite is a list of cases over a rig that the engine provides; it
//! prints nothing, waits for nothing but futures, and says in each assertion what the port's contract says.

pub mod journal;

pub mod store;

pub mod inbox;
pub mod lists;
pub mod tables;

pub mod audit;

pub mod blobs;
pub mod channel;
pub mod erasure_list;
pub mod keyring;

mod block_on;
mod chance;

pub use block_on::block_on;
pub use chance::Chance;
