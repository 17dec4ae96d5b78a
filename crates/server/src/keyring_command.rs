//! `fantail keyring rotate`: replaces the server key of a data directory whose server is stopped.
//!
//! Comes from: the settings of the server, which say what the key is now, and the command line, which says what it is to be.
//! What must never happen: a rotation beside a running server, files that the server's user cannot read, or a new key that is
//! not durable before something is sealed under it.

use crate::cli::{ServeArgs, remark, say};
use crate::composition::{journal_directory, keyring_options, keys_directory};
use crate::config::{self, Config};
use crate::private_files;
use crate::provision::write_key;
use crate::server_key::{ServerKey, ServerKeySource};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use fantail_local::disk::{Disk, DiskLock, RealDisk};
use fantail_local::journal::LOCK_NAME;
use fantail_local::keyring::{InterruptedRotation, LocalKeyring, NextServerKey, Rotated, settle_rotation};
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Subcommand, Debug)]
pub enum KeyringCommand {
    /// Seal all keys of a data directory again, under another server key
    Rotate(RotateArgs),
}

#[derive(Args, Debug)]
pub struct RotateArgs {
    /// The settings of the server: they say where the server key is now
    #[command(flatten)]
    pub settings: ServeArgs,
    #[command(flatten)]
    pub next: NextArgs,
}

/// A key has 64 bytes of text.
const KEY_FILE_BYTES_MAX: u64 = 1_024;

/// Without any of them the next key is made and kept where the one before is, if that is the data directory.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub struct NextArgs {
    /// The next server key is in this file. If there is no such file, a key is made and written there
    #[arg(long, value_name = "FILE")]
    pub new_key_file: Option<PathBuf>,
    /// The next server key is what this program prints: a list in JSON, like '["aws", "kms", "decrypt"]'
    #[arg(long, value_name = "LIST")]
    pub new_key_command: Option<String>,
    /// The next server key is made and kept in keys/server.key in the data directory
    #[arg(long)]
    pub new_key_in_data: bool,
}

pub fn run(command: &KeyringCommand) -> Result<()> {
    match command {
        KeyringCommand::Rotate(args) => rotate(args),
    }
}

/// The next key, and what the settings must say from then on.
struct Next {
    key: NextServerKey,
    settings: String,
}

fn rotate(args: &RotateArgs) -> Result<()> {
    private_files::keep_private();
    let config = config::load(&args.settings.flags())?;
    let directory = keys_directory(&config.data);
    ensure!(directory.join("server.check").exists(), "there is no keyring in {}", config.data.display());
    let _lock = lock(&config.data, &directory)?;
    match settle_rotation(&RealDisk, &directory).context("cannot open the keyring")? {
        InterruptedRotation::None => {}
        InterruptedRotation::Discarded => remark("an earlier rotation was interrupted and did not happen"),
        InterruptedRotation::Finished => remark("an earlier rotation was interrupted and is finished now"),
    }
    let next = next_key(&args.next, &config)?;
    let Some(keyring) = open(&config, &directory, &next)? else {
        return say(format_args!("the keys are sealed under this server key already\n{}", next.settings));
    };
    let rotated = keyring.rotate(&next.key);
    let Rotated { tenants, bytes } =
        rotated.context("the rotation failed: keep both keys, and run it again with the same options")?;
    say(format_args!(
        "tenants: {tenants}, bytes of keys: {bytes}; all of it is sealed under the new server key. The old one opens nothing here any \
         more, but backups from before\n{}",
        next.settings
    ))
}

/// Keeps servers away. Must be the user whose files these are: the server has to read what is written.
fn lock(data: &Path, directory: &Path) -> Result<DiskLock> {
    let owner = fs::metadata(directory).context("cannot look at the keyring")?.uid();
    let us = rustix::process::geteuid().as_raw();
    ensure!(owner == us, "{} belongs to user {owner}: run this as that user", directory.display());
    let path = journal_directory(data).join(LOCK_NAME);
    let lock = RealDisk.lock(&path).with_context(|| format!("cannot lock {}", path.display()))?;
    lock.with_context(|| format!("{} is used by a server: stop it first", data.display()))
}

/// The keyring under its server key; `None` if that is the next one already.
fn open(config: &Config, directory: &Path, next: &Next) -> Result<Option<LocalKeyring>> {
    let source = &config.server_key;
    let opened = LocalKeyring::open(keyring_options(source, source.key()?, directory));
    match (opened, &next.key) {
        (Ok(keyring), _) => Ok(Some(keyring)),
        (Err(_), NextServerKey::Given(key))
            if LocalKeyring::open(keyring_options(source, Some(ServerKey(*key)), directory)).is_ok() =>
        {
            Ok(None)
        }
        (Err(error), _) => Err(error).context("cannot open the keyring"),
    }
}

fn next_key(args: &NextArgs, config: &Config) -> Result<Next> {
    let data = config.data.display();
    let is_in_data = matches!(config.server_key, ServerKeySource::DataDirectory);
    match (&args.new_key_file, &args.new_key_command) {
        (Some(file), _) => key_in_file(file),
        (None, Some(list)) => {
            let arguments: Vec<String> =
                serde_json::from_str(list).context("--new-key-command must be a list of texts in JSON")?;
            let time = config.key_command_time;
            let key = ServerKeySource::Command { arguments, time }.key()?;
            let key = key.context("a command always gives a key")?;
            let settings = format!(
                "start with keyring.server_key_command = {list} (FANTAIL_KEYRING_SERVER_KEY_COMMAND)"
            );
            Ok(Next { key: NextServerKey::Given(key.0), settings })
        }
        (None, None) if args.new_key_in_data || is_in_data => {
            let key = NextServerKey::Kept(ServerKey::make().0);
            let settings =
                format!("it is in {data}/keys/server.key: start without keyring.server_key settings");
            Ok(Next { key, settings })
        }
        (None, None) => bail!(
            "the server key comes from {}: say with --new-key-file, --new-key-command or --new-key-in-data where the next one is",
            config.server_key.name()
        ),
    }
}

/// The key in a file, which is made if there is none: durable before anything is sealed under it.
fn key_in_file(file: &Path) -> Result<Next> {
    let path = file.display();
    let key = match fs::File::open(file) {
        Ok(found) => {
            let mut bytes = Vec::new();
            let read = found.take(KEY_FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
            read.with_context(|| format!("cannot read {path}"))?;
            ServerKey::parse(&bytes).with_context(|| format!("{path} holds something else"))?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = ServerKey::make();
            write_key(file, &key.text())?;
            remark(format_args!(
                "made a server key in {path}: without it nothing here can be read, so keep a copy elsewhere"
            ));
            key
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
    };
    let settings = format!("start with keyring.server_key_file = {path} (FANTAIL_KEYRING_SERVER_KEY_FILE)");
    Ok(Next { key: NextServerKey::Given(key.0), settings })
}
