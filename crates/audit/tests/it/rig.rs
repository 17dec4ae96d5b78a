//! A small log of every kind of fact, two tenants and three partitions, with checkpoints in between.

use fantail_audit::chain::{Chains, Linked};
use fantail_audit::checkpoint::Series;
use fantail_audit::fact::{
    Accepted, Action, Cancelled, Consent, ConsentBy, DeadLettered, Deduplicated, Endpoint, Erased, Fact,
    Openings, Outcome, Parcel, Redriven,
};
use fantail_audit::key::{Keys, Signer};
use fantail_audit::member::{Commitment, ConsentVersion, Member, Pseudonym, Reason, Salt};
use fantail_audit::verify::{Evidence, Place, Report, verify};
use fantail_ports::audit::{Batch, Digest, Draft, Kind};
use fantail_ports::keyring::Sealed;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{
    DeviceNo, FrontNo, KeyNo, Millis, PartitionId, Position, ShardNo, TenantId, UserNo,
};
use fantail_rules::ulid::Ulid;

pub const EVENT: Ulid = Ulid(0x0190_0000_0000_1111_2222_3333_4444_5555);

pub fn members(count: u16) -> Vec<Member> {
    let member = |no: u16| Member {
        salt: Salt([no as u8; 16]),
        pseudonym: Pseudonym(u128::from(no).to_be_bytes()),
        verdict: [State::Intent, State::Suppressed, State::Deferred][usize::from(no % 3)],
        device: DeviceNo(no % 4),
        reason: Reason::of(["", "no_endpoint", "quiet_hours"][usize::from(no % 3)]),
        consent: ConsentVersion(u64::from(no) + 40),
    };
    (0..count).map(member).collect()
}

/// One of every kind, in the order of their numbers.
pub fn all_facts() -> Vec<Fact> {
    let parcel = Parcel::of(EVENT, ChannelKind::Push, 1, UserNo(77), &members(5));
    let committed = Commitment::to(&members(2));
    let (event, channel) = (EVENT, ChannelKind::Sms);
    let sealed = Sealed { key: KeyNo(9), nonce: [3; 12], bytes: b"ciphertext".to_vec() };
    let consent = Consent {
        pseudonym: Pseudonym([8; 16]),
        channel,
        given: true,
        version: ConsentVersion(41),
        proof: sealed,
    };
    vec![
        Fact::Action(Action {
            actor: "k7f3a9".into(),
            action: "template.put".into(),
            target: "welcome".into(),
            before: None,
            after: Some(Digest([6; 32])),
        }),
        Fact::Accepted(Accepted { event, key: [1; 16], body: [2; 16], actor: "k1".into() }),
        Fact::Deduplicated(Deduplicated { event, key: [1; 16] }),
        Fact::Parcel(parcel),
        Fact::Outcome(Outcome::of(EVENT, ChannelKind::Push, 1, UserNo(77), &members(5))),
        Fact::DeadLettered(DeadLettered {
            event,
            channel,
            round: 3,
            reason: "http_500".into(),
            members: committed,
        }),
        Fact::Redriven(Redriven { event, channel, members: committed, actor: "k7f3a9".into() }),
        Fact::Cancelled(Cancelled { event, actor: "admin".into() }),
        Fact::Erased(Erased {
            pseudonym: Pseudonym([8; 16]),
            key: KeyNo(9),
            receipt: Digest([7; 32]),
            actor: "k7f3a9".into(),
        }),
        Fact::Consent(consent.clone()),
        Fact::Endpoint(Endpoint {
            pseudonym: Pseudonym([8; 16]),
            device: DeviceNo(513),
            status: Some(Status::Active),
            actor: "system".into(),
        }),
        Fact::Openings(Openings::of(Kind(4), &members(2)).next().unwrap()),
        Fact::ConsentBy(ConsentBy { consent, actor: "k7f3a9".into() }),
    ]
}

pub fn draft(tenant: u32, position: u64, fact: &Fact) -> Draft {
    Draft {
        tenant: TenantId(tenant),
        position: Position(position),
        at: Millis(1_760_000_000_000 + position),
        kind: fact.kind(),
        body: fact.encode().unwrap(),
    }
}

/// Entries as they are stored, and the checkpoints that were made on the way.
pub struct Log {
    pub entries: Vec<Linked>,
    pub checkpoints: Vec<String>,
    pub keys: Keys,
}

impl Log {
    /// A checkpoint every seven entries and at the end.
    pub fn new() -> Self {
        let signer = Signer::from_seed(&[5; 32]);
        let (mut chains, mut series) = (Chains::default(), Series::new());
        let (mut entries, mut checkpoints) = (Vec::new(), Vec::new());
        let partitions = [PartitionId::Root, PartitionId::Front(FrontNo(0)), PartitionId::Shard(ShardNo(2))];
        for (no, fact) in all_facts().iter().cycle().take(30).enumerate() {
            let partition = partitions[no % 3];
            let (after, through) = (Position(no as u64 / 3), Position(no as u64 / 3 + 1));
            let drafts = vec![draft(1 + u32::from(no % 5 == 0), through.0, fact)];
            let staged = chains.stage(vec![Batch { partition, after, through, drafts }]).unwrap();
            chains.fold(&staged);
            entries.extend(staged.entries);
            if no % 7 == 6 || no == 29 {
                let checkpoint = series.sign(&chains.heads(), Millis(no as u64), &signer).unwrap();
                series.fold(&checkpoint);
                checkpoints.push(checkpoint.text());
            }
        }
        Self { entries, checkpoints, keys: [signer.public()].into_iter().collect() }
    }

    pub fn stored(&self) -> Vec<Vec<u8>> {
        self.entries.iter().map(|linked| linked.bytes.clone()).collect()
    }

    /// Verifies some bytes against our checkpoints; places are numbered like the bytes.
    pub fn verify(&self, stored: &[Vec<u8>]) -> Report {
        self.verify_with(stored, &self.checkpoints, &[])
    }

    pub fn verify_with(&self, stored: &[Vec<u8>], checkpoints: &[String], posted: &[&str]) -> Report {
        let entries = stored.iter().enumerate().map(|(no, bytes)| (place(no), &bytes[..]));
        let checkpoints: Vec<&str> = checkpoints.iter().map(String::as_str).collect();
        verify(entries, Evidence { keys: &self.keys, checkpoints: &checkpoints, posted })
    }
}

pub fn place(no: usize) -> Place {
    Place { segment: 1, offset: no as u64 * 1_000 }
}
