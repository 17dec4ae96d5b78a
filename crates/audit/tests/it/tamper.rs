//! The tamper matrix, by somebody who can write the files and mends every checksum on the way: only the chain and the
//! signed checkpoints are left to tell. The engine's tests do the same to its files.

use super::rig::{Log, place};
use fantail_audit::checkpoint::{Checkpoint, Series, Trouble};
use fantail_audit::entry;
use fantail_audit::key::Signer;
use fantail_audit::verify::{At, Finding, Report};
use fantail_ports::audit::{ChainId, Sequence};
use fantail_rules::ids::Millis;
use fantail_rules::limits::AUDIT_FINDINGS_MAX;

/// Whether the report names this entry, as altered, moved, repeated, removed or cut off.
fn names(report: &Report, chain: ChainId, sequence: Sequence) -> bool {
    report.findings.iter().any(|finding| match finding {
        Finding::Altered { at } | Finding::Reordered { at } | Finding::Repeated { at } => {
            (at.chain, at.sequence) == (chain, sequence)
        }
        Finding::Removed { chain: removed, first, last, .. } => {
            *removed == chain && (*first..=*last).contains(&sequence)
        }
        Finding::CutOff { chain: cut, last, expected, .. } => {
            *cut == chain && *last < sequence && sequence <= *expected
        }
        Finding::Unreadable { .. } | Finding::Checkpoint { .. } => false,
    })
}

#[test]
fn an_untouched_log_is_clean() {
    let log = Log::new();
    let report = log.verify(&log.stored());
    assert_eq!(report.findings, []);
    assert_eq!((report.entries, report.chains, report.checkpoints, report.uncovered), (30, 6, 5, 0));
    assert_eq!(report.newest.unwrap().number, 5);
    let early = log.verify_with(&log.stored(), &log.checkpoints[..1], &[]);
    assert!(early.is_clean());
    assert_eq!(early.uncovered, 23);
}

// proves: AUD-02, AUD-04
#[test]
fn every_flipped_byte_is_found_and_its_entry_named() {
    let log = Log::new();
    let whole = log.stored();
    for (no, bytes) in whole.iter().enumerate() {
        let entry = &log.entries[no].entry;
        for at in 0..bytes.len() {
            let mut stored = whole.clone();
            stored[no][at] ^= 0x04;
            let report = log.verify(&stored);
            let unreadable = |finding: &Finding| matches!(finding, Finding::Unreadable { place: found, .. } if *found == place(no));
            let named = names(&report, entry.chain, entry.sequence) || report.findings.iter().any(unreadable);
            assert!(named, "entry {no} byte {at}: {:?}", report.findings);
        }
    }
}

// proves: AUD-02
#[test]
fn every_removed_repeated_and_reordered_entry_is_named() {
    let log = Log::new();
    let whole = log.stored();
    for (no, linked) in log.entries.iter().enumerate() {
        let (chain, sequence) = (linked.entry.chain, linked.entry.sequence);
        let check = |what: &str, stored: Vec<Vec<u8>>| {
            let report = log.verify(&stored);
            assert!(names(&report, chain, sequence), "{what} {no}: {:?}", report.findings);
        };
        let mut removed = whole.clone();
        removed.remove(no);
        check("removed", removed);
        let mut repeated = whole.clone();
        repeated.insert(no + 1, whole[no].clone());
        check("repeated", repeated.clone());
        repeated.swap_remove(no + 1);
        repeated.push(whole[no].clone());
        check("repeated at the end", repeated);
        // Entries of different chains have no order between them; the next one of the same chain does.
        let next = log.entries[no + 1..].iter().position(|other| other.entry.chain == chain);
        if let Some(distance) = next {
            let mut reordered = whole.clone();
            reordered.swap(no, no + 1 + distance);
            check("reordered", reordered);
        }
    }
}

// proves: AUD-02
#[test]
fn a_log_cut_anywhere_before_its_newest_checkpoint_is_found() {
    let log = Log::new();
    let whole = log.stored();
    for length in 0..whole.len() {
        let report = log.verify(&whole[..length]);
        for lost in &log.entries[length..] {
            let (chain, sequence) = (lost.entry.chain, lost.entry.sequence);
            assert!(names(&report, chain, sequence), "cut at {length}: {:?}", report.findings);
        }
    }
}

/// Somebody rewrites an entry and mends the whole chain behind it: only the checkpoints know.
#[test]
fn a_rewritten_chain_contradicts_the_checkpoints() {
    let log = Log::new();
    for (no, linked) in log.entries.iter().enumerate() {
        let chain = linked.entry.chain;
        let mut stored = log.stored();
        let mut previous = None;
        for (later, linked) in log.entries.iter().enumerate().skip(no) {
            if linked.entry.chain != chain {
                continue;
            }
            let mut entry = linked.entry.clone();
            match previous {
                None => entry.at = Millis(1),
                Some(hash) => entry.previous = hash,
            }
            stored[later] = entry::encode(&entry);
            previous = Some(entry::hash(&entry));
        }
        let report = log.verify(&stored);
        let altered = |finding: &Finding| matches!(finding, Finding::Altered { at } if at.chain == chain);
        assert!(report.findings.iter().any(altered), "{no}: {:?}", report.findings);
    }
}

#[test]
fn a_confirmed_entry_is_not_blamed_for_its_successor() {
    let log = Log::new();
    let heads: Vec<_> = log
        .checkpoints
        .iter()
        .flat_map(|text| Checkpoint::parse(text).unwrap().heads)
        .map(|head| head.hash)
        .collect();
    let behind_heads =
        log.entries.iter().enumerate().filter(|(_, linked)| heads.contains(&linked.entry.previous));
    let mut checked = 0;
    for (no, linked) in behind_heads {
        let mut stored = log.stored();
        stored[no][40] ^= 1;
        let at = At { chain: linked.entry.chain, sequence: linked.entry.sequence, place: place(no) };
        assert_eq!(log.verify(&stored).findings, [Finding::Altered { at }]);
        checked += 1;
    }
    assert!(checked >= 5);
}

// proves: AUD-02
#[test]
fn touched_checkpoints_are_found() {
    let log = Log::new();
    let stored = log.stored();
    for (no, text) in log.checkpoints.iter().enumerate() {
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 0x01;
            let mut checkpoints = log.checkpoints.clone();
            checkpoints[no] = String::from_utf8(bytes).unwrap();
            let report = log.verify_with(&stored, &checkpoints, &[]);
            let number = no as u64 + 1;
            let named = |finding: &Finding| matches!(finding, Finding::Checkpoint { number: found, .. } if *found == number);
            assert!(
                report.findings.iter().any(named),
                "checkpoint {number} byte {at}: {:?}",
                report.findings
            );
        }
        let mut without = log.checkpoints.clone();
        without.remove(no);
        let last = no + 1 == log.checkpoints.len();
        assert_eq!(log.verify_with(&stored, &without, &[]).is_clean(), last, "only the newest can go unseen");
    }
}

// proves: AUD-02
#[test]
fn what_was_posted_elsewhere_tells_of_a_cut_log_and_a_forged_one() {
    let log = Log::new();
    let newest = Checkpoint::parse(log.checkpoints.last().unwrap()).unwrap();
    let note = newest.note();
    assert!(log.verify_with(&log.stored(), &log.checkpoints, &[&note]).is_clean());
    let cut = log.verify_with(&log.stored(), &log.checkpoints[..4], &[&note]);
    assert_eq!(cut.findings, [Finding::Checkpoint { number: 5, trouble: Trouble::Missing }]);
    // The key was stolen, and everything was signed again.
    let signer = Signer::from_seed(&[5; 32]);
    let mut series = Series::new();
    let mut forged = Vec::new();
    for text in &log.checkpoints {
        let at = Checkpoint::parse(text).unwrap().statement.at;
        let checkpoint = series.sign(&[], Millis(at.0 + 1), &signer).unwrap();
        series.fold(&checkpoint);
        forged.push(checkpoint.text());
    }
    assert!(log.verify_with(&[], &forged, &[]).is_clean(), "nothing beside the log can tell");
    assert!(!log.verify_with(&[], &forged, &[&note]).is_clean());
    let nonsense = log.verify_with(&log.stored(), &log.checkpoints, &["nonsense"]);
    assert!(matches!(nonsense.findings[..], [Finding::Checkpoint { trouble: Trouble::Text(_), .. }]));
}

#[test]
fn findings_are_listed_up_to_a_limit_and_counted_beyond() {
    let log = Log::new();
    let repeats = vec![log.stored()[0].clone(); AUDIT_FINDINGS_MAX + 5];
    let report = log.verify_with(&repeats, &[], &[]);
    assert_eq!(report.findings.len(), AUDIT_FINDINGS_MAX);
    assert_eq!(report.findings_in_all, AUDIT_FINDINGS_MAX as u64 + 4);
    assert_eq!(report.findings[0].to_string(), "repeated: tenant 2 root entry 1 (segment 1 offset 1000)");
}
