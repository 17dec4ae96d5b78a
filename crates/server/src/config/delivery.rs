//! What is said about deliveries.

use fantail_channels::webhook;
use std::path::PathBuf;

/// How messages leave.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Where the stub writes down what arrived.
    pub stub_arrivals: Option<PathBuf>,
    /// Where tests say what is wrong with it.
    pub stub_faults: Option<PathBuf>,
    /// Whether each channel of it has a second provider behind the first one.
    pub stub_standby: bool,
    /// Whether tenants without providers have the sandbox.
    pub sandbox: bool,
    pub sandbox_port: u16,
    /// Events of a tenant that may wait in one lane.
    pub queue_max: u64,
    /// How long what is kept about deliveries outlives their event.
    pub guard_ms: u64,
    /// For crash tests.
    pub die_at: Option<String>,
    /// For tests of supervision.
    pub panic_at: Option<String>,
    /// How long a stop waits for deliveries under way.
    pub drain_ms: u64,
    pub webhook: webhook::Settings,
    pub webhook_patience_ms: u64,
}
