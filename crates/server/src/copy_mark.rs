//! The mark of a copy: `copy.json` in a backup, and in a data directory that was restored from one.
//!
//! ```json
//! {"format": 1, "takenAtMs": 1763580000000, "restoredAtMs": 1763583600000}
//! ```
//! A backup has the mark from its beginning, so that it is paused however it is put in place: by `fantail restore`, by hand, or by
//! a server that is started on the backup itself. `fantail resume` and `fantail restore --active` remove it.
//!
//! What must never happen: a mark that cannot be read and is taken for none; a mark that comes back after a resume.

use anyhow::{Context, Result, ensure};
use fantail_local::disk::{Disk, RealDisk};
use fantail_rules::ids::Millis;
use fantail_rules::wall::utc_text;
use fantail_wire::health::PausedCopy;
use serde_json::{Map, Value};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "copy.json";
const FORMAT: u64 = 1;
/// Longer files are no marks.
const BYTES_MAX: u64 = 4_096;

/// What a copy says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopyMark {
    /// When the backup was taken; unknown for backups of versions without marks.
    pub taken_at: Option<Millis>,
    /// When it was restored; nothing while it is a backup.
    pub restored_at: Option<Millis>,
    /// Files are missing: it is being restored, or that was interrupted.
    pub is_unfinished: bool,
}

#[must_use]
pub fn mark_file(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

impl CopyMark {
    /// The mark of a data directory that is to be served; one that was not restored completely is refused.
    pub fn to_serve(data: &Path) -> Result<Option<Self>> {
        let mark = Self::read(data)?;
        ensure!(
            !mark.is_some_and(|mark| mark.is_unfinished),
            "{} was not restored completely: remove it and run `fantail restore` again",
            data.display()
        );
        Ok(mark)
    }

    /// The mark of a directory, if it has one.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let file = mark_file(directory);
        let about = || format!("cannot read the mark of a copy, {}", file.display());
        match fs::metadata(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(about),
            Ok(metadata) => ensure!(metadata.len() <= BYTES_MAX, "{} is no mark of a copy", file.display()),
        }
        let text = fs::read_to_string(&file).with_context(about)?;
        let mark = Self::parse(&text);
        mark.map(Some).with_context(|| format!("{} is damaged, so nothing is started", file.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let fields: Map<String, Value> = serde_json::from_str(text).context("it is no JSON object")?;
        let number = |name: &str| match fields.get(name) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).with_context(|| format!("{name} is no whole number")),
        };
        let format = number("format")?.context("format is missing")?;
        ensure!(format <= FORMAT, "it has format {format}, this build reads up to {FORMAT}");
        Ok(Self {
            taken_at: number("takenAtMs")?.map(Millis),
            restored_at: number("restoredAtMs")?.map(Millis),
            is_unfinished: match fields.get("unfinished") {
                None => false,
                Some(value) => value.as_bool().context("unfinished is neither true nor false")?,
            },
        })
    }

    /// Writes the mark whole or not at all. Durable on return.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let (file, beside) = (mark_file(directory), mark_file(directory).with_extension("new"));
        let written = || -> io::Result<()> {
            let mut out =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
            writeln!(out, "{}", self.text())?;
            out.sync_all()?;
            fs::rename(&beside, &file)?;
            RealDisk.sync_dir(directory)
        };
        written().with_context(|| format!("cannot write {}", file.display()))
    }

    fn text(&self) -> Value {
        let mut fields = Map::from_iter([("format".to_owned(), FORMAT.into())]);
        for (name, at) in [("takenAtMs", self.taken_at), ("restoredAtMs", self.restored_at)] {
            fields.extend(at.map(|at| (name.to_owned(), at.0.into())));
        }
        if self.is_unfinished {
            fields.insert("unfinished".to_owned(), true.into());
        }
        fields.into()
    }

    /// Removes the mark of a directory. Durable on return. Again: a no-op.
    pub fn remove(directory: &Path) -> Result<()> {
        let file = mark_file(directory);
        let removed = match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Err(_) | Ok(()) => RealDisk.sync_dir(directory),
        };
        removed.with_context(|| format!("cannot remove {}", file.display()))
    }

    /// As the API shows it.
    #[must_use]
    pub fn shown(&self) -> PausedCopy {
        PausedCopy {
            backup_taken_at: self.taken_at.map(utc_text),
            restored_at: self.restored_at.map(utc_text),
        }
    }

    /// What the banner and `/readyz?verbose` say.
    #[must_use]
    pub fn sentence(&self) -> String {
        let taken_at = self.taken_at.map(|at| format!(" of {}", utc_text(at))).unwrap_or_default();
        format!(
            "this is a copy made from a backup{taken_at}: it accepts and reads, and sends nothing until you run `fantail resume`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_round_trip_and_what_is_no_mark_is_refused_by_name() {
        let directory = std::env::temp_dir().join(format!("fantail-copy-mark-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        assert_eq!(CopyMark::read(&directory).expect("readable"), None);
        let restored = CopyMark {
            taken_at: Some(Millis(1_769_860_800_000)),
            restored_at: Some(Millis(1_769_860_800_007)),
            is_unfinished: false,
        };
        for mark in [CopyMark::default(), CopyMark { restored_at: None, ..restored }, restored] {
            mark.write(&directory).expect("written");
            assert_eq!(CopyMark::to_serve(&directory).expect("whole"), Some(mark));
        }
        CopyMark { is_unfinished: true, ..restored }.write(&directory).expect("written");
        let error = CopyMark::to_serve(&directory).expect_err("it is not whole").to_string();
        assert!(error.contains("not restored completely"), "{error}");
        assert!(restored.sentence().contains("2026-01-31T12:00:00.000Z"));
        let long = format!("{{\"format\": 1{}}}", " ".repeat(5_000));
        for wrong in
            ["", "{", "{}", "[]", "{\"format\": 2}", "{\"format\": 1, \"takenAtMs\": \"now\"}", &long]
        {
            fs::write(mark_file(&directory), wrong).expect("written");
            let error = format!("{:#}", CopyMark::read(&directory).expect_err("no mark"));
            assert!(error.contains("copy.json"), "{error}");
        }
        CopyMark::remove(&directory).expect("removed");
        CopyMark::remove(&directory).expect("again");
        assert_eq!(CopyMark::read(&directory).expect("readable"), None);
        fs::remove_dir_all(&directory).expect("the directory is there");
    }
}
