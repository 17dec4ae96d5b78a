//! Records of the journal: whatever the bytes are, the decoder answers, and what it takes is written as it was read.

use fantail_fuzz::{Corpus, fuzz};
use fantail_machine::records::directory::DirectoryRecord;
use fantail_machine::records::front::FrontRecord;
use fantail_machine::records::root::RootRecord;
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::records::{Fact, Stamped, time_of};

const FIXTURES: &str = include_str!("../../../machine/tests/it/fixtures/records.txt");

fn corpus(machine: &str) -> Corpus {
    let lines = FIXTURES.lines().filter_map(|line| line.split_once(' ')).filter(|(of, _)| *of == machine);
    Corpus::from_hex(lines.map(|(_, hex)| hex), &["\u{ff}", "\0", "\u{7f}"])
}

fn check<R: Fact + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let time = time_of(bytes);
    if let Ok(stamped) = Stamped::<R>::decode(bytes) {
        assert!(time.is_ok(), "a record has a time");
        let again = Stamped::<R>::decode(&stamped.encode());
        assert_eq!(again.as_ref(), Ok(&stamped), "what is written is what was read");
    }
}

#[test]
fn records_are_read_or_refused() {
    fuzz("records of the root", &corpus("root"), check::<RootRecord>);
    fuzz("records of fronts", &corpus("front"), check::<FrontRecord>);
    fuzz("records of directories", &corpus("directory"), check::<DirectoryRecord>);
    fuzz("records of shards", &corpus("shard"), check::<ShardRecord>);
}
