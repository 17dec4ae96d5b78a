//! `cargo xtask tidy`, `contract`, `fixes` and `sbom`.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::process::ExitCode;
use xtask::repo::Repo;
use xtask::{contract, fixes, sbom, tidy};

const USAGE: &str = "\
cargo xtask tidy                  check how the code is written
cargo xtask contract [--summary]  list which promises of docs/contract.md the tests claim to prove
cargo xtask fixes [--summary]     list which findings of docs/reviews have a test
cargo xtask sbom [TARGET]         print what the binary is made of as CycloneDX JSON
";

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => run_tidy(),
        ["contract"] => run_contract(contract::Report::listing),
        ["contract", "--summary"] => run_contract(contract::Report::summary),
        ["fixes"] => run_fixes(fixes::Report::listing),
        ["fixes", "--summary"] => run_fixes(fixes::Report::summary),
        ["sbom"] => run_sbom(None),
        ["sbom", target] => run_sbom(Some(target)),
        _ => {
            say(USAGE)?;
            Ok(ExitCode::from(2))
        }
    }
}

fn run_tidy() -> Result<ExitCode> {
    let findings = tidy::check(&Repo::here()?)?;
    for finding in &findings {
        say(&format!("{finding}\n"))?;
    }
    say(&format!("tidy: {} findings\n", findings.len()))?;
    Ok(exit_code(findings.is_empty()))
}

fn run_contract(show: fn(&contract::Report) -> String) -> Result<ExitCode> {
    let report = contract::check(&Repo::here()?)?;
    say(&show(&report))?;
    say_errors(&report.errors)
}

fn run_fixes(show: fn(&fixes::Report) -> String) -> Result<ExitCode> {
    let report = fixes::check(&Repo::here()?)?;
    say(&show(&report))?;
    say_errors(&report.errors)
}

/// For the first target of deny.toml, or one of the others.
fn run_sbom(target: Option<&str>) -> Result<ExitCode> {
    let repo = Repo::here()?;
    let targets = tidy::Policy::read(&repo)?.targets;
    let target = target.unwrap_or(&targets[0]);
    ensure!(targets.iter().any(|known| known == target), "{target} is none of {}", targets.join(", "));
    say(&sbom::write(&repo, target)?)?;
    Ok(ExitCode::SUCCESS)
}

fn say_errors(errors: &[String]) -> Result<ExitCode> {
    for error in errors {
        say(&format!("{error}\n"))?;
    }
    Ok(exit_code(errors.is_empty()))
}

fn say(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

fn exit_code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
