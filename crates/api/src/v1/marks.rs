//! Changing what a user has seen, read, archived, snoozed or deleted. Answered after it is applied, with the counts.

use crate::call::Call;
use crate::check::{Faults, name_fault};
use crate::cursor::{self, Owner};
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::event_ids;
use crate::v1::inbox::{event_of, show_counts, unknown_notification};
use fantail_node::ask::{MarkAsk, MarkTarget};
use fantail_rules::ids::{Arrival, Millis, TenantId};
use fantail_rules::limits::{MARK_IDS_MAX, SNOOZE_MS_MAX};
use fantail_rules::marks::Mark;
use fantail_rules::ulid::Ulid;
use fantail_wire::inbox::{Marks, Snooze, Unsnooze};

/// `read`, `unread`, `seen`, `archive`, `unarchive`.
pub async fn mark(tenant: TenantId, call: Call, mark: Mark) -> Result<Reply, Problem> {
    let user = call.name("user")?;
    let request: Marks = call.json()?;
    let target = match (request.ids, request.all, request.before) {
        (Some(ids), None, None) => MarkTarget::Events(events_of(tenant, &call, &ids)?),
        (None, Some(true), None) => MarkTarget::All { through: None },
        (None, Some(true), Some(before)) => {
            MarkTarget::All { through: Some(arrival_of(tenant, &call, user, &before).await?) }
        }
        (_, None | Some(false), Some(_)) => return Err(Problem::field("/before", "goes with all: true")),
        _ => return Err(Problem::field("/ids", "give either ids, or all: true with before or without")),
    };
    done(tenant, &call, mark, target).await
}

pub async fn snooze(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: Snooze = call.json()?;
    let until = until_of(&request.until, call.node.wall())?;
    let events = events_of(tenant, &call, &request.ids)?;
    done(tenant, &call, Mark::Snooze { until }, MarkTarget::Events(events)).await
}

pub async fn unsnooze(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: Unsnooze = call.json()?;
    let events = events_of(tenant, &call, &request.ids)?;
    done(tenant, &call, Mark::Unsnooze, MarkTarget::Events(events)).await
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = event_of(tenant, &call)?;
    done(tenant, &call, Mark::Delete, MarkTarget::Events(vec![event])).await?;
    Ok(Reply::no_content())
}

async fn done(tenant: TenantId, call: &Call, mark: Mark, target: MarkTarget) -> Result<Reply, Problem> {
    let user = call.name("user")?.to_owned();
    let counts = call.node.mark(tenant, MarkAsk { user, mark, target }).await?;
    Ok(show_counts(counts))
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

fn events_of(tenant: TenantId, call: &Call, ids: &[String]) -> Result<Vec<Ulid>, Problem> {
    check_ids(ids)?;
    let find = |id: &String| event_ids::find(tenant, call, id)?.ok_or_else(unknown_notification);
    let mut events = ids.iter().map(find).collect::<Result<Vec<Ulid>, Problem>>()?;
    events.sort_unstable();
    events.dedup();
    Ok(events)
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
