//! What the users of a parcel want, asked right before anything of it is authorised.
//!
//! Comes from: `intend` and `wake`, with users who ascend. Decides: nothing itself; it brings columns, for those who said
//! something about the category their rows, and what the tenant says about the category and the silent, to `rules::gates`. Goes to: a verdict for each user, which the caller
//! writes into the record. A change of what a user wants lies before or behind that record in the same journal.
//!
//! What must never happen: a send for somebody whose profile cannot be read.

use super::intend;
use super::reachable::Reachable;
use super::serve::Known;
use super::throttle::Throttling;
use crate::columns::counts::{self, Count, Counts};
use crate::columns::{self, Column};
use crate::tables::work::{Terms, WorkId};
use crate::tables::{respect, walk};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::Step;
use fantail_rules::caps::{Limit, When};
use fantail_rules::category::CategoryId;
use fantail_rules::channel_kind::ChannelSet;
use fantail_rules::gates::{self, Ask, Choice, Fold, Person, Profile, Reason, Verdict};
use fantail_rules::ids::{Millis, TenantId, UserNo};
use fantail_rules::policy::Defaults;
use fantail_rules::preference::{CategoryChoice, Switch};
use fantail_rules::schedule::Slot;
use fantail_rules::throttle::Latest;
use fantail_rules::ulid::Ulid;
use fantail_rules::wall::Clocks;
use fantail_rules::zone::ZoneNo;
use std::collections::BTreeMap;

/// The category whose messages need a yes.
const MARKETING: &str = "marketing";
/// What waits for a change of its user's profile, without knowing for how long, is looked at again after this.
const LOOK_AGAIN_MS: u64 = 60 * 60 * 1_000;

/// One user of a parcel.
pub(super) struct Asked {
    /// Where the user can be reached by the channel.
    pub reachable: Reachable,
    pub decision: Decision,
    /// For what was authorised before: it was counted then, and is not too much now.
    pub again: Decision,
    pub wish: Wish,
    /// There may be an endpoint of a channel that waits for this one.
    pub is_awaited: bool,
}

/// What is left to say about a delivery that the gates let pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wish {
    /// The digest that should take it.
    pub fold: Option<Fold>,
    /// Of the user.
    pub zone: ZoneNo,
}

/// What the gates come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Decision {
    pub step: Step,
    pub code: &'static str,
    /// When to ask again; 0 if that is not needed.
    pub due: Millis,
    /// How it counts towards the user's limit, if it may be sent and there is one.
    pub count: Option<Count>,
    /// If it may be sent: the revision of what the user said last about consent.
    pub consent: u32,
    /// Whether nothing else of its kind may follow for a while, if it may be sent.
    pub spaces: bool,
}

impl Decision {
    const ALLOWED: Self = Self::plain(Step::Authorise, "");
    /// The user is not there any more.
    pub(super) const GONE: Self = Self::plain(Step::Suppress, intend::ERASED);

    pub(super) const fn plain(step: Step, code: &'static str) -> Self {
        Self { step, code, due: Millis(0), count: None, consent: 0, spaces: false }
    }
}

/// Asks for one parcel.
pub(super) struct Gate<'a, 'v> {
    view: &'a View<'v>,
    work: WorkId,
    terms: Terms,
    ask: Ask,
    defaults: &'a Defaults,
    clocks: Clocks,
    /// When it was accepted, or released.
    since: Millis,
    /// What its appointment comes to in each zone that was asked about.
    slots: BTreeMap<ZoneNo, Slot>,
    /// A bulk send may be told to.
    ignores_quiet_hours: bool,
    throttling: Option<Throttling>,
}

impl<'a, 'v> Gate<'a, 'v> {
    pub(super) fn new(
        view: &'a View<'v>,
        work: WorkId,
        (event, terms): (Ulid, Terms),
        known: Known<'a>,
    ) -> Result<Self, TablesError> {
        let Known { policies, now, .. } = known;
        let walk = walk::find(view, work.tenant, work.arrival)?;
        let ignores_quiet_hours = walk.is_some_and(|row| row.walk.ignores_quiet_hours);
        let is_marketing = terms.category == CategoryId::of(MARKETING);
        let defaults = policies.defaults(work.tenant);
        let usual = chosen(defaults.choice(terms.category, CategoryChoice::default()));
        let policy = policies.of(work.tenant, terms.category).gates(usual);
        let Terms { lane, appointment, .. } = terms;
        let ask = Ask { lane, is_marketing, policy, appointment, ..Ask::new(work.channel) };
        let (clocks, since, slots) = (Clocks::at(now), event.millis(), BTreeMap::new());
        let throttling = Throttling::of(work, terms, known);
        Ok(Self { view, work, terms, ask, defaults, clocks, since, slots, ignores_quiet_hours, throttling })
    }

    /// Each of these users, who ascend: a row for every 64 of them, one for every 32 of those who have a limit, one more for
    /// each who has many devices, and one for each who may have said something about the category.
    pub(super) fn ask(&mut self, users: &[UserNo]) -> Result<Vec<Asked>, TablesError> {
        let WorkId { tenant, channel, .. } = self.work;
        let mut columns = vec![Column::default(); users.len()];
        columns::visit(self.view, tenant, users, &mut |place, column| columns[place] = column)?;
        let counts = self.counts(users, &columns)?;
        let latest = self.latest(users)?;
        let behind: ChannelSet = self.terms.chain.behind(channel).collect();
        users
            .iter()
            .zip(columns)
            .zip(counts.into_iter().zip(latest))
            .map(|((user, column), (counts, latest))| {
                let reachable = Reachable::of(self.view, tenant, (*user, &column.reach), channel)?;
                let is_awaited = behind.iter().any(|kind| column.reach.may_have(kind));
                let zone = column.respect.profile().map_or(ZoneNo::NONE, |profile| profile.zone);
                if !column.reach.exists() || reachable.is_empty() {
                    let decision = if column.reach.exists() { Decision::ALLOWED } else { Decision::GONE };
                    let wish = Wish { fold: None, zone };
                    return Ok(Asked { reachable, decision, again: decision, wish, is_awaited });
                }
                let (again, mut fold) = self.decide(*user, &column, Counts::default(), false)?;
                let mut decision = again;
                let is_throttled = self.is_held_back(latest);
                if !counts.limit.is_none() || is_throttled {
                    (decision, fold) = self.decide(*user, &column, counts, is_throttled)?;
                }
                decision.spaces = decision.step == Step::Authorise && self.spaces(latest);
                Ok(Asked { reachable, decision, again, wish: Wish { fold, zone }, is_awaited })
            })
            .collect()
    }

    /// Why the inbox of each of these users, who ascend, does not show it; `None` for those whose does.
    pub(super) fn hides(&mut self, users: &[UserNo]) -> Result<Vec<Option<&'static str>>, TablesError> {
        let mut columns = vec![Column::default(); users.len()];
        columns::visit(self.view, self.work.tenant, users, &mut |place, column| columns[place] = column)?;
        users
            .iter()
            .zip(columns)
            .map(|(user, column)| {
                if !column.reach.exists() {
                    return Ok(Some(intend::ERASED));
                }
                let (decision, _) = self.decide(*user, &column, Counts::default(), false)?;
                Ok((decision.step == Step::Suppress).then_some(decision.code))
            })
            .collect()
    }

    /// What each wants at most, with what is usual, and what each got; nothing of those who have no limit.
    fn counts(&self, users: &[UserNo], columns: &[Column]) -> Result<Vec<Counts>, TablesError> {
        let WorkId { tenant, channel, .. } = self.work;
        let usual = self.defaults.limit(channel, Limit::default());
        let is_limited = |column: &Column| {
            !usual.is_none() || column.respect.profile().is_some_and(|profile| profile.has_caps)
        };
        let limited = users.iter().zip(columns).filter(|(_, column)| is_limited(column));
        let limited: Vec<UserNo> = limited.map(|(user, _)| *user).collect();
        let mut found = counts::read(self.view, (tenant, channel), &limited)?.into_iter();
        let of = |column: &Column| match is_limited(column) {
            true => found.next().unwrap_or_default(),
            false => Counts::default(),
        };
        let all = columns.iter().map(of);
        Ok(all.map(|own| Counts { limit: self.defaults.limit(channel, own.limit), ..own }).collect())
    }

    /// What each got lately of this kind.
    fn latest(&self, users: &[UserNo]) -> Result<Vec<Option<Latest>>, TablesError> {
        match self.throttling {
            Some(throttling) => throttling.read(self.view, self.work.tenant, users),
            None => Ok(vec![None; users.len()]),
        }
    }

    fn is_held_back(&self, latest: Option<Latest>) -> bool {
        latest.is_some_and(|latest| latest.holds_back(self.work.arrival, self.clocks.now()))
    }

    /// It counts once, by whichever channel it is first authorised.
    fn spaces(&self, latest: Option<Latest>) -> bool {
        self.throttling.is_some() && latest.is_none_or(|latest| latest.event != self.work.arrival)
    }

    /// What is allowed may be wanted in a digest.
    fn decide(
        &mut self,
        user: UserNo,
        column: &Column,
        counts: Counts,
        is_throttled: bool,
    ) -> Result<(Decision, Option<Fold>), TablesError> {
        let category = self.terms.category;
        let choice = if column.respect.may_speak_of(category) {
            let own = choice(self.view, self.work.tenant, user, category)?;
            own.map(|own| chosen(self.defaults.choice(category, own)))
        } else {
            None
        };
        let profile = column.respect.profile();
        let profile = profile.map(|profile| self.defaults.under(profile, column.respect.said()));
        let profile = profile.map(|profile| match self.ignores_quiet_hours {
            true => Profile { quiet: None, ..profile },
            false => profile,
        });
        let slot = self.slot(profile.map_or(ZoneNo::NONE, |profile| profile.zone));
        if self.clocks.now() >= slot.until {
            return Ok((Decision::plain(Step::Expire, intend::EXPIRED), None));
        }
        let Counts { limit, used } = counts;
        let person = Person { profile, choice, caps: limit.caps, used, from: slot.from, is_throttled };
        let ask = Ask { pace: limit.pace, ..self.ask };
        let verdict = gates::decide(&ask, &person, &mut self.clocks);
        let allowed = Decision {
            count: self.count(profile, limit),
            consent: column.respect.consented(),
            ..Decision::ALLOWED
        };
        Ok(match verdict {
            Verdict::Allow => (allowed, None),
            Verdict::Suppress(reason) => (Decision::plain(Step::Suppress, reason.word()), None),
            Verdict::Defer { until, reason } => (self.deferred(until, reason, slot), None),
            Verdict::Fold(fold) => (allowed, Some(fold)),
        })
    }

    /// What is critical passes its user's limit and is counted all the same.
    fn count(&mut self, profile: Option<Profile>, limit: Limit) -> Option<Count> {
        let zone = profile.filter(|_| !limit.is_none())?.zone;
        let now = self.clocks.now();
        Some(Count { day: When::new(now, self.clocks.local(zone)).day(), pace: limit.pace })
    }

    /// From when to when it may be sent to those of one zone.
    fn slot(&mut self, zone: ZoneNo) -> Slot {
        let Terms { appointment, expires_at, .. } = self.terms;
        let Some(appointment) = appointment else { return Slot { from: Millis(0), until: expires_at } };
        let (since, now) = (self.since, self.clocks.now());
        *self.slots.entry(zone).or_insert_with(|| appointment.slot(zone, since, expires_at, now))
    }

    /// The time to live may end first: then it is looked at then.
    fn deferred(&self, until: Option<Millis>, reason: Reason, slot: Slot) -> Decision {
        let until = until.unwrap_or(self.clocks.now().plus(LOOK_AGAIN_MS));
        Decision { due: until.min(slot.until), ..Decision::plain(Step::Defer, reason.word()) }
    }
}

/// What a user chose for a category.
fn choice(
    view: &View<'_>,
    tenant: TenantId,
    user: UserNo,
    category: CategoryId,
) -> Result<Option<CategoryChoice>, TablesError> {
    let row = respect::find(view, tenant, user)?;
    let mut chosen = row.preferences.categories.iter();
    let chosen = chosen.find(|(name, _)| CategoryId::of(name) == category);
    Ok(chosen.map(|(_, choice)| *choice))
}

/// As the gates ask for it.
fn chosen(choice: CategoryChoice) -> Choice {
    let CategoryChoice { switch, channels, frequency } = choice;
    Choice { is_off: switch == Switch::Off, channels, frequency: frequency.unwrap_or_default() }
}
