//! The `fantail` binary: command line, configuration, composition of engines and node, the listener, the start and the
//! stop. Everything that decides is elsewhere.
//!
//! Reading order: `cli` says what can be asked, `serve` is the life of a server from start to stop, `composition` is
//! the one place where ports meet engines, `listen` owns connections.

pub mod cli;
pub mod config;

pub mod serve;

mod audit_files;
mod background;
mod backup_keys;
mod backups;
pub mod composition;
mod copy_mark;
mod delivery_metrics;
mod descriptors;
mod disk_watch;
mod erasure_files;
mod host;
pub mod listen;
pub mod listeners;
pub mod otlp;
mod provider_metrics;
pub mod provision;
mod sandbox;
mod snapshots;
pub mod system;
mod test_clock;
mod test_faults;

mod banner;
mod logging;
mod panics;
mod private_files;
mod tls;

mod audit_command;
mod audit_export;
mod backup;
mod bulk_command;
mod bulk_progress;
mod caller;
mod check_command;
mod clock_command;
mod config_command;
mod explain;
mod journal_command;
mod plan;
mod restore_command;
mod resume_command;
mod sandbox_command;
mod scan_command;

pub mod channels;
pub mod client;
pub mod seed;
mod server_url;
