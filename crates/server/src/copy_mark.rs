//! The mark of a copy: `copy.json` in a backup, and in a data directory that was restored from one.
//!
//! ```json
//! {"format": 1, "takenAtMs": 1763580000000, "restoredAtMs": 1763583600000}
//! ```
//! A backup has the mark from its beginning, so that it is paused however it is put in place: by `fantail restore`, by hand, or by
//! a server that is started on the backup itself. `fantail resume` removes it, and so does the first start after `fantail restore
//! --active`.
//!
//! What must never happen: a mark that cannot be read and is taken for none; a mark that comes back after a resume.

use anyhow::{Context, Result, ensure};
use fantail_local::disk::{Disk, RealDisk};
use fantail_local::erasure_list::ErasureListId;
use fantail_rules::ids::Millis;
use fantail_rules::wall::utc_text;
use fantail_wire::health::PausedCopy;
use serde_json::{Map, Value, json};
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
    /// Its first start ends the pause.
    pub is_active: bool,
    /// The keys that open everything else are not in it and not sealed in it.
    pub is_without_keys: bool,
    /// Where the list of erasures was when the backup was taken.
    pub erasure_list: Option<ListPlace>,
    /// The first start applies entries of `erasures.restored` from this place on.
    pub erasures_from: Option<u64>,
    /// Erasures after the backup were applied.
    pub erasures_applied: bool,
}

/// A place in a list of erasures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListPlace {
    pub id: ErasureListId,
    pub entries: u64,
}

impl ListPlace {
    #[must_use]
    pub fn json(&self) -> Value {
        json!({"id": self.id.to_string(), "entries": self.entries})
    }

    pub fn parse(value: &Value) -> Result<Self> {
        let id = value["id"].as_str().context("id is no text")?;
        ensure!(id.len() == 32 && id.is_ascii(), "id does not have 32 hexadecimal digits");
        let mut bytes = [0; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&id[2 * at..2 * at + 2], 16)
                .context("id does not have 32 hexadecimal digits")?;
        }
        let entries = value["entries"].as_u64().context("entries is no whole number")?;
        Ok(Self { id: ErasureListId(bytes), entries })
    }
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
        let flag = |name: &str| match fields.get(name) {
            None => Ok(false),
            Some(value) => value.as_bool().with_context(|| format!("{name} is neither true nor false")),
        };
        let format = number("format")?.context("format is missing")?;
        ensure!(format <= FORMAT, "it has format {format}, this build reads up to {FORMAT}");
        Ok(Self {
            taken_at: number("takenAtMs")?.map(Millis),
            restored_at: number("restoredAtMs")?.map(Millis),
            is_unfinished: flag("unfinished")?,
            is_active: flag("active")?,
            is_without_keys: flag("withoutKeys")?,
            erasure_list: fields.get("erasureList").map(ListPlace::parse).transpose()?,
            erasures_from: number("erasuresFrom")?,
            erasures_applied: flag("erasuresApplied")?,
        })
    }

    /// Writes the mark whole or not at all. Durable on return.
    pub fn write(&self, directory: &Path) -> Result<()> {
        write_json(&mark_file(directory), &self.json())
    }

    fn json(&self) -> Value {
        let mut fields = Map::from_iter([("format".to_owned(), FORMAT.into())]);
        let numbers = [
            ("takenAtMs", self.taken_at.map(|at| at.0)),
            ("restoredAtMs", self.restored_at.map(|at| at.0)),
            ("erasuresFrom", self.erasures_from),
        ];
        fields.extend(numbers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))));
        let flags = [
            ("unfinished", self.is_unfinished),
            ("active", self.is_active),
            ("erasuresApplied", self.erasures_applied),
            ("withoutKeys", self.is_without_keys),
        ];
        fields.extend(
            flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (name.to_owned(), true.into())),
        );
        fields.extend(self.erasure_list.map(|place| ("erasureList".to_owned(), place.json())));
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
            erasures_applied: self.erasures_applied,
        }
    }

    /// What the banner and `/readyz?verbose` say.
    #[must_use]
    pub fn sentence(&self) -> String {
        let taken_at = self.taken_at.map(|at| format!(" of {}", utc_text(at))).unwrap_or_default();
        let erasures = if self.erasures_applied {
            ""
        } else {
            "; users who were erased after the backup are here again, see `fantail restore --erasures`"
        };
        format!(
            "a copy made from a backup{taken_at}: it accepts and reads, and sends nothing until you run `fantail resume`{erasures}"
        )
    }
}

/// Writes a small file whole or not at all, for its owner only. Durable on return.
pub fn write_json(file: &Path, value: &Value) -> Result<()> {
    let beside = file.with_extension("new");
    let written = || -> io::Result<()> {
        let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        writeln!(out, "{value}")?;
        out.sync_all()?;
        fs::rename(&beside, file)?;
        RealDisk.sync_dir(file.parent().unwrap_or(Path::new(".")))
    };
    written().with_context(|| format!("cannot write {}", file.display()))
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
            is_active: true,
            is_without_keys: true,
            erasure_list: Some(ListPlace { id: ErasureListId([0xa7; 16]), entries: 300 }),
            erasures_from: Some(200),
            erasures_applied: true,
        };
        for mark in [CopyMark::default(), CopyMark { restored_at: None, ..restored }, restored] {
            mark.write(&directory).expect("written");
            assert_eq!(CopyMark::to_serve(&directory).expect("whole"), Some(mark));
        }
        CopyMark { is_unfinished: true, ..restored }.write(&directory).expect("written");
        let error = CopyMark::to_serve(&directory).expect_err("it is not whole").to_string();
        assert!(error.contains("not restored completely"), "{error}");
        assert!(restored.sentence().contains("2026-01-31T12:00:00.000Z"));
        assert!(!restored.sentence().contains("erased") && CopyMark::default().sentence().contains("erased"));
        let long = format!("{{\"format\": 1{}}}", " ".repeat(5_000));
        for wrong in [
            "",
            "{",
            "{}",
            "[]",
            "{\"format\": 2}",
            "{\"format\": 1, \"takenAtMs\": \"now\"}",
            "{\"format\": 1, \"active\": 1}",
            "{\"format\": 1, \"erasureList\": {\"id\": \"ü234567890123456789012345678901\", \"entries\": 1}}",
            &long,
        ] {
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
