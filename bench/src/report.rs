//! What was measured, as a table for people and as JSON for machines. A row says what, how durable, and what stood
//! beside it in the same run.

use crate::options::Scale;
use crate::plot::Plot;
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub const FSYNC_BEFORE_202: &str = "fsync before 202";
pub const FSYNC_BEFORE_200: &str = "fsync before 200";
pub const DURABLE_READ: &str = "shows only what is fsynced";

pub struct Report {
    machine: Value,
    is_quick: bool,
    began: SystemTime,
    rows: Vec<Row>,
    plots: Vec<Plot>,
}

#[derive(Debug)]
pub struct Row {
    scenario: &'static str,
    what: String,
    durability: &'static str,
    /// In the order of the table.
    facts: Vec<(&'static str, Value, String)>,
    goals: Vec<Goal>,
}

#[derive(Clone, Debug)]
struct Goal {
    text: String,
    /// `None`: not judged, the run was too short to say.
    is_met: Option<bool>,
}

impl Row {
    pub fn new(scenario: &'static str, what: impl Into<String>, durability: &'static str) -> Self {
        Self { scenario, what: what.into(), durability, facts: Vec::new(), goals: Vec::new() }
    }

    /// A number, shown with enough digits and its unit.
    pub fn fact(mut self, name: &'static str, value: impl Into<Option<f64>>, unit: &str) -> Self {
        let value = value.into().filter(|value| value.is_finite());
        let shown = match value {
            Some(value) => format!("{name} {}{unit}", number(value)),
            None => format!("{name} n/a"),
        };
        self.facts.push((name, value.map_or(Value::Null, Value::from), shown));
        self
    }

    pub fn note(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.facts.push(("note", Value::from(text.clone()), text));
        self
    }

    pub fn at_least(self, goal: f64, measured: f64, unit: &str) -> Self {
        self.goal("≥", goal, unit, measured >= goal)
    }

    pub fn at_most(self, goal: f64, measured: f64, unit: &str) -> Self {
        self.goal("≤", goal, unit, measured <= goal)
    }

    fn goal(mut self, sign: &str, goal: f64, unit: &str, is_met: bool) -> Self {
        self.goals.push(Goal { text: format!("{sign} {}{unit}", number(goal)), is_met: Some(is_met) });
        self
    }

    fn json(&self) -> Value {
        let mut facts = Map::new();
        for (name, value, _) in &self.facts {
            facts.insert((*name).to_owned(), value.clone());
        }
        let goal = |goal: &Goal| json!({"goal": goal.text, "met": goal.is_met});
        json!({
            "scenario": self.scenario,
            "what": self.what,
            "durability": self.durability,
            "facts": facts,
            "goals": self.goals.iter().map(goal).collect::<Vec<_>>(),
        })
    }

    fn markdown(&self) -> String {
        let facts: Vec<&str> = self.facts.iter().map(|(_, _, shown)| shown.as_str()).collect();
        let goals: Vec<String> = self.goals.iter().map(Goal::markdown).collect();
        let goals = if goals.is_empty() { "–".to_owned() } else { goals.join(", ") };
        let cells = [self.scenario, &self.what, &facts.join(", "), &goals, self.durability];
        format!("| {} |", cells.map(|cell| cell.replace('|', "/").replace('\n', " ")).join(" | "))
    }
}

impl Goal {
    fn markdown(&self) -> String {
        let verdict = match self.is_met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "not judged",
        };
        format!("{}: {verdict}", self.text)
    }
}

impl Report {
    pub fn new(machine: Value, scale: &Scale) -> Self {
        Self { machine, is_quick: scale.quick, began: SystemTime::now(), rows: Vec::new(), plots: Vec::new() }
    }

    /// A quick run says nothing about goals, one way or the other.
    pub fn add(&mut self, mut row: Row) {
        if self.is_quick {
            row.goals.iter_mut().for_each(|goal| goal.is_met = None);
        }
        eprintln!("bench: {}", row.markdown());
        self.rows.push(row);
    }

    pub fn plot(&mut self, plot: Plot) {
        self.plots.push(plot);
    }

    pub fn failed(&mut self, scenario: &'static str, error: &anyhow::Error) {
        self.rows.push(Row::new(scenario, "FAILED", "–").note(format!("{error:#}")));
    }

    pub fn markdown(&self) -> String {
        let mut text = format!("Machine: {}. Scale: {}.\n\n", machine_line(&self.machine), self.scale());
        text.push_str("| scenario | what | measured | goal | durability |\n|---|---|---|---|---|\n");
        for row in &self.rows {
            text.push_str(&row.markdown());
            text.push('\n');
        }
        text
    }

    fn scale(&self) -> &'static str {
        if self.is_quick { "quick, its numbers are no claims" } else { "full" }
    }

    /// Writes `bench-TIME.json`, and the table and the plots beside it. Returns the JSON's path.
    pub fn write(&self, directory: &Path) -> Result<PathBuf> {
        let seconds = self.began.duration_since(UNIX_EPOCH)?.as_secs();
        let document = json!({
            "machine": self.machine,
            "scale": self.scale(),
            "beganAtUnixSeconds": seconds,
            "version": env!("CARGO_PKG_VERSION"),
            "rows": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        let about = || format!("cannot write to {}", directory.display());
        fs::create_dir_all(directory).with_context(about)?;
        let file = directory.join(format!("bench-{seconds}.json"));
        fs::write(&file, serde_json::to_string_pretty(&document)?).with_context(about)?;
        fs::write(file.with_extension("md"), self.markdown()).with_context(about)?;
        let machine = format!("{}, scale: {}", machine_line(&self.machine), self.scale());
        for plot in &self.plots {
            let name = format!("bench-{seconds}-{}.svg", plot.name);
            fs::write(directory.join(name), plot.svg(&machine)).with_context(about)?;
        }
        Ok(file)
    }
}

fn machine_line(machine: &Value) -> String {
    let named = |(name, value): (&String, &Value)| match value.as_str() {
        Some(value) => format!("{name} {value}"),
        None => format!("{name} {value}"),
    };
    machine.as_object().map_or_else(String::new, |all| all.iter().map(named).collect::<Vec<_>>().join(", "))
}

/// Three digits, or all of a large number in groups.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 1_000.0 {
        return grouped(value);
    }
    let decimals = match magnitude {
        whole if whole.fract() == 0.0 => 0,
        below if below < 1.0 => 3,
        below if below < 10.0 => 2,
        below if below < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (3.0, "3"),
            (0.0123, "0.012"),
            (1.234, "1.23"),
            (45.67, "45.7"),
            (999.4, "999"),
            (1_000.0, "1,000"),
            (20_000_000.0, "20,000,000"),
            (-1_234.0, "-1,234"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn rows_tell_goals_and_gaps() {
        let row = Row::new("accept", "closed loop", FSYNC_BEFORE_202)
            .fact("rate", 16_000.0, "/s")
            .fact("lag", None, " s")
            .at_least(15_000.0, 16_000.0, "/s");
        let expected =
            "| accept | closed loop | rate 16,000/s, lag n/a | ≥ 15,000/s: met | fsync before 202 |";
        assert_eq!(row.markdown(), expected);
        assert_eq!(row.json()["facts"]["lag"], Value::Null);
    }
}
