//! What a shard's record says about many deliveries at once: verdicts, outcomes, dead letters, redrives.
//!
//! Comes from: `derive`. Does: finds the parcel's event and members in its ledger, where they never change, and turns each
//! member into a leaf. Goes to: facts with their members, so that `feed` can store them and `prove` can open one.
//!
//! What must never happen: a member in another place than the ledger has it, or with another verdict than the record.

use super::derive::Said;
use super::people::{People, Recent, let_others};
use crate::ask::Refusal;
use crate::core::Core;
use fantail_audit::fact::{DeadLettered, Fact, Outcome, Parcel, Redriven};
use fantail_audit::member::{Commitment, ConsentVersion, Member, Reason, Salt, SaltUse};
use fantail_machine::parcel::{self, Words};
use fantail_machine::records::delivery;
use fantail_machine::records::digest::Folded;
use fantail_machine::records::shard::Given;
use fantail_machine::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use fantail_ports::audit::Kind;
use fantail_rules::actor::Actor;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{DeviceNo, PartitionId, Position, ShardNo, TenantId, UserNo};
use fantail_rules::limits::PARCEL_MEMBERS_MAX;
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

/// Which record of which shard speaks.
#[derive(Clone, Copy)]
pub struct Speaker<'a> {
    pub core: &'a Core,
    pub recent: &'a Recent,
    pub shard: ShardNo,
    pub position: Position,
}

/// Leaves that are hashed without a pause.
const AT_ONCE: usize = 256;

const PARCEL: Kind = Kind(4);
const OUTCOME: Kind = Kind(5);
const DEAD_LETTERED: Kind = Kind(6);
const REDRIVEN: Kind = Kind(7);

/// A parcel, as far as a record is about it.
struct About {
    tenant: TenantId,
    event: Ulid,
    channel: ChannelKind,
    round: u16,
    first: UserNo,
    is_tracked: bool,
    members: Vec<Line>,
}

/// One of its members.
#[derive(Clone)]
struct Line {
    member: parcel::Member,
    standing: Standing,
    /// Of the user's consent, if it may be sent.
    consent: ConsentVersion,
}

impl Line {
    fn plain((member, standing): (parcel::Member, Standing)) -> Self {
        Self { member, standing, consent: ConsentVersion::default() }
    }
}

impl About {
    /// The proofs of consent that the record names, member by member.
    fn with_consents(mut self, consents: &delivery::Consents) -> Self {
        for (line, revision) in self.members.iter_mut().zip(consents.iter()) {
            line.consent = ConsentVersion(revision.into());
        }
        self
    }
}

impl Speaker<'_> {
    /// Being in the inbox is the delivery of whoever was named and wants to see it there.
    pub async fn given(self, given: &Given) -> Result<Vec<Said>, Refusal> {
        let mut said = Vec::new();
        let in_app = given.delivery.is_some_and(|delivery| delivery.channels.contains(ChannelKind::InApp));
        if !in_app {
            return Ok(said);
        }
        for users in given.members.chunks(PARCEL_MEMBERS_MAX as usize) {
            let line = |user: &UserNo| {
                Line::plain((parcel::Member { user: *user, device: DeviceNo(0) }, given.in_app(*user)))
            };
            let about = About {
                tenant: given.tenant,
                event: given.event,
                channel: ChannelKind::InApp,
                round: 1,
                first: users[0],
                is_tracked: true,
                members: users.iter().map(line).collect(),
            };
            said.extend(self.verdicts(&about).await?);
        }
        Ok(said)
    }

    pub async fn intend(self, intend: &delivery::Intend) -> Result<Vec<Said>, Refusal> {
        let Some(first) = intend.members.users().first() else { return Ok(Vec::new()) };
        let asked = ParcelId::of(intend.work, *first);
        let found = self.core.read(self.partition(), |view| ledger::holding(view.tables(), asked))?;
        // A repeat that the shard did not apply, or a ledger that is past its time.
        let Some((parcel, ledger)) = found.filter(|(_, ledger)| ledger.members == intend.members) else {
            return Ok(Vec::new());
        };
        let members = intend.members.iter().zip(intend.verdicts.iter().cloned()).map(Line::plain).collect();
        let about = about(parcel, &ledger, 1, members).with_consents(&intend.consents);
        self.verdicts(&about).await
    }

    pub async fn wake(self, wake: &delivery::Wake) -> Result<Vec<Said>, Refusal> {
        match self.find(wake.parcel, wake.round, &wake.positions, &wake.verdicts)? {
            None => Ok(Vec::new()),
            Some(about) => self.verdicts(&about.with_consents(&wake.consents)).await,
        }
    }

    /// What waited in a window that is over.
    pub async fn folded(self, folded: &Folded) -> Result<Vec<Said>, Refusal> {
        let mut said = Vec::new();
        for item in &folded.items {
            let standings = Words::all(item.standing.clone(), item.positions.len());
            if let Some(about) = self.find(folded.parcel(item), 0, &item.positions, &standings)? {
                said.extend(self.verdicts(&about).await?);
            }
        }
        Ok(said)
    }

    pub async fn outcome(self, outcome: &delivery::Outcome) -> Result<Vec<Said>, Refusal> {
        match self.find(outcome.parcel, outcome.round, &outcome.positions, &outcome.standings)? {
            None => Ok(Vec::new()),
            Some(about) => self.results(&about).await,
        }
    }

    pub async fn receipt(self, receipt: &delivery::Receipt) -> Result<Vec<Said>, Refusal> {
        let standing = Words::all(receipt.standing.clone(), 1);
        match self.find(receipt.parcel, 0, &[receipt.position], &standing)? {
            None => Ok(Vec::new()),
            Some(about) => self.results(&about).await,
        }
    }

    /// Dead letters are tried again, or dropped.
    pub async fn redrive(self, by: &Actor, redrive: &delivery::Redrive) -> Result<Vec<Said>, Refusal> {
        let Some(about) = self.find(redrive.parcel, 0, &redrive.positions, &redrive.standings)? else {
            return Ok(Vec::new());
        };
        if about.members.iter().any(|line| line.standing.state != State::Deferred) {
            let target = format!("{}/{}", about.event, about.channel.name());
            let mut said = self.results(&about).await?;
            said.push(Said::action(by, about.tenant, "deadletter.drop", target));
            return Ok(said);
        }
        let people = self.people(&about).await?;
        let members = self.leaves(REDRIVEN, &about.members, &people).await;
        let fact = Fact::Redriven(Redriven {
            event: about.event,
            channel: about.channel,
            members: Commitment::to(&members),
            actor: by.name().to_owned(),
        });
        Ok(vec![Said { tenant: about.tenant, fact, members, is_tracked: false }])
    }

    async fn verdicts(self, about: &About) -> Result<Vec<Said>, Refusal> {
        let people = self.people(about).await?;
        let members = self.leaves(PARCEL, &about.members, &people).await;
        let fact = Fact::Parcel(Parcel::of(about.event, about.channel, about.round, about.first, &members));
        let said = Said { tenant: about.tenant, fact, members, is_tracked: about.is_tracked };
        Ok(std::iter::once(said).chain(self.dead(about, &people).await).collect())
    }

    async fn results(self, about: &About) -> Result<Vec<Said>, Refusal> {
        let people = self.people(about).await?;
        let members = self.leaves(OUTCOME, &about.members, &people).await;
        let fact = Fact::Outcome(Outcome::of(about.event, about.channel, about.round, about.first, &members));
        let said = Said { tenant: about.tenant, fact, members, is_tracked: about.is_tracked };
        Ok(std::iter::once(said).chain(self.dead(about, &people).await).collect())
    }

    /// Those that were given up, by reason.
    async fn dead(self, about: &About, people: &People) -> Vec<Said> {
        let mut by_reason: BTreeMap<&str, Vec<Line>> = BTreeMap::new();
        for line in about.members.iter().filter(|line| line.standing.state == State::Dead) {
            by_reason.entry(&line.standing.code).or_default().push(line.clone());
        }
        let mut said = Vec::new();
        for (reason, dead) in by_reason {
            let members = self.leaves(DEAD_LETTERED, &dead, people).await;
            let fact = Fact::DeadLettered(DeadLettered {
                event: about.event,
                channel: about.channel,
                round: about.round,
                reason: Reason::of(reason).as_str().to_owned(),
                members: Commitment::to(&members),
            });
            said.push(Said { tenant: about.tenant, fact, members, is_tracked: false });
        }
        said
    }

    /// The parcel's members at some positions. `None` if its ledger is past its time.
    fn find(
        self,
        parcel: ParcelId,
        round: u16,
        positions: &[u16],
        standings: &Words<Standing>,
    ) -> Result<Option<About>, Refusal> {
        let found = self.core.read(self.partition(), |view| ledger::find(view.tables(), parcel))?;
        let Some(ledger) = found else { return Ok(None) };
        let all: Vec<parcel::Member> = ledger.members.iter().collect();
        let members = positions.iter().zip(standings.iter()).filter_map(|(position, standing)| {
            all.get(usize::from(*position)).map(|member| Line::plain((*member, standing.clone())))
        });
        let members: Vec<_> = members.collect();
        Ok((!members.is_empty()).then(|| about(parcel, &ledger, round, members)))
    }

    async fn people(self, about: &About) -> Result<People, Refusal> {
        let users = about.members.iter().map(|line| line.member.user);
        People::find(self.core, self.recent, about.tenant, self.shard, users).await
    }

    async fn leaves(self, kind: Kind, members: &[Line], people: &People) -> Vec<Member> {
        let mut leaves = Vec::with_capacity(members.len());
        for (index, Line { member, standing, consent }) in (0..).zip(members) {
            let person = people.of(member.user);
            let usage = SaltUse { kind, position: self.position, index };
            leaves.push(Member {
                salt: Salt::derive(&person.secret, usage),
                pseudonym: person.pseudonym,
                device: member.device,
                verdict: standing.state,
                reason: Reason::of(&standing.code),
                consent: *consent,
            });
            if leaves.len() % AT_ONCE == 0 {
                let_others().await;
            }
        }
        leaves
    }

    fn partition(self) -> PartitionId {
        PartitionId::Shard(self.shard)
    }
}

fn about(parcel: ParcelId, ledger: &LedgerRow, round: u16, members: Vec<Line>) -> About {
    About {
        tenant: parcel.tenant,
        event: ledger.event,
        channel: parcel.channel,
        round,
        first: parcel.first,
        is_tracked: ledger.is_tracked,
        members,
    }
}
