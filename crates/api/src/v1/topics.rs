//! Subscribers of topics.

use crate::call::Call;
use crate::check::Faults;
use crate::cursor::Owner;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::v1::edges;
use fantail_node::ask::{EdgeAsk, EdgeChange, ListAsk};
use fantail_node::named::Named;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::BATCH_ITEMS_MAX;
use fantail_wire::list::{Subscribers, SubscribersBatch};

pub async fn change(tenant: TenantId, call: Call, change: EdgeChange) -> Result<Reply, Problem> {
    let list = ListAsk::Topic(topic_of(tenant, &call, change)?.to_owned());
    let user = call.name("user")?.to_owned();
    edges::change_one(tenant, &call, change, EdgeAsk { user, list }).await
}

pub async fn change_many(tenant: TenantId, call: Call, change: EdgeChange) -> Result<Reply, Problem> {
    let edges = edges_of(topic_of(tenant, &call, change)?, call.json()?)?;
    edges::change_many(tenant, &call, change, edges).await
}

/// A topic begins with its first subscriber.
fn topic_of(tenant: TenantId, call: &Call, change: EdgeChange) -> Result<&str, Problem> {
    match change {
        EdgeChange::Join => call.new_name(tenant, "topic", Named::Topic),
        EdgeChange::Leave => call.name("topic"),
    }
}

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let topic = call.name("topic")?;
    let owner = format!("topic {topic}");
    let owner = Owner { tenant, name: &owner };
    let place = edges::place_of(&call, owner)?;
    let list = ListAsk::Topic(topic.to_owned());
    let names = call.node.members(tenant, list.clone(), place, call.list_limit()?).await?;
    let count = call.node.member_count(tenant, list).await?;
    let next_cursor = edges::next_cursor(owner, &names);
    Ok(Reply::json(200, &Subscribers { subscribers: names.names, count, next_cursor }))
}

fn edges_of(topic: &str, request: SubscribersBatch) -> Result<Vec<EdgeAsk>, Problem> {
    let root = Pointer::ROOT;
    let list = root.key("users");
    let mut faults = Faults::default();
    if request.users.is_empty() || request.users.len() > BATCH_ITEMS_MAX {
        faults.add(list, format!("must have 1 to {BATCH_ITEMS_MAX} users"));
    }
    for (index, user) in request.users.iter().enumerate().take(BATCH_ITEMS_MAX) {
        faults.name(list.index(index), user);
    }
    faults.into_result()?;
    let edge = |user| EdgeAsk { user, list: ListAsk::Topic(topic.to_owned()) };
    Ok(request.users.into_iter().map(edge).collect())
}
