//! Pages over all users, topics, suppressions, erasures and notifications of a tenant.
//!
//! Comes from: `pipeline`. Goes to: `Node::list_*`, in turns of the tenants on threads that may block. A cursor belongs to the
//! tenant and to the filters that it was given out for.

use crate::aside::{self, Work};
use crate::call::Call;
use crate::check::name_fault;
use crate::cursor::{self, Owner};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::audit::time_of;
use crate::v1::inbox::priority_of;
use crate::v1::notifications::{channel_status, phase_of};
use crate::v1::{erasures, suppressions, users};
use fantail_node::Node;
use fantail_node::ask::Refusal;
use fantail_node::listings::{
    ErasureQuery, ListedSuppression, NotificationQuery, NotificationSummary, SuppressionPlace, UserPlace,
};
use fantail_rules::address;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{AddressHash, DirectoryNo, ListId, Millis, ShardNo, TenantId, UserNo};
use fantail_rules::limits::{PAGE_DEFAULT, PAGE_MAX};
use fantail_rules::suppression::Reason;
use fantail_rules::ulid::Ulid;
use fantail_wire::device::{ListedSuppression as SuppressionShown, Suppressions};
use fantail_wire::erasure::Erasures;
use fantail_wire::list::{Topic, Topics};
use fantail_wire::sent::{SentNotification, SentNotifications};
use fantail_wire::user::Users;
use std::ops::Range;

pub async fn list_users(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let address = address_of(&call)?;
    let name = format!("users {address:?}");
    let owner = Owner { tenant, name: &name };
    let from = place(&call, owner, |text| {
        let (shard, user) = text.split_once('.')?;
        Some(UserPlace { shard: ShardNo(shard.parse().ok()?), user: UserNo(user.parse().ok()?) })
    })?;
    let limit = call.list_limit()?;
    let page = read(&call, tenant, move |node| match address {
        Some((kind, identity)) => node.list_users_at(tenant, kind, &identity),
        None => node.list_users(tenant, from, limit),
    })
    .await?;
    let next = page.next.map(|next| format!("{}.{}", next.shard, next.user));
    let answer = Users {
        users: page.users.iter().map(users::shown).collect::<Result<_, _>>()?,
        next_cursor: next.map(|next| cursor::of_names(owner, &next)),
    };
    Ok(Reply::json(200, &answer))
}

/// The address that the users of a page must have.
fn address_of(call: &Call) -> Result<Option<(ChannelKind, String)>, Problem> {
    let fields = [("email", ChannelKind::Email), ("phone", ChannelKind::Sms)];
    let mut given =
        fields.into_iter().filter_map(|(field, kind)| Some((field, kind, call.query.get(field)?)));
    let Some((field, kind, text)) = given.next() else { return Ok(None) };
    if let Some((second, ..)) = given.next() {
        return Err(Problem::field(format!("/{second}"), "give email or phone, not both"));
    }
    let read = address::read(kind, text).map_err(|fault| Problem::field(format!("/{field}"), fault))?;
    Ok(Some((kind, read.identity)))
}

pub async fn list_topics(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let user = name_of(&call, "user")?;
    let name = format!("topics {user:?}");
    let owner = Owner { tenant, name: &name };
    let behind = place(&call, owner, |text| unhex(text).map(ListId))?;
    let limit = call.list_limit()?;
    let page = read(&call, tenant, move |node| match user {
        Some(user) => node.list_topics_of(tenant, &user, behind, limit),
        None => node.list_topics(tenant, behind, limit),
    })
    .await?;
    let topic = |one: fantail_node::listings::ListedTopic| Topic {
        topic: one.topic,
        subscriber_count: one.subscribers,
    };
    let answer = Topics {
        topics: page.topics.into_iter().map(topic).collect(),
        next_cursor: page.next.map(|next| cursor::of_names(owner, &format!("{next:?}"))),
    };
    Ok(Reply::json(200, &answer))
}

pub async fn list_suppressions(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let reason = call.query.get("reason").map(reason_of).transpose()?;
    let name = format!("suppressions {reason:?}");
    let owner = Owner { tenant, name: &name };
    let behind = place(&call, owner, |text| {
        let (directory, address) = text.split_once('.')?;
        let directory = DirectoryNo(directory.parse().ok()?);
        let address = if address.is_empty() { None } else { Some(AddressHash(unhex(address)?)) };
        Some(SuppressionPlace { directory, address })
    })?;
    let limit = call.list_limit()?;
    let page = read(&call, tenant, move |node| node.list_suppressions(tenant, behind, reason, limit)).await?;
    let next = page.next.map(|next| {
        let address = next.address.map_or_else(String::new, |address| format!("{address:?}"));
        cursor::of_names(owner, &format!("{}.{address}", next.directory))
    });
    let answer = Suppressions {
        suppressions: page.suppressions.into_iter().map(suppression).collect(),
        next_cursor: next,
    };
    Ok(Reply::json(200, &answer))
}

fn suppression(one: ListedSuppression) -> SuppressionShown {
    let (channel, address, user_id) = match one.owner {
        Some(owner) => (Some(owner.channel), owner.address, owner.user),
        None => (None, None, None),
    };
    SuppressionShown {
        address_hash: suppressions::hash_text(one.hash),
        channel: channel.map(|channel| channel.name().to_owned()),
        address,
        user_id,
        reason: suppressions::shown(one.reason),
        since: time::text(one.since),
    }
}

fn reason_of(word: &str) -> Result<Reason, Problem> {
    let rule = "must be deadEndpoint, hardBounce, complaint, stop or manual";
    Reason::parse(word).ok_or_else(|| Problem::field("/reason", rule))
}

pub async fn list_erasures(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (user, span) = (name_of(&call, "user")?, span_of(&call)?);
    let name = format!("erasures {user:?} {span:?}");
    let owner = Owner { tenant, name: &name };
    let before = place(&call, owner, Ulid::parse)?;
    let query = ErasureQuery { span, before, limit: call.list_limit()? };
    let page = read(&call, tenant, move |node| match user {
        Some(user) => node.list_erasures_of(tenant, &user),
        None => node.list_erasures(tenant, &query),
    })
    .await?;
    let answer = Erasures {
        erasures: page.erasures.into_iter().map(|(erasure, row)| erasures::shown(erasure, row)).collect(),
        next_cursor: page.next.map(|next| cursor::of_names(owner, &next.to_string())),
    };
    Ok(Reply::json(200, &answer))
}

pub async fn list_notifications(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (user, category, span) = (name_of(&call, "user")?, name_of(&call, "category")?, span_of(&call)?);
    let name = format!("notifications {user:?} {category:?} {span:?}");
    let owner = Owner { tenant, name: &name };
    let before = place(&call, owner, Ulid::parse)?;
    let limit = call.query.limit(PAGE_DEFAULT, PAGE_MAX)?;
    let query = NotificationQuery { span, category, user, before, limit };
    let page = read(&call, tenant, move |node| node.list_notifications(tenant, &query)).await?;
    let answer = SentNotifications {
        notifications: page.notifications.into_iter().map(notification).collect(),
        next_cursor: page.next.map(|next| cursor::of_names(owner, &next.to_string())),
    };
    Ok(Reply::json(200, &answer))
}

fn notification(one: NotificationSummary) -> SentNotification {
    let status = one.status.as_ref();
    SentNotification {
        event_id: one.event.to_string(),
        notification_id: one.name,
        kind: one.kind,
        category: one.category,
        priority: priority_of(one.priority),
        status: status.map(|status| phase_of(status.phase)),
        created_at: time::text(one.created_at),
        scheduled_at: one.due.map(time::text),
        cancelled: status.is_some_and(|status| status.is_cancelled),
        retracted: one.is_retracted,
        recipient_count: one.recipients,
        channels: status.map_or_else(Vec::new, |status| status.channels.iter().map(channel_status).collect()),
    }
}

/// Reads a page on a thread that may block, when it is the tenant's turn.
async fn read<T: Send + 'static>(
    call: &Call,
    tenant: TenantId,
    page: impl FnOnce(&Node) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Problem> {
    let node = call.node.clone();
    Ok(aside::run(&call.app, tenant, Work::Scan, move || page(&node)).await??)
}

/// The place that the cursor of a request names.
fn place<T>(
    call: &Call,
    owner: Owner<'_>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let Some(text) = call.query.get("cursor") else { return Ok(None) };
    let place = cursor::to_names(owner, text).and_then(|place| parse(&place));
    Ok(Some(place.ok_or(Refusal::BadCursor)?))
}

fn name_of(call: &Call, field: &str) -> Result<Option<String>, Problem> {
    let Some(name) = call.query.get(field) else { return Ok(None) };
    match name_fault(name) {
        None => Ok(Some(name.to_owned())),
        Some(fault) => Err(Problem::field(format!("/{field}"), fault)),
    }
}

fn span_of(call: &Call) -> Result<Range<Millis>, Problem> {
    let from = time_of(call, "from")?.unwrap_or(Millis(0));
    let to = time_of(call, "to")?.unwrap_or(Millis(u64::MAX));
    Ok(from..to)
}

/// Sixteen bytes of hexadecimal digits.
fn unhex(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(text, 16).ok()?.to_be_bytes())
}
