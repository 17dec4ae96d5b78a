//! The machines from outside: bytes and rows first, then behaviour through plan and apply on the reference store,
//! then what must hold for all of it: counts equal a recount, replay equals the run, no record costs too much.

#![allow(clippy::unwrap_used)]

mod courier;
mod growth;
mod growth_elsewhere;
mod harness;
mod model;
mod strategies;

mod fixtures;
mod records;
mod tables;

mod admit;
mod appointments;
mod deletions;
mod deliveries;
mod differences;
mod digests;
mod directory;
mod endpoints;
mod erasures;
mod expire;
mod fallbacks;
mod follow;
mod listings;
mod marks;
mod paging;
mod pending;
mod policies;
mod promises;
mod providers;
mod respect;
mod retract;
mod root;
mod scheduled;
mod schedules;
mod take;
mod templates;
mod throttles;
mod usage;
mod users;
mod visibility;
mod walk_entries;
mod walks;
mod webhooks;

mod cancels;
mod caps;
mod cost;
mod random;
mod replay;
