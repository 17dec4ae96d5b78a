//! The simulator: the production node on the memory engines, in one thread, with an order, a clock and faults that
//! a seed chooses, judged by an oracle that hears only what clients hear. Same seed, same bytes.
//!
//! Reading order: what runs (`executor`, `world`, `faults`, `provider`), who asks (`swarm`, `knobs`, `workload`, `call`, `template`, `perform`), who
//! judges (`oracle`, `owners`, `deliveries`, `broken`), how a run goes (`run`, `judge`, `phases`, `trace`), and whether the judge
//! is any good (`planted`).

pub mod chance;
pub mod executor;
mod faults;
pub mod provider;
mod world;

pub mod knobs;

mod call;
mod note;
mod perform;
mod swarm;
mod template;
mod workload;

pub mod broken;
mod deliveries;
mod oracle;
mod owners;

#[cfg(test)]
mod drain;
mod judge;
mod phases;
mod run;
mod stops;
pub mod trace;

pub mod planted;

#[cfg(test)]
mod fairness;
#[cfg(test)]
mod reads;

pub use run::{Options, Report, run, run_with};
