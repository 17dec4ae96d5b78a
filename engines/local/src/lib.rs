//! The default engine: local files. One directory holds the journal, the tables, the audit log and
//! the keys of one node.

pub mod disk;
pub mod journal;

pub mod store;

pub mod inbox;

pub mod audit;

pub mod blobs;
pub mod erasure_list;
pub mod keyring;
pub mod recipient;

mod spread;
