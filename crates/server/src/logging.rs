//! Log lines on stderr: compact for people, JSON for machines. Stdout is left to the banner.

use crate::config::{Log, LogFormat};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

pub fn start(log: Log) {
    let builder = fmt().with_max_level(LevelFilter::from_level(log.level)).with_writer(std::io::stderr);
    match log.format {
        LogFormat::Compact => builder.with_ansi(false).with_target(false).compact().init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).init(),
    }
}
