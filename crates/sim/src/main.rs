//! Runs seeds, and says which one failed and how to see it again.

use fantail_sim::broken::Violation;
use fantail_sim::knobs::Draw;
use fantail_sim::planted::Bug;
use fantail_sim::trace::Trace;
use fantail_sim::{Options, Report, run_with};
use std::io::{self, Write};
use std::process::ExitCode;

const USAGE: &str =
    "usage: fantail-sim [--seeds N] [--from S] [--strict] [--knobs tiny|today] [--bug B]   run N seeds from S on
       fantail-sim --seed X [--strict] [--knobs tiny|today] [--bug B]   run one seed and show everything that happens
       --strict asks also what is known not to hold yet
       --knobs gives every seed tiny limits, or today's; without it the seed says which
       --bug plants one of the bugs of `planted`, by its name";

struct Wish {
    from: u64,
    count: u64,
    shown: bool,
    strict: bool,
    draw: Draw,
    bug: Option<Bug>,
}

fn main() -> ExitCode {
    let Some(wish) = wish(std::env::args().skip(1)) else {
        say(USAGE);
        return ExitCode::from(2);
    };
    let mut failed = 0u64;
    for seed in wish.from..wish.from + wish.count {
        let trace = if wish.shown { Trace::shown(Box::new(io::stdout().lock())) } else { Trace::default() };
        let Wish { strict, draw, bug, .. } = wish;
        let outcome = run_with(seed, Options { strict, draw, bug, trace });
        failed += u64::from(outcome.is_err());
        say(&told(seed, &outcome, wish.shown));
    }
    say(&format!("{} seeds held, {failed} failed", wish.count - failed));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn told(seed: u64, outcome: &Result<Report, Violation>, whole: bool) -> String {
    match outcome {
        Ok(report) if whole => format!("seed {seed} holds: {report:#?}"),
        Ok(Report { calls, crashes, pointers, .. }) => {
            format!("seed {seed} holds: {calls} calls, {crashes} crashes, {pointers} pointers")
        }
        Err(violation) => violation.to_string(),
    }
}

fn wish(mut words: impl Iterator<Item = String>) -> Option<Wish> {
    let mut wish = Wish { from: 0, count: 50, shown: false, strict: false, draw: Draw::BySeed, bug: None };
    while let Some(word) = words.next() {
        if word == "--strict" {
            wish.strict = true;
            continue;
        }
        if word == "--knobs" {
            wish.draw = match words.next()?.as_str() {
                "tiny" => Draw::Tiny,
                "today" => Draw::Today,
                _ => return None,
            };
            continue;
        }
        if word == "--bug" {
            let name = words.next()?;
            wish.bug = Some(Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name)?);
            continue;
        }
        let number: u64 = words.next()?.parse().ok()?;
        match word.as_str() {
            "--seed" => (wish.from, wish.count, wish.shown) = (number, 1, true),
            "--seeds" => wish.count = number,
            "--from" => wish.from = number,
            _ => return None,
        }
    }
    Some(wish)
}

fn say(line: &str) {
    // Nobody is left to tell when standard output is closed.
    drop(writeln!(io::stdout(), "{line}"));
}
