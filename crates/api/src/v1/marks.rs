//! Changing what a user has seen, read, archived, snoozed or deleted. Answered after it is applied, with the counts.

use crate::call::Call;
use crate::check::{Faults, name_fault};
use crate::cursor::{self, Owner};
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::event_ids;
use crate::v1::inbox::{event_of, unknown_notification};
use fantail_node::ask::{Counts, MarkAsk, MarkResult as Marked, MarkTarget};
use fantail_rules::ids::{Arrival, Millis, TenantId};
use fantail_rules::limits::{MARK_IDS_MAX, SNOOZE_MS_MAX};
use fantail_rules::marks::Mark;
use fantail_rules::ulid::Ulid;
use fantail_wire::inbox::{MarkResult, Marks, Snooze, Unsnooze};
use std::collections::BTreeSet;

/// `read`, `unread`, `seen`, `archive`, `unarchive`.
pub async fn mark(tenant: TenantId, call: Call, mark: Mark) -> Result<Reply, Problem> {
    let user = call.name("user")?;
    let request: Marks = call.json()?;
    let target = match (request.ids, request.all, request.before) {
        (Some(ids), None, None) => return mark_ids(tenant, &call, mark, &ids).await,
        (None, Some(true), None) => MarkTarget::All { through: None },
        (None, Some(true), Some(before)) => {
            MarkTarget::All { through: Some(arrival_of(tenant, &call, user, &before).await?) }
        }
        (_, None | Some(false), Some(_)) => return Err(Problem::field("/before", "goes with all: true")),
        _ => return Err(Problem::field("/ids", "give either ids, or all: true with before or without")),
    };
    let marked = done(tenant, &call, mark, target).await?;
    Ok(show(marked.counts, Vec::new()))
}

pub async fn snooze(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: Snooze = call.json()?;
    let until = until_of(&request.until, call.node.wall())?;
    mark_ids(tenant, &call, Mark::Snooze { until }, &request.ids).await
}

pub async fn unsnooze(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: Unsnooze = call.json()?;
    mark_ids(tenant, &call, Mark::Unsnooze, &request.ids).await
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    done(tenant, &call, Mark::Delete, MarkTarget::Events(vec![event])).await?;
    Ok(Reply::no_content())
}

/// Marks those of the ids that the inbox has, and names the others. 404 if it has none of them.
async fn mark_ids(tenant: TenantId, call: &Call, mark: Mark, ids: &[String]) -> Result<Reply, Problem> {
    check_ids(ids)?;
    let find = |id: &String| Ok((id.clone(), event_ids::find(tenant, call, id)?));
    let found = ids.iter().map(find).collect::<Result<Vec<(String, Option<Ulid>)>, Problem>>()?;
    let mut events: Vec<Ulid> = found.iter().filter_map(|(_, event)| *event).collect();
    events.sort_unstable();
    events.dedup();
    if events.is_empty() {
        call.node.counts(tenant, call.name("user")?).await?;
        return Err(unknown_notification());
    }
    let marked = done(tenant, call, mark, MarkTarget::Events(events)).await?;
    // In the order of `events`.
    let is_unknown =
        |event: Option<Ulid>| event.is_none_or(|event| marked.unknown.binary_search(&event).is_ok());
    let unknown: BTreeSet<String> =
        found.into_iter().filter(|(_, event)| is_unknown(*event)).map(|(id, _)| id).collect();
    Ok(show(marked.counts, unknown.into_iter().collect()))
}

async fn done(tenant: TenantId, call: &Call, mark: Mark, target: MarkTarget) -> Result<Marked, Problem> {
    let user = call.name("user")?.to_owned();
    Ok(call.node.mark(tenant, MarkAsk { user, mark, target }).await?)
}

fn show(counts: Counts, unknown: Vec<String>) -> Reply {
    let Counts { unread, unseen } = counts;
    Reply::json(200, &MarkResult { unread, unseen, unknown })
}

/// `before` is a notification the user has, or a `sinceCursor` the user was given.
async fn arrival_of(tenant: TenantId, call: &Call, user: &str, before: &str) -> Result<Arrival, Problem> {
    if let Some(arrival) = cursor::to_since(Owner { tenant, name: user }, before) {
        return Ok(arrival);
    }
    let wanted = "must be an eventId or a notificationId of this inbox, or a sinceCursor";
    if name_fault(before).is_some() {
        return Err(Problem::field("/before", wanted));
    }
    match event_ids::find(tenant, call, before)? {
        Some(event) => Ok(call.node.arrival_of(tenant, user, event).await?),
        None => Err(Problem::field("/before", wanted)),
    }
}

fn check_ids(ids: &[String]) -> Result<(), Problem> {
    let root = Pointer::ROOT;
    let list = root.key("ids");
    let mut faults = Faults::default();
    if ids.is_empty() || ids.len() > MARK_IDS_MAX {
        faults.add(list, format!("must have 1 to {MARK_IDS_MAX} ids"));
    } else {
        ids.iter().enumerate().for_each(|(index, id)| faults.name(list.index(index), id));
    }
    faults.into_result()
}

fn until_of(text: &str, now: Millis) -> Result<Millis, Problem> {
    let Some(until) = time::parse(text) else {
        return Err(Problem::field("/until", "must be a time like 2026-01-31T12:00:00Z"));
    };
    if until <= now {
        return Err(Problem::field("/until", "must be in the future"));
    }
    if until > now.plus(SNOOZE_MS_MAX) {
        return Err(Problem::field("/until", "must be within a year"));
    }
    Ok(until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked() {
        let id = |text: &str| text.to_owned();
        assert!(check_ids(&[id("order-42"), id("01KG9V7W0R0000000000000001")]).is_ok());
        let problem = check_ids(&[id("a"), id("")]).expect_err("not an id");
        assert_eq!(problem.errors[0].pointer, "/ids/1");
        assert!(check_ids(&[]).is_err());
        assert!(check_ids(&vec![id("a"); MARK_IDS_MAX + 1]).is_err());
    }

    #[test]
    fn snoozes_end_within_a_year() {
        let now = Millis(1_769_860_800_000);
        for (text, good) in [
            ("2026-01-31T12:00:00.001Z", true),
            ("2027-01-31T12:00:00Z", true),
            ("2026-01-31T12:00:00Z", false),
            ("2020-01-01T00:00:00Z", false),
            ("2028-01-31T12:00:00Z", false),
            ("soon", false),
        ] {
            assert_eq!(until_of(text, now).is_ok(), good, "{text}");
        }
    }
}
