//! Runs seeds and says which one failed and how to see it again.

use fantail_sim::trace::Trace;
use fantail_sim::{run, run_with};
use std::io::{self, Write};
use std::process::ExitCode;

const USAGE: &str = "usage: fantail-sim [--seeds N] [--from S]   run N seeds from S on
       fantail-sim --seed X                 run one seed and show everything that happens";

enum Wish {
    Many { from: u64, count: u64 },
    One { seed: u64 },
}

fn main() -> ExitCode {
    let Some(wish) = wish(std::env::args().skip(1)) else {
        say(USAGE);
        return ExitCode::from(2);
    };
    match wish {
        Wish::One { seed } => {
            let trace = Trace::shown(Box::new(io::stdout().lock()));
            tell(
                seed,
                &run_with(seed, None, trace).map(|report| format!("{report:#?}")).map_err(|v| v.to_string()),
            )
        }
        Wish::Many { from, count } => {
            let mut failed = false;
            for seed in from..from + count {
                match run(seed) {
                    Ok(report) => say(&format!(
                        "seed {seed}: {} calls, {} crashes, {} pointers",
                        report.calls, report.crashes, report.pointers
                    )),
                    Err(violation) => {
                        failed = true;
                        say(&violation.to_string());
                    }
                }
            }
            if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
    }
}

fn tell(seed: u64, outcome: &Result<String, String>) -> ExitCode {
    match outcome {
        Ok(report) => {
            say(&format!("seed {seed} holds: {report}"));
            ExitCode::SUCCESS
        }
        Err(violation) => {
            say(violation);
            ExitCode::FAILURE
        }
    }
}

fn wish(mut words: impl Iterator<Item = String>) -> Option<Wish> {
    let (mut from, mut count) = (0, 50);
    while let Some(word) = words.next() {
        let number: u64 = words.next()?.parse().ok()?;
        match word.as_str() {
            "--seed" => return Some(Wish::One { seed: number }),
            "--seeds" => count = number,
            "--from" => from = number,
            _ => return None,
        }
    }
    Some(Wish::Many { from, count })
}

fn say(line: &str) {
    // Nobody is left to tell when standard output is closed.
    drop(writeln!(io::stdout(), "{line}"));
}
