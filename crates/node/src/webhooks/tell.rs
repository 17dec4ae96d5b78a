//! What a record of a shard is worth telling to the producer.
//!
//! Comes from: `follow`, record by record. Decides: for deliveries to named users one message each; for events to lists that
//! something moved, so that the sums are told. Goes to: messages whose names derive from the record, so that a receiver
//! knows a repeat.

use crate::ask::{ChannelStatus, NotificationStatus, Refusal};
use crate::core::{Core, internal};
use crate::inbox;
use crate::people::name_of;
use fantail_machine::parcel::{Member, Words};
use fantail_machine::records::Stamped;
use fantail_machine::records::digest::{DigestRecord, Folded};
use fantail_machine::records::halt::{CalledOff, HaltRecord};
use fantail_machine::records::shard::{Given, ShardRecord};
use fantail_machine::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use fantail_machine::tables::taken;
use fantail_machine::tables::work::{self, WorkId};
use fantail_ports::journal::Record;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{DeviceNo, Millis, PartitionId, ShardNo, TenantId};
use fantail_rules::producer_event::ProducerEvent;
use fantail_rules::ulid::Ulid;
use fantail_rules::wall::utc_text;
use serde_json::{Map, Value, json};

/// Something about a tenant's notification.
pub enum News {
    Single {
        event: ProducerEvent,
        body: Value,
    },
    /// An event to a list moved, at this time.
    Listed {
        event: Ulid,
        at: Millis,
    },
}

/// What a record says about deliveries of a tenant, in order.
pub fn news(core: &Core, tenant: TenantId, shard: ShardNo, record: &Record) -> Result<Vec<News>, Refusal> {
    let decoded = Stamped::<ShardRecord>::decode(&record.bytes);
    let Stamped { at, record, .. } = decoded.map_err(|failed| internal(&failed.to_string()))?;
    let teller = Teller { core, tenant, shard, at };
    match record {
        ShardRecord::Given(given) if given.tenant == tenant => teller.given(&given),
        ShardRecord::Intend(intend) if intend.work.tenant == tenant => {
            let Some(first) = intend.members.users().first() else { return teller.closed(intend.work) };
            let asked = ParcelId::of(intend.work, *first);
            let found = core.read(PartitionId::Shard(shard), |view| ledger::holding(view.tables(), asked))?;
            let Some((parcel, row)) = found.filter(|(_, row)| row.members == intend.members) else {
                return Ok(Vec::new());
            };
            let positions: Vec<u16> = (0..).take(intend.members.count()).collect();
            teller.members(parcel, &row, &positions, &intend.verdicts)
        }
        ShardRecord::Closed { work, .. } => teller.closed(work),
        ShardRecord::Wake(wake) => teller.about(wake.parcel, &wake.positions, &wake.verdicts),
        ShardRecord::Outcome(outcome) => teller.about(outcome.parcel, &outcome.positions, &outcome.standings),
        ShardRecord::Digest(DigestRecord::Folded(folded)) => teller.folded(&folded),
        ShardRecord::Receipt(receipt) => {
            teller.about(receipt.parcel, &[receipt.position], &Words::all(receipt.standing, 1))
        }
        ShardRecord::Redrive(redrive) => teller.about(redrive.parcel, &redrive.positions, &redrive.standings),
        ShardRecord::Halt(HaltRecord::CalledOff(called)) if called.tenant == tenant => {
            teller.called_off(&called)
        }
        // Records of other tenants, and those that are not about deliveries.
        ShardRecord::Given(_)
        | ShardRecord::Intend(_)
        | ShardRecord::UserPut { .. }
        | ShardRecord::UserGone { .. }
        | ShardRecord::Preferred(_)
        | ShardRecord::Consented { .. }
        | ShardRecord::Replanned { .. }
        | ShardRecord::Erasure(_)
        | ShardRecord::Wiped(_)
        | ShardRecord::Edges { .. }
        | ShardRecord::Take { .. }
        | ShardRecord::Marked { .. }
        | ShardRecord::Moved { .. }
        | ShardRecord::Cleared { .. }
        | ShardRecord::Unlisted { .. }
        | ShardRecord::Reported { .. }
        | ShardRecord::Shredded { .. }
        | ShardRecord::Expired { .. }
        | ShardRecord::Halt(_)
        | ShardRecord::Swept(_)
        | ShardRecord::Digest(
            DigestRecord::Collected(_) | DigestRecord::Closed(_) | DigestRecord::Digested(_),
        )
        | ShardRecord::EndpointPut { .. }
        | ShardRecord::EndpointState { .. }
        | ShardRecord::EndpointGone { .. }
        | ShardRecord::Told(_)
        | ShardRecord::Walk(_)
        | ShardRecord::Throttle(_)
        | ShardRecord::Untold { .. } => Ok(Vec::new()),
    }
}

struct Teller<'a> {
    core: &'a Core,
    tenant: TenantId,
    shard: ShardNo,
    at: Millis,
}

impl Teller<'_> {
    /// Being in the inbox is the delivery of a named user; one who does not want it there is told of as suppressed.
    fn given(&self, given: &Given) -> Result<Vec<News>, Refusal> {
        let is_in_app = given.delivery.is_some_and(|delivery| delivery.channels.contains(ChannelKind::InApp));
        let mut news = Vec::new();
        for user in given.members.iter().filter(|_| is_in_app) {
            let member = Member { user: *user, device: DeviceNo(0) };
            let Standing { state, code, .. } = given.in_app(*user);
            news.extend(self.single(given.event, ChannelKind::InApp, member, state, &code)?);
        }
        Ok(news)
    }

    /// Nothing of it was sent, and nothing will be.
    fn called_off(&self, called: &CalledOff) -> Result<Vec<News>, Refusal> {
        let standing = called.standing();
        let mut news = Vec::new();
        for channel in called.delivery.iter().flat_map(|delivery| delivery.channels.iter()) {
            for user in &called.members {
                let member = Member { user: *user, device: DeviceNo(0) };
                news.extend(self.single(called.event, channel, member, standing.state, &standing.code)?);
            }
        }
        Ok(news)
    }

    /// What waited in a window that is over.
    fn folded(&self, folded: &Folded) -> Result<Vec<News>, Refusal> {
        let mut news = Vec::new();
        for item in &folded.items {
            let standings = Words::all(item.standing.clone(), item.positions.len());
            news.extend(self.about(folded.parcel(item), &item.positions, &standings)?);
        }
        Ok(news)
    }

    /// Nobody else of an event is looked at: if it was for a list, its sums may be final now.
    fn closed(&self, work: WorkId) -> Result<Vec<News>, Refusal> {
        if work.tenant != self.tenant {
            return Ok(Vec::new());
        }
        let found = self.core.read(PartitionId::Shard(self.shard), |view| {
            let is_given = !work::given(view.tables(), work.tenant, work.arrival)?.is_empty();
            Ok((is_given, taken::event_at(view.tables(), work.tenant, work.arrival)?))
        })?;
        match found {
            (false, Some(event)) => Ok(vec![News::Listed { event, at: self.at }]),
            (true, _) | (false, None) => Ok(Vec::new()),
        }
    }

    fn about(
        &self,
        parcel: ParcelId,
        positions: &[u16],
        standings: &Words<Standing>,
    ) -> Result<Vec<News>, Refusal> {
        if parcel.tenant != self.tenant {
            return Ok(Vec::new());
        }
        let partition = PartitionId::Shard(self.shard);
        match self.core.read(partition, |view| ledger::find(view.tables(), parcel))? {
            None => Ok(Vec::new()),
            Some(row) => self.members(parcel, &row, positions, standings),
        }
    }

    fn members(
        &self,
        parcel: ParcelId,
        row: &LedgerRow,
        positions: &[u16],
        standings: &Words<Standing>,
    ) -> Result<Vec<News>, Refusal> {
        if !row.is_tracked {
            return Ok(vec![News::Listed { event: row.event, at: self.at }]);
        }
        let all: Vec<Member> = row.members.iter().collect();
        let mut news = Vec::new();
        for (position, standing) in positions.iter().zip(standings.iter()) {
            let Some(member) = all.get(usize::from(*position)) else { continue };
            let single = self.single(row.event, parcel.channel, *member, standing.state, &standing.code)?;
            news.extend(single);
        }
        Ok(news)
    }

    fn single(
        &self,
        event: Ulid,
        channel: ChannelKind,
        member: Member,
        state: State,
        code: &str,
    ) -> Result<Option<News>, Refusal> {
        let Some(told) = ProducerEvent::of_state(state) else { return Ok(None) };
        let mut data = json!({
            "eventId": event.to_string(),
            "userId": name_of(self.core, self.tenant, self.shard, member.user)?,
            "channel": channel.name(),
            "endpoint": member.device.0,
            "state": state.public_word(),
            "code": code,
        });
        if let Some(name) = inbox::name_of_event(self.core, self.tenant, event)? {
            data["notificationId"] = name.into();
        }
        Ok(Some(News::Single { event: told, body: body(told, self.at, data) }))
    }
}

/// The frame that all messages have. `timestamp` was released as milliseconds; `time` is the same as text.
pub fn body(event: ProducerEvent, at: Millis, data: Value) -> Value {
    json!({"type": event.name(), "timestamp": at.0, "time": utc_text(at), "data": data})
}

/// Whether everything of it is done, and the sums.
pub fn sums(status: &NotificationStatus) -> (ProducerEvent, Value) {
    let is_done = status.channels.iter().all(|channel| channel.is_done);
    let event = if is_done { ProducerEvent::Summary } else { ProducerEvent::Progress };
    let channel = |one: &ChannelStatus| {
        let counts: Map<String, Value> = one
            .counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(state, count)| (state.public_word().to_owned(), Value::from(*count)))
            .collect();
        json!({"channel": one.channel.name(), "counts": counts, "unreached": one.unreached, "done": one.is_done})
    };
    let channels: Vec<Value> = status.channels.iter().map(channel).collect();
    let event_id = status.event.to_string();
    let results = format!("/api/v1/notifications/{event_id}/status?limit=1000");
    let mut data = json!({"eventId": event_id, "channels": channels, "results": results});
    if let Some(name) = &status.name {
        data["notificationId"] = name.as_str().into();
    }
    (event, data)
}
