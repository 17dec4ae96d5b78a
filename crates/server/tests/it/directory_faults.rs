//! Faults in the files of a whole data directory: one file is flipped, cut or deleted, and the server is started. It names the
//! file, or everything is as it was. `FANTAIL_DIRECTORY_FAULTS` says how many faults; `make nightly` asks for many.

use crate::audit::copy;
use crate::recovery::{fill, seen_with};
use crate::server::{Directory, Server, run};
use crate::world::bare;
use serde_json::Value;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

const FAULTS: u64 = 24;

/// SplitMix64: the same seed gives the same faults.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as usize % limit.max(1)
    }
}

/// A data directory of a server that was stopped or killed, and what its readers saw.
struct Image {
    directory: Directory,
    key: String,
    seen: Value,
}

fn image(kill: bool) -> Image {
    let directory = Directory::new();
    let data = directory.path("whole");
    let server = Server::start_in(&data, &[], &[("FANTAIL_INBOX_WINDOW_EVENTS", "4")]);
    let seen = fill(&server);
    // A snapshot, and what it is made with.
    let made = bare(&mut server.admin(), "POST", "/api/v1/backups").expect("an answer");
    assert_eq!(made.status, 201, "{}", made.text());
    std::fs::remove_dir_all(data.join("backups")).expect("it was made");
    let key = server.key("default.key");
    if kill {
        drop(server.kill());
    } else {
        drop(server.stop());
    }
    Image { directory, key, seen }
}

/// All files but locks, below a directory.
fn files(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![below.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let is_lock =
                path.extension().is_some_and(|extension| extension == "lock") || path.ends_with("lock");
            if path.is_dir() {
                left.push(path);
            } else if !is_lock {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Damages a file, and says how.
fn damage(file: &Path, chance: &mut Chance) -> String {
    let mut bytes = std::fs::read(file).expect("a file");
    // Most of a segment that is being written was never written to: what is there is hit.
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    match chance.below(3) {
        0 if end > 0 => {
            let (at, bit) = (chance.below(end), chance.below(8));
            bytes[at] ^= 1 << bit;
            std::fs::write(file, bytes).expect("written");
            format!("bit {bit} of byte {at} flipped")
        }
        1 if end > 0 => {
            let cut = chance.below(end);
            bytes.truncate(cut);
            std::fs::write(file, bytes).expect("written");
            format!("cut at {cut}")
        }
        _ => {
            std::fs::remove_file(file).expect("it is there");
            "deleted".to_owned()
        }
    }
}

/// What a message has to say. The database below the tables does not name its files: its directory is what is deleted then.
/// Blobs are named as blobs.
fn name_of(file: &Path, data: &Path) -> String {
    let relative = file.strip_prefix(data).expect("it is in the directory").display().to_string();
    match relative.strip_prefix("blobs/") {
        Some(blob) => blob.replace('+', "/"),
        None if relative.starts_with("tables/rows") => "tables".to_owned(),
        None => relative,
    }
}

fn round(image: &Image, seed: u64) -> Result<&'static str, String> {
    let (whole, scratch) = (image.directory.path("whole"), Directory::new());
    let data = scratch.path("data");
    copy(&whole, &data);
    let mut chance = Chance(seed);
    let all = files(&data);
    let file = &all[chance.below(all.len())];
    let (what, name) = (damage(file, &mut chance), name_of(file, &data));
    let context = format!("seed {seed}: {} {what}", file.strip_prefix(&data).expect("inside").display());
    let log = || std::fs::read_to_string(data.with_extension("log")).unwrap_or_default();
    let is_named =
        || if log().contains(&name) { Ok(()) } else { Err(format!("{context}: not named in\n{}", log())) };
    let Ok(server) = Server::try_start_in(&data, &[], &[("FANTAIL_INBOX_WINDOW_EVENTS", "4")]) else {
        return is_named().map(|()| "refused");
    };
    let mut client = server.with_key(&image.key);
    match catch_unwind(AssertUnwindSafe(|| seen_with(&mut client))) {
        Ok(seen) if seen == image.seen => Ok("harmless"),
        Ok(seen) => {
            is_named().map_err(|why| format!("{why}\nsilently lost: {seen}\ninstead of {}", image.seen))?;
            Ok("named")
        }
        Err(_) => is_named().map(|()| "named"),
    }
}

// fixes: torture 6, torture 9
#[test]
fn a_file_that_was_flipped_cut_or_deleted_is_named_or_nothing_is_lost() {
    let faults = std::env::var("FANTAIL_DIRECTORY_FAULTS").ok().and_then(|text| text.parse().ok());
    let faults: u64 = faults.unwrap_or(FAULTS);
    let images = [image(false), image(true)];
    let (mut ends, mut failed) = (std::collections::BTreeMap::<&str, u64>::new(), Vec::new());
    for seed in 0..faults {
        match round(&images[usize::from(seed % 4 == 3)], seed) {
            Ok(end) => *ends.entry(end).or_default() += 1,
            Err(why) => failed.push(why),
        }
    }
    assert!(failed.is_empty(), "{} of {faults} faults: {}", failed.len(), failed.join("\n\n"));
    assert!(ends.len() > 1, "{ends:?}");
    let mut out = std::io::stdout();
    writeln!(out, "{faults} faults in a data directory: {ends:?}").expect("stdout can be written");
}

/// Backups are made while the server is busy; each is restored, recounted and started.
// fixes: correctness B2
#[test]
fn backups_made_under_load_start_and_have_what_was_there() {
    let server = Server::start_with(&[], &[("FANTAIL_INBOX_WINDOW_EVENTS", "4")]);
    let seen = fill(&server);
    let (directory, key) = (Directory::new(), server.key("default.key"));
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut client = server.client();
                for no in 0.. {
                    if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        break;
                    }
                    // New users get keys, erased ones lose them.
                    let user = format!("/api/v1/users/load-{writer}-{no}");
                    assert_eq!(bare(&mut client, "PUT", &user).expect("an answer").status, 201);
                    if no % 3 == 0 {
                        assert!(bare(&mut client, "DELETE", &user).expect("an answer").status < 300);
                    }
                }
            });
        }
        for no in 0..3 {
            let copy = directory.path(&format!("copy-{no}"));
            run(&["backup", &text(&copy), "--server", &server.address, "--data", &text(&server.data)]);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    drop(server.stop());
    for no in 0..3 {
        let (copy, data) = (directory.path(&format!("copy-{no}")), directory.path(&format!("restored-{no}")));
        run(&["restore", &text(&copy), "--data", &text(&data)]);
        assert!(run(&["journal", "verify", "--data", &text(&data)]).contains("segment"), "backup {no}");
        assert!(run(&["check", "--data", &text(&data)]).contains("balanced"), "backup {no}");
        let restored = Server::start_in(&data, &[], &[("FANTAIL_INBOX_WINDOW_EVENTS", "4")]);
        assert_eq!(seen_with(&mut restored.with_key(&key)), seen, "backup {no}");
        assert!(!restored.log().contains("cut off"), "nothing was torn: {}", restored.log());
        restored.stop();
    }
}
