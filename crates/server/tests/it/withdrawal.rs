//! Consent is withdrawn while very many pushes are in flight. The judge knows nothing of gates: it reads the records of the
//! journal in their order and asks at every Intent what its user had said last.

use crate::deliveries::{Post, metric, register};
use crate::server::Server;
use crate::world::{eventually, expect, put_user};
use fantail_local::disk::RealDisk;
use fantail_local::journal::{DumpKind, dump};
use fantail_machine::parcel::{Members, Words};
use fantail_machine::records::Stamped;
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::tables::ledger::{ParcelId, Standing};
use fantail_machine::tables::work::WorkId;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{PartitionId, UserNo};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// `FANTAIL_WITHDRAWAL_PUSHES=100000 cargo test … withdrawal` for the full size.
const PUSHES: usize = 10_000;
const USERS: usize = 500;
const THREADS: usize = 4;

fn pushes() -> usize {
    let given = std::env::var("FANTAIL_WITHDRAWAL_PUSHES").ok();
    given.map_or(PUSHES, |text| text.parse().expect("a number of pushes"))
}

/// What the records of one shard say.
#[derive(Default)]
struct Judge {
    agreed: BTreeMap<UserNo, bool>,
    /// Where the next parcel of some work begins.
    next: BTreeMap<WorkId, UserNo>,
    members: BTreeMap<ParcelId, Members>,
    intents: u64,
    /// Intents of users who had withdrawn.
    wrong: u64,
    /// Users who had an Intent before they withdrew, and those who were spared one since.
    before: BTreeSet<UserNo>,
    spared: BTreeSet<UserNo>,
}

impl Judge {
    fn hear(&mut self, record: ShardRecord) {
        match record {
            ShardRecord::Consented { consents, .. } => {
                for one in consents.into_iter().filter(|one| one.channel == ChannelKind::Push) {
                    self.agreed.insert(one.user, one.consent.is_granted);
                }
            }
            ShardRecord::Intend(intend) => {
                let first = self.next.get(&intend.work).copied().unwrap_or_default();
                let positions: Vec<u16> = (0..).take(intend.members.count()).collect();
                self.verdicts(&intend.members, &positions, &intend.verdicts);
                self.next.extend(intend.next.map(|next| (intend.work, next)));
                self.members.insert(ParcelId::of(intend.work, first), intend.members);
            }
            ShardRecord::Wake(wake) => {
                let members = self.members.get(&wake.parcel).cloned().expect("a parcel that was planned");
                self.verdicts(&members, &wake.positions, &wake.verdicts);
            }
            _ => {}
        }
    }

    fn verdicts(&mut self, members: &Members, positions: &[u16], verdicts: &Words<Standing>) {
        let all: Vec<UserNo> = members.iter().map(|member| member.user).collect();
        for (position, verdict) in positions.iter().zip(verdicts.iter()) {
            let user = all[usize::from(*position)];
            let has_agreed = self.agreed.get(&user).copied().unwrap_or(false);
            match verdict.state {
                State::Intent => {
                    self.intents += 1;
                    self.wrong += u64::from(!has_agreed);
                    self.before.insert(user);
                }
                State::Suppressed if verdict.code == "no_consent" => {
                    self.spared.insert(user);
                }
                _ => {}
            }
        }
    }
}

fn judged(data: &Path) -> Vec<Judge> {
    let mut judges: BTreeMap<u16, Judge> = BTreeMap::new();
    let directory = data.join("journal");
    for dumped in dump(&RealDisk, &directory).expect("a journal") {
        let dumped = dumped.expect("a record");
        if let (DumpKind::Data, Some(PartitionId::Shard(shard))) = (dumped.kind, dumped.partition) {
            let record = Stamped::<ShardRecord>::decode(&dumped.bytes).expect("a record of a shard").record;
            judges.entry(shard.0).or_default().hear(record);
        }
    }
    judges.into_values().collect()
}

fn withdraw(server: &Server, from: usize) {
    let mut client = server.client();
    let body = json!({"granted": false, "version": "2", "source": "settings"});
    for no in (from..USERS).step_by(2 * THREADS) {
        expect(client.json("PUT", &format!("/api/v1/users/u{no}/consents/push"), &body), 200);
    }
}

// proves: PRF-08, PRF-05
#[test]
fn nothing_is_authorised_behind_a_withdrawal() {
    let post = Post::new();
    let server = post.start(&[]);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                for no in (thread..USERS).step_by(THREADS) {
                    put_user(&mut client, &format!("u{no}"));
                    register(&mut client, &format!("u{no}"), "phone", &format!("stub:ok/u{no}"));
                }
            });
        }
    });
    // Everything waits before a provider that is down; then it comes back while users withdraw.
    post.faults("push down");
    let recipients: Vec<Value> = (0..USERS).map(|no| json!({"userId": format!("u{no}")})).collect();
    let mut client = server.client();
    for no in 0..pushes().div_ceil(USERS) {
        let body = json!({
            "notificationId": format!("n{no}"), "content": {"title": "Hello"}, "recipients": recipients,
            "channels": ["push"], "options": {"ttl": 3_600},
        });
        expect(client.post("/api/v1/notifications", &body), 202);
    }
    post.faults("");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let server = &server;
            scope.spawn(move || withdraw(server, 2 * thread));
        }
    });
    let total = pushes().div_ceil(USERS) * USERS;
    eventually("everything has ended", || {
        let ended: u64 = ["sent", "suppressed", "dead", "failed", "unconfirmed"]
            .iter()
            .map(|state| metric(&mut client, "fantail_deliveries", &format!("state=\"{state}\"")))
            .sum();
        (ended >= total as u64).then_some(())
    });
    let data = server.data.clone();
    server.stop();
    let judges = judged(&data);
    let sum = |of: fn(&Judge) -> u64| judges.iter().map(of).sum::<u64>();
    let (intents, wrong) = (sum(|judge| judge.intents), sum(|judge| judge.wrong));
    let both = sum(|judge| judge.before.intersection(&judge.spared).count() as u64);
    let said = format!("{total} pushes, {intents} intents, {both} users withdrew between two of theirs");
    assert_eq!(wrong, 0, "intents behind a withdrawal, of {said}");
    assert!(intents > 0 && both > 0, "withdrawals met pushes in flight: {said}");
}
