//! Changing what a user has seen, read, archived, snoozed or deleted. Answered after it is applied, with the counts.

use crate::call::Call;
use crate::check::Faults;
use crate::cursor::{self, Owner};
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::inbox::{show_counts, unknown_notification};
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
        (Some(ids), None, None) => MarkTarget::Events(events_of(&ids)?),
        (None, Some(true), None) => MarkTarget::All { through: None },
        (None, Some(true), Some(before)) => {
            MarkTarget::All { through: Some(arrival_of(tenant, &call, user, &before).await?) }
        }
        _ => return Err(Problem::field("/ids", "give either ids, or all: true with before or without")),
    };
    done(tenant, &call, mark, target).await
}

pub async fn snooze(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: Snooze = call.json()?;
    let until = until_of(&request.until, call.node.wall())?;
    let events = events_of(&request.ids)?;
    done(tenant, &call, Mark::Snooze { until }, MarkTarget::Events(events)).await
}

pub async fn unsnooze(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: Unsnooze = call.json()?;
    let events = events_of(&request.ids)?;
    done(tenant, &call, Mark::Unsnooze, MarkTarget::Events(events)).await
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let event = call.ulid("notification").ok_or_else(unknown_notification)?;
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
    if let Some(event) = Ulid::parse(before) {
        return Ok(call.node.arrival_of(tenant, user, event).await?);
    }
    match cursor::to_since(Owner { tenant, name: user }, before) {
        Some(arrival) => Ok(arrival),
        None => Err(Problem::field("/before", "must be a notification id or a sinceCursor of this inbox")),
    }
}

fn events_of(ids: &[String]) -> Result<Vec<Ulid>, Problem> {
    let root = Pointer::ROOT;
    let list = root.key("ids");
    let mut faults = Faults::default();
    if ids.is_empty() || ids.len() > MARK_IDS_MAX {
        faults.add(list, format!("must have 1 to {MARK_IDS_MAX} ids"));
        faults.into_result()?;
        return Ok(Vec::new());
    }
    let mut events = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        match Ulid::parse(id) {
            Some(event) => events.push(event),
            None => faults.add(list.index(index), "not a notification id"),
        }
    }
    faults.into_result()?;
    events.sort_unstable();
    events.dedup();
    Ok(events)
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
    fn ids_are_checked_and_said_once() {
        let id = |n: u128| Ulid(n).to_string();
        assert_eq!(events_of(&[id(2), id(1), id(2)]).expect("valid"), [Ulid(1), Ulid(2)]);
        let problem = events_of(&[id(1), "x".to_owned()]).expect_err("not an id");
        assert_eq!(problem.errors[0].pointer, "/ids/1");
        assert!(events_of(&[]).is_err());
        assert!(events_of(&vec![id(1); MARK_IDS_MAX + 1]).is_err());
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
