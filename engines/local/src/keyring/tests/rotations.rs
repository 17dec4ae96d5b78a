//! The server key is replaced, on a disk that loses and fails.

use super::*;

const OLD: [u8; 32] = [7; 32];
const NEXT: [u8; 32] = [8; 32];
/// Given by the operator, or kept in the directory.
const SOURCES: [bool; 2] = [false, true];

fn open_with(disk: &FaultDisk, server_key: Option<[u8; 32]>) -> Result<LocalKeyring, KeyringError> {
    let options = KeyringOptions { server_key, ..KeyringOptions::new(DIR) };
    LocalKeyring::open_on(Arc::new(disk.clone()), options)
}

fn next(is_kept: bool) -> NextServerKey {
    if is_kept { NextServerKey::Kept(NEXT) } else { NextServerKey::Given(NEXT) }
}

/// What readers of a keyring see, to be seen again.
struct Seen {
    keys: Vec<KeyNo>,
    secrets: Vec<Option<[u8; 32]>>,
    sealed: [Sealed; 2],
}

/// A keyring with two tenants and three batches, one destroyed key and a file that no manifest names.
fn used(is_kept: bool) -> (FaultDisk, Seen) {
    let disk = FaultDisk::new(1);
    if is_kept {
        disk.set_contents(&path(SERVER_KEY), OLD.to_vec());
    }
    let keyring = open_with(&disk, (!is_kept).then_some(OLD)).expect("a healthy disk");
    for tenant in [TENANT, OTHER] {
        keyring.create_tenant(tenant).expect("a healthy disk");
    }
    let keys: Vec<KeyNo> =
        (0..BATCH_KEYS + 1).map(|_| keyring.mint(TENANT).expect("a healthy disk")).collect();
    keyring.mint(OTHER).expect("a healthy disk");
    keyring.destroy(TENANT, keys[5]).expect("a healthy disk");
    KeyFile::new(Path::new(DIR), TenantId(9)).create(&keyring.vault).expect("a healthy disk");
    let seal = |key| keyring.seal(TENANT, key, Context::Content, b"kept").expect("a key");
    let sealed = [seal(KeyNo::TENANT), seal(keys[BATCH_KEYS])];
    let secrets = secrets(&keyring, &keys);
    (disk, Seen { keys, secrets, sealed })
}

impl Seen {
    fn assert_in(&self, keyring: &LocalKeyring, context: &str) {
        assert_eq!(secrets(keyring, &self.keys), self.secrets, "{context}");
        for sealed in &self.sealed {
            let opened = keyring.open(TENANT, Context::Content, sealed);
            assert_eq!(opened.as_deref(), Ok(&b"kept"[..]), "{context}");
        }
    }
}

/// Opens with whichever of the two keys it is. Says whether it was the next one.
fn open_with_either(disk: &FaultDisk, was_kept: bool, is_kept: bool, context: &str) -> (LocalKeyring, bool) {
    let opened = [(was_kept, OLD, false), (is_kept, NEXT, true)].map(|(kept, key, is_next)| {
        // What is kept may be either of them: it is read for what it is.
        let keyring = open_with(disk, (!kept).then_some(key));
        let found = disk.contents(&path(SERVER_KEY));
        keyring.map(|keyring| (keyring, if kept { found == NEXT } else { is_next }))
    });
    let nexts: Vec<bool> = opened.iter().flatten().map(|(_, is_next)| *is_next).collect();
    let is_one = nexts.iter().all(|is_next| *is_next == nexts[0]) && !nexts.is_empty();
    assert!(is_one, "{context}: {:?}", opened.map(|opened| opened.map(|(_, is_next)| is_next)));
    let keyring = opened.into_iter().flatten().next().expect("one of them opened");
    let left: Vec<PathBuf> = disk.paths();
    let is_rest = |path: &PathBuf| path.to_string_lossy().contains("rotat");
    assert!(!left.iter().any(is_rest), "{context}: {left:?}");
    keyring
}

// fixes: security M11
#[test]
fn everything_is_sealed_under_the_next_server_key_and_the_old_one_is_gone() {
    for (was_kept, is_kept) in SOURCES.into_iter().flat_map(|was| SOURCES.map(|is| (was, is))) {
        let context = format!("kept: {was_kept}, then {is_kept}");
        let (disk, seen) = used(was_kept);
        let files = |disk: &FaultDisk| -> Vec<Vec<u8>> {
            ["tenant-3.keys", "tenant-4.keys", "tenant-9.keys", CHECK]
                .map(|name| disk.contents(&path(name)))
                .into()
        };
        let before = files(&disk);
        let keyring = open_with(&disk, (!was_kept).then_some(OLD)).expect("it is whole");
        let rotated = keyring.rotate(&next(is_kept)).expect("a healthy disk");
        assert_eq!(rotated.tenants, 3, "{context}");
        assert!(files(&disk).iter().zip(&before).all(|(now, before)| now != before), "{context}");
        assert_eq!(files(&disk).iter().map(Vec::len).sum::<usize>() as u64, rotated.bytes + 28, "{context}");
        let stored = if is_kept { NEXT.to_vec() } else { Vec::new() };
        assert_eq!(disk.contents(&path(SERVER_KEY)), stored, "{context}");
        let refused = open_with(&disk, Some(OLD)).err();
        assert!(
            matches!(&refused, Some(KeyringError::Damaged { file, .. }) if Path::new(file) == path(CHECK)),
            "{context}: {refused:?}"
        );
        let keyring = open_with(&disk, (!is_kept).then_some(NEXT)).expect("it is whole");
        seen.assert_in(&keyring, &context);
        assert_eq!(keyring.mint(TENANT), Ok(KeyNo(2 * BATCH_KEYS as u64 + 1)), "{context}");
        // The file that no manifest named is of use.
        keyring.create_tenant(TenantId(9)).expect("a healthy disk");
        keyring.mint(TenantId(9)).expect("a healthy disk");
    }
}

// fixes: security M11
#[test]
fn no_power_cut_in_a_rotation_leaves_two_server_keys_or_none() {
    for (was_kept, is_kept) in SOURCES.into_iter().flat_map(|was| SOURCES.map(|is| (was, is))) {
        let ((whole, seen), mut cut, mut nexts) = (used(was_kept), 0, 0);
        loop {
            let mut done = true;
            for (survival, seed) in [(Survival::Nothing, 0), (Survival::Everything, 0)]
                .into_iter()
                .chain((0..6).map(|seed| (Survival::Chance, seed)))
            {
                let context =
                    format!("kept: {was_kept}, then {is_kept}; {survival:?}, seed {seed}, cut after {cut}");
                let disk = disk_with_seed(&whole, seed);
                let keyring = open_with(&disk, (!was_kept).then_some(OLD)).expect("it is whole");
                disk.cut_after(cut);
                let is_over = keyring.rotate(&next(is_kept)).is_ok();
                done &= is_over;
                disk.power_cut(survival);
                // The next start is cut off as well, at another place.
                disk.cut_after(cut % 5);
                let _cut_off = settle_rotation(&disk, Path::new(DIR));
                disk.power_cut(survival);
                let (keyring, is_next) = open_with_either(&disk, was_kept, is_kept, &context);
                assert!(is_next || !is_over, "{context}: it was answered");
                seen.assert_in(&keyring, &context);
                nexts += u32::from(is_next);
            }
            if done {
                break;
            }
            cut += 1;
        }
        assert!(cut > 15 && nexts > 8, "the script has many steps: {cut}, {nexts}");
    }
}

/// A process was killed between naming the mark of the rotation and syncing that name.
#[test]
fn a_rotation_that_counts_is_durable() {
    let (whole, seen) = used(true);
    for seed in 0..20 {
        let disk = disk_with_seed(&whole, seed);
        let keyring = open_with(&disk, None).expect("it is whole");
        keyring.prepare_rotation(&next(true)).expect("a healthy disk");
        drop(keyring);
        let beside = path("rotation.new");
        let file = disk.open(&beside, crate::disk::How::Create).expect("a healthy disk");
        crate::disk::write_all_at(&*file, 0, &rotation::encode(true)).expect("room");
        file.sync_data().expect("a healthy disk");
        disk.rename(&beside, &path("rotation")).expect("it is there");
        disk.kill_process();
        disk.cut_after(seed % 9);
        let _cut_off = settle_rotation(&disk, Path::new(DIR));
        disk.power_cut(Survival::Chance);
        let (keyring, _) = open_with_either(&disk, true, true, &format!("seed {seed}"));
        seen.assert_in(&keyring, &format!("seed {seed}"));
    }
}

#[test]
fn a_rotation_without_room_or_with_a_failed_sync_leaves_one_server_key() {
    let (whole, seen) = used(false);
    for room in [0, 1_000, 40_000, 80_000] {
        let disk = disk_with_seed(&whole, 1);
        let keyring = open_with(&disk, Some(OLD)).expect("it is whole");
        disk.set_capacity(disk.used_bytes() + room);
        let refused = keyring.rotate(&next(true)).expect_err("there is no room");
        assert!(matches!(refused, KeyringError::Io { .. }), "{room}: {refused}");
        let (keyring, is_next) = open_with_either(&disk, false, true, &format!("{room}"));
        assert!(!is_next, "{room}");
        seen.assert_in(&keyring, &format!("{room}"));
    }
    let mut passed = 0;
    loop {
        let disk = disk_with_seed(&whole, u64::from(passed));
        let keyring = open_with(&disk, Some(OLD)).expect("it is whole");
        disk.fail_syncs_after(passed, 1);
        let is_over = keyring.rotate(&next(true)).is_ok();
        disk.fail_syncs(0);
        disk.power_cut(Survival::Chance);
        let (keyring, is_next) = open_with_either(&disk, false, true, &format!("{passed}"));
        assert!(is_next || !is_over, "{passed}: it was answered");
        seen.assert_in(&keyring, &format!("{passed}"));
        if is_over {
            break;
        }
        passed += 1;
    }
    assert!(passed > 4, "{passed}");
}

#[test]
fn a_mark_of_a_rotation_that_was_damaged_is_named_and_changes_nothing() {
    let (mark, (whole, _)) = (rotation::encode(false), used(true));
    for at in 0..mark.len() {
        let disk = disk_with_seed(&whole, 1);
        let keyring = open_with(&disk, None).expect("it is whole");
        keyring.prepare_rotation(&next(false)).expect("a healthy disk");
        drop(keyring);
        disk.set_contents(&path("rotation"), mark[..at].to_vec());
        let before = disk.paths();
        is_refused_and_named(&disk, "rotation", &format!("cut at {at}"));
        disk.set_contents(&path("rotation"), mark.clone());
        disk.flip(&path("rotation"), at, 1 << (at % 8));
        is_refused_and_named(&disk, "rotation", &format!("flip at {at}"));
        assert_eq!(disk.paths(), before, "cut at {at}");
        assert_eq!(disk.contents(&path(SERVER_KEY)), OLD, "cut at {at}");
    }
}
