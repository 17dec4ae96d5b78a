//! Endpoints of users: numbers, claims, limits, age; and the reach column, which must always say what the pages say.

use crate::harness::{DAY_MS, Node, START, TENANT, lookup, put_of, sealed};
use fantail_machine::columns::{self, Reach};
use fantail_machine::records::endpoint::EndpointPut;
use fantail_machine::records::respect::Consent;
use fantail_machine::shard::endpoints::{Contact, Heard, Registration};
use fantail_machine::shard::users::PutAnswer;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::endpoint::{self, Endpoint};
use fantail_machine::tables::todo::{Release, Todo};
use fantail_machine::tables::user;
use fantail_ports::tables::Tables;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{News, Platform, Status};
use fantail_rules::ids::{AddressHash, ClaimNo, DeviceHash, DeviceNo, TenantId, UserNo};
use fantail_rules::limits::ENDPOINTS_PER_USER_MAX;
use proptest::collection::vec;
use proptest::prelude::*;

pub fn address(no: u64) -> AddressHash {
    AddressHash(hash(no, 1))
}

pub fn device(no: u64) -> DeviceHash {
    DeviceHash(hash(no, 101))
}

/// Another one for each number.
fn hash(no: u64, first: u8) -> [u8; 16] {
    let mut hash = [(no as u8).wrapping_add(first); 16];
    hash[14] ^= (no >> 16) as u8;
    hash[15] ^= (no >> 8) as u8;
    hash
}

/// A push token of a device; users' keys are those of `Node::user`.
pub fn registration(user: u64, name: u64, token: u64) -> Registration {
    Registration {
        kind: ChannelKind::Push,
        platform: Platform::Ios,
        name_hash: device(name),
        name: Some(sealed(user + 100)),
        address_hash: address(token),
        address: sealed(user + 100),
        meta: None,
        changed: false,
        consent: Some(agreed()),
    }
}

/// Without a grant nothing is pushed.
pub fn agreed() -> Consent {
    Consent { is_granted: true, given: START, version: "1".into(), source: "test".into() }
}

pub fn register(node: &mut Node, user: u64, registration: Registration) -> ShardAnswer {
    let registration = Box::new(registration);
    node.shard(ShardAsk::Register { tenant: node.tenant, user: lookup(user), registration })
}

pub fn hear(node: &mut Node, user: UserNo, device: u16, claim: u32, news: News) {
    let heard = vec![Heard { user, device: DeviceNo(device), claim: ClaimNo(claim), news }];
    assert_eq!(node.shard(ShardAsk::Hear { tenant: node.tenant, heard }), ShardAnswer::Noted);
}

const GRANTED: News = News::Granted { suppressed: false };

fn registered(device: u16, status: Status, created: bool) -> ShardAnswer {
    ShardAnswer::Registered { device: DeviceNo(device), status, created }
}

fn endpoints(node: &Node, user: UserNo) -> Vec<Endpoint> {
    node.read_shard(|state| endpoint::of_user(state.tables(), TENANT, user).unwrap())
}

fn statuses(node: &Node, user: UserNo) -> Vec<(u16, u32, Status)> {
    endpoints(node, user).iter().map(|one| (one.device.0, one.claim.0, one.status)).collect()
}

fn reach(node: &Node, user: UserNo) -> Reach {
    node.read_shard(|state| columns::find(state.tables(), TENANT, user).unwrap().reach)
}

fn pushed(node: &Node, user: UserNo) -> Vec<u16> {
    reach(node, user).endpoints(ChannelKind::Push).map(|device| device.0).collect()
}

/// Sends go to exactly the endpoints there are, walked over or found by their keys.
fn check_destinations(tables: &dyn Tables, tenant: TenantId, users: &[UserNo]) {
    for together in [users.len(), 1] {
        for some in users.chunks(together) {
            let (mut seen, mut expected) = (Vec::new(), Vec::new());
            endpoint::destinations(tables, tenant, some, &mut |place, one| {
                seen.push((some[place], one.device, one.claim, one.status, one.kind, one.address));
            })
            .unwrap();
            for user in some {
                for one in endpoint::of_user(tables, tenant, *user).unwrap() {
                    expected.push((*user, one.device, one.claim, one.status, one.kind, one.address));
                }
            }
            assert_eq!(seen, expected);
        }
    }
}

/// The column says exactly what pages and rows say, for these users and for nobody else.
pub fn check_column(tables: &dyn Tables, tenant: TenantId, users: u64, exists: &dyn Fn(UserNo) -> bool) {
    let all: Vec<UserNo> = (0..users + 70).map(UserNo).collect();
    let mut seen = Vec::new();
    columns::visit(tables, tenant, &all, &mut |place, column| seen.push((place, column.reach))).unwrap();
    let mut expected = Vec::new();
    for (place, user) in all.iter().enumerate() {
        let endpoints = endpoint::of_user(tables, tenant, *user).unwrap();
        let key = user::find(tables, tenant, *user).unwrap().map(|row| row.id.key);
        assert_eq!(key.is_some(), exists(*user), "{user}");
        let state = endpoint::UserEndpoints { devices: 0, claims: 0, endpoints };
        expected.push((place, Reach::of(&state, key)));
    }
    check_destinations(tables, tenant, &all);
    assert_eq!(seen, expected);
    for (place, reach) in seen {
        let row = user::find(tables, tenant, all[place]).unwrap();
        assert_eq!(reach.key(), row.map(|row| row.id.key), "{}", all[place]);
    }
}

// proves: DEV-01, DEV-03
#[test]
fn a_device_is_used_once_its_address_is_its_own() {
    let mut node = Node::new();
    let user = node.user(0);
    assert!(reach(&node, user).exists() && !reach(&node, UserNo(1)).exists());
    assert_eq!(register(&mut node, 0, registration(0, 1, 5)), registered(1, Status::Pending, true));
    assert_eq!(node.todos(), [Todo::Claim { tenant: TENANT, user, device: DeviceNo(1) }]);
    assert_eq!(pushed(&node, user), []);
    hear(&mut node, user, 1, 1, GRANTED);
    assert_eq!((pushed(&node, user), node.todos()), (vec![1], vec![]));
    hear(&mut node, user, 1, 1, News::Released);
    assert_eq!((pushed(&node, user), node.todos()), (vec![], vec![]));
    hear(&mut node, user, 1, 1, GRANTED);
    assert_eq!(statuses(&node, user), [(1, 1, Status::Released)], "a late answer brings nothing back");
    assert_eq!(register(&mut node, 0, registration(0, 1, 5)), registered(1, Status::Pending, false));
    hear(&mut node, user, 1, 1, GRANTED);
    assert_eq!(statuses(&node, user), [(1, 2, Status::Pending)], "that answer was for the claim before");
}

// proves: DEV-02
#[test]
fn a_new_token_retires_the_old_and_a_known_one_is_refreshed_weekly() {
    let mut node = Node::new();
    let user = node.user(0);
    register(&mut node, 0, registration(0, 1, 5));
    hear(&mut node, user, 1, 1, GRANTED);
    let records = |node: &Node| node.journal.values().map(Vec::len).sum::<usize>();
    let before = records(&node);
    node.now = node.now.plus(7 * DAY_MS - 1);
    assert_eq!(register(&mut node, 0, registration(0, 1, 5)), registered(1, Status::Active, false));
    assert_eq!(records(&node), before, "a refresh within seven days writes nothing");
    let changed = Registration { changed: true, ..registration(0, 1, 5) };
    register(&mut node, 0, changed);
    assert_eq!(records(&node), before + 1, "unless it says something new");
    node.now = node.now.plus(7 * DAY_MS);
    register(&mut node, 0, registration(0, 1, 5));
    assert_eq!(records(&node), before + 2);
    let known = endpoints(&node, user).remove(0);
    assert_eq!((known.registered, known.last_seen, known.status), (START, node.now, Status::Active));
    assert_eq!(register(&mut node, 0, registration(0, 1, 6)), registered(1, Status::Pending, false));
    assert_eq!(pushed(&node, user), []);
    let (device, claim) = (DeviceNo(1), ClaimNo(1));
    let release = Todo::Release(Release { tenant: TENANT, user, device, claim, address: address(5) });
    assert_eq!(node.todos(), [Todo::Claim { tenant: TENANT, user, device }, release]);
    hear(&mut node, user, 1, 1, News::Released);
    assert_eq!(node.todos(), [Todo::Claim { tenant: TENANT, user, device }]);
}

// proves: DEV-02
#[test]
fn silent_devices_grow_stale_and_expire() {
    let mut node = Node::new();
    let user = node.user(0);
    register(&mut node, 0, registration(0, 1, 5));
    let mail = Registration { kind: ChannelKind::Email, ..registration(0, 2, 6) };
    register(&mut node, 0, mail);
    hear(&mut node, user, 1, 1, GRANTED);
    hear(&mut node, user, 2, 2, GRANTED);
    let mut age = |days: u64| {
        node.now = START.plus(days * DAY_MS);
        let aged = node.shard(ShardAsk::Age { tenant: TENANT, page: 0 });
        assert_eq!(aged, ShardAnswer::Aged { next: None });
        statuses(&node, user)
    };
    use Status::{Active, Expired, Stale};
    assert_eq!(age(29), [(1, 1, Active), (2, 2, Active)]);
    assert_eq!(age(30), [(1, 1, Stale), (2, 2, Active)]);
    assert_eq!(age(269), [(1, 1, Stale), (2, 2, Active)]);
    assert_eq!(age(270), [(1, 1, Expired), (2, 2, Active)]);
    assert!(matches!(node.todos()[..], [Todo::Release(_)]), "its address is given up");
    assert_eq!(reach(&node, user).endpoints(ChannelKind::Email).count(), 1);
}

#[test]
fn a_stale_device_comes_back_when_it_refreshes() {
    let mut node = Node::new();
    let user = node.user(0);
    register(&mut node, 0, registration(0, 1, 5));
    hear(&mut node, user, 1, 1, GRANTED);
    node.now = node.now.plus(40 * DAY_MS);
    node.shard(ShardAsk::Age { tenant: TENANT, page: 0 });
    assert_eq!(pushed(&node, user), []);
    assert_eq!(register(&mut node, 0, registration(0, 1, 5)), registered(1, Status::Active, false));
    assert_eq!(pushed(&node, user), [1]);
}

#[test]
fn numbers_are_never_reused_and_the_useless_make_room() {
    let mut node = Node::new();
    let user = node.user(0);
    let most = ENDPOINTS_PER_USER_MAX as u64;
    for name in 0..most {
        register(&mut node, 0, registration(0, name, name));
        hear(&mut node, user, name as u16 + 1, name as u32 + 1, GRANTED);
    }
    assert!(reach(&node, user).has_more());
    assert_eq!(pushed(&node, user), [1, 2, 3, 4, 5]);
    assert_eq!(register(&mut node, 0, registration(0, 30, 30)), ShardAnswer::TooManyEndpoints);
    hear(&mut node, user, 7, 7, News::Dead);
    assert_eq!(register(&mut node, 0, registration(0, 30, 30)), registered(21, Status::Pending, true));
    assert_eq!(endpoints(&node, user).len(), ENDPOINTS_PER_USER_MAX);
    assert!(endpoints(&node, user).iter().all(|one| one.device != DeviceNo(7)));
    let gone = ShardAsk::Unregister { tenant: TENANT, user: lookup(0), device: device(30) };
    assert_eq!(node.shard(gone.clone()), ShardAnswer::Unregistered);
    assert_eq!(node.shard(gone), ShardAnswer::UnknownDevice);
    assert_eq!(register(&mut node, 0, registration(0, 31, 31)), registered(22, Status::Pending, true));
}

#[test]
fn others_keys_and_unknown_users_are_refused() {
    let mut node = Node::new();
    node.user(0);
    assert_eq!(register(&mut node, 9, registration(9, 1, 5)), ShardAnswer::UnknownUser);
    let other = register(&mut node, 0, registration(7, 1, 5));
    assert_eq!(other, ShardAnswer::Reseal(fantail_rules::ids::KeyNo(100)));
    let gone = ShardAsk::Unregister { tenant: TENANT, user: lookup(9), device: device(1) };
    assert_eq!(node.shard(gone), ShardAnswer::UnknownUser);
}

/// A profile's addresses come, change and go with it; saying the same again changes nothing.
#[test]
fn a_profile_brings_its_addresses() {
    let mut node = Node::new();
    let user = node.user(0);
    let mut put = |mail: Option<u64>, phone: Option<u64>| {
        let contact = |kind| move |no| Contact { kind, address_hash: address(no), address: sealed(100) };
        let profile = mail.map(contact(ChannelKind::Email)).into_iter();
        let profile = profile.chain(phone.map(contact(ChannelKind::Sms))).collect();
        let put = fantail_machine::shard::users::Put { profile, ..put_of(0, 100) };
        node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![put] });
        statuses(&node, user)
    };
    use Status::Pending;
    assert_eq!(put(Some(1), None), [(1, 1, Pending)]);
    assert_eq!(put(Some(1), Some(2)), [(1, 1, Pending), (2, 2, Pending)]);
    assert_eq!(put(Some(3), Some(2)), [(1, 3, Pending), (2, 2, Pending)]);
    assert_eq!(put(None, Some(2)), [(2, 2, Pending)]);
    assert_eq!(put(None, None), []);
    let releases = node.todos().into_iter().filter(|todo| matches!(todo, Todo::Release(_))).count();
    assert_eq!(releases, 3, "every address that was asked for is given back");
}

/// Nothing of the user changes then, and others of the same batch are done.
// fixes: usability P1
#[test]
fn a_profile_without_room_for_an_address_is_refused_as_a_whole() {
    let mut node = Node::new();
    let user = node.user(0);
    let contact = |kind, no| Contact { kind, address_hash: address(no), address: sealed(100) };
    let put = |profile: Vec<Contact>| fantail_machine::shard::users::Put { profile, ..put_of(0, 100) };
    let mail = contact(ChannelKind::Email, 1);
    node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![put(vec![mail.clone()])] });
    for name in 1..ENDPOINTS_PER_USER_MAX as u64 {
        register(&mut node, 0, registration(0, name, 100 + name));
    }
    let before = endpoints(&node, user);
    let row = node.read_shard(|state| user::find(state.tables(), TENANT, user).unwrap());
    node.now = node.now.plus(5);
    let both = put(vec![contact(ChannelKind::Email, 7), contact(ChannelKind::Sms, 2)]);
    let users = vec![both, put_of(1, 101)];
    let answer = node.shard(ShardAsk::PutUsers { tenant: TENANT, users });
    assert_eq!(answer, ShardAnswer::Users(vec![PutAnswer::TooManyEndpoints, PutAnswer::Created]));
    assert_eq!(endpoints(&node, user), before);
    assert_eq!(node.read_shard(|state| user::find(state.tables(), TENANT, user).unwrap()), row);
    // An address that goes makes room for one that comes.
    let swapped = put(vec![contact(ChannelKind::Sms, 2)]);
    let answer = node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![swapped] });
    assert_eq!(answer, ShardAnswer::Users(vec![PutAnswer::Updated]));
    assert_eq!(endpoints(&node, user).len(), ENDPOINTS_PER_USER_MAX);
}

// proves: GDP-01
#[test]
fn a_user_who_goes_gives_everything_back() {
    let mut node = Node::new();
    let user = node.user(0);
    (0..3).for_each(|name| drop(register(&mut node, 0, registration(0, name, name))));
    hear(&mut node, user, 1, 1, GRANTED);
    hear(&mut node, user, 2, 2, News::Dead);
    hear(&mut node, user, 2, 2, News::Released);
    node.delete_user(0);
    assert_eq!((endpoints(&node, user), reach(&node, user)), (vec![], Reach::default()));
    let waiting = node.todos();
    let released: Vec<u16> = waiting
        .iter()
        .filter_map(|todo| match todo {
            Todo::Release(release) => Some(release.device.0),
            Todo::Report { .. }
            | Todo::Shred { .. }
            | Todo::Claim { .. }
            | Todo::Replan { .. }
            | Todo::Fold { .. }
            | Todo::Digest { .. }
            | Todo::Halt { .. }
            | Todo::Erase { .. } => None,
        })
        .collect();
    assert_eq!((released, waiting.len()), (vec![1, 3], 3), "and the key is to be destroyed");
    hear(&mut node, user, 1, 1, News::Released);
    hear(&mut node, user, 3, 3, News::Released);
    assert!(matches!(node.todos()[..], [Todo::Shred { .. }]));
    node.read_shard(|state| {
        check_column(state.tables(), TENANT, 1, &|_| false);
        for key in [endpoint::key(TENANT, 0), endpoint::details_key(TENANT, 0)] {
            assert_eq!(state.tables().get(&key).unwrap(), None, "no page is left");
        }
    });
}

/// What happens to endpoints, in no order that makes sense.
#[derive(Clone, Debug)]
enum Step {
    Register(u64, u64, u64),
    Unregister(u64, u64),
    Hear(u64, u16, u32, u8),
    Age(u64),
    Replace(u64),
    Profile(u64, Option<u64>),
}

fn step() -> impl Strategy<Value = Step> {
    let user = 0..USERS;
    prop_oneof![
        6 => (user.clone(), 0u64..9, 0u64..9).prop_map(|(user, name, token)| Step::Register(user, name, token)),
        2 => (user.clone(), 0u64..9).prop_map(|(user, name)| Step::Unregister(user, name)),
        9 => (user.clone(), 1u16..9, 1u32..20, 0u8..7).prop_map(|(u, d, c, n)| Step::Hear(u, d, c, n)),
        1 => (1u64..200).prop_map(Step::Age),
        1 => user.clone().prop_map(Step::Replace),
        2 => (user, proptest::option::of(0u64..9)).prop_map(|(user, mail)| Step::Profile(user, mail)),
    ]
}

/// More than one page of either kind.
const USERS: u64 = 70;

fn news(no: u8) -> News {
    let all = [
        GRANTED,
        News::Granted { suppressed: true },
        News::Queued,
        News::Told { suppressed: true },
        News::Told { suppressed: false },
        News::Released,
        News::Dead,
    ];
    all[usize::from(no)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // proves: DEV-03
    #[test]
    fn the_column_always_says_what_the_pages_say(steps in vec(step(), 1..60)) {
        let mut node = Node::new();
        let mut keys: Vec<u64> = (100..100 + USERS).collect();
        for name in 0..USERS {
            node.user(name);
        }
        for step in &steps {
            run(&mut node, &mut keys, step);
            let numbers: Vec<_> = (0..USERS).filter_map(|name| node.number(name)).collect();
            node.read_shard(|state| {
                let users = node.progress().users;
                check_column(state.tables(), TENANT, users, &|user| numbers.contains(&user));
            });
        }
        let held = node.read_shard(|state| {
            let pages = endpoint::pages_from(state.tables(), TENANT, 0, usize::MAX).unwrap();
            pages.iter().flat_map(|(no, page)| page.users(*no).map(|(_, user)| user.clone()).collect::<Vec<_>>())
                .flat_map(|user| user.endpoints).filter(|one| one.status == Status::Pending).count()
        });
        let todos = node.read_shard(|state| {
            fantail_machine::tables::todo::waiting(state.tables(), usize::MAX).unwrap()
        });
        let claims = todos.iter().filter(|todo| matches!(todo, Todo::Claim { .. })).count();
        prop_assert!(claims <= held, "only pending endpoints wait for the directory");
    }

    /// Putting the same endpoint again, in a page with others, keeps when it came.
    #[test]
    fn a_put_folds_into_its_place(puts in vec(crate::strategies::endpoint_put(), 1..12)) {
        let mut state = endpoint::UserEndpoints::default();
        for put in &puts {
            let EndpointPut { device, claim, .. } = *put;
            let known = state.find(device).cloned();
            prop_assert_eq!(state.put(put, START), known);
            prop_assert!(state.endpoints.is_sorted_by_key(|one| one.device));
            prop_assert_eq!(state.find(device).map(|one| one.claim), Some(claim));
        }
    }
}

fn run(node: &mut Node, keys: &mut [u64], step: &Step) {
    let key = |user: u64, keys: &[u64]| keys[user as usize];
    match *step {
        Step::Register(user, name, token) => {
            let owner = key(user, keys) - 100;
            drop(register(node, user, registration(owner, name, token)));
        }
        Step::Unregister(user, name) => {
            let (tenant, user, device) = (TENANT, lookup(user), device(name));
            drop(node.shard(ShardAsk::Unregister { tenant, user, device }));
        }
        Step::Hear(user, device, claim, no) => {
            let user = node.number(user).unwrap();
            hear(node, user, device, claim, news(no));
        }
        Step::Age(days) => {
            node.now = node.now.plus(days * DAY_MS);
            drop(node.shard(ShardAsk::Age { tenant: TENANT, page: 0 }));
        }
        Step::Replace(user) => {
            node.delete_user(user);
            keys[user as usize] += 1_000;
            let put = put_of(user, keys[user as usize]);
            node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![put] });
        }
        Step::Profile(user, mail) => {
            let key = key(user, keys);
            let contact =
                |no| Contact { kind: ChannelKind::Email, address_hash: address(no), address: sealed(key) };
            let profile = mail.map(contact).into_iter().collect();
            let put = fantail_machine::shard::users::Put { profile, ..put_of(user, key) };
            node.shard(ShardAsk::PutUsers { tenant: TENANT, users: vec![put] });
        }
    }
}
