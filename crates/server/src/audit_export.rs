//! `fantail audit export --to s3://bucket/prefix`: the audit log in storage that takes new objects and changes none.
//!
//! ```text
//! log/journal-….segment            sealed segments: they never change again
//! checkpoints/journal-….segment    once the log is sealed to its end, so that a copy never promises more than it holds
//! notes/checkpoint-….txt           the newest checkpoint, for `verify --checkpoint`
//! public-N.keys                    the N public keys of all signers that there were
//! ```
//! What the bucket holds is the position: there is no other. What is there with the same hash is left alone, anything else
//! is put again, and everything that was put is read back. What must never happen: a file that is damaged and exported all
//! the same, or one that is said to be there and was not read.

use crate::audit_files::{audit_directory, public_file};
use crate::cli::{AuditExportArgs, say};
use crate::config::process_environment;
use crate::system::{SystemClock, SystemTasks};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use fantail_audit::checkpoint::Checkpoint;
use fantail_local::audit::read_checkpoints;
use fantail_local::disk::RealDisk;
use fantail_local::journal::{dump, segments};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_outbound::sigv4::Credentials;
use fantail_ports::clock::Clock;
use fantail_s3::bucket::sha256;
use fantail_s3::{Bucket, Location, Lock};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DAY_MS: u64 = 86_400_000;
const DAYS_MAX: u64 = 36_500;

/// An object to be, by its name behind the prefix.
struct Piece {
    name: String,
    from: Source,
}

enum Source {
    File(PathBuf),
    Text(String),
}

/// What one export did.
#[derive(Default)]
struct Exported {
    objects: u64,
    bytes: u64,
    /// Were there already, with the same hash.
    found: u64,
    unlocked: u64,
}

pub fn run(args: &AuditExportArgs) -> Result<()> {
    let directory = audit_directory(&args.data);
    ensure!(directory.is_dir(), "there is no audit log in {}", args.data.display());
    let (pieces, is_whole) = pieces(&args.data, &directory)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let clock = Arc::new(SystemClock::default());
    let tasks = SystemTasks { handle: runtime.handle().clone(), clock: clock.clone() };
    let connector = Connector::of_operator();
    let ports = Ports { clock: clock.clone(), tasks: Arc::new(tasks), connector };
    let bucket = bucket(args, ports)?;
    let lock = match args.retain_days {
        None => None,
        Some(days) => {
            ensure!((1..=DAYS_MAX).contains(&days), "--retain-days is a number from 1 to {DAYS_MAX}");
            Some(Lock { retain_until: clock.wall().plus(days * DAY_MS) })
        }
    };
    let exported = runtime.block_on(export(&bucket, pieces, lock))?;
    tell(&exported, is_whole)
}

fn bucket(args: &AuditExportArgs, ports: Ports) -> Result<Bucket> {
    let region = args.region.clone().or_else(|| process_environment("AWS_REGION"));
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    let location = Location::read(&args.to, &region, args.endpoint.as_deref())?;
    let named = |name: &str| process_environment(name).with_context(|| format!("{name} is not set"));
    let credentials = Credentials {
        access_key_id: named("AWS_ACCESS_KEY_ID")?,
        secret_access_key: named("AWS_SECRET_ACCESS_KEY")?,
        session_token: process_environment("AWS_SESSION_TOKEN"),
    };
    let read = |file: &PathBuf| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    let ca_pem = args.ca.as_ref().map(read).transpose()?.unwrap_or_default();
    Ok(Bucket::open(location, credentials, &ca_pem, ports)?)
}

async fn export(bucket: &Bucket, pieces: Vec<Piece>, lock: Option<Lock>) -> Result<Exported> {
    let listed = bucket.list().await.context("cannot list the bucket")?;
    let there: BTreeMap<String, u64> = listed.into_iter().map(|object| (object.key, object.bytes)).collect();
    let mut exported = Exported::default();
    for Piece { name, from } in pieces {
        let about = || format!("cannot export {name}");
        let bytes = match from {
            Source::File(path) => {
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?
            }
            Source::Text(text) => text.into_bytes(),
        };
        let (length, hash) = (bytes.len() as u64, sha256(&bytes));
        if there.get(&name) == Some(&length)
            && is_held(bucket, &name, length, hash).await.with_context(about)?
        {
            exported.found += 1;
            continue;
        }
        bucket.put(&name, Bytes::from(bytes), lock).await.with_context(about)?;
        let held = bucket.head(&name).await.with_context(about)?;
        let held = held.with_context(|| format!("{name} was put and is not there"))?;
        let read_back = bucket.hash(&name, held.bytes).await.with_context(about)?;
        ensure!(held.bytes == length && read_back == hash, "{name} is not what was put");
        ensure!(lock.is_none() || held.is_locked, "{name} is not locked: the bucket needs Object Lock");
        exported.unlocked += u64::from(!held.is_locked);
        exported.objects += 1;
        exported.bytes += length;
    }
    Ok(exported)
}

/// By the hash that the storage keeps, else by reading it.
async fn is_held(bucket: &Bucket, name: &str, length: u64, hash: [u8; 32]) -> Result<bool> {
    let Some(held) = bucket.head(name).await? else { return Ok(false) };
    match held.sha256 {
        Some(kept) => Ok(held.bytes == length && kept == hash),
        None => Ok(held.bytes == length && bucket.hash(name, length).await? == hash),
    }
}

/// What there is to export, the log first; and whether the log is sealed to its end.
fn pieces(data: &Path, directory: &Path) -> Result<(Vec<Piece>, bool)> {
    let (log, log_is_sealed) = sealed(directory, "log")?;
    let (checkpoints, checkpoints_are_sealed) = sealed(directory, "checkpoints")?;
    let is_whole = log_is_sealed && checkpoints_are_sealed;
    let mut pieces = log;
    if is_whole {
        pieces.extend(checkpoints);
    }
    if let Some(newest) = read_checkpoints(&RealDisk, directory)?.last() {
        let checkpoint = Checkpoint::parse(&newest.text).context("the newest checkpoint is damaged")?;
        let name = format!("notes/checkpoint-{:016}.txt", checkpoint.statement.number);
        pieces.push(Piece { name, from: Source::Text(checkpoint.note()) });
    }
    let keys = public_file(data);
    if let Ok(text) = fs::read_to_string(&keys) {
        let name = format!("public-{}.keys", text.lines().count());
        pieces.push(Piece { name, from: Source::File(keys) });
    }
    Ok((pieces, is_whole))
}

/// Segments of one part of the log that never change again, read through: damage stops the export. Also whether there is
/// nothing behind them.
fn sealed(directory: &Path, part: &str) -> Result<(Vec<Piece>, bool)> {
    let directory = directory.join(part);
    for record in dump(&RealDisk, &directory)? {
        record.with_context(|| format!("{part} is damaged: nothing is exported"))?;
    }
    let all = segments(&RealDisk, &directory)?;
    let mut pieces = Vec::new();
    for (segment, _) in all.iter().filter(|(_, is_sealed)| *is_sealed) {
        let file = format!("journal-{segment:016}.segment");
        let path = directory.join(&file);
        if !path.is_file() {
            bail!("{} is gone", path.display());
        }
        pieces.push(Piece { name: format!("{part}/{file}"), from: Source::File(path) });
    }
    Ok((pieces, all.iter().all(|(_, is_sealed)| *is_sealed)))
}

fn tell(exported: &Exported, is_whole: bool) -> Result<()> {
    let Exported { objects, bytes, found, unlocked } = exported;
    say(format_args!("{objects} objects put and read back, {bytes} bytes; {found} were there"))?;
    if *unlocked > 0 {
        say(format_args!(
            "{unlocked} of them are not locked: give --retain-days, or set a default on the bucket"
        ))?;
    }
    if !is_whole {
        say("the newest segments are still being written: they follow once they are sealed")?;
    }
    Ok(())
}
