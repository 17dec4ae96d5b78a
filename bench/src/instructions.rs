//! Instruction counts of the hot loops, by callgrind: the same on a busy machine as on an idle one, so a regression
//! shows where times would drown it. Bounds are wide: they catch a wrong turn, not a few per cent.
//!
//! Each count is the difference of two runs, one with twice the work, so that starting up is not in it.

use crate::index::measure_transposition;
use crate::scenarios::gates;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use fantail_machine::records::Stamped;
use fantail_machine::records::shard::{Given, ShardRecord};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{Arrival, FrontNo, Millis, Position, TenantId, UserNo};
use fantail_rules::merge::{Direction, Source, merge};
use fantail_rules::ulid::Ulid;
use std::hint::black_box;
use std::process::{Command, Stdio};

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Micro {
    /// A page of 21 entries with 50 sources of 21 pointers
    Merge,
    /// A record with 100 explicit users
    Codec,
    /// Events to lists of 1,000, written out and merged
    Transposition,
    /// The gates for 100,000 users
    Gates,
}

struct Bound {
    micro: Micro,
    /// Repetitions of the smaller run.
    repetitions: u64,
    unit: &'static str,
    units_per_repetition: u64,
    instructions_per_unit_max: u64,
}

/// The one table of bounds, for the release profile.
const BOUNDS: &[Bound] = &[
    Bound {
        micro: Micro::Merge,
        repetitions: 500,
        unit: "merge",
        units_per_repetition: 1,
        instructions_per_unit_max: 260_000,
    },
    Bound {
        micro: Micro::Codec,
        repetitions: 2_000,
        unit: "record",
        units_per_repetition: 1,
        instructions_per_unit_max: 15_000,
    },
    Bound {
        micro: Micro::Transposition,
        repetitions: 256,
        unit: "entry",
        units_per_repetition: TRANSPOSED_FOLLOWERS,
        instructions_per_unit_max: 450,
    },
    Bound {
        micro: Micro::Gates,
        repetitions: 10,
        unit: "decision",
        units_per_repetition: gates::PEOPLE,
        instructions_per_unit_max: 400,
    },
];

const TRANSPOSED_FOLLOWERS: u64 = 1_000;

/// Counts everything, prints it, and says whether all of it is within its bounds.
pub fn run() -> Result<bool> {
    let has_valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !has_valgrind.is_ok_and(|status| status.success()) {
        println!("skipped: valgrind is not installed: `make bench-peers`, or `apt-get install valgrind`");
        return Ok(true);
    }
    let mut all_within = true;
    for bound in BOUNDS {
        let once = count(bound.micro, bound.repetitions)?;
        let twice = count(bound.micro, 2 * bound.repetitions)?;
        let units = bound.repetitions * bound.units_per_repetition;
        let each = twice.saturating_sub(once) / units;
        let is_within = each <= bound.instructions_per_unit_max;
        let verdict = if is_within { "within" } else { "ABOVE" };
        let (micro, unit, max) = (bound.micro, bound.unit, bound.instructions_per_unit_max);
        println!("{micro:?}: {each} instructions per {unit}, {verdict} the bound of {max}");
        all_within &= is_within;
    }
    Ok(all_within)
}

fn count(micro: Micro, repetitions: u64) -> Result<u64> {
    let name = micro.to_possible_value().context("every micro benchmark has a name")?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(std::env::current_exe()?);
    let output = command.args(["micro", name.get_name(), &repetitions.to_string()]).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{micro:?} failed under valgrind: {errors}");
    collected(&errors).with_context(|| format!("no instruction count in {errors}"))
}

fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.split(' ').next_back()?.parse().ok()
}

/// The hidden command that is counted.
pub fn micro(micro: Micro, repetitions: u64) -> Result<bool> {
    match micro {
        Micro::Merge => merge_pages(repetitions),
        Micro::Codec => decode_records(repetitions)?,
        Micro::Transposition => measure_transposition(repetitions, TRANSPOSED_FOLLOWERS)?,
        Micro::Gates => decide(repetitions)?,
    }
    Ok(true)
}

fn decide(repetitions: u64) -> Result<()> {
    let (crowd, mut clocks) = (gates::Crowd::new()?, gates::evening());
    for _ in 0..repetitions {
        black_box(crowd.decide_once(&mut clocks));
    }
    Ok(())
}

fn merge_pages(repetitions: u64) {
    let limit = 21;
    let source = |at: u64| {
        let arrivals = (0..limit as u64).map(|step| Arrival(100_000 - at - step * 53)).collect();
        Source::fetched(arrivals, limit)
    };
    let sources: Vec<Source> = (0..51).map(source).collect();
    for _ in 0..repetitions {
        black_box(merge(Direction::NewestFirst, black_box(&sources)));
    }
}

fn decode_records(repetitions: u64) -> Result<()> {
    let given = Given {
        front: FrontNo(3),
        position: Position(1_000_000),
        tenant: TenantId(7),
        event: Ulid(1 << 100),
        is_late: false,
        delivery: None,
        members: (0..100).map(|at| UserNo(at * 1_009)).collect(),
        unwanted: Vec::new(),
    };
    let record = ShardRecord::Given(given);
    let record = Stamped { at: Millis(1_700_000_000_000), by: Actor::System, record };
    let bytes = record.encode();
    for _ in 0..repetitions {
        let decoded =
            Stamped::<ShardRecord>::decode(black_box(&bytes)).context("a record does not decode")?;
        black_box(decoded);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_what_valgrind_says() {
        let text = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n==7== I   refs:      123,456\n";
        assert_eq!(collected(text), Some(123_456));
        assert_eq!(collected("==7== nothing"), None);
    }
}
