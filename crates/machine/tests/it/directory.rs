//! One address, one user: whatever the loops of shards and directory do in whatever order, through crashes and late
//! messages, no address is ever used by two endpoints, and in the end it is its last claimant's.

use crate::courier::{Courier, deliver};
use crate::endpoints::{address, device, register, registration};
use crate::harness::{DIRECTORY, Node, TENANT, lookup};
use fantail_machine::directory::{DirectoryAnswer, DirectoryAsk, Verdict};
use fantail_machine::records::directory::{Claim, Owner};
use fantail_machine::shard::ShardAsk;
use fantail_machine::tables::directory::{self, AddressRow};
use fantail_machine::tables::endpoint::{self, Endpoint};
use fantail_machine::tables::todo;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{AddressHash, ClaimNo, DeviceNo, PartitionId, ShardNo, UserNo};
use fantail_rules::limits::RELEASING_MAX;
use fantail_rules::suppression::Reason;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;

const SHARDS: [ShardNo; 2] = [ShardNo(0), ShardNo(1)];
const USERS: u64 = 2;
const TOKENS: u64 = 2;
/// Moves of the longest way that is gone to its end step by step.
const DEPTH: usize = 12;

fn world() -> Node {
    let mut node = Node::new();
    for shard in SHARDS {
        node.at = shard;
        for name in 0..USERS {
            node.user(name);
        }
    }
    node
}

fn row(node: &Node, token: u64) -> AddressRow {
    node.read(PartitionId::Directory(DIRECTORY), |state| {
        directory::find(state.tables(), TENANT, address(token)).unwrap()
    })
}

/// All endpoints of all shards.
fn all(node: &Node) -> Vec<(ShardNo, UserNo, Endpoint)> {
    let mut found = Vec::new();
    for shard in SHARDS {
        node.read(PartitionId::Shard(shard), |state| {
            for (no, page) in endpoint::pages_from(state.tables(), TENANT, 0, usize::MAX).unwrap() {
                for (user, state) in page.users(no) {
                    found.extend(state.endpoints.iter().map(|one| (shard, user, one.clone())));
                }
            }
        });
    }
    found
}

fn check_one_owner(node: &Node) {
    let mut used: BTreeMap<AddressHash, usize> = BTreeMap::new();
    for (_, _, one) in all(node).into_iter().filter(|(_, _, one)| one.status == Status::Active) {
        *used.entry(one.address_hash).or_default() += 1;
    }
    assert!(used.values().all(|count| *count == 1), "two endpoints use one address: {used:?}");
}

/// After everything was delivered: owners and directory agree, and nobody waits.
fn check_settled(node: &Node) {
    let holders = all(node).into_iter().filter(|(_, _, one)| one.status.holds_address());
    let mut held: BTreeMap<AddressHash, Owner> = BTreeMap::new();
    for (shard, user, one) in holders {
        let suppressed = (0..TOKENS)
            .any(|token| address(token) == one.address_hash && row(node, token).suppression.is_some());
        let expected = if suppressed { Status::Suppressed } else { Status::Active };
        assert_eq!(one.status, expected, "{one:?}");
        let owner = Owner { shard, user, device: one.device, claim: one.claim };
        assert_eq!(held.insert(one.address_hash, owner), None, "held twice");
    }
    for token in 0..TOKENS {
        let row = row(node, token);
        assert_eq!((row.owner, row.releasing), (held.get(&address(token)).copied(), vec![]));
    }
    for shard in SHARDS {
        let todos = node.read(PartitionId::Shard(shard), |state| todo::waiting(state.tables(), 9).unwrap());
        assert!(todos.iter().all(|todo| matches!(todo, todo::Todo::Shred { .. })), "{todos:?}");
    }
    let waiting = node.read(PartitionId::Directory(DIRECTORY), |state| {
        directory::waiting(state.tables(), None, 9).unwrap()
    });
    assert_eq!(waiting, []);
}

#[derive(Clone, Debug)]
enum Move {
    Register(usize, u64, u64, u64),
    Unregister(usize, u64, u64),
    Replace(usize, u64),
    Suppress(u64, bool),
    Step(usize),
    Crash,
    /// A message that was delivered long ago comes again.
    Ghost(Index),
}

fn calm_move() -> impl Strategy<Value = Move> {
    let (shard, user, token) = (0..SHARDS.len(), 0..USERS, 0..TOKENS);
    prop_oneof![
        4 => (shard.clone(), user.clone(), 0u64..2, token.clone())
            .prop_map(|(shard, user, name, token)| Move::Register(shard, user, name, token)),
        1 => (shard.clone(), user.clone(), 0u64..2).prop_map(|(s, u, name)| Move::Unregister(s, u, name)),
        1 => (shard, user).prop_map(|(shard, user)| Move::Replace(shard, user)),
        1 => (token, any::<bool>()).prop_map(|(token, on)| Move::Suppress(token, on)),
        12 => (0..SHARDS.len()).prop_map(Move::Step),
        1 => Just(Move::Crash),
    ]
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![9 => calm_move(), 1 => any::<Index>().prop_map(Move::Ghost)]
}

fn play(node: &mut Node, courier: &mut Courier, one: &Move) {
    match one {
        Move::Register(shard, user, name, token) => {
            node.at = SHARDS[*shard];
            drop(register(node, *user, registration(*user, *name, *token)));
        }
        Move::Unregister(shard, user, name) => {
            node.at = SHARDS[*shard];
            let (tenant, user, device) = (TENANT, lookup(*user), device(*name));
            drop(node.shard(ShardAsk::Unregister { tenant, user, device }));
        }
        Move::Replace(shard, user) => {
            node.at = SHARDS[*shard];
            node.delete_user(*user);
            node.user(*user);
        }
        Move::Suppress(token, on) => {
            let (tenant, address) = (TENANT, address(*token));
            drop(node.directory(if *on {
                DirectoryAsk::Suppress { tenant, address, reason: Reason::HardBounce }
            } else {
                DirectoryAsk::Unsuppress { tenant, address }
            }));
        }
        Move::Step(who) => drop(courier.step(node, SHARDS[*who])),
        Move::Crash => courier.crash(),
        Move::Ghost(_) if courier.delivered.is_empty() => {}
        Move::Ghost(pick) => drop(deliver(node, pick.get(&courier.delivered).clone())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    // proves: DEV-03
    #[test]
    fn an_address_is_never_used_by_two(moves in vec(any_move(), 1..120)) {
        let (mut node, mut courier) = (world(), Courier::default());
        for one in &moves {
            play(&mut node, &mut courier, one);
            check_one_owner(&node);
        }
        courier.settle(&mut node, &SHARDS);
        check_one_owner(&node);
    }

    // proves: DEV-03
    #[test]
    fn shards_and_directory_agree_in_the_end(moves in vec(calm_move(), 1..120)) {
        let (mut node, mut courier) = (world(), Courier::default());
        for one in &moves {
            play(&mut node, &mut courier, one);
            check_one_owner(&node);
        }
        courier.settle(&mut node, &SHARDS);
        check_settled(&node);
    }
}

// proves: DEV-03
/// One token, two users, two shards: the phone changes hands and back, at every interleaving of the two loops, with a
/// crash at every point.
#[test]
fn a_phone_changes_hands_at_every_interleaving() {
    let moves =
        [Move::Register(1, 0, 0, 0), Move::Register(0, 0, 0, 0), Move::Step(0), Move::Step(1), Move::Crash];
    let (mut paths, mut ways) = (vec![Vec::new()], 0);
    while let Some(path) = paths.pop() {
        let (mut node, mut courier) = (world(), Courier::default());
        play(&mut node, &mut courier, &moves[1]);
        courier.settle(&mut node, &SHARDS);
        let mut useful = true;
        for no in &path {
            let before = (node.records(), courier.len());
            let step: &Move = &moves[*no];
            play(&mut node, &mut courier, step);
            check_one_owner(&node);
            useful = before != (node.records(), courier.len());
        }
        if !useful {
            continue;
        }
        if path.len() < DEPTH {
            let again = |no: &usize| matches!(moves[*no], Move::Step(_)) || !path.contains(no);
            paths.extend((0..moves.len()).filter(again).map(|no| [&path[..], &[no]].concat()));
        }
        ways += 1;
        courier.settle(&mut node, &SHARDS);
        check_settled(&node);
        assert!(row(&node, 0).owner.is_some(), "somebody has it");
    }
    assert!(ways > 1_000, "{ways} ways to go");
}

#[test]
fn the_same_claim_again_changes_nothing_and_an_older_one_is_refused() {
    let mut node = Node::new();
    let owner = |shard: u16, device: u16, claim: u32| Owner {
        shard: ShardNo(shard),
        user: UserNo(7),
        device: DeviceNo(device),
        claim: ClaimNo(claim),
    };
    let mut claim = |owner: Owner| {
        let claims = vec![Claim { address: address(0), owner }];
        let answer = node.directory(DirectoryAsk::Claim { tenant: TENANT, claims });
        let DirectoryAnswer::Claims(verdicts) = answer else { panic!("{answer:?}") };
        (verdicts[0], node.records())
    };
    let granted = Verdict::Granted { suppressed: false };
    assert_eq!(claim(owner(0, 1, 5)), (granted, 1));
    assert_eq!(claim(owner(0, 1, 5)), (granted, 1));
    assert_eq!(claim(owner(0, 2, 4)), (Verdict::Refused, 1), "the same user claimed it later");
    assert_eq!(claim(owner(0, 1, 6)), (granted, 2), "the endpoint let go of its old claim itself");
    assert_eq!(claim(owner(1, 1, 1)), (Verdict::Queued, 3));
    assert_eq!(claim(owner(1, 1, 1)), (Verdict::Queued, 3));
    assert_eq!(claim(owner(0, 1, 6)), (Verdict::Refused, 3), "it is being released");
    for other in 1..RELEASING_MAX as u16 {
        assert_eq!(claim(owner(2 + other, 1, 1)).0, Verdict::Queued);
    }
    assert_eq!(claim(owner(99, 1, 1)).0, Verdict::Crowded);
}

/// A STOP that comes later changes no other reason, so that a START behind it lifts nothing, either.
// fixes: security M3, proved M3
#[test]
fn start_lifts_a_stop_and_nothing_else() {
    let address = address(0);
    let start = DirectoryAsk::Start { tenant: TENANT, address };
    let stop = DirectoryAsk::Suppress { tenant: TENANT, address, reason: Reason::Stop };
    for reason in Reason::ALL {
        let mut node = world();
        let reason_now = |node: &Node| row(node, 0).suppression.map(|one| one.reason);
        node.directory(DirectoryAsk::Suppress { tenant: TENANT, address, reason });
        let before = node.records();
        let unchanged = DirectoryAnswer::Suppressed { changed: false };
        assert_eq!(node.directory(stop.clone()), unchanged, "{reason:?}");
        assert_eq!((reason_now(&node), node.records()), (Some(reason), before), "{reason:?}");
        let expected = match reason {
            Reason::Stop => (DirectoryAnswer::Unsuppressed, None),
            Reason::DeadEndpoint | Reason::HardBounce | Reason::Complaint | Reason::Manual => {
                (DirectoryAnswer::NotSuppressed, Some(reason))
            }
        };
        let answer = node.directory(start.clone());
        assert_eq!((answer, reason_now(&node)), expected, "{reason:?}");
    }
    let mut node = world();
    assert_eq!(node.directory(start.clone()), DirectoryAnswer::NotSuppressed);
    assert_eq!(node.directory(stop), DirectoryAnswer::Suppressed { changed: true });
    assert_eq!(node.directory(start), DirectoryAnswer::Unsuppressed);
}

#[test]
fn what_may_not_be_sent_to_is_not_used_whoever_has_it() {
    let (mut node, mut courier) = (world(), Courier::default());
    let suppress = DirectoryAsk::Suppress { tenant: TENANT, address: address(0), reason: Reason::Stop };
    assert_eq!(node.directory(suppress.clone()), DirectoryAnswer::Suppressed { changed: true });
    let status = |node: &Node| all(node).first().map(|(_, _, one)| one.status);
    play(&mut node, &mut courier, &Move::Register(0, 0, 0, 0));
    courier.settle(&mut node, &SHARDS);
    assert_eq!(status(&node), Some(Status::Suppressed));
    let lift = DirectoryAsk::Unsuppress { tenant: TENANT, address: address(0) };
    assert_eq!(node.directory(lift.clone()), DirectoryAnswer::Unsuppressed);
    assert_eq!(node.directory(lift), DirectoryAnswer::NotSuppressed);
    courier.settle(&mut node, &SHARDS);
    assert_eq!(status(&node), Some(Status::Active));
    node.directory(suppress.clone());
    courier.settle(&mut node, &SHARDS);
    let before = node.records();
    assert_eq!(node.directory(suppress), DirectoryAnswer::Suppressed { changed: false });
    assert_eq!(node.records(), before, "again changes nothing");
    play(&mut node, &mut courier, &Move::Unregister(0, 0, 0));
    courier.settle(&mut node, &SHARDS);
    assert_eq!(row(&node, 0).suppression.map(|one| one.reason), Some(Reason::Stop), "it outlives its owner");
    check_settled(&node);
}
