//! What callers were promised, held against everything that may be sent: whatever happens in whichever order, nothing leaves
//! that was called off, is too old, has no active endpoint or is more than its user wants; and nobody whose endpoint is
//! active or still being claimed is told to have none.

use crate::deliveries::{Act, PUSH, act, audit, by, drive, user_with};
use crate::endpoints::{device, hear, register, registration};
use crate::harness::{Node, TENANT, list};
use fantail_machine::parcel::Member;
use fantail_machine::shard::{ShardAnswer, ShardAsk};
use fantail_machine::tables::endpoint;
use fantail_machine::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use fantail_machine::tables::respect;
use fantail_machine::tables::todo::Todo;
use fantail_machine::tables::work::{self, WorkId};
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{News, Status};
use fantail_rules::ids::{Arrival, DeviceNo, UserNo};
use fantail_rules::priority::Priority;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const HOUR_MS: u64 = 3_600_000;

#[derive(Clone, Debug)]
enum Deed {
    Act(Act),
    /// A device is registered, and the directory does not answer yet.
    Claim(u64, u64),
    /// It answers about everything.
    Grant,
    /// The effect loop does what waits for it.
    Effects,
    /// So many minutes pass.
    Minutes(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        12 => act().prop_map(Deed::Act),
        2 => (0u64..3, 1u64..8).prop_map(|(user, name)| Deed::Claim(user, name)),
        2 => Just(Deed::Grant),
        2 => Just(Deed::Effects),
        1 => (0u64..40).prop_map(Deed::Minutes),
    ]
}

fn do_it(node: &mut Node, deed: &Deed) {
    match deed {
        Deed::Act(act) => drive(node, act),
        Deed::Claim(user, name) => {
            let mut one = registration(*user, *name, *name);
            (one.kind, one.name_hash) = (ChannelKind::ALL[1 + *name as usize % 4], device(*name));
            register(node, *user, one);
        }
        Deed::Grant => {
            for user in (0..3).filter_map(|name| node.number(name)).collect::<Vec<_>>() {
                for one in endpoints(node, user).into_iter().filter(|one| one.status == Status::Pending) {
                    hear(node, user, one.device.0, one.claim.0, News::Granted { suppressed: false });
                }
            }
        }
        Deed::Effects => effects(node),
        Deed::Minutes(minutes) => node.now = node.now.plus(minutes * 60_000),
    }
}

fn effects(node: &mut Node) {
    crate::respect::replan(node);
    for todo in node.todos() {
        let Todo::Halt { tenant, arrival } = todo else { continue };
        let mut behind = None;
        while let ShardAnswer::HaltGoesOn { behind: next } =
            node.shard(ShardAsk::EndHalted { tenant, arrival, behind })
        {
            behind = next;
        }
        // What waited has ended, and nobody else is looked at.
        let from = ParcelId { tenant, arrival, channel: ChannelKind::InApp, first: UserNo(0) };
        let rows = node.read_shard(|state| ledger::of_event(state.tables(), from, usize::MAX).unwrap());
        for (parcel, row) in rows {
            assert!(row.standings.iter().all(|one| one.state != State::Deferred), "{parcel:?} {row:?}");
        }
        for channel in ChannelKind::ALL {
            let open = node
                .read_shard(|state| work::find(state.tables(), WorkId { tenant, arrival, channel }).unwrap());
            assert_eq!(open, None, "{arrival} {channel:?}");
        }
    }
}

fn endpoints(node: &Node, user: UserNo) -> Vec<endpoint::Endpoint> {
    node.read_shard(|state| endpoint::of_user(state.tables(), TENANT, user).unwrap())
}

type Stands = BTreeMap<(ParcelId, Member), Standing>;

fn stands(node: &Node) -> (Stands, BTreeMap<ParcelId, LedgerRow>) {
    let rows = node.read_shard(|state| ledger::all(state.tables(), None, usize::MAX).unwrap());
    let of = |(parcel, row): &(ParcelId, LedgerRow)| {
        let all: Vec<_> = row.members.iter().zip(row.standings.iter().cloned()).collect();
        all.into_iter().map(|(member, standing)| ((*parcel, member), standing)).collect::<Vec<_>>()
    };
    (rows.iter().flat_map(of).collect(), rows.into_iter().collect())
}

/// What was counted for whom: in which hour, and for which events.
#[derive(Default)]
struct Counted {
    events: BTreeSet<(UserNo, Arrival)>,
    hours: BTreeMap<(UserNo, u64), u16>,
}

impl Counted {
    /// Something new may be sent.
    fn check(&mut self, node: &Node, (parcel, member): (ParcelId, Member), row: &LedgerRow) {
        let halted =
            node.read_shard(|state| work::halted(state.tables(), parcel.tenant, parcel.arrival).unwrap());
        assert_eq!(halted, None, "{parcel:?} {member:?} may be sent and was called off");
        assert!(node.now < row.terms.expires_at, "{parcel:?} {member:?} may be sent too late");
        let found = endpoints(node, member.user).into_iter().find(|one| one.device == member.device);
        let found = found.map(|one| (one.kind, one.status));
        assert_eq!(found, Some((parcel.channel, Status::Active)), "{parcel:?} {member:?}");
        if parcel.channel != PUSH || !self.events.insert((member.user, parcel.arrival)) {
            return;
        }
        let limits = node.read_shard(|state| respect::find(state.tables(), TENANT, member.user).unwrap());
        let most = limits.preferences.limits.get(&PUSH).map_or(0, |limit| limit.caps.per_hour);
        if most > 0 {
            let got = self.hours.entry((member.user, node.now.0 / HOUR_MS)).or_default();
            let is_fine = *got < most || row.terms.lane == Priority::Critical;
            assert!(is_fine, "{parcel:?} {member:?} is the {got}th of {most}");
            *got += 1;
        }
    }
}

/// Whoever is told to have no endpoint has none, active or claimed.
fn check_reachable(node: &Node, (parcel, member): (ParcelId, Member), standing: &Standing) {
    let is_told = standing.state == State::Suppressed && standing.code == "no_endpoint";
    if !is_told || member.device != DeviceNo(0) {
        return;
    }
    let mut found = endpoints(node, member.user).into_iter().filter(|one| one.kind == parcel.channel);
    let usable = found.find(|one| matches!(one.status, Status::Active | Status::Pending));
    assert_eq!(usable.map(|one| one.device), None, "{parcel:?} {member:?} was suppressed");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // fixes: proved N2, correctness A7, correctness A11, correctness C3
    #[test]
    fn nothing_leaves_against_what_was_promised(deeds in vec((deed(), 0u8..10), 1..80)) {
        let mut node = Node::new();
        for name in 0..3 {
            user_with(&mut node, name, name);
            node.join(name, list(0));
        }
        node.delivery = Some(by(&[PUSH, ChannelKind::InApp]));
        let mut counted = Counted::default();
        for (deed, post) in &deeds {
            match post {
                0 => drop(node.post(list(0), false)),
                1 | 2 => {
                    let users: Vec<UserNo> = (0..3).filter_map(|name| node.number(name)).collect();
                    node.send(&users);
                }
                _ => {}
            }
            node.take_all();
            let (before, _) = stands(&node);
            do_it(&mut node, deed);
            audit(&node);
            let (after, rows) = stands(&node);
            for (of, standing) in &after {
                let was = before.get(of).map(|standing| standing.state);
                if standing.state == State::Intent && was != Some(State::Intent) {
                    counted.check(&node, *of, &rows[&of.0]);
                }
                if was.is_none() {
                    check_reachable(&node, *of, standing);
                }
            }
        }
    }
}
