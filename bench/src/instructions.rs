//! Instruction counts.
use anyhow::Result;
use clap::ValueEnum;
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Micro {
    Merge,
}
pub fn run() -> Result<bool> {
    Ok(true)
}
pub fn micro(_name: Micro, _units: u64) -> Result<bool> {
    Ok(true)
}
