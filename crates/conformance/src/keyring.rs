//! What every keyring does: what is sealed opens only as it was sealed, and never again once its key is gone.

use fantail_ports::keyring::{Context, DestroyFrom, Keyring, KeyringError, ListName, Sealed};
use fantail_rules::ids::{KeyNo, TenantId};
use std::collections::BTreeSet;

/// One keyring under test.
pub trait Rig {
    fn keyring(&self) -> &dyn Keyring;

    /// Dies and opens what is stored.
    fn crash(&mut self);
}

type Case = (&'static str, fn(&mut dyn Rig));

pub const CASES: &[Case] = &[
    ("an unknown tenant has nothing", unknown_tenant_has_nothing),
    ("what was sealed opens, also after a crash", what_was_sealed_opens),
    ("nothing else opens it", nothing_else_opens_it),
    ("sealing twice gives different bytes", sealing_twice_differs),
    ("keys are never handed out twice, also after a crash", keys_are_never_handed_out_twice),
    ("a destroyed key is gone for good, alone", destroyed_key_is_gone),
    ("all keys of a deleted tenant are gone for good", keys_of_a_deleted_tenant_are_gone),
    ("many are opened in their order, those that still do", many_are_opened),
    ("a key gives its own secret as long as it is there", secrets_go_with_their_keys),
    ("lookups are equal for equal names only", lookups_are_equal_for_equal_names),
    ("creating a tenant again changes nothing", creating_again_changes_nothing),
];

pub fn keyring_suite<R: Rig>(mut fresh: impl FnMut() -> R) {
    for (name, case) in CASES {
        let mut rig = fresh();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut rig)));
        if let Err(cause) = outcome {
            let cause = cause.downcast_ref::<String>().map_or("see above", String::as_str);
            panic!("keyring case failed: {name}: {cause}");
        }
    }
}

const TENANT: TenantId = TenantId(3);
const OTHER: TenantId = TenantId(4);

fn create(rig: &dyn Rig) {
    for tenant in [TENANT, OTHER] {
        rig.keyring().create_tenant(tenant).expect("a healthy keyring takes tenants");
    }
}

fn mint(rig: &dyn Rig) -> KeyNo {
    rig.keyring().mint(TENANT).expect("a healthy keyring mints")
}

fn seal(rig: &dyn Rig, key: KeyNo, plain: &[u8]) -> Sealed {
    rig.keyring().seal(TENANT, key, Context::UserId, plain).expect("a key that exists seals")
}

fn open(rig: &dyn Rig, sealed: &Sealed) -> Result<Vec<u8>, KeyringError> {
    rig.keyring().open(TENANT, Context::UserId, sealed)
}

fn unknown_tenant_has_nothing(rig: &mut dyn Rig) {
    let unknown = KeyringError::UnknownTenant { tenant: TENANT };
    let keyring = rig.keyring();
    assert_eq!(keyring.mint(TENANT), Err(unknown.clone()));
    assert_eq!(keyring.seal(TENANT, KeyNo::TENANT, Context::Content, b"x"), Err(unknown.clone()));
    assert_eq!(keyring.open(TENANT, Context::Content, &Sealed::default()), Err(unknown.clone()));
    assert_eq!(keyring.open_all(TENANT, Context::Content, Vec::new()), Err(unknown.clone()));
    assert_eq!(keyring.lookup_user(TENANT, "u"), Err(unknown.clone()));
    assert_eq!(keyring.lookup_list(TENANT, ListName::Topic("t")), Err(unknown.clone()));
    assert_eq!(keyring.digest(TENANT, b"d"), Err(unknown.clone()));
    assert_eq!(keyring.secrets(TENANT, &[]), Err(unknown.clone()));
    assert_eq!(keyring.destroy(TENANT, KeyNo(1)), Err(unknown));
}

// proves: TEN-06
fn what_was_sealed_opens(rig: &mut dyn Rig) {
    create(rig);
    let user = mint(rig);
    let plains: [&[u8]; 4] = [b"", b"x", b"someone@example.org", &[7; 5_000]];
    let sealed: Vec<_> = [KeyNo::TENANT, user]
        .into_iter()
        .flat_map(|key| plains.map(|plain| (plain, key)))
        .map(|(plain, key)| (plain, seal(rig, key, plain)))
        .collect();
    for _ in 0..2 {
        for (plain, sealed) in &sealed {
            assert_eq!(open(rig, sealed).as_deref(), Ok(*plain));
            if plain.len() > 4 {
                assert!(!sealed.bytes.windows(plain.len()).any(|part| part == *plain), "not in the clear");
            }
        }
        rig.crash();
    }
}

// proves: TEN-06
fn nothing_else_opens_it(rig: &mut dyn Rig) {
    create(rig);
    let (key, second) = (mint(rig), mint(rig));
    rig.keyring().mint(OTHER).expect("a healthy keyring mints");
    let sealed = seal(rig, key, b"someone");
    let closed = Err(KeyringError::DoesNotOpen { tenant: TENANT, key });
    for at in 0..sealed.bytes.len() * 8 {
        let mut flipped = sealed.clone();
        flipped.bytes[at / 8] ^= 1 << (at % 8);
        assert_eq!(open(rig, &flipped), closed, "bit {at}");
    }
    for at in 0..sealed.nonce.len() * 8 {
        let mut flipped = sealed.clone();
        flipped.nonce[at / 8] ^= 1 << (at % 8);
        assert_eq!(open(rig, &flipped), closed, "bit {at} of the nonce");
    }
    for length in 0..sealed.bytes.len() {
        let cut = Sealed { bytes: sealed.bytes[..length].to_vec(), ..sealed.clone() };
        assert_eq!(open(rig, &cut), closed, "cut to {length}");
    }
    let others = [
        Context::UserAttributes,
        Context::ListName,
        Context::Actor,
        Context::Content,
        Context::DeviceName,
        Context::Address,
        Context::DeviceMeta,
        Context::CollapseKey,
        Context::Link,
        Context::NotificationName,
        Context::Credential,
    ];
    for context in others {
        assert_eq!(rig.keyring().open(TENANT, context, &sealed), closed, "{context:?}");
    }
    for key in [second, KeyNo::TENANT] {
        let moved = Sealed { key, ..sealed.clone() };
        assert_eq!(open(rig, &moved), Err(KeyringError::DoesNotOpen { tenant: TENANT, key }));
    }
    let elsewhere = rig.keyring().open(OTHER, Context::UserId, &sealed);
    assert_eq!(elsewhere, Err(KeyringError::DoesNotOpen { tenant: OTHER, key }));
    assert_eq!(open(rig, &sealed).as_deref(), Ok(&b"someone"[..]));
}

fn sealing_twice_differs(rig: &mut dyn Rig) {
    create(rig);
    let key = mint(rig);
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        let sealed = seal(rig, key, b"someone");
        assert!(seen.insert((sealed.nonce, sealed.bytes)), "a nonce is fresh");
    }
}

fn keys_are_never_handed_out_twice(rig: &mut dyn Rig) {
    create(rig);
    let mut seen = BTreeSet::from([KeyNo::TENANT]);
    let mut sealed = Vec::new();
    for round in 0..5 {
        for _ in 0..700 {
            assert!(seen.insert(mint(rig)), "a key is new");
        }
        let key = mint(rig);
        assert!(seen.insert(key));
        sealed.push((round, seal(rig, key, &[round])));
        rig.crash();
    }
    for (round, sealed) in sealed {
        assert_eq!(open(rig, &sealed), Ok(vec![round]));
    }
    let missing = KeyNo(u64::MAX);
    let refused = rig.keyring().seal(TENANT, missing, Context::UserId, b"x");
    assert_eq!(refused, Err(KeyringError::NoKey { tenant: TENANT, key: missing }));
}

// proves: TEN-06
fn destroyed_key_is_gone(rig: &mut dyn Rig) {
    create(rig);
    let (gone, kept) = (mint(rig), mint(rig));
    let (lost, safe) = (seal(rig, gone, b"forget me"), seal(rig, kept, b"keep me"));
    for _ in 0..3 {
        assert_eq!(rig.keyring().destroy(TENANT, gone), Ok(()));
        assert_eq!(open(rig, &lost), Err(KeyringError::NoKey { tenant: TENANT, key: gone }));
        let refused = rig.keyring().seal(TENANT, gone, Context::UserId, b"x");
        assert_eq!(refused, Err(KeyringError::NoKey { tenant: TENANT, key: gone }));
        assert_eq!(open(rig, &safe).as_deref(), Ok(&b"keep me"[..]));
        rig.crash();
    }
    assert_eq!(rig.keyring().destroy(TENANT, KeyNo(u64::MAX)), Ok(()), "what never was is gone already");
    for _ in 0..2_100 {
        let key = mint(rig);
        assert!(key != gone && open(rig, &seal(rig, key, b"new")).is_ok(), "a new key works");
    }
}

fn keys_of_a_deleted_tenant_are_gone(rig: &mut dyn Rig) {
    create(rig);
    let keys: Vec<KeyNo> = std::iter::once(KeyNo::TENANT).chain((0..1_100).map(|_| mint(rig))).collect();
    let lost: Vec<Sealed> = keys.iter().map(|key| seal(rig, *key, b"forget me")).collect();
    let others = rig.keyring().seal(OTHER, KeyNo::TENANT, Context::UserId, b"keep me").expect("it has a key");
    let begun = rig.keyring().destroy_tenant(TENANT, DestroyFrom::default()).expect("a healthy keyring");
    assert!(begun.is_some(), "so many keys take more than one step");
    assert!(open(rig, &lost[0]).is_err(), "its own key goes first");
    rig.crash();
    for _ in 0..3 {
        let mut from = Some(DestroyFrom::default());
        while let Some(next) = from {
            from = rig.keyring().destroy_tenant(TENANT, next).expect("a healthy keyring");
        }
        for sealed in &lost {
            assert_eq!(open(rig, sealed), Err(KeyringError::NoKey { tenant: TENANT, key: sealed.key }));
        }
        let secrets = rig.keyring().secrets(TENANT, &keys).expect("a healthy keyring");
        assert!(secrets.iter().all(Option::is_none), "secrets go with their keys");
        let found = rig.keyring().open(OTHER, Context::UserId, &others);
        assert_eq!(found.as_deref(), Ok(&b"keep me"[..]), "nothing of another tenant goes");
        rig.crash();
    }
    assert_eq!(rig.keyring().destroy_tenant(TenantId(99), DestroyFrom::default()), Ok(None));
}

// proves: TEN-06, GDP-01
fn many_are_opened(rig: &mut dyn Rig) {
    create(rig);
    let (gone, kept) = (mint(rig), mint(rig));
    let of = |key, plain: &[u8]| seal(rig, key, plain);
    let mut flipped = of(kept, b"broken");
    flipped.bytes[0] ^= 1;
    let sealed = [of(kept, b"1"), of(kept, b"2"), of(gone, b"3"), of(gone, b"4"), flipped, of(kept, b"5")];
    rig.keyring().destroy(TENANT, gone).expect("a healthy keyring destroys");
    let expected = [Some("1"), Some("2"), None, None, None, Some("5")];
    let expected: Vec<_> = expected.map(|plain| plain.map(|plain| plain.as_bytes().to_vec())).into();
    let open_all = |context| rig.keyring().open_all(TENANT, context, sealed.to_vec());
    assert_eq!(open_all(Context::UserId), Ok(expected));
    assert_eq!(open_all(Context::Content), Ok(vec![None; 6]), "what it is said to be is part of it");
}

// proves: GDP-01
fn secrets_go_with_their_keys(rig: &mut dyn Rig) {
    create(rig);
    rig.keyring().mint(OTHER).expect("a healthy keyring mints");
    let keys: Vec<KeyNo> = (0..100).map(|_| mint(rig)).chain([KeyNo::TENANT]).collect();
    let secrets = |rig: &dyn Rig, tenant, keys: &[KeyNo]| {
        rig.keyring().secrets(tenant, keys).expect("a known tenant has secrets")
    };
    let before = secrets(rig, TENANT, &keys);
    let theirs = secrets(rig, OTHER, &keys[..1]);
    let distinct: BTreeSet<_> = before.iter().chain(&theirs).flatten().collect();
    assert_eq!(distinct.len(), keys.len() + 1, "every key of every tenant has its own");
    rig.crash();
    assert_eq!(secrets(rig, TENANT, &keys), before);
    rig.keyring().destroy(TENANT, keys[7]).expect("a healthy keyring destroys");
    for _ in 0..2 {
        let after = secrets(rig, TENANT, &keys);
        let gone = |at: usize| if at == 7 { None } else { before[at] };
        assert!(after.iter().enumerate().all(|(at, secret)| *secret == gone(at)));
        assert_eq!(secrets(rig, TENANT, &[KeyNo(u64::MAX)]), [None]);
        rig.crash();
    }
}

fn lookups_are_equal_for_equal_names(rig: &mut dyn Rig) {
    create(rig);
    let all = |rig: &dyn Rig, tenant, name: &str| {
        let keyring = rig.keyring();
        [
            keyring.lookup_user(tenant, name).expect("a known tenant looks up").0,
            keyring.lookup_list(tenant, ListName::FollowersOf(name)).expect("a known tenant looks up").0,
            keyring.lookup_list(tenant, ListName::Topic(name)).expect("a known tenant looks up").0,
            keyring.digest(tenant, name.as_bytes()).expect("a known tenant looks up"),
        ]
    };
    let names = ["", "a", "b", "ab", "user", "topic"];
    let before: Vec<_> = names.iter().map(|name| all(rig, TENANT, name)).collect();
    let other: Vec<_> = names.iter().map(|name| all(rig, OTHER, name)).collect();
    let distinct: BTreeSet<_> = before.iter().chain(&other).flatten().collect();
    assert_eq!(distinct.len(), 2 * 4 * names.len(), "kinds, names and tenants do not collide");
    rig.crash();
    let after: Vec<_> = names.iter().map(|name| all(rig, TENANT, name)).collect();
    assert_eq!(before, after);
}

fn creating_again_changes_nothing(rig: &mut dyn Rig) {
    create(rig);
    let sealed = seal(rig, KeyNo::TENANT, b"of the tenant");
    let lookup = rig.keyring().lookup_user(TENANT, "u");
    for _ in 0..2 {
        create(rig);
        assert_eq!(open(rig, &sealed).as_deref(), Ok(&b"of the tenant"[..]));
        assert_eq!(rig.keyring().lookup_user(TENANT, "u"), lookup);
        rig.crash();
    }
}
