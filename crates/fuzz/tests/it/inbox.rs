//! Files of the inbox index. Their checksums are right here, as if the damage had happened before they were computed: what does
//! not decode is named, and what does answers every question.

use fantail_fuzz::{Corpus, fuzz};
use fantail_local::disk::FaultDisk;
use fantail_local::inbox::contents::Contents;
use fantail_local::inbox::manifest::Manifest;
use fantail_local::inbox::run::{HEADER_BYTES, Look, Run, RunName, TRAILER_BYTES};
use fantail_local::inbox::segment::{Joined, Segment};
use fantail_local::inbox::writer::RunWriter;
use fantail_ports::inbox::ArrivalRange;
use fantail_rules::ids::{Arrival, TenantId, UserNo};
use std::collections::BTreeMap;
use std::path::Path;

const PATH: &str = "/inbox/1.run";
const BYTES: &[&str] = &["\0", "\u{7f}", "\u{80}", "\u{ff}"];
const ALL: ArrivalRange = ArrivalRange { after: Arrival(0), before: Arrival(u64::MAX) };

/// The body of a manifest behind its head of 16 bytes.
fn manifest_with(body: &[u8]) -> Vec<u8> {
    let mut file = Manifest::default().encode();
    file.truncate(16);
    file[12..16].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    file.extend_from_slice(body);
    file
}

#[test]
fn manifests_are_read_or_refused() {
    let run = |number| RunName { number, bytes: 70_000 * number, contents_crc: 0xdead_beef };
    let through = BTreeMap::from([(TenantId(1), Arrival(300)), (TenantId(9), Arrival(2))]);
    let good = Manifest { through, runs: vec![run(4), run(2)] };
    let disk = FaultDisk::new(1);
    let path = Path::new("/inbox/s0.manifest");
    fuzz("manifest of the inbox", &Corpus::new(vec![good.encode()[16..].to_vec()], BYTES), |body| {
        disk.set_contents(path, manifest_with(body));
        if let Ok(read) = Manifest::read(&disk, path) {
            disk.set_contents(path, read.encode());
            let again = Manifest::read(&disk, path).expect("what is written can be read");
            assert_eq!(again, read, "what is written is what was read");
        }
    });
}

/// A run of two tenants, with users of one entry and of many blocks.
fn good_run(disk: &FaultDisk) -> Vec<u8> {
    let mut writer = RunWriter::create(disk, PATH.into(), 1).expect("a healthy disk");
    for tenant in [1, 9] {
        writer.begin_section(TenantId(tenant), Arrival(10), Arrival(90_000)).expect("a healthy disk");
        for user in [1u64, 2, 700, 701] {
            let mut entries = Joined::default();
            let count = if user == 700 { 1_500 } else { user };
            (0..count.min(1_500)).for_each(|entry| entries.push(1 + entry * 7));
            writer.push(user, &entries).expect("a healthy disk");
        }
    }
    writer.finish().expect("a healthy disk");
    disk.contents(Path::new(PATH))
}

/// Header and blocks, and the contents behind them.
fn parts_of(run: &[u8]) -> (&[u8], &[u8]) {
    let trailer = &run[run.len() - TRAILER_BYTES as usize..];
    let offset = u64::from_le_bytes(trailer[..8].try_into().expect("eight bytes")) as usize;
    (&run[..offset], &run[offset..run.len() - TRAILER_BYTES as usize])
}

fn ask_everything(run: &Run) {
    let tenants: Vec<TenantId> =
        run.sections.iter().map(|section| section.tenant).chain([TenantId(1)]).collect();
    let mut buffer = Vec::new();
    for tenant in tenants.into_iter().take(4) {
        for user in [0, 1, 2, 700, 701, u64::MAX] {
            for range in [ALL, ArrivalRange { after: Arrival(11), before: Arrival(5_000) }] {
                let mut look = Look::new(tenant, UserNo(user), range, &mut buffer);
                let mut page = Vec::new();
                let newest = run.newest(&mut look, 50, &mut page);
                assert!(newest.is_err() || page.iter().all(|arrival| range.contains(*arrival)));
                page.clear();
                let oldest = run.oldest(&mut look, 50, &mut page);
                assert!(oldest.is_err() || page.iter().all(|arrival| range.contains(*arrival)));
                let _counted = run.count(&mut look);
            }
        }
    }
}

#[test]
fn contents_of_runs_are_read_or_refused() {
    let disk = FaultDisk::new(1);
    let good = good_run(&disk);
    let (blocks, contents) = parts_of(&good);
    fuzz("contents of a run", &Corpus::new(vec![contents.to_vec()], BYTES), |input| {
        if let Some(read) = Contents::decode(input) {
            assert_eq!(Contents::decode(&read.encode()), Some(read), "what is written is what was read");
        }
        let (offset, crc) = (blocks.len() as u64, crc32fast::hash(input));
        let trailer = [
            &offset.to_le_bytes()[..],
            &(input.len() as u64).to_le_bytes(),
            &crc.to_le_bytes(),
            &[0; 4],
            b"FANTRUNE",
        ];
        let file = [blocks, input, &trailer.concat()].concat();
        let name = RunName { number: 1, bytes: file.len() as u64, contents_crc: crc };
        disk.set_contents(Path::new(PATH), file);
        if let Ok(run) = Run::open(&disk, PATH.into(), name) {
            ask_everything(&run);
        }
    });
}

#[test]
fn segments_of_blocks_are_read_or_refused() {
    let disk = FaultDisk::new(1);
    let good = good_run(&disk);
    let (blocks, _) = parts_of(&good);
    // Behind the header and the checksum of the first block.
    let first = blocks[HEADER_BYTES as usize + 4..].to_vec();
    fuzz("segments of a run", &Corpus::new(vec![first], BYTES), |mut input| {
        let mut user = 700;
        while let Some(segment) = Segment::take(&mut input, user) {
            assert!(segment.user >= user, "users ascend");
            let offsets: Vec<u64> = segment.offsets().collect();
            assert!(offsets.is_sorted_by(|one, next| one < next) && offsets.len() as u64 <= segment.count);
            user = segment.user;
        }
    });
}
