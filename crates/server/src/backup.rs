//! `fantail backup`. The running server writes a verified copy inside its data directory; the command moves it to where the
//! operator wants it.

use crate::backup_keys::write_identity;
use crate::caller::{admin_client_of, answered};
use crate::cli::{ServerArgs, remark, say};
use crate::client::Request;
use crate::private_files;
use crate::provision::data_directory;
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use fantail_local::disk::{Disk, RealDisk};
use fantail_local::recipient::Identity;
use fantail_wire::health::KeysInBackup;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct BackupArgs {
    #[command(subcommand)]
    pub command: Option<BackupCommand>,
    /// Where the copy goes; must not exist
    #[arg(required = true)]
    pub directory: Option<PathBuf>,
    /// Leave out the server key, the signer of the audit log and the API keys: the copy cannot be read without the server key
    #[arg(long)]
    pub without_keys: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Subcommand, Debug)]
pub enum BackupCommand {
    /// Make a pair: a recipient, for the setting backup.recipient, and the identity that opens what is sealed to it
    Keygen(KeygenArgs),
}

#[derive(Args, Debug)]
pub struct KeygenArgs {
    /// Write the identity to a new file that only you can read, and print the recipient alone
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

pub fn run(args: &BackupArgs) -> Result<()> {
    private_files::keep_private();
    match (&args.command, &args.directory) {
        (Some(BackupCommand::Keygen(keygen)), _) => make_pair(keygen),
        (None, Some(directory)) => backup(args, directory),
        (None, None) => bail!("say where the copy goes"),
    }
}

fn make_pair(args: &KeygenArgs) -> Result<()> {
    let identity = Identity::generate();
    let recipient = identity.recipient();
    match &args.to {
        Some(file) => {
            write_identity(file, &identity)?;
            say(recipient)
        }
        None => say(format_args!("recipient  {recipient}\nidentity   {}", identity.to_text())),
    }
}

fn backup(args: &BackupArgs, target: &Path) -> Result<()> {
    ensure!(!target.exists(), "{} exists already", target.display());
    let mut client = admin_client_of(&args.server)?;
    let path = if args.without_keys { "/api/v1/backups?keys=none" } else { "/api/v1/backups" };
    let request = Request { method: "POST", path, headers: &[], body: &[] };
    let response = answered(client.send(&request), 201)?;
    let made: fantail_wire::health::Backup = serde_json::from_slice(&response.body)?;
    move_tree(&seen_from_here(&args.server.data, Path::new(&made.path)), target)?;
    match made.keys {
        KeysInBackup::Clear => remark(
            "the keys are in this backup in the clear: whoever has it can read everything. Set backup.recipient to seal them, see `fantail \
             backup keygen`",
        ),
        KeysInBackup::LeftOut => {
            remark("this backup has no keys: it cannot be read without keys/server.key of the server")
        }
        KeysInBackup::Sealed => {}
    }
    say(format_args!("{} bytes in {}", made.bytes, target.display()))
}

/// The server names the copy as it sees it; its data directory may have another name here (a mount, a relative path).
fn seen_from_here(data: &Path, made: &Path) -> PathBuf {
    let here = made.file_name().map(|name| data.join("backups").join(name));
    here.filter(|here| here.is_dir()).unwrap_or_else(|| made.to_owned())
}

/// Renames, or copies and then removes if the target is on another file system.
fn move_tree(source: &Path, target: &Path) -> Result<()> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = || RealDisk.sync_dir(parent).with_context(|| format!("cannot sync {}", parent.display()));
    if fs::rename(source, target).is_ok() {
        return named();
    }
    // Under another name until it is whole: what is killed half-way leaves no directory that looks like a backup.
    let part = target.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part).with_context(|| format!("cannot remove {}", part.display()))?;
    }
    data_directory(&part)?;
    copy_tree(source, &part, &[])?;
    fs::rename(&part, target).with_context(|| format!("cannot name {}", target.display()))?;
    named()?;
    fs::remove_dir_all(source).with_context(|| format!("cannot remove {}", source.display()))
}

/// Copies files with their modes, each durable before the next, but for some. Returns the bytes.
pub fn copy_tree(source: &Path, target: &Path, left_out: &[&Path]) -> Result<u64> {
    let mut bytes = 0;
    let mut waiting: Vec<(PathBuf, PathBuf)> = vec![(source.to_owned(), target.to_owned())];
    while let Some((from, to)) = waiting.pop() {
        for entry in fs::read_dir(&from).with_context(|| format!("cannot read {}", from.display()))? {
            let entry = entry?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type()?.is_dir() {
                data_directory(&to)?;
                waiting.push((from, to));
            } else if !left_out.contains(&from.as_path()) {
                bytes += fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
                fs::File::open(&to)?.sync_all()?;
            }
        }
        fs::File::open(&to)?.sync_all()?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_copied_whole() {
        let base = std::env::temp_dir().join(format!("fantail-backup-{}", std::process::id()));
        let (source, target) = (base.join("a"), base.join("b"));
        data_directory(&source.join("journal/deep")).expect("directories");
        data_directory(&target).expect("a directory");
        fs::write(source.join("one"), "12345").expect("a file");
        fs::write(source.join("journal/deep/two"), "678").expect("a file");
        fs::write(source.join("other"), "90").expect("a file");
        assert_eq!(copy_tree(&source, &target, &[&source.join("other")]).expect("copied"), 8);
        assert!(!target.join("other").exists());
        assert_eq!(fs::read_to_string(target.join("journal/deep/two")).expect("a copy"), "678");
        let moved = base.join("c");
        move_tree(&target, &moved).expect("moved");
        assert!(!target.exists() && moved.join("one").exists());
        fs::remove_dir_all(base).expect("the directory is there");
    }
}
