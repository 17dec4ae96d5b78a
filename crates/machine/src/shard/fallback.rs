//! Fallback chains: a step waits for the channels before it, and is tried if they do not reach the user.
//!
//! Comes from: `intend` and `wake`, with users of a step; and from whatever changes deliveries that a step waits for (`wake`,
//! `outcome`, `redrive`, `windows`). Decides: by `rules::chain`, over the ledgers of the channels before and what the user
//! has seen in the inbox. Goes to: verdicts of the step; and to `Wake` records in the batch of the record that was the
//! cause, which say when the step is looked at again, or that it is not needed.
//!
//! The members of a step stand as Deferred from the beginning, in parcels that stay behind those of the channels before
//! ([`bound`]): whatever is said there finds them. A receipt and a step that is tried are two records of one journal, so one
//! of them is first.
//!
//! What must never happen: a step that waits without an end. Whoever waits for nothing in particular is looked at when the
//! time to live is over.

mod before;

use self::before::{Holding, RESOLVING_MS, Way, parcel_of};
use super::gate::Decision;
use super::outcome::round_up;
use super::{Derived, Offer, replan};
use crate::parcel::{Members, Words};
use crate::records::delivery::{Consents, Counted, Wake};
use crate::records::shard::ShardRecord;
use crate::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use crate::tables::mark;
use crate::tables::track::{self, Note};
use crate::tables::work::{self, Terms, WorkId};
use crate::view::View;
use fantail_ports::tables::{Changes, TablesError};
use fantail_rules::attempt::{State, Step, next};
use fantail_rules::chain::{self, Before, Cause, Spared, Turn, WAITING};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Millis, TenantId, UserNo};
use fantail_rules::policy;

/// Above so many different words about one parcel's members, times are told in minutes.
const WORDS_PLENTY: usize = 200;
const MINUTE_MS: u64 = 60_000;
/// Entries of one mark whose steps are looked for: a few reads for each. Steps of others find out when their time comes.
const LOOKED_AT_MAX: usize = 16;

/// What a chain says about a user to whom nothing was sent by a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// It waits, or has ended.
    Held(Decision),
    /// It is tried, if the gates let it pass.
    Goes(Cause),
}

/// Asks for one parcel of a step. Users ascend.
pub(super) struct Fallback<'a, 'v> {
    view: &'a View<'v>,
    work: WorkId,
    terms: Terms,
    step: policy::Step,
    now: Millis,
    before: Vec<Way>,
    /// All devices of a user go the same way.
    last: Option<(UserNo, Answer)>,
    /// The user has just looked at the inbox.
    is_look: bool,
}

impl<'a, 'v> Fallback<'a, 'v> {
    /// `None` if the channel waits for nobody.
    pub(super) fn new(view: &'a View<'v>, work: WorkId, terms: Terms, now: Millis) -> Option<Self> {
        let step = terms.chain.step(work.channel)?;
        let previous = terms.chain.previous(work.channel);
        let way = |channel| Way::new(WorkId { channel, ..work }, previous.contains(channel));
        let before = terms.chain.before(work.channel).iter().map(way).collect();
        Some(Self { view, work, terms, step, now, before, last: None, is_look: false })
    }

    /// Whoever is planned for the first time: what the chain says, or else the gates.
    pub(super) fn first(&mut self, user: UserNo, decision: Decision) -> Result<Decision, TablesError> {
        if decision == Decision::GONE {
            return Ok(decision);
        }
        Ok(match self.ask(user, false)? {
            Answer::Held(held) => held,
            Answer::Goes(cause) if decision.step == Step::Authorise => {
                Decision { code: cause.word(), ..decision }
            }
            Answer::Goes(_) => decision,
        })
    }

    /// Whoever has waited as long as was said. `stop` is why nothing may be sent any more.
    pub(super) fn again(
        &mut self,
        user: UserNo,
        stop: Option<(Step, &'static str)>,
    ) -> Result<Answer, TablesError> {
        if let Some((_, answer)) = self.last.filter(|(of, _)| *of == user) {
            return Ok(answer);
        }
        let answer = match stop {
            Some((Step::Expire, code)) => {
                let spared = chain::judge_at_end(&self.before(user)?);
                let expired = Decision::plain(Step::Expire, code);
                Answer::Held(spared.map_or(expired, ended))
            }
            Some((step, code)) => Answer::Held(Decision::plain(step, code)),
            None => self.ask(user, true)?,
        };
        self.last = Some((user, answer));
        Ok(answer)
    }

    /// Why a step that was tried is not needed any more.
    pub(super) fn spared(&mut self, user: UserNo) -> Result<Option<Decision>, TablesError> {
        if let Turn::Spared(spared) = chain::judge(self.step, &self.before(user)?) {
            return Ok(Some(ended(spared)));
        }
        Ok(self.is_seen(user)?.then(|| ended(Spared::Seen)))
    }

    /// `is_time`: it has waited long enough for whoever was silent.
    fn ask(&mut self, user: UserNo, is_time: bool) -> Result<Answer, TablesError> {
        let turn = chain::judge(self.step, &self.before(user)?);
        let cause = match turn {
            Turn::Spared(spared) => return Ok(Answer::Held(ended(spared))),
            Turn::Waits => return Ok(Answer::Held(self.waits(self.terms.expires_at))),
            Turn::After { ms, .. } if !is_time => return Ok(Answer::Held(self.waits(self.after(ms)))),
            Turn::After { .. } if self.is_resolving(user) => {
                return Ok(Answer::Held(self.waits(self.after(RESOLVING_MS))));
            }
            Turn::After { cause, .. } | Turn::Now(cause) => cause,
        };
        let is_seen = self.is_seen(user)?;
        Ok(if is_seen { Answer::Held(ended(Spared::Seen)) } else { Answer::Goes(cause) })
    }

    /// What is different for a member that waits, because of what was just said about a channel before.
    fn moved(&mut self, user: UserNo, standing: &Standing) -> Result<Option<Standing>, TablesError> {
        let is_armed = standing.due < self.terms.expires_at;
        let turn = match chain::judge(self.step, &self.before(user)?) {
            Turn::Waits | Turn::After { .. } | Turn::Now(_) if self.is_look && self.is_seen(user)? => {
                Turn::Spared(Spared::Seen)
            }
            turn => turn,
        };
        let due = match turn {
            Turn::Spared(spared) => {
                let state = next(standing.state, Step::Suppress).unwrap_or(standing.state);
                let code = spared.word().to_owned();
                return Ok(Some(Standing { state, due: Millis(0), code, ..standing.clone() }));
            }
            // Something before it is sent once more: its time begins when that was taken.
            Turn::Waits if is_armed => {
                return Ok(Some(Standing { due: self.terms.expires_at, ..standing.clone() }));
            }
            Turn::Waits => return Ok(None),
            Turn::After { .. } if is_armed => return Ok(None),
            Turn::After { ms, .. } => self.after(ms),
            // In a moment, as all timers: one that is due already could be the one that was just done.
            Turn::Now(_) => self.now.plus(1),
        };
        let is_earlier = due < standing.due;
        Ok(is_earlier.then(|| Standing { due, ..standing.clone() }))
    }

    fn after(&self, ms: u64) -> Millis {
        round_up(self.now.plus(ms), self.now).min(self.terms.expires_at)
    }

    fn waits(&self, due: Millis) -> Decision {
        Decision { due, ..Decision::plain(Step::Defer, WAITING) }
    }

    fn before(&mut self, user: UserNo) -> Result<Before, TablesError> {
        let mut before = Before::default();
        for way in &mut self.before {
            let told = way.told(self.view, user, self.now)?;
            before.all = before.all.join(told);
            if way.is_previous {
                before.previous = before.previous.join(told);
            }
        }
        Ok(before)
    }

    /// Whether a channel that the step comes after is about to send another copy, or to give up. Asked after [`before`](Self::before).
    fn is_resolving(&self, user: UserNo) -> bool {
        let mut previous = self.before.iter().filter(|way| way.is_previous);
        previous.any(|way| way.is_resolving(user))
    }

    fn is_seen(&self, user: UserNo) -> Result<bool, TablesError> {
        let WorkId { tenant, arrival, .. } = self.work;
        let flags = mark::flags(self.view, tenant, user, arrival)?;
        Ok(mark::find(self.view, tenant, user)?.is_noticed(arrival, flags, self.now))
    }
}

fn ended(spared: Spared) -> Decision {
    Decision::plain(Step::Suppress, spared.word())
}

/// The first user about whom a channel before some work was not asked yet: the work does not go that far. `None` if all were.
pub(super) fn bound(view: &View<'_>, work: WorkId, terms: Terms) -> Result<Option<UserNo>, TablesError> {
    let mut bound = None;
    if terms.chain.step(work.channel).is_none() {
        return Ok(bound);
    }
    for channel in terms.chain.before(work.channel).iter() {
        let next = work::find(view, WorkId { channel, ..work })?.map(|row| row.next);
        bound = match (bound, next) {
            (Some(one), Some(other)) => Some(UserNo::min(one, other)),
            (one, other) => one.or(other),
        };
    }
    Ok(bound)
}

/// Some work has gone on: what comes after it can too.
pub(super) fn offer(work: WorkId, terms: Terms, derived: &mut Derived) {
    if let Some(channel) = terms.chain.behind(work.channel).next() {
        derived.offers.push(Offer::Work { work: WorkId { channel, ..work }, lane: terms.lane });
    }
}

/// Whether a member waits for the channels before it.
pub(super) fn waits(standing: &Standing) -> bool {
    standing.state == State::Deferred && standing.code == WAITING
}

/// Deliveries of some users that came to stand elsewhere.
pub(super) struct Changed {
    pub parcel: ParcelId,
    pub terms: Terms,
    /// Ascending.
    pub users: Vec<UserNo>,
}

impl Changed {
    pub(super) fn at(parcel: ParcelId, ledger: &LedgerRow, positions: &[u16]) -> Self {
        let mut users = Vec::new();
        // Most events have no chain: nobody asks whom it is about.
        if ledger.terms.chain.behind(parcel.channel).next().is_some() {
            let all: Vec<UserNo> = ledger.members.iter().map(|member| member.user).collect();
            users.extend(positions.iter().filter_map(|place| all.get(usize::from(*place)).copied()));
            users.dedup();
        }
        Self { parcel, terms: ledger.terms, users }
    }
}

/// These records, and behind them what they mean for the steps that wait for what they change.
pub(super) fn followed(
    view: &View<'_>,
    mut records: Vec<ShardRecord>,
    changed: &[Changed],
    now: Millis,
) -> Result<Vec<ShardRecord>, TablesError> {
    if changed.iter().all(|one| one.users.is_empty()) {
        return Ok(records);
    }
    let mut changes = Changes::new();
    let mut seen = view.under(&mut changes);
    let nobody = &mut Derived::default();
    for record in &records {
        super::apply(&mut seen, record, now, &[], nobody)?;
    }
    for Changed { parcel, terms, users } in changed {
        for channel in terms.chain.behind(parcel.channel) {
            let work = WorkId { channel, ..parcel.work() };
            // What one step comes to is seen by those behind it.
            for wake in wakes(&seen, (work, *terms), users, now, false)? {
                let record = ShardRecord::Wake(wake);
                super::apply(&mut seen, &record, now, &[], nobody)?;
                records.push(record);
            }
        }
    }
    Ok(records)
}

/// These records of marks, and behind them what they mean for the steps that wait whether the user looks at these entries.
pub(super) fn looked_at(
    view: &View<'_>,
    mut records: Vec<ShardRecord>,
    (tenant, user): (TenantId, UserNo),
    arrivals: &[Arrival],
    now: Millis,
) -> Result<Vec<ShardRecord>, TablesError> {
    if records.is_empty() || arrivals.is_empty() {
        return Ok(records);
    }
    let mut changes = Changes::new();
    let mut seen = view.under(&mut changes);
    let nobody = &mut Derived::default();
    for record in &records {
        super::apply(&mut seen, record, now, &[], nobody)?;
    }
    for arrival in arrivals.iter().take(LOOKED_AT_MAX) {
        for channel in ChannelKind::ALL {
            let work = WorkId { tenant, arrival: *arrival, channel };
            let Some((_, row)) = ledger::holding(&seen, ParcelId::of(work, user))? else { continue };
            for wake in wakes(&seen, (work, row.terms), &[user], now, true)? {
                let record = ShardRecord::Wake(wake);
                super::apply(&mut seen, &record, now, &[], nobody)?;
                records.push(record);
            }
        }
    }
    Ok(records)
}

/// What is different for these users in the parcels of a step.
fn wakes(
    view: &View<'_>,
    (work, terms): (WorkId, Terms),
    users: &[UserNo],
    now: Millis,
    is_look: bool,
) -> Result<Vec<Wake>, TablesError> {
    let Some(fallback) = Fallback::new(view, work, terms, now) else { return Ok(Vec::new()) };
    let mut fallback = Fallback { is_look, ..fallback };
    let (mut found, mut left) = (Vec::new(), users);
    while let Some(first) = left.first() {
        let Holding { row, until, .. } = parcel_of(view, ParcelId::of(work, *first))?;
        let (here, rest) = left.split_at(left.partition_point(|user| *user < until));
        if let Some((parcel, row)) = row {
            found.extend(moves(&mut fallback, parcel, &row, here)?);
        }
        left = rest;
    }
    Ok(found)
}

fn moves(
    fallback: &mut Fallback<'_, '_>,
    parcel: ParcelId,
    row: &LedgerRow,
    users: &[UserNo],
) -> Result<Option<Wake>, TablesError> {
    if !row.standings.words.iter().any(waits) {
        return Ok(None);
    }
    let (mut positions, mut verdicts) = (Vec::new(), Words::empty());
    for ((member, standing), position) in row.members.iter().zip(row.standings.iter()).zip(0u16..) {
        if !waits(standing) || users.binary_search(&member.user).is_err() {
            continue;
        }
        let Some(mut after) = fallback.moved(member.user, standing)? else { continue };
        if row.standings.words.len() + verdicts.words.len() > WORDS_PLENTY {
            after.due = Millis(after.due.0.div_ceil(MINUTE_MS) * MINUTE_MS).min(standing.due);
        }
        positions.push(position);
        verdicts.push(after);
    }
    let (round, due) = (row.round.saturating_add(1), fallback.now);
    let counted = Counted::nothing();
    let wake = Wake { parcel, round, due, positions, verdicts, counted, consents: Consents::nothing() };
    Ok(Some(wake).filter(|wake| !wake.positions.is_empty()))
}

/// Writes down which gate put deliveries off, and that steps are tried, and why, for deliveries that are told about one by
/// one.
pub(super) fn remember<'a>(
    view: &mut View<'_>,
    parcel: ParcelId,
    members: &Members,
    standings: impl Iterator<Item = (u16, &'a Standing)>,
    at: Millis,
) -> Result<(), TablesError> {
    let is_told = |one: &Standing| {
        replan::waits_at_gate(one) || (one.state == State::Intent && Cause::parse(&one.code).is_some())
    };
    let tried = standings.filter(|(_, one)| is_told(one));
    let told = tried.map(|(position, standing)| {
        let (message, provider_id) = (String::new(), String::new());
        (position, Note { at, state: standing.state, code: standing.code.clone(), message, provider_id })
    });
    let told: Vec<(u16, Note)> = told.collect();
    if told.is_empty() {
        return Ok(());
    }
    track::add(view, parcel, members, told.iter().map(|(position, note)| (*position, note)))
}
