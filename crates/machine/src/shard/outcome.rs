//! What came of a parcel's sends, and what follows for each member: done, tried again, given up, or not known.
//!
//! Comes from: the leader that sent, or a new one that found an old one's Intents. Decides: the next standing of every
//! member by `rules::attempt`, and by `rules::retry` when it is due again. Goes to: the `Outcome` record, and what it means
//! for channels that wait (`fallback`).
//!
//! What must never happen: an answer that changes a member which is not under way; a record larger than a record may be.

use super::collect::{COLLECTED, SINGLY};
use super::endpoints::{self, Heard};
use super::fallback::{Changed, followed};
use super::{Derived, Plan, ShardAnswer, ledgers};
use crate::Planned;
use crate::front::Moment;
use crate::parcel::Words;
use crate::records::delivery::Outcome;
use crate::records::shard::ShardRecord;
use crate::tables::endpoint;
use crate::tables::ledger::{self, LedgerRow, ParcelId, Standing};
use crate::tables::track::{self, Note};
use crate::view::View;
use fantail_ports::channel::{Answer, Proof, Refusal, Scope};
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::{State, Step, evidence_wait_ms, next};
use fantail_rules::chain::WAITING;
use fantail_rules::endpoint::News;
use fantail_rules::gates::Reason;
use fantail_rules::ids::{ClaimNo, Millis};
use fantail_rules::retry::{self, Cause, Retry};
use std::collections::BTreeMap;

pub const ORPHANED: &str = "leader_lost";
/// Above so many different words about one parcel's members, times are told in minutes and codes are left out.
const WORDS_PLENTY: usize = 200;

/// What was said about one send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    pub position: u16,
    /// Which claim of the endpoint it was sent to, where that is known: the device may have a new address meanwhile.
    pub claim: Option<ClaimNo>,
    pub said: Said,
    pub code: String,
    pub message: String,
    pub provider_id: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    Accepted,
    Rejected,
    /// Rejected, because nobody is there any more.
    Dead,
    /// The payload itself can never be sent.
    Malformed,
    /// Certainly not taken.
    NotTaken {
        cause: Cause,
        retry_after_ms: Option<u64>,
    },
    /// No answer came.
    Unanswered,
    /// Who sent it, if it was sent, is gone.
    Orphaned,
}

/// Words and messages of providers are kept up to here.
const CODE_BYTES_MAX: usize = 64;
const MESSAGE_BYTES_MAX: usize = 256;
/// What is left of a record for the parcel and the stamp; the rest is for its members, as [`member_bytes`] counts them.
const OUTCOME_HEAD_BYTES: usize = 1_024;
/// What a member costs besides its texts: a position, the numbers of a standing and of a note, the lengths of texts.
const MEMBER_OVERHEAD_BYTES: usize = 64;

impl Told {
    /// What it holds in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.code.len() + self.message.len() + self.provider_id.len()
    }

    /// What a channel's answer means.
    #[must_use]
    pub fn of(position: u16, answer: Answer) -> Self {
        let (said, code, message, provider_id) = match answer {
            Answer::Accepted { provider_id } => {
                (Said::Accepted, String::new(), String::new(), provider_id.unwrap_or_default())
            }
            Answer::Rejected { refusal, code, message } => {
                let said = match refusal {
                    Refusal::Message | Refusal::Unwanted => Said::Rejected,
                    Refusal::Malformed => Said::Malformed,
                    Refusal::DeadEndpoint => Said::Dead,
                };
                (said, code, message, String::new())
            }
            Answer::Later { after_ms, scope, code, message } => {
                let cause = match scope {
                    Scope::Message | Scope::Endpoint => Cause::Message,
                    Scope::Origin | Scope::Credential => Cause::Scope,
                };
                (Said::NotTaken { cause, retry_after_ms: after_ms }, code, message, String::new())
            }
            Answer::NotSent { proof, message } => {
                let not_taken = |cause| Said::NotTaken { cause, retry_after_ms: None };
                let (said, code) = match proof {
                    Proof::NoConnection => (not_taken(Cause::Unreachable), "no_connection"),
                    Proof::Unprocessed => (not_taken(Cause::Scope), "unprocessed"),
                    Proof::Deadline => (not_taken(Cause::Ours), DEADLINE),
                    Proof::Forbidden => (Said::Rejected, "forbidden_target"),
                    Proof::Resting { after_ms } => {
                        let retry_after_ms = Some(after_ms);
                        (Said::NotTaken { cause: Cause::Ours, retry_after_ms }, HOST_RESTING)
                    }
                    Proof::NoRoom { after_ms } => {
                        let retry_after_ms = Some(after_ms);
                        (Said::NotTaken { cause: Cause::NoRoom, retry_after_ms }, NO_ROOM)
                    }
                };
                (said, code.to_owned(), message, String::new())
            }
            Answer::Unknown { code, message } => (Said::Unanswered, code, message, String::new()),
        };
        let code = cut(code, CODE_BYTES_MAX);
        let message = cut(message, MESSAGE_BYTES_MAX);
        let provider_id = cut(provider_id, MESSAGE_BYTES_MAX);
        Self { position, claim: None, said, code, message, provider_id }
    }

    /// The same about this claim.
    #[must_use]
    pub fn about(self, claim: ClaimNo) -> Self {
        Self { claim: Some(claim), ..self }
    }
}

/// Codes of what did not begin: it came too late, or its host or account has no room now.
const DEADLINE: &str = "deadline";
const HOST_RESTING: &str = "host_resting";
const NO_ROOM: &str = "no_room";

/// Whether a deferred delivery with this code was put off before anything of it was sent: by a gate, a digest, a limit or
/// the channels before it.
#[must_use]
pub fn is_put_off(code: &str) -> bool {
    let is_ours = matches!(code, DEADLINE | HOST_RESTING | NO_ROOM | COLLECTED | SINGLY | WAITING);
    is_ours || Reason::parse(code).is_some()
}

fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

pub(super) fn plan(
    view: &View<'_>,
    parcel: ParcelId,
    told: &[Told],
    moment: Moment<'_>,
) -> Result<Plan, TablesError> {
    let Moment { now, random, knobs, .. } = moment;
    let Some(ledger) = ledger::find(view, parcel)? else { return Ok(Planned::nothing(ShardAnswer::Noted)) };
    let (mut positions, mut notes) = (Vec::new(), Vec::new());
    let mut standings = Words::empty();
    let mut sorted: Vec<&Told> = told.iter().collect();
    sorted.sort_by_key(|one| one.position);
    sorted.dedup_by_key(|one| one.position);
    for one in sorted {
        let Some(standing) = ledger.standings.of(usize::from(one.position)) else { continue };
        if standing.state != State::Intent {
            continue;
        }
        let mut after = follow(&ledger, parcel, standing, one, now, chance(random, one.position));
        if ledger.standings.words.len() + standings.words.len() > WORDS_PLENTY {
            after = coarse(after);
        }
        if ledger.is_tracked {
            notes.push(Note {
                at: now,
                state: after.state,
                code: one.code.clone(),
                message: one.message.clone(),
                provider_id: one.provider_id.clone(),
            });
        }
        positions.push(one.position);
        standings.push(after);
    }
    if positions.is_empty() {
        return Ok(Planned::nothing(ShardAnswer::Noted));
    }
    let mut records = dead_endpoints(view, parcel, &ledger, told)?;
    let changed = Changed::at(parcel, &ledger, &positions);
    let outcome = Outcome { parcel, round: ledger.round, positions, standings, notes };
    let members_bytes_max = knobs.record_bytes.saturating_sub(OUTCOME_HEAD_BYTES);
    records.extend(cut_by_bytes(outcome, members_bytes_max).into_iter().map(ShardRecord::Outcome));
    let records = followed(view, records, &[changed], now)?;
    Ok(Planned { records, answer: ShardAnswer::Noted })
}

/// The same outcome in as many records as its bytes need; one, unless providers answer with long texts.
fn cut_by_bytes(outcome: Outcome, bytes_max: usize) -> Vec<Outcome> {
    let Outcome { parcel, round, positions, standings, notes } = outcome;
    let empty =
        || Outcome { parcel, round, positions: Vec::new(), standings: Words::empty(), notes: Vec::new() };
    let (mut pieces, mut piece, mut bytes) = (Vec::new(), empty(), 0);
    let mut notes = notes.into_iter();
    for (position, standing) in positions.into_iter().zip(standings.iter()) {
        let note = notes.next();
        let more = member_bytes(standing, note.as_ref());
        if bytes + more > bytes_max && !piece.positions.is_empty() {
            pieces.push(std::mem::replace(&mut piece, empty()));
            bytes = 0;
        }
        bytes += more;
        piece.positions.push(position);
        piece.standings.push(standing.clone());
        piece.notes.extend(note);
    }
    pieces.push(piece);
    pieces
}

/// At least the bytes that a member adds to a record, as if no other member had the same standing.
fn member_bytes(standing: &Standing, note: Option<&Note>) -> usize {
    let texts = note.map_or(0, |note| note.code.len() + note.message.len() + note.provider_id.len());
    MEMBER_OVERHEAD_BYTES + standing.code.len() + texts
}

/// Endpoints that a provider calls dead are not used again, unless they are others by now.
fn dead_endpoints(
    view: &View<'_>,
    parcel: ParcelId,
    ledger: &LedgerRow,
    told: &[Told],
) -> Result<Vec<ShardRecord>, TablesError> {
    let dead = told.iter().filter(|one| one.said == Said::Dead);
    let dead: BTreeMap<u16, Option<ClaimNo>> = dead.map(|one| (one.position, one.claim)).collect();
    let mut states = Vec::new();
    for (member, at) in ledger.members.iter().zip(0u16..) {
        let Some(claim) = dead.get(&at) else { continue };
        let Some(found) = endpoint::find(view, parcel.tenant, member.user, member.device)? else { continue };
        let claim = claim.unwrap_or(found.claim);
        let heard = Heard { user: member.user, device: member.device, claim, news: News::Dead };
        states.extend(endpoints::state_after(view, parcel.tenant, heard)?);
    }
    Ok(endpoints::state_records(parcel.tenant, &states))
}

/// Everything of a parcel that an earlier leader may have sent.
pub(super) fn plan_orphans(
    view: &View<'_>,
    parcel: ParcelId,
    moment: Moment<'_>,
) -> Result<Plan, TablesError> {
    let Some(ledger) = ledger::find(view, parcel)? else { return Ok(Planned::nothing(ShardAnswer::Noted)) };
    let intents = ledger.standings.iter().zip(0u16..).filter(|(one, _)| one.state == State::Intent);
    let orphan = |(_, position)| Told {
        position,
        claim: None,
        said: Said::Orphaned,
        code: ORPHANED.to_owned(),
        message: String::new(),
        provider_id: String::new(),
    };
    let told: Vec<Told> = intents.map(orphan).collect();
    plan(view, parcel, &told, Moment { random: 0, ..moment })
}

fn follow(
    ledger: &LedgerRow,
    parcel: ParcelId,
    standing: &Standing,
    told: &Told,
    now: Millis,
    chance: u32,
) -> Standing {
    let step = match told.said {
        Said::Accepted => Step::Accepted,
        Said::Rejected | Said::Dead => Step::Rejected,
        Said::Malformed => Step::Malformed,
        Said::NotTaken { .. } => Step::NotSent,
        Said::Unanswered => Step::Unanswered,
        Said::Orphaned => Step::Orphaned,
    };
    let mut state = next(standing.state, step).unwrap_or(standing.state);
    let (mut retries, mut due) = (standing.retries, Millis(0));
    if let (State::Deferred, Said::NotTaken { cause, retry_after_ms }) = (state, told.said) {
        let terms = ledger.terms;
        let ask = retry::Ask {
            lane: terms.lane,
            cause,
            retries,
            retry_after_ms,
            chance,
            now,
            expires_at: terms.expires_at,
        };
        retries = retries.saturating_add(u8::from(cause.burns()));
        let end = match retry::decide(&ask) {
            Retry::At(at) => {
                due = round_up(at, now);
                None
            }
            Retry::Dead => Some(Step::Exhausted),
            Retry::Expired => Some(Step::Expire),
        };
        state = end.and_then(|step| next(state, step).ok()).unwrap_or(state);
    }
    if state == State::Unknown {
        due = round_up(now.plus(evidence_wait_ms(ledger.terms.class, parcel.channel)), now);
    }
    Standing { state, retries, due, code: told.code.clone(), ..standing.clone() }
}

/// Timers are kept by the second, or by ten if they are far off: so that few rows wake many members.
pub(super) fn round_up(at: Millis, now: Millis) -> Millis {
    let step = if at.since(now) > 60_000 { 10_000 } else { 1_000 };
    Millis(at.0.div_ceil(step) * step)
}

fn coarse(standing: Standing) -> Standing {
    let due = Millis(standing.due.0.div_ceil(60_000) * 60_000);
    Standing { due, code: String::new(), ..standing }
}

/// A number for each member out of one for the batch.
fn chance(random: u128, position: u16) -> u32 {
    let mixed = (random as u64 ^ u64::from(position).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 32) as u32
}

pub(super) fn apply(
    view: &mut View<'_>,
    outcome: &Outcome,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let Some(ledger) = ledger::find(view, outcome.parcel)? else { return Ok(()) };
    if !outcome.notes.is_empty() {
        let notes = outcome.positions.iter().copied().zip(&outcome.notes);
        track::add(view, outcome.parcel, &ledger.members, notes)?;
    }
    let changes = outcome.positions.iter().copied().zip(outcome.standings.iter());
    ledgers::change(view, outcome.parcel, ledger, changes, derived)
}
