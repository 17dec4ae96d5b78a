//! `fantail audit verify|export`: reads the files without the lock, also beside a running server.
//!
//! Verification asks two questions of the whole log: are the files sound, and do entries and checkpoints say what was
//! signed? Everything that is not as it was written is named. An export to a file is the newest checkpoint, to be kept where
//! whoever owns this machine cannot change it; later it is given to `verify`. Exports of the whole log are in `audit_export`.

use crate::audit_export;
use crate::audit_files::{audit_directory, parse_keys, public_keys};
use crate::cli::{AuditCommand, AuditExportArgs, AuditVerifyArgs, say};
use anyhow::{Context, Result, bail, ensure};
use fantail_audit::checkpoint::Checkpoint;
use fantail_audit::key::Keys;
use fantail_local::audit::{AuditVerdict, read_checkpoints, verify};
use fantail_local::disk::RealDisk;
use fantail_local::journal::Verdict;
use std::fs;
use std::io::Write;
use std::path::Path;

pub fn run(command: &AuditCommand) -> Result<()> {
    match command {
        AuditCommand::Verify(args) => check(args),
        AuditCommand::Export(args) if args.to.starts_with("s3://") => audit_export::run(args),
        AuditCommand::Export(args) => export(args),
    }
}

fn check(args: &AuditVerifyArgs) -> Result<()> {
    let directory = existing(&args.data)?;
    let keys = keys(args)?;
    let read =
        |file| fs::read_to_string(file).with_context(|| format!("cannot read {}", Path::display(file)));
    let posted: Vec<String> = args.checkpoint.iter().map(|file| read(file)).collect::<Result<_>>()?;
    let posted: Vec<&str> = posted.iter().map(String::as_str).collect();
    let verdict = verify(&RealDisk, &directory, &keys, &posted);
    say(shown(&verdict).trim_end())?;
    ensure!(verdict.is_clean(), "the audit log is not what was written");
    Ok(())
}

fn keys(args: &AuditVerifyArgs) -> Result<Keys> {
    match &args.key {
        None => public_keys(&args.data),
        Some(file) => {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            parse_keys(&text).with_context(|| format!("{} does not hold public keys", file.display()))
        }
    }
}

fn existing(data: &Path) -> Result<std::path::PathBuf> {
    let directory = audit_directory(data);
    ensure!(directory.is_dir(), "there is no audit log in {}", data.display());
    Ok(directory)
}

fn shown(verdict: &AuditVerdict) -> String {
    let report = &verdict.report;
    let mut text = format!(
        "{} entries in {} chains, {} checkpoints, {} bytes\n",
        report.entries,
        report.chains,
        report.checkpoints,
        verdict.log.bytes + verdict.checkpoints.bytes
    );
    match &report.newest {
        Some(newest) => text.push_str(&format!("newest checkpoint: {}, {}\n", newest.number, newest.hash())),
        None => text.push_str("no checkpoint yet\n"),
    }
    if report.uncovered > 0 {
        text.push_str(&format!(
            "{} entries behind the newest checkpoint are held by their chains alone\n",
            report.uncovered
        ));
    }
    for (what, files) in [("log", &verdict.log), ("checkpoints", &verdict.checkpoints)] {
        tell_files(&mut text, what, files);
    }
    if let Some(stopped) = &verdict.stopped {
        text.push_str(&format!("the walk ended early: {stopped}\n"));
    }
    report.findings.iter().for_each(|finding| text.push_str(&format!("{finding}\n")));
    let untold = report.findings_in_all - report.findings.len() as u64;
    if untold > 0 {
        text.push_str(&format!("and {untold} more\n"));
    }
    text.push_str(if verdict.is_clean() { "sound\n" } else { "NOT AS WRITTEN\n" });
    text
}

fn tell_files(text: &mut String, what: &str, files: &Verdict) {
    if let Some(damage) = &files.damage {
        text.push_str(&format!("damaged: {what}: {damage}\n"));
    }
    if let Some((file, offset, bytes)) = &files.torn_tail {
        text.push_str(&format!(
            "torn tail: {what}: {bytes} bytes at offset {offset} of {file}; a crash leaves one, and the next start cuts it\n"
        ));
    }
}

fn export(args: &AuditExportArgs) -> Result<()> {
    let directory = existing(&args.data)?;
    let stored = read_checkpoints(&RealDisk, &directory).context("cannot read the checkpoints")?;
    let Some(newest) = stored.last() else { bail!("there is no checkpoint yet") };
    let checkpoint = Checkpoint::parse(&newest.text).context("the newest checkpoint is damaged")?;
    let out = fs::OpenOptions::new().write(true).create_new(true).open(&args.to);
    let about = || format!("cannot write {}", args.to);
    let mut out = out.with_context(about)?;
    out.write_all(checkpoint.note().as_bytes()).and_then(|()| out.sync_all()).with_context(about)?;
    let (number, hash) = (checkpoint.statement.number, checkpoint.statement.hash());
    say(format_args!("checkpoint {number}, {hash}, in {}", args.to))
}
