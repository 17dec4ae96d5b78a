//! Turns of ours and all peers, round by round, and the rows, ratios and plots that come of them.

use super::{Peer, Ready, Turn};
use crate::index::Found;
use crate::plot::{Bar, Plot};
use crate::report::Row;
use anyhow::{Result, ensure};
use std::path::Path;

/// The first of them is ours.
pub fn take(
    peers: Vec<Peer>,
    directory: &Path,
    rounds: usize,
    only: &[String],
    found: &mut Found,
) -> Result<()> {
    let wanted = |name: &str| only.iter().any(|part| name.to_lowercase().contains(&part.to_lowercase()));
    let mut lines = Vec::new();
    for (at, peer) in peers.into_iter().enumerate() {
        match peer {
            Peer::Ready(peer) if at == 0 || only.is_empty() || wanted(&peer.name) => {
                lines.push(Line { peer, turns: Vec::new(), failure: None });
            }
            Peer::Missing { name, advice } if only.is_empty() || wanted(&name) => {
                found.rows.push(Row::new("peers", name, "–").note(format!("skipped: {advice}")));
            }
            Peer::Ready(_) | Peer::Missing { .. } => {}
        }
    }
    for round in 0..rounds {
        for line in lines.iter_mut().filter(|line| line.failure.is_none()) {
            eprintln!("bench: round {}, {} …", round + 1, line.peer.name);
            line.turn(&directory.join("turn"))?;
        }
    }
    let ours = lines.first().map_or(0.0, |line| line.rates().median);
    found.rows.extend(lines.iter().enumerate().map(|(at, line)| line.row(at == 0, ours)));
    found.plots.extend(plots(&lines));
    let failure = lines.first().and_then(|ours| ours.failure.as_deref());
    ensure!(failure.is_none(), "ours: {}", failure.unwrap_or_default());
    Ok(())
}

struct Line {
    peer: Ready,
    turns: Vec<Turn>,
    /// Why it takes no more turns.
    failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Line {
    fn turn(&mut self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        match (self.peer.turn)(directory) {
            Ok(turn) => self.turns.push(turn),
            Err(error) => {
                eprintln!("bench: {} failed: {error:#}", self.peer.name);
                self.failure = Some(format!("{error:#}"));
            }
        }
        Ok(std::fs::remove_dir_all(directory)?)
    }

    fn rates(&self) -> Spread {
        spread(self.turns.iter().map(|turn| turn.rows / turn.seconds.max(1e-9)))
    }

    fn bytes(&self) -> Option<Spread> {
        let bytes: Option<Vec<f64>> = self.turns.iter().map(|turn| Some(turn.bytes? / turn.rows)).collect();
        bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| spread(bytes.into_iter()))
    }

    fn row(&self, is_ours: bool, ours: f64) -> Row {
        let row = Row::new("peers", self.peer.name.clone(), self.peer.durability);
        if let Some(failure) = &self.failure {
            return row.note(format!("{}: {failure}", if is_ours { "FAILED" } else { "could not run" }));
        }
        let rates = self.rates();
        let cpu = spread(self.turns.iter().map(|turn| turn.cpu_seconds * 1e6 / turn.rows)).median;
        let row = row
            .fact("median", rates.median, " rows/s")
            .fact("low", rates.low, "")
            .fact("high", rates.high, "")
            .fact("CPU", cpu, " µs/row")
            .fact("takes", self.bytes().map(|bytes| bytes.median), " B/row")
            .fact("rows", spread(self.turns.iter().map(|turn| turn.rows)).median, " a turn");
        if is_ours {
            return row;
        }
        let ratio = ours / rates.median;
        let row = row.fact("ours is", ratio, " times as fast");
        match self.peer.goal {
            Some(goal) => row.at_least(goal, ratio, " times"),
            None => row,
        }
    }
}

fn plots(lines: &[Line]) -> Vec<Plot> {
    let bars = |of: &dyn Fn(&Line) -> Option<Spread>| -> Vec<Bar> {
        let lines = lines.iter().enumerate().filter(|(_, line)| line.failure.is_none());
        lines
            .filter_map(|(at, line)| {
                let Spread { low, median, high } = of(line)?;
                Some(Bar { label: line.peer.name.clone(), is_ours: at == 0, low, median, high })
            })
            .collect()
    };
    vec![
        Plot {
            name: "peers-rates",
            title: "Fan-out: entries per second (median and spread, logarithmic)".into(),
            unit: "/s",
            bars: bars(&|line| Some(line.rates())),
        },
        Plot {
            name: "peers-bytes",
            title: "Fan-out: bytes per entry (logarithmic)".into(),
            unit: "B",
            bars: bars(&Line::bytes),
        },
    ]
}

fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let (Some(low), Some(high)) = (values.first(), values.last()) else {
        return Spread { low: 0.0, median: 0.0, high: 0.0 };
    };
    let (left, right) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    Spread { low: *low, median: f64::midpoint(left, right), high: *high }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_between() {
        let check = |values: &[f64], expected: [f64; 3]| {
            let Spread { low, median, high } = spread(values.iter().copied());
            assert_eq!([low, median, high], expected);
        };
        check(&[], [0.0; 3]);
        check(&[3.0], [3.0; 3]);
        check(&[9.0, 1.0], [1.0, 5.0, 9.0]);
        check(&[9.0, 1.0, 2.0], [1.0, 2.0, 9.0]);
    }
}
