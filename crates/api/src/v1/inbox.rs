//! Reading inboxes: pages, one notification, counts.

use crate::call::Call;
use crate::cursor::{self, Owner};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::event_ids;
use fantail_node::ask::{InboxAsk, InboxFrom, InboxPage, NotificationView, Priority};
use fantail_node::content::in_inbox;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{PAGE_DEFAULT, PAGE_MAX};
use fantail_rules::marks::State;
use fantail_rules::ulid::Ulid;
use fantail_wire::code::Code;
use fantail_wire::event::Priority as WirePriority;
use fantail_wire::inbox::{Counts, Inbox, Notification};
use serde_json::value::RawValue;
use std::borrow::Cow;

pub async fn page(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let user = call.name("user")?;
    let owner = Owner { tenant, name: user };
    let ask = InboxAsk {
        user: user.to_owned(),
        limit: call.query.limit(PAGE_DEFAULT, PAGE_MAX)?,
        from: from_of(&call, owner)?,
        state: state_of(call.query.get("state"))?,
    };
    let page = call.node.inbox(tenant, ask).await?;
    call.app.telemetry.inbox_reads.add(1);
    show_page(owner, &page)
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let user = call.name("user")?;
    let event = event_of(tenant, &call)?;
    let notification = call.node.notification(tenant, user, event).await?;
    Ok(Reply::json(200, &shown(&notification)?))
}

pub async fn counts(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let counts = call.node.counts(tenant, call.name("user")?).await?;
    Ok(show_counts(counts))
}

fn show_counts(counts: fantail_node::ask::Counts) -> Reply {
    Reply::json(200, &Counts { unread: counts.unread, unseen: counts.unseen })
}

/// The event of a path, by either id.
pub fn event_of(tenant: TenantId, call: &Call) -> Result<Ulid, Problem> {
    event_ids::find(tenant, call, call.name("notification")?)?.ok_or_else(unknown_notification)
}

pub fn unknown_notification() -> Problem {
    Problem::new(Code::NotificationNotFound, "the user has no such notification")
}

fn from_of(call: &Call, owner: Owner<'_>) -> Result<InboxFrom, Problem> {
    match (call.query.get("cursor"), call.query.get("since")) {
        (None, None) => Ok(InboxFrom::Newest),
        (Some(_), Some(_)) => Err(Problem::field("/since", "cursor and since exclude each other")),
        (Some(text), None) => match cursor::to_before(owner, text) {
            Some(arrival) => Ok(InboxFrom::Before(arrival)),
            None => Err(Problem::field("/cursor", "not a cursor of this inbox")),
        },
        (None, Some(text)) => match cursor::to_since(owner, text) {
            Some(arrival) => Ok(InboxFrom::Since(arrival)),
            None => Err(Problem::field("/since", "not a sinceCursor of this inbox")),
        },
    }
}

fn state_of(text: Option<&str>) -> Result<State, Problem> {
    match text {
        None | Some("inbox") => Ok(State::Inbox),
        Some("unread") => Ok(State::Unread),
        Some("read") => Ok(State::Read),
        Some("archived") => Ok(State::Archived),
        Some("snoozed") => Ok(State::Snoozed),
        Some("all") => Ok(State::All),
        Some(_) => Err(Problem::field("/state", "must be inbox, unread, read, archived, snoozed or all")),
    }
}

fn show_page(owner: Owner<'_>, page: &InboxPage) -> Result<Reply, Problem> {
    let notifications: Result<Vec<_>, _> = page.notifications.iter().map(shown).collect();
    let since = cursor::of_inbox(owner, InboxFrom::Since(page.horizon));
    let inbox = Inbox {
        notifications: notifications?,
        next_cursor: page.next.and_then(|from| cursor::of_inbox(owner, from)),
        since_cursor: since.expect("a since place has a cursor"),
        unread: page.unread,
        unseen: page.unseen,
    };
    Ok(Reply::json(200, &inbox))
}

pub fn shown(view: &NotificationView) -> Result<Notification<'_>, Problem> {
    let content = view.content.as_deref().unwrap_or(&view.post.content);
    let unreadable = |_| Problem::new(Code::Internal, "a notification's content cannot be read");
    let content = match in_inbox(content) {
        None => None,
        Some(Cow::Borrowed(json)) => Some(Cow::Borrowed(serde_json::from_slice(json).map_err(unreadable)?)),
        Some(Cow::Owned(json)) => {
            let json: Box<RawValue> = serde_json::from_slice(&json).map_err(unreadable)?;
            Some(Cow::Owned(json))
        }
    };
    Ok(Notification {
        event_id: view.event.to_string(),
        notification_id: view.post.name.as_deref(),
        created_at: time::text(view.post.created_at),
        kind: &view.post.kind,
        category: &view.post.category,
        priority: priority_of(view.post.priority),
        actor: view.post.actor.as_deref(),
        content,
        seen: view.seen,
        read: view.read,
        archived: view.archived,
        snoozed_until: view.snoozed_until.map(time::text),
    })
}

pub fn priority_of(priority: Priority) -> WirePriority {
    match priority {
        Priority::Critical => WirePriority::Critical,
        Priority::High => WirePriority::High,
        Priority::Normal => WirePriority::Normal,
        Priority::Low => WirePriority::Low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_named() {
        let cases = [
            (None, Some(State::Inbox)),
            (Some("inbox"), Some(State::Inbox)),
            (Some("unread"), Some(State::Unread)),
            (Some("read"), Some(State::Read)),
            (Some("archived"), Some(State::Archived)),
            (Some("snoozed"), Some(State::Snoozed)),
            (Some("all"), Some(State::All)),
            (Some("deleted"), None),
            (Some(""), None),
        ];
        for (text, expected) in cases {
            assert_eq!(state_of(text).ok(), expected, "{text:?}");
        }
    }
}
