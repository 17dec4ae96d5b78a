//! Admission: an event takes its place in the order of its author.
//!
//! Comes from: `node::accept`, with everything sealed, hashed and resolved.
//! Decides: whether it is a repeat, its id, and its tier; once and for all.
//! Goes to: the `Admitted` record, which every shard takes; what is scheduled is held back by the front, see `release`.

use super::{FrontAnswer, Moment, Plan};
use crate::Planned;
use crate::records::front::{Admitted, Audience, Delivery, FrontRecord, Options, Personal};
use crate::records::walk::Walk;
use crate::tables::event::{self, EventRow, FrontState, PersonalRow};
use crate::tables::scheduled::{self, Held};
use crate::tables::usage::{self, Balance};
use crate::tables::{Row, idempotency, put, size, walk};
use crate::view::View;
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::TablesError;
use fantail_rules::admit::{self, Bucket, Known, Verdict};
use fantail_rules::ids::{FrontNo, ListId, Millis, ShardNo, TenantId, UserNo};
use fantail_rules::limits::{RECORD_BYTES_MAX, SCHEDULED_PER_TENANT_MAX, WALKS_PER_TENANT_MAX};
use fantail_rules::tier;
use fantail_rules::ulid::{Mint, Ulid};

#[derive(Clone, Debug)]
pub struct Ask {
    pub tenant: TenantId,
    /// Keyed hash of the idempotency key.
    pub key: [u8; 16],
    pub body: [u8; 16],
    pub kind: String,
    pub category: String,
    pub priority: u8,
    pub actor: Option<Sealed>,
    pub content: Sealed,
    pub delivery: Option<Delivery>,
    /// Content of single recipients.
    pub personal: Vec<Personal>,
    pub options: Options,
    pub audience: AskAudience,
    /// The tenant's threshold when it was asked.
    pub tier_up: u32,
}

#[derive(Clone, Debug)]
pub enum AskAudience {
    List(ListId),
    /// Members by shard, both ascending.
    Members(Vec<(ShardNo, Vec<UserNo>)>),
    Walk(Box<Walk>),
}

/// The answer to a request that was heard before; `None` if it is new.
pub(super) fn recall(
    view: &View<'_>,
    tenant: TenantId,
    key: &[u8; 16],
    body: [u8; 16],
    moment: &Moment<'_>,
) -> Result<Option<FrontAnswer>, TablesError> {
    let known = idempotency::find(view, tenant, key, &moment.searched())?;
    Ok(match admit::decide(known, body) {
        Verdict::Repeat(event) => Some(FrontAnswer::Repeat(event)),
        Verdict::OtherBody => Some(FrontAnswer::OtherBody),
        Verdict::New => None,
    })
}

pub(super) fn plan(
    view: &View<'_>,
    ask: Ask,
    front: FrontNo,
    moment: Moment<'_>,
) -> Result<Plan, TablesError> {
    if let Some(known) = recall(view, ask.tenant, &ask.key, ask.body, &moment)? {
        return Ok(Planned::nothing(known));
    }
    if ask.options.due.is_some() && scheduled::count(view, ask.tenant)? >= SCHEDULED_PER_TENANT_MAX {
        return Ok(Planned::nothing(FrontAnswer::TooManyScheduled { limit: SCHEDULED_PER_TENANT_MAX }));
    }
    let is_held_walk = ask.options.due.is_some() && matches!(ask.audience, AskAudience::Walk(_));
    let walks_max = WALKS_PER_TENANT_MAX as u64;
    if is_held_walk && scheduled::walks(view, ask.tenant)? >= walks_max {
        return Ok(Planned::nothing(FrontAnswer::TooManyScheduled { limit: walks_max }));
    }
    let audience = match ask.audience {
        AskAudience::Members(shards) => Audience::Addressed(shards),
        AskAudience::Walk(walk) => Audience::Walked(walk),
        AskAudience::List(list) => {
            let known = size::find(view, ask.tenant, list)?;
            let tier = tier::decide(known.tier, known.total(), ask.tier_up);
            Audience::Listed { list, tier, turned: tier != known.tier }
        }
    };
    let mut mint = Mint { front, last: event::state(view)?.last };
    // What is scheduled is of the time it is due at, for its readers and for retention.
    let event = match ask.options.due {
        None => mint.next(moment.now, moment.random),
        Some(due) => Ulid::new(due, front, moment.random),
    };
    let admitted = Admitted {
        tenant: ask.tenant,
        event,
        key: ask.key,
        body: ask.body,
        kind: ask.kind,
        category: ask.category,
        priority: ask.priority,
        actor: ask.actor,
        content: ask.content,
        delivery: ask.delivery,
        personal: ask.personal.len() as u64,
        options: ask.options,
        audience,
    };
    let mut records = parts(ask.tenant, event, ask.personal);
    records.push(FrontRecord::Admitted(admitted));
    Ok(Planned { records, answer: FrontAnswer::Admitted(event) })
}

/// Records that the journal can bear.
fn parts(tenant: TenantId, event: Ulid, personal: Vec<Personal>) -> Vec<FrontRecord> {
    let (mut records, mut contents, mut bytes) = (Vec::new(), Vec::new(), 0);
    for one in personal {
        let size = one.content.bytes.len() + 64;
        if bytes + size > RECORD_BYTES_MAX / 2 && !contents.is_empty() {
            records.push(FrontRecord::Part { tenant, event, contents: std::mem::take(&mut contents) });
            bytes = 0;
        }
        bytes += size;
        contents.push(one);
    }
    if !contents.is_empty() {
        records.push(FrontRecord::Part { tenant, event, contents });
    }
    records
}

pub(super) fn apply_part(
    view: &mut View<'_>,
    tenant: TenantId,
    event: Ulid,
    contents: &[Personal],
) -> Result<(), TablesError> {
    let mut balance = Balance::default();
    for one in contents {
        let row = PersonalRow(one.content.clone()).encode();
        balance.add(None, usage::weight_of_row(&row));
        view.put(event::personal_key(tenant, event, one.shard, one.user), row);
    }
    balance.write(view, tenant)
}

pub(super) fn apply(view: &mut View<'_>, admitted: &Admitted, at: Millis) -> Result<(), TablesError> {
    let tenant = admitted.tenant;
    let known = Known { event: admitted.event, body_hash: admitted.body };
    put(view, idempotency::key(tenant, Bucket::of(at), &admitted.key), &known);
    let row = EventRow {
        retracted: false,
        cancelled: false,
        released: false,
        delivery: admitted.delivery,
        personal: admitted.personal,
        recipients: match &admitted.audience {
            Audience::Listed { .. } | Audience::Walked(_) => 0,
            Audience::Addressed(shards) => shards.iter().map(|(_, members)| members.len() as u64).sum(),
        },
        at,
        kind: admitted.kind.clone(),
        category: admitted.category.clone(),
        priority: admitted.priority,
        actor: admitted.actor.clone(),
        content: admitted.content.clone(),
        options: admitted.options.clone(),
    };
    put(view, event::key(tenant, admitted.event), &row);
    let mut balance = Balance::default();
    balance.add(None, usage::weight_of_event(&row));
    if let Audience::Walked(walk) = &admitted.audience {
        walk::put_bulk(view, tenant, admitted.event, walk);
    }
    if let Some(cancellation) = &admitted.options.cancellation {
        view.put(scheduled::cancellation_key(tenant, cancellation, admitted.event), Vec::new());
    }
    match admitted.options.due {
        None => put(view, event::state_key(), &FrontState { last: admitted.event }),
        Some(due) => {
            let (event, audience) = (admitted.event, admitted.audience.clone());
            scheduled::hold(view, &Held { due, tenant, event, audience }, &mut balance)?;
        }
    }
    balance.write(view, tenant)?;
    if let Audience::Listed { list, tier, turned: true } = admitted.audience {
        let mut known = size::find(view, tenant, list)?;
        known.tier = tier;
        put(view, size::key(tenant, list), &known);
    }
    Ok(())
}
