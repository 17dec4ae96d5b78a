//! What users want: preferences and consent, and the history of both.
//!
//! Comes from: the preference and consent APIs, and devices that are registered with a consent. Decides: whether the
//! change was made to what is there now. Goes to: `Preferred` and `Consented`, folded into the user's row, its history
//! and the column that gates read: whatever is authorised after that record in the journal obeys it, and the inbox hides
//! what arrives behind it.
//!
//! What must never happen: a change that is made to something other than its author saw.

use super::{Plan, ShardAnswer, replan, users};
use crate::Planned;
use crate::columns::{self, counts};
use crate::records::respect::{Consent, Consented, Preferred};
use crate::records::shard::ShardRecord;
use crate::tables::progress::{self, Progress};
use crate::tables::respect::{self, Changed, Consenting, RespectRow, What};
use crate::tables::{mark, put, user};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Lookup, Millis, TenantId, UserNo};
use fantail_rules::limits::RESPECT_HISTORY_MAX;
use fantail_rules::preference::{ChangeKind, Preferences};
use fantail_rules::visibility::InboxWish;

/// New preferences, in the place of those of a revision.
#[derive(Clone, Debug)]
pub struct Prefer {
    pub instead_of: u32,
    pub source: String,
    pub preferences: Preferences,
}

pub(super) fn plan_prefer(
    view: &View<'_>,
    tenant: TenantId,
    lookup: Lookup,
    prefer: Prefer,
) -> Result<Plan, TablesError> {
    let Some((user, _)) = users::existing(view, tenant, lookup)? else {
        return Ok(Planned::nothing(ShardAnswer::UnknownUser));
    };
    let row = respect::find(view, tenant, user)?;
    if row.revision != prefer.instead_of {
        return Ok(Planned::nothing(ShardAnswer::Changed { revision: row.revision }));
    }
    if row.preferences == prefer.preferences {
        return Ok(Planned::nothing(ShardAnswer::Respected { revision: row.revision }));
    }
    let kind = ChangeKind::of(&row.preferences, &prefer.preferences);
    let revision = row.revision.saturating_add(1);
    let (source, preferences) = (prefer.source, prefer.preferences);
    let record = ShardRecord::Preferred(Preferred { tenant, user, revision, kind, source, preferences });
    Ok(Planned::one(record, ShardAnswer::Respected { revision }))
}

pub(super) fn plan_consent(
    view: &View<'_>,
    tenant: TenantId,
    lookup: Lookup,
    channel: ChannelKind,
    consent: Consent,
) -> Result<Plan, TablesError> {
    let Some((user, _)) = users::existing(view, tenant, lookup)? else {
        return Ok(Planned::nothing(ShardAnswer::UnknownUser));
    };
    let row = respect::find(view, tenant, user)?;
    let record = consented(tenant, user, &row, channel, consent);
    let revision = row.revision.saturating_add(u32::from(record.is_some()));
    let records = record.into_iter().collect();
    Ok(Planned { records, answer: ShardAnswer::Respected { revision } })
}

/// The fact that a consent comes to; none if exactly this was said before.
pub(super) fn consented(
    tenant: TenantId,
    user: UserNo,
    row: &RespectRow,
    channel: ChannelKind,
    consent: Consent,
) -> Option<ShardRecord> {
    let is_same = |known: &Consenting| {
        let Consent { is_granted, version, source, .. } = &known.consent;
        (*is_granted, version, source) == (consent.is_granted, &consent.version, &consent.source)
    };
    if row.consent(channel).is_some_and(is_same) {
        return None;
    }
    let revision = row.revision.saturating_add(1);
    let consents = vec![Consented { user, revision, channel, consent }];
    Some(ShardRecord::Consented { tenant, consents })
}

pub(super) fn apply_preferred(
    view: &mut View<'_>,
    preferred: &Preferred,
    at: Millis,
) -> Result<(), TablesError> {
    let Preferred { tenant, user, revision, kind, source, preferences } = preferred;
    let mut row = respect::find(view, *tenant, *user)?;
    let before = std::mem::replace(&mut row.preferences, preferences.clone());
    for channel in before.limits.keys().chain(preferences.limits.keys()) {
        let limit = preferences.limits.get(channel).copied().unwrap_or_default();
        counts::set_limit(view, (*tenant, *channel), *user, limit)?;
    }
    turn_inbox(view, *tenant, *user, preferences)?;
    let (kind, source, after) = (*kind, source.clone(), preferences.clone());
    let what = What::Preferences { kind, source, before, after };
    fold(view, (*tenant, *user), RespectRow { revision: *revision, ..row }, Changed { at, what })
}

/// What arrives from here on is shown, or not, by what the user wants now.
fn turn_inbox(
    view: &mut View<'_>,
    tenant: TenantId,
    user: UserNo,
    preferences: &Preferences,
) -> Result<(), TablesError> {
    let Progress { last, horizon, .. } = progress::find(view, tenant)?;
    let marks = mark::find(view, tenant, user)?;
    let mut turned = marks.clone();
    turned.turns.turn(last, InboxWish::of(preferences), horizon);
    if turned != marks {
        put(view, mark::key(tenant, user), &turned);
    }
    Ok(())
}

pub(super) fn apply_consented(
    view: &mut View<'_>,
    tenant: TenantId,
    consents: &[Consented],
    at: Millis,
) -> Result<(), TablesError> {
    consents.iter().try_for_each(|consented| fold_consent(view, tenant, consented, at))
}

fn fold_consent(
    view: &mut View<'_>,
    tenant: TenantId,
    consented: &Consented,
    at: Millis,
) -> Result<(), TablesError> {
    let Consented { user, revision, channel, consent } = consented;
    let mut row = respect::find(view, tenant, *user)?;
    let given = Consenting { channel: *channel, revision: *revision, consent: consent.clone() };
    let before = match row.consents.binary_search_by_key(channel, |known| known.channel) {
        Ok(place) => Some(std::mem::replace(&mut row.consents[place], given).consent),
        Err(place) => {
            row.consents.insert(place, given);
            None
        }
    };
    let what = What::Consent { channel: *channel, before, after: consent.clone() };
    fold(view, (tenant, *user), RespectRow { revision: *revision, ..row }, Changed { at, what })
}

fn fold(
    view: &mut View<'_>,
    (tenant, user): (TenantId, UserNo),
    row: RespectRow,
    changed: Changed,
) -> Result<(), TablesError> {
    let Some(profile) = user::find(view, tenant, user)? else { return Ok(()) };
    put(view, respect::history_key(tenant, user, row.revision), &changed);
    if let Some(oldest) = row.revision.checked_sub(RESPECT_HISTORY_MAX) {
        view.delete(respect::history_key(tenant, user, oldest));
    }
    replan::ask_again(view, tenant, user)?;
    columns::set_respect(view, tenant, user, &row, profile.zone)?;
    put(view, respect::key(tenant, user), &row);
    Ok(())
}

/// A user takes all of it along.
pub(super) fn apply_gone(view: &mut View<'_>, tenant: TenantId, user: UserNo) -> Result<(), TablesError> {
    let row = respect::find(view, tenant, user)?;
    for revision in row.revision.saturating_sub(RESPECT_HISTORY_MAX)..=row.revision {
        view.delete(respect::history_key(tenant, user, revision));
    }
    view.delete(respect::key(tenant, user));
    ChannelKind::ALL.into_iter().try_for_each(|channel| counts::forget(view, (tenant, channel), user))?;
    Ok(())
}
