//! How windows end: what waited in one becomes a digest, or is told singly.
//!
//! ```text
//! end, or full ──► Closed ──► to-do: fold ──► Folded, some at a time ──► to-do: digest ──► Digested ──► work
//!                  (no new     what was read, called off or expired        (the leader      as for any event
//!                   item)      drops out; the rest is counted               writes it)      to a named user
//! ```
//! Comes from: the node, which looks for windows whose time is over and lets tenants take turns, and from its errands. Decides: whether enough is left for a digest,
//! and what becomes of each item. Goes to: ledgers, and to a piece of work that passes all gates once more.
//!
//! What must never happen: an item that is neither in its digest nor told singly nor ended by itself; or one that is twice.

use super::collect::{COLLECTED, SINGLY};
use super::fallback::{Changed, followed};
use super::intend::{ENDPOINT_GONE, stopped};
use super::{Derived, Offer, Plan, ShardAnswer, ledgers, take};
use crate::Planned;
use crate::front::Moment;
use crate::records::digest::{DigestRecord, Digested, Folded, FoldedItem, WindowClosed};
use crate::records::shard::ShardRecord;
use crate::tables::digest::{self as digests, DigestRow, NO_FRONT};
use crate::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use crate::tables::taken::{Page, Reach, TakenEvent};
use crate::tables::todo::Todo;
use crate::tables::window::{self, Ending, ItemRow, Kind, WindowEnd, WindowKey, WindowNo, WindowRow};
use crate::tables::work::{self, GivenMembers, Terms, To, WorkId, WorkRow};
use crate::tables::{mark, progress, put, tally, user};
use crate::view::View;
use fantail_ports::keyring::Sealed;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::{State, Step, next};
use fantail_rules::chain::Chain;
use fantail_rules::digest::{self, Closed};
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

/// Was read before its digest was written.
pub const READ: &str = "read_meanwhile";

/// How long a digest may be tried.
const DIGEST_TTL_MS: u64 = 24 * 3_600_000;

/// Closes those that are over by the leader's time, which windows are opened by too: the first `windows_max`.
pub(super) fn plan_close(
    view: &View<'_>,
    ends: &[WindowEnd],
    now: Millis,
    windows_max: usize,
) -> Result<Plan, TablesError> {
    let mut records = Vec::new();
    for end in ends.iter().filter(|end| end.closes_at <= now).take(windows_max) {
        if let Some(row) = window::find(view, end.tenant, end.no)?.filter(|row| row.ending == Ending::Open) {
            records.push(closed(view, end.tenant, end.no, &row, now)?);
        }
    }
    let count = records.len();
    Ok(Planned { records, answer: ShardAnswer::Closed { count, now } })
}

/// That a window is over, and what of it. Looks at no more items than it takes to know.
pub(super) fn closed(
    view: &View<'_>,
    tenant: TenantId,
    no: WindowNo,
    row: &WindowRow,
    now: Millis,
) -> Result<ShardRecord, TablesError> {
    let mut left = 0;
    for (arrival, item) in window::items(view, tenant, no, usize::from(row.window.held))? {
        if left >= row.terms.min_count {
            break;
        }
        let waits = judge(view, tenant, row, (arrival, item), now)?;
        left += u16::from(waits.is_some_and(|waits| waits.ended.is_none()));
    }
    let is_singly = digest::close(&row.terms, left) != Closed::Digest;
    Ok(ShardRecord::Digest(DigestRecord::Closed(WindowClosed { tenant, no, is_singly })))
}

/// The members of an item that wait.
struct Waits {
    members: Vec<(u16, Standing)>,
    /// What has ended them meanwhile, if anything has.
    ended: Option<(Step, &'static str)>,
    terms: Terms,
}

fn judge(
    view: &View<'_>,
    tenant: TenantId,
    row: &WindowRow,
    (arrival, item): (Arrival, ItemRow),
    now: Millis,
) -> Result<Option<Waits>, TablesError> {
    let WindowKey { user, channel, .. } = row.of;
    let parcel = ParcelId { tenant, arrival, channel, first: item.first };
    let Some(ledger) = ledger::find(view, parcel)? else { return Ok(None) };
    let members: Vec<(u16, Standing)> = waiting(&ledger, user);
    if members.is_empty() {
        return Ok(None);
    }
    // Whoever wants to hear of something once a week does not want it to expire meanwhile.
    let expires_at = if row.kind == Kind::Calendar { Millis(u64::MAX) } else { ledger.terms.expires_at };
    let halted = work::halted(view, tenant, arrival)?;
    let ended = match stopped(halted, Terms { expires_at, ..ledger.terms }, now) {
        Some(ended) => Some(ended),
        None if user::find(view, tenant, user)?.is_none() => Some((Step::Suppress, ENDPOINT_GONE)),
        None if is_read(view, tenant, user, arrival)? => Some((Step::Suppress, READ)),
        None => None,
    };
    Ok(Some(Waits { members, ended, terms: ledger.terms }))
}

fn waiting(ledger: &LedgerRow, user: UserNo) -> Vec<(u16, Standing)> {
    let all = ledger.members.iter().zip(ledger.standings.iter()).zip(0u16..);
    let waits = |member: UserNo, standing: &Standing| {
        member == user && standing.state == State::Deferred && standing.code == COLLECTED
    };
    all.filter(|((member, standing), _)| waits(member.user, standing))
        .map(|((_, standing), position)| (position, standing.clone()))
        .collect()
}

fn is_read(view: &View<'_>, tenant: TenantId, user: UserNo, arrival: Arrival) -> Result<bool, TablesError> {
    let flags = mark::flags(view, tenant, user, arrival)?;
    Ok(mark::find(view, tenant, user)?.is_read(arrival, flags))
}

pub(super) fn apply_closed(view: &mut View<'_>, closed: &WindowClosed) -> Result<(), TablesError> {
    let WindowClosed { tenant, no, is_singly } = *closed;
    let Some(mut row) = window::find(view, tenant, no)? else { return Ok(()) };
    view.delete(window::timer_key(row.window.closes_at, tenant, no));
    view.delete(row.of.row_key(tenant));
    if row.window.held == 0 {
        view.delete(window::key(tenant, no));
        return Ok(());
    }
    row.ending = if is_singly { Ending::Singly } else { Ending::Digest };
    put(view, window::key(tenant, no), &row);
    view.put(Todo::Fold { tenant, window: no }.key(), Vec::new());
    Ok(())
}

/// Takes some of what waits in a window that is over.
pub(super) fn plan_fold(
    view: &View<'_>,
    tenant: TenantId,
    no: WindowNo,
    moment: Moment<'_>,
) -> Result<Plan, TablesError> {
    let items_max = moment.knobs.steps.window_items;
    let found = window::find(view, tenant, no)?.filter(|row| row.ending != Ending::Open);
    let Some(row) = found else { return Ok(Planned::nothing(ShardAnswer::Folded { more: false })) };
    let fresh = || Ulid::new(moment.now, NO_FRONT, moment.random);
    let digest = (row.ending == Ending::Digest).then(|| row.digest.unwrap_or_else(fresh));
    let mut found = window::items(view, tenant, no, items_max + 1)?;
    let is_last = found.len() <= items_max;
    found.truncate(items_max);
    let (mut items, mut changed) = (Vec::with_capacity(found.len()), Vec::new());
    let WindowKey { user, channel, .. } = row.of;
    for (arrival, item) in found {
        let judged = judge(view, tenant, &row, (arrival, item), moment.now)?;
        if let Some(Waits { terms, .. }) = judged.as_ref().filter(|waits| !waits.terms.chain.is_none()) {
            let parcel = ParcelId { tenant, arrival, channel, first: item.first };
            changed.push(Changed { parcel, terms: *terms, users: vec![user] });
        }
        items.push(folded(arrival, item.first, judged, digest, moment.now));
    }
    let record = DigestRecord::Folded(Folded { tenant, no, channel, digest, is_last, items });
    let records = followed(view, vec![ShardRecord::Digest(record)], &changed, moment.now)?;
    Ok(Planned { records, answer: ShardAnswer::Folded { more: !is_last } })
}

fn folded(
    arrival: Arrival,
    first: UserNo,
    judged: Option<Waits>,
    digest: Option<Ulid>,
    now: Millis,
) -> FoldedItem {
    let (members, ended) = judged.map_or_else(Default::default, |waits| (waits.members, waits.ended));
    let (step, code, due) = match (ended, digest) {
        (Some((step, code)), _) => (step, code.to_owned(), Millis(0)),
        (None, Some(digest)) => (Step::Fold, digest.to_string(), Millis(0)),
        (None, None) => (Step::Defer, SINGLY.to_owned(), now),
    };
    let before = members.first().map(|(_, standing)| standing);
    let standing = Standing {
        state: next(State::Deferred, step).expect("what waits can be decided about"),
        retries: before.map_or(0, |standing| standing.retries),
        resends: before.map_or(0, |standing| standing.resends),
        due,
        code,
        was_authorised: false,
    };
    FoldedItem {
        arrival,
        first,
        positions: members.iter().map(|(position, _)| *position).collect(),
        standing,
    }
}

pub(super) fn apply_folded(
    view: &mut View<'_>,
    folded: &Folded,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let Folded { tenant, no, digest, is_last, items, .. } = folded;
    let Some(mut row) = window::find(view, *tenant, *no)? else { return Ok(()) };
    row.digest = *digest;
    for item in items {
        let FoldedItem { arrival, positions, standing, .. } = item;
        view.delete(window::item_key(*tenant, *no, *arrival));
        let parcel = folded.parcel(item);
        let Some(ledger) = ledger::find(view, parcel)?.filter(|_| !positions.is_empty()) else { continue };
        if standing.state == State::Folded {
            row.events.push(ledger.event);
        }
        ledgers::change(view, parcel, ledger, positions.iter().map(|at| (*at, standing)), derived)?;
    }
    if !is_last {
        put(view, window::key(*tenant, *no), &row);
        return Ok(());
    }
    view.delete(Todo::Fold { tenant: *tenant, window: *no }.key());
    if row.events.is_empty() {
        view.delete(window::key(*tenant, *no));
    } else {
        put(view, window::key(*tenant, *no), &row);
        view.put(Todo::Digest { tenant: *tenant, window: *no }.key(), Vec::new());
    }
    Ok(())
}

/// The digest of a window is written. A second one, after a crash, finds that there is one.
pub(super) fn plan_digested(
    view: &View<'_>,
    tenant: TenantId,
    no: WindowNo,
    content: Option<Sealed>,
    now: Millis,
) -> Result<Plan, TablesError> {
    let todo = Todo::Digest { tenant, window: no };
    if crate::tables::todo::still_waiting(view, vec![todo])?.is_empty() {
        return Ok(Planned::nothing(ShardAnswer::Noted));
    }
    let expires_at = now.plus(DIGEST_TTL_MS);
    let record = DigestRecord::Digested(Digested { tenant, no, expires_at, content });
    Ok(Planned::one(ShardRecord::Digest(record), ShardAnswer::Noted))
}

pub(super) fn apply_digested(
    view: &mut View<'_>,
    digested: &Digested,
    at: Millis,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let Digested { tenant, no, expires_at, content } = digested;
    let (tenant, no) = (*tenant, *no);
    let Some(row) = window::find(view, tenant, no)? else { return Ok(()) };
    view.delete(Todo::Digest { tenant, window: no }.key());
    view.delete(window::key(tenant, no));
    let (Some(content), Some(event)) = (content, row.digest) else { return Ok(()) };
    let mut state = progress::find(view, tenant)?;
    let arrival = state.last.next();
    state.last = arrival;
    put(view, progress::key(tenant), &state);
    // Arrivals have pages without a gap, and its own shows in nobody's inbox.
    let page = Page { at, events: vec![TakenEvent { event, reach: Reach::Given }] };
    take::write_page(view, tenant, arrival, page, true);
    let WindowKey { user, channel, key } = row.of;
    let digest = DigestRow { arrival, user, collapse: key, events: row.events, content: content.clone() };
    put(view, digests::key(tenant, event), &digest);
    put(view, work::given_key(tenant, arrival), &GivenMembers(vec![user]));
    let (work, lane) = (WorkId { tenant, arrival, channel }, row.sends.lane);
    // A digest is told by the channel of what it tells of; nothing waits for it.
    let terms = Terms { expires_at: *expires_at, appointment: None, chain: Chain::NONE, ..row.sends };
    put(view, work.key(), &WorkRow { event, terms, next: UserNo(0), to: To::Given });
    tally::open_work(view, tenant, lane)?;
    derived.offers.push(Offer::Work { work, lane });
    Ok(())
}
