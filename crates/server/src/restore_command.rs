//! `fantail restore`: copies a backup into an empty data directory. The next start recovers from it, applies the erasures that it was
//! given, and sends nothing before it is resumed.

use crate::backup::copy_tree;
use crate::backup_keys::{OpenedKeys, sealed_file};
use crate::cli::{remark, say};
use crate::composition::journal_directory;
use crate::copy_mark::{CopyMark, mark_file};
use crate::erasure_files::GivenList;
use crate::private_files;
use crate::provision::data_directory;
use crate::system::SystemClock;
use anyhow::{Result, bail, ensure};
use clap::Args;
use fantail_ports::clock::Clock;
use fantail_rules::wall::utc_text;
use std::fs;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// The backup
    pub directory: PathBuf,
    /// Data directory to make; must not exist or be empty
    #[arg(long, value_name = "DIR", default_value = "./fantail-data")]
    pub data: PathBuf,
    /// The list of erasures of the server that was backed up, as it is now: users who were erased after the backup are erased again
    #[arg(long, value_name = "FILE")]
    pub erasures: Option<PathBuf>,
    /// The identity that opens the keys of the backup, as `fantail backup keygen` printed it
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Do not pause: a server on it sends at once what waited when the backup was taken. Only if the original is gone
    #[arg(long)]
    pub active: bool,
}

pub fn run(args: &RestoreArgs) -> Result<()> {
    private_files::keep_private();
    let source = &args.directory;
    ensure!(journal_directory(source).is_dir(), "{} is not a backup: it has no journal", source.display());
    if args.data.exists() && fs::read_dir(&args.data)?.next().is_some() {
        bail!("{} is not empty", args.data.display());
    }
    let backup = CopyMark::read(source)?.unwrap_or_default();
    // Everything that can be refused is refused before anything is written.
    let keys = OpenedKeys::open(source, args.identity.as_deref())?;
    let erasures = args.erasures.as_deref().map(|file| GivenList::read(file, &backup)).transpose()?;
    let mark = CopyMark {
        restored_at: Some(SystemClock::default().wall()),
        is_active: args.active,
        erasures_from: erasures.as_ref().map(|given| given.from),
        erasures_applied: false,
        ..backup
    };
    data_directory(&args.data)?;
    // What is killed half-way is not served.
    CopyMark { is_unfinished: true, ..mark }.write(&args.data)?;
    let bytes = copy_tree(source, &args.data, &[&mark_file(source), &sealed_file(source)])?;
    if let Some(keys) = keys {
        keys.put_into(&args.data)?;
    }
    if let Some(given) = &erasures {
        given.put_into(&args.data)?;
    }
    mark.write(&args.data)?;
    if backup.is_without_keys {
        say(format_args!(
            "this backup has no keys: before the start, put the server's own keys/server.key and keys/audit.key into {}",
            args.data.join("keys").display()
        ))?;
    }
    tell_of_erasures(&backup, erasures.as_ref())?;
    let data = args.data.display();
    let sends = match args.active {
        true => "sends at once",
        false => "accepts and reads, and sends nothing until you run `fantail resume`",
    };
    say(format_args!("{bytes} bytes in {data}; start with `fantail serve --data {data}`: it {sends}"))
}

/// Says which erasures the copy will have.
fn tell_of_erasures(backup: &CopyMark, given: Option<&GivenList>) -> Result<()> {
    let Some(GivenList { entries, from, torn_bytes, .. }) = given else {
        let since = backup.taken_at.map_or_else(|| "the backup was taken".to_owned(), utc_text);
        return say(format_args!(
            "erasures since {since} are not covered: users who were erased after that are here again. Restore with --erasures FILE, the \
             list of erasures of the server (setting erasures.list), to erase them again"
        ));
    };
    if *torn_bytes > 0 {
        remark(format_args!(
            "the list of erasures ends with {torn_bytes} bytes that are no whole entry: that erasure was never reported as done"
        ));
    }
    say(format_args!(
        "{} of {entries} erasures come after the backup: the server applies them before it answers",
        entries - from
    ))
}
