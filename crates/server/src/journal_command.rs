//! `fantail journal dump|verify`: reads the files without the lock, also beside a running server.

use crate::cli::{JournalArgs, JournalCommand, say};
use crate::composition::journal_directory;
use anyhow::{Result, bail};
use fantail_local::disk::RealDisk;
use fantail_local::journal::{DumpKind, DumpedRecord, Verdict, dump, verify};

pub fn run(command: JournalCommand) -> Result<()> {
    match command {
        JournalCommand::Dump(args) => print_records(&args),
        JournalCommand::Verify(args) => {
            let verdict = verify(&RealDisk, &journal_directory(&args.data));
            say(shown(&verdict).trim_end())?;
            match verdict.damage {
                None => Ok(()),
                Some(damage) => Err(damage.into()),
            }
        }
    }
}

fn print_records(args: &JournalArgs) -> Result<()> {
    let directory = journal_directory(&args.data);
    if !directory.is_dir() {
        bail!("there is no journal in {}", args.data.display());
    }
    for record in dump(&RealDisk, &directory)? {
        say(line(&record?))?;
    }
    Ok(())
}

/// Where it is, what it is, how long. Contents are sealed and not shown.
fn line(record: &DumpedRecord) -> String {
    let partition = record.partition.map_or("unknown".to_owned(), |partition| partition.to_string());
    let kind = match record.kind {
        DumpKind::Data => "data",
        DumpKind::Fence => "fence",
        DumpKind::State => "state",
        DumpKind::Footer => "footer",
    };
    format!(
        "segment={} offset={} block={} kind={kind} partition={partition} epoch={} position={} bytes={}",
        record.segment,
        record.offset,
        record.block,
        record.epoch,
        record.position,
        record.bytes.len()
    )
}

fn shown(verdict: &Verdict) -> String {
    let mut text = format!(
        "{} segments, {} blocks, {} bytes, {}\n",
        verdict.segments,
        verdict.blocks,
        verdict.bytes,
        if verdict.sealed { "sealed by a clean stop" } else { "not sealed" }
    );
    for (partition, records) in &verdict.records {
        text.push_str(&format!("{partition}: {records} records\n"));
    }
    if let Some((file, offset, bytes)) = &verdict.torn_tail {
        text.push_str(&format!(
            "torn tail: {bytes} bytes at offset {offset} of {file}; the next start cuts it\n"
        ));
    }
    text.push_str(if verdict.damage.is_none() { "sound\n" } else { "DAMAGED\n" });
    text
}
