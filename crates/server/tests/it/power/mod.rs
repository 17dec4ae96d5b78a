//! The power goes off: across the journal, the tables, the keys and the audit log of a real server at once. Everything that
//! was acknowledged before is there, nothing is there by half, and the server starts.
//!
//! A server is recorded under load from its first start on, through a clean stop and a kill (`trace`, `record.c`). At
//! drawn points of that record its directory is written as a power cut would leave it (`disk`, `content`), a server is
//! started on it, and it is held against the client's own book (`book`, `check`). Some starts are cut off again.
//!
//! `FANTAIL_POWER_CUTS` says how many cuts; `make nightly` asks for many. With `FANTAIL_POWER_KEEP=DIR` the directories of
//! cuts that failed are kept there.

mod book;
mod check;
mod content;
mod disk;
mod trace;

use crate::audit::copy;
use crate::crash::draw;
use crate::deliveries::{Post, register};
use crate::server::{Directory, Server};
use crate::world::{expect, follow, put_user};
use book::{ACTORS, Book, KINDS, Kind, Load, RECIPIENTS};
use disk::RecordedDisk;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use trace::{Change, Library, Recorder, changes};

const CUTS: usize = 6;
/// Cuts of one record; more cuts are of further ones.
const CUTS_OF_A_RECORD: usize = 40;
const ACKNOWLEDGED_IN_A_LIFE: u64 = 150;
const CHECKED_AT_ONCE: usize = 2;
/// Every so many cuts are followed by one during the recovery.
const CUT_AGAIN_EVERY: u64 = 3;
/// What belongs to the world outside.
const OUTSIDE: &str = "arrivals";
/// Small windows and frequent checkpoints, so that everything is being written all the time.
const SETTINGS: [(&str, &str); 2] =
    [("FANTAIL_INBOX_WINDOW_EVENTS", "4"), ("FANTAIL_AUDIT_CHECKPOINT_S", "1")];

/// What was recorded.
struct Recorded {
    library: Library,
    _beside: Directory,
    trace: Vec<u8>,
    book: Book,
    key: String,
    /// The position at which the first users were there.
    prepared: u64,
}

fn prepare(server: &Server) {
    let mut client = server.client();
    for user in RECIPIENTS {
        put_user(&mut client, user);
        register(&mut client, user, "phone", &format!("stub:ok/{user}"));
    }
    put_user(&mut client, crate::crash::READER);
    (0..ACTORS).for_each(|actor| follow(&mut client, crate::crash::READER, &format!("actor-{actor}")));
}

/// A first start, a clean stop, a kill, and two starts after them, all under load.
fn record() -> Recorded {
    let (post, beside) = (Post::new(), Directory::new());
    let library = Library::build(&beside.path(""));
    let recorder = Recorder::new(&library, &post.directory.path(""), &beside.path(""));
    let mut environment = recorder.environment().to_vec();
    environment.extend(SETTINGS);
    let load = Load::new(&recorder);
    let (mut key, mut prepared) = (String::new(), 0);
    for signal in ["TERM", "KILL", "TERM"] {
        let mut server = post.start(&environment);
        if key.is_empty() {
            key = server.key("default.key");
            prepare(&server);
            prepared = recorder.position();
        }
        std::thread::scope(|scope| {
            for kind in KINDS {
                let client = if kind == Kind::Keys { server.admin() } else { server.client() };
                let load = &load;
                scope.spawn(move || load.go_on(kind, client));
            }
            load.wait_for(ACKNOWLEDGED_IN_A_LIFE);
            // A snapshot, and a copy of everything.
            expect(server.admin().post("/api/v1/backups", &json!({})), 201);
            load.wait_for(ACKNOWLEDGED_IN_A_LIFE / 3);
            server.signal(signal);
            assert_eq!(server.wait(), signal == "TERM", "{}", server.log());
        });
    }
    let trace = std::fs::read(&recorder.trace).expect("a trace");
    let book = load.into_book();
    Recorded { library, _beside: beside, trace, book, key, prepared }
}

/// Starts a server on what a cut has left, and cuts the power again while it recovers. Gives the server's log if it did not
/// start.
fn cut_again(library: &Library, left: &mut RecordedDisk, state: &mut u64) -> Result<(), String> {
    let (post, beside) = (Post::new(), Directory::new());
    left.write(&post.directory.path(""));
    let recorder = Recorder::new(library, &post.directory.path(""), &beside.path(""));
    let mut environment = recorder.environment().to_vec();
    environment.extend(SETTINGS);
    let Ok(server) = post.try_start(&environment) else {
        return Err(std::fs::read_to_string(post.directory.path("data.log")).unwrap_or_default());
    };
    drop(server.kill());
    let trace = std::fs::read(&recorder.trace).expect("a trace");
    let until = draw(state, changes(&trace).count() as u64) as usize;
    changes(&trace).take(until).for_each(|(_, change)| left.apply(&change));
    left.keep(OUTSIDE);
    left.cut(state);
    Ok(())
}

/// What became of a cut.
enum End {
    Whole,
    Refused(String),
    Lost { why: String, is_told: bool },
}

/// Writes what a cut leaves, starts a server on it and looks.
fn judge(recorded: &Recorded, disk: &mut RecordedDisk, position: u64, seed: u64) -> End {
    let post = Post::new();
    disk.write(&post.directory.path(""));
    let kept = std::env::var("FANTAIL_POWER_KEEP").ok().map(|directory| {
        let kept = std::path::Path::new(&directory).join(format!("cut-{position}-{seed:x}"));
        copy(&post.directory.path(""), &kept);
        kept
    });
    let log = || std::fs::read_to_string(post.directory.path("data.log")).unwrap_or_default();
    let end = match post.try_start(&SETTINGS) {
        Err(_) => End::Refused(log()),
        Ok(server) => {
            match catch_unwind(AssertUnwindSafe(|| check::check(recorded, &post, server, position))) {
                Ok(()) => End::Whole,
                Err(cause) => {
                    let text = cause.downcast_ref::<String>().cloned();
                    let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                    let why = format!("{}\n{}", text.unwrap_or_default(), log());
                    End::Lost { why, is_told: log().contains("damaged") }
                }
            }
        }
    };
    if let (End::Whole, Some(kept)) = (&end, kept) {
        std::fs::remove_dir_all(kept).expect("it was copied");
    }
    end
}

/// The changes of each part of the data directory: its journal, its tables, its keys and so on.
fn changes_by_part(trace: &[u8]) -> Vec<Vec<usize>> {
    let part_of = |path: &str| path.split('/').take(3).collect::<Vec<_>>().join("/");
    let (mut parts, mut names) = (BTreeMap::<String, Vec<usize>>::new(), BTreeMap::new());
    for (no, (_, change)) in changes(trace).enumerate() {
        let part = match change {
            Change::Create { inode, path } => {
                names.insert(inode, part_of(path));
                Some(part_of(path))
            }
            Change::Write { inode, .. }
            | Change::SyncFile { inode, .. }
            | Change::SetLength { inode, .. }
            | Change::Grow { inode, .. } => names.get(&inode).cloned(),
            Change::Rename { to: path, .. } | Change::Remove { path } | Change::MakeDirectory { path } => {
                Some(part_of(path))
            }
            Change::SyncDirectory { .. } | Change::Synced { .. } => None,
        };
        if let Some(part) = part.filter(|part| part != OUTSIDE) {
            parts.entry(part).or_default().push(no);
        }
    }
    parts.into_values().collect()
}

/// Cuts the power at some points of a record, each in its own way. Every part of the directory has its share of the points.
fn cut(
    recorded: &Recorded,
    seed: u64,
    cuts: usize,
    failed: &Mutex<Vec<String>>,
    ends: &Mutex<BTreeMap<&str, u64>>,
) {
    let parts = changes_by_part(&recorded.trace);
    let mut state = seed;
    let mut point = |no: usize| {
        let part = &parts[(no + seed as usize) % parts.len()];
        part[draw(&mut state, part.len() as u64) as usize]
    };
    let mut points: Vec<usize> = (0..cuts).map(&mut point).collect();
    points.sort_unstable();
    let mut points = points.into_iter().peekable();
    let mut disk = RecordedDisk::new();
    for (no, (position, change)) in changes(&recorded.trace).enumerate() {
        disk.apply(&change);
        while points.next_if_eq(&no).is_some() {
            let mut left = disk.clone();
            left.keep(OUTSIDE);
            left.cut(&mut state);
            let is_cut_again = draw(&mut state, CUT_AGAIN_EVERY) == 0;
            let refused = is_cut_again.then(|| cut_again(&recorded.library, &mut left, &mut state).err());
            let end = match refused.flatten() {
                Some(log) => End::Refused(log),
                None => judge(recorded, &mut left, position, state),
            };
            let (end, why) = match end {
                End::Whole if is_cut_again => ("whole after two cuts", None),
                End::Whole => ("whole", None),
                End::Refused(why) => ("refused", Some(why)),
                End::Lost { why, is_told: true } => ("lost", Some(why)),
                End::Lost { why, is_told: false } => ("silently lost", Some(why)),
            };
            *ends.lock().expect("nobody panics here").entry(end).or_default() += 1;
            let failure = why.map(|why| {
                format!("{end} by a cut at {position}, behind {:.120}: {why}", format!("{change:?}"))
            });
            failed.lock().expect("nobody panics here").extend(failure);
        }
    }
}

// proves: DED-04, DED-05, DED-06, NFR-03
#[test]
fn a_power_cut_at_any_point_loses_nothing_and_refuses_no_start() {
    let cuts = std::env::var("FANTAIL_POWER_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(CUTS);
    let (failed, ends) = (Mutex::default(), Mutex::default());
    let (mut done, mut acknowledged) = (0, 0);
    while done < cuts {
        let recorded = record();
        acknowledged += KINDS.iter().map(|kind| recorded.book.log(*kind).len()).sum::<usize>();
        let now = (cuts - done).min(CUTS_OF_A_RECORD);
        std::thread::scope(|scope| {
            for worker in 0..CHECKED_AT_ONCE {
                let (recorded, failed, ends) = (&recorded, &failed, &ends);
                let cuts = (now + worker) / CHECKED_AT_ONCE;
                scope.spawn(move || {
                    cut(recorded, (done * CHECKED_AT_ONCE + worker) as u64, cuts, failed, ends)
                });
            }
        });
        done += now;
    }
    let (failed, ends) = (failed.into_inner().expect("no panic"), ends.into_inner().expect("no panic"));
    let mut out = std::io::stdout();
    writeln!(out, "{cuts} power cuts under a load of {acknowledged} acknowledged requests: {ends:?}")
        .expect("stdout can be written");
    assert!(failed.is_empty(), "{} of {cuts} cuts: {}", failed.len(), failed.join("\n\n"));
}
