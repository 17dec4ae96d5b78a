//! What is told together: windows take what the gates let pass.
//!
//! Comes from: `intend` and `wake`, user by user, behind the gates. Decides: by the category's policy, by what came lately
//! and by what the user wants, whether a delivery goes out or waits in a window (`rules::digest`). Goes to: `Collected`,
//! right before the Intend or Wake whose verdicts say the same, and `Closed` for windows that are over with it.
//!
//! What waits stands as Deferred without a time: the window's end is its time, and `windows` takes it from there. Storms are
//! counted for few named users alone: a row for each reader of a list would cost more than the list's deliveries.
//!
//! What must never happen: a delivery that waits in a window whose end nobody waits for.

use super::gate::{Decision, Wish};
use super::serve::Known;
use super::{Derived, Offer, fallback, reachable, windows};
use crate::records::digest::{Collected, DigestRecord, Into, Taking, WindowClosed};
use crate::records::shard::ShardRecord;
use crate::tables::digest::is_digest;
use crate::tables::ledger::{ParcelId, Standing};
use crate::tables::put;
use crate::tables::window::{self, Ending, ItemRow, Kind, NoRow, WindowKey, WindowNo, WindowRow};
use crate::tables::work;
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::{State, Step};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::digest::{self, Arrived, Calendar, StormTerms, Terms, Window};
use fantail_rules::gates::{Fold, Reason};
use fantail_rules::ids::{Millis, TenantId, UserNo};
use fantail_rules::limits::DIGEST_ITEMS_MAX;
use fantail_rules::policy::{CategoryPolicy, Policies};
use fantail_rules::priority::Priority;

use fantail_rules::ulid::Ulid;

/// Waits to be told together with others.
pub const COLLECTED: &str = "digest_window";
/// Waited with others, who were too few for a digest.
pub const SINGLY: &str = "digest_too_small";

const HOUR_MS: u64 = 3_600_000;
/// Whoever is named among more is not flooded: a row for each of them would cost more than what is sent.
const STORM_NAMED_MAX: usize = 64;

/// What one plan finds out about a parcel's users.
pub(super) struct Collecting<'a, 'v> {
    view: &'a View<'v>,
    parcel: ParcelId,
    terms: work::Terms,
    policy: &'a CategoryPolicy,
    /// Of what the tenant says about the category, if it says anything.
    storm: Option<StormTerms>,
    /// A digest is not collected again.
    is_digest: bool,
    now: Millis,
    latest: Option<WindowNo>,
    takes: Vec<Taking>,
    /// Before and after the takes.
    over: Vec<ShardRecord>,
    full: Vec<ShardRecord>,
}

impl<'a, 'v> Collecting<'a, 'v> {
    pub(super) fn new(
        view: &'a View<'v>,
        parcel: ParcelId,
        (event, terms, named): (Ulid, work::Terms, usize),
        Known { policies, now, .. }: Known<'a>,
    ) -> Self {
        Self {
            view,
            parcel,
            terms,
            policy: policies.of(parcel.tenant, terms.category),
            storm: storm_terms(policies, parcel, terms, named),
            is_digest: is_digest(event),
            now,
            latest: None,
            takes: Vec::new(),
            over: Vec::new(),
            full: Vec::new(),
        }
    }

    /// What becomes of a delivery that the gates let pass, or want in a digest. Users ascend, each comes once.
    /// `is_first` says that it was never authorised before: what is tried again has been told when to go.
    pub(super) fn take(
        &mut self,
        user: UserNo,
        wish: Wish,
        is_first: bool,
        allowed: Decision,
    ) -> Result<Decision, TablesError> {
        Ok(self.held(user, wish, is_first)?.unwrap_or(allowed))
    }

    /// What keeps it from going out as it is allowed to.
    fn held(&mut self, user: UserNo, wish: Wish, is_first: bool) -> Result<Option<Decision>, TablesError> {
        if self.is_digest {
            return Ok(self.of_digest(wish));
        }
        // Programs that listen to a webhook are not disturbed by what comes.
        if self.terms.lane == Priority::Critical || self.parcel.channel == ChannelKind::Webhook {
            return Ok(None);
        }
        let (kind, key, terms, closes_at) = match wish.fold {
            Some(Fold::Daily) => self.calendar(self.policy.calendar.daily, wish),
            Some(Fold::Weekly) => self.calendar(self.policy.calendar.weekly, wish),
            Some(Fold::Capped) => {
                let usual = self.policy.digest.as_ref().map_or(Terms::USUAL, |digest| digest.terms);
                let next_hour = Millis((self.now.0 / HOUR_MS + 1) * HOUR_MS);
                (Kind::Capped, self.terms.group, Terms { leading: 0, ..usual }, Some(next_hour))
            }
            None if !is_first => return Ok(None),
            None => match &self.policy.digest {
                Some(digest) => (Kind::Category, self.terms.group, digest.terms, None),
                None => return self.weather(user),
            },
        };
        self.collect(user, kind, key, terms, closes_at, None)
    }

    /// The records beside the one that holds the verdicts, in their order around it.
    pub(super) fn records(self, verdicts: ShardRecord) -> Vec<ShardRecord> {
        let mut records = self.over;
        if !self.takes.is_empty() {
            let ParcelId { first, .. } = self.parcel;
            let collected =
                Collected { work: self.parcel.work(), first, terms: self.terms, takes: self.takes };
            records.push(ShardRecord::Digest(DigestRecord::Collected(collected)));
        }
        records.push(verdicts);
        records.extend(self.full);
        records
    }

    /// A digest goes out, or waits until there is room for it.
    fn of_digest(&self, wish: Wish) -> Option<Decision> {
        if wish.fold != Some(Fold::Capped) {
            return None;
        }
        let next_hour = Millis((self.now.0 / HOUR_MS + 1) * HOUR_MS);
        let due = next_hour.min(self.terms.expires_at);
        Some(Decision { due, ..Decision::plain(Step::Defer, Reason::FrequencyCapped.word()) })
    }

    /// All of a category that the user wants once a day or a week goes together.
    fn calendar(&self, calendar: Calendar, wish: Wish) -> (Kind, u64, Terms, Option<Millis>) {
        let terms = Terms { min_count: 1, max_count: DIGEST_ITEMS_MAX, leading: 0, ..Terms::USUAL };
        let due = calendar.next_after(wish.zone, self.now);
        (Kind::Calendar, self.terms.category.0, terms, Some(due))
    }

    /// A category that is not collected, unless so much comes.
    fn weather(&mut self, user: UserNo) -> Result<Option<Decision>, TablesError> {
        let Some(storm_terms) = self.storm else { return Ok(None) };
        let before = window::storm(self.view, self.parcel.tenant, user, self.terms.category)?;
        let (storm, is_storm) = before.arrived(storm_terms, self.now);
        let of =
            WindowKey { user, channel: self.parcel.channel, key: self.key_of(Kind::Storm, self.terms.group) };
        // What was begun goes on to its end, whatever the weather.
        let goes_on = window::open(self.view, self.parcel.tenant, of)?.is_some();
        if is_storm || goes_on {
            return self.collect(user, Kind::Storm, self.terms.group, Terms::USUAL, None, Some(storm));
        }
        self.takes.push(Taking { user, storm: Some(storm), into: None });
        Ok(None)
    }

    /// Windows of different kinds do not mix.
    fn key_of(&self, kind: Kind, group: u64) -> u64 {
        digest::group(group, kind as u8)
    }

    fn collect(
        &mut self,
        user: UserNo,
        kind: Kind,
        group: u64,
        terms: Terms,
        closes_at: Option<Millis>,
        storm: Option<digest::Storm>,
    ) -> Result<Option<Decision>, TablesError> {
        let ParcelId { tenant, channel, .. } = self.parcel;
        let key = self.key_of(kind, group);
        let mut open = window::open(self.view, tenant, WindowKey { user, channel, key })?;
        if let Some((no, row)) = open.take_if(|(_, row)| row.window.closes_at <= self.now) {
            self.over.push(windows::closed(self.view, tenant, no, &row, self.now)?);
        }
        let fresh = Window { closes_at: closes_at.unwrap_or(self.now), led: 0, held: 0 };
        let window = open.as_ref().map(|(_, row)| row.window).or(closes_at.map(|_| fresh));
        let (window, is_held, is_full) = match digest::arrive(window, &terms, self.now) {
            Arrived::Leads(window) => (window, false, false),
            Arrived::Waits(window) => (window, true, false),
            Arrived::Fills(window) => (window, true, true),
            // Windows that are over were closed above, and a time that the calendar names lies ahead.
            Arrived::CloseFirst => return Ok(None),
        };
        let no = match open {
            Some((no, _)) => no,
            None => self.next_no()?,
        };
        if is_full {
            self.full.push(full(tenant, no));
        }
        self.takes.push(Taking { user, storm, into: Some(Into { no, key, kind, terms, window, is_held }) });
        Ok(is_held.then(|| Decision::plain(Step::Defer, COLLECTED)))
    }

    fn next_no(&mut self) -> Result<WindowNo, TablesError> {
        let latest = match self.latest {
            Some(latest) => latest,
            None => window::latest(self.view, self.parcel.tenant)?,
        };
        let next = WindowNo(latest.0 + 1);
        self.latest = Some(next);
        Ok(next)
    }
}

/// What counts as a storm, where storms are counted: of categories that the tenant has set up, for few named users, and of
/// what can wait.
fn storm_terms(
    policies: &Policies,
    parcel: ParcelId,
    terms: work::Terms,
    named: usize,
) -> Option<StormTerms> {
    let can_wait = matches!(terms.lane, Priority::Normal | Priority::Low);
    let said = policies.said(parcel.tenant, terms.category).filter(|_| can_wait);
    said.and_then(|policy| policy.storm).filter(|_| (1..=STORM_NAMED_MAX).contains(&named))
}

/// As many as there may be wait: enough for a digest.
fn full(tenant: TenantId, no: WindowNo) -> ShardRecord {
    ShardRecord::Digest(DigestRecord::Closed(WindowClosed { tenant, no, is_singly: false }))
}

/// Whether it waits in a window, or did and is told singly.
pub(super) fn waited(standing: &Standing) -> bool {
    standing.state == State::Deferred && matches!(&*standing.code, COLLECTED | SINGLY)
}

/// Whether a delivery that waits was never authorised: a gate held it back, or a channel before it, and no window has let
/// it go. What waits for its endpoint has passed the windows.
pub(super) fn is_first(standing: &Standing) -> bool {
    let is_at_gate = Reason::parse(&standing.code).is_some() && !reachable::is_for_endpoint(standing);
    !standing.was_authorised && (is_at_gate || fallback::waits(standing))
}

pub(super) fn apply(
    view: &mut View<'_>,
    collected: &Collected,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let tenant = collected.work.tenant;
    let mut latest = window::latest(view, tenant)?;
    let before = latest;
    for Taking { user, storm, into } in &collected.takes {
        if let Some(storm) = storm {
            put(view, window::storm_key(tenant, *user, collected.terms.category), storm);
        }
        let Some(Into { no, key, kind, terms, window, is_held }) = *into else { continue };
        let of = WindowKey { user: *user, channel: collected.work.channel, key };
        if no > latest {
            latest = no;
            put(view, of.row_key(tenant), &NoRow(no));
            view.put(window::timer_key(window.closes_at, tenant, no), Vec::new());
            derived.offers.push(Offer::Window { closes_at: window.closes_at });
        }
        let (sends, ending) = (collected.terms, Ending::Open);
        let row = WindowRow { of, sends, kind, terms, window, ending, digest: None, events: Vec::new() };
        put(view, window::key(tenant, no), &row);
        if is_held {
            let item = ItemRow { first: collected.first };
            put(view, window::item_key(tenant, no, collected.work.arrival), &item);
        }
    }
    if latest > before {
        put(view, window::latest_key(tenant), &NoRow(latest));
    }
    Ok(())
}
