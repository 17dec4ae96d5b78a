//! Who follows whom. An actor is no thing of its own: it may have posted without a user or a follower, so it is followed
//! whatever it is called, as an event may mention it.

use crate::call::Call;
use crate::check::Faults;
use crate::cursor::Owner;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::v1::edges;
use fantail_node::ask::{EdgeAsk, EdgeChange, ListAsk};
use fantail_rules::ids::TenantId;
use fantail_rules::limits::BATCH_ITEMS_MAX;
use fantail_wire::list::{FollowState, Followers, Follows, FollowsBatch};

pub async fn change(tenant: TenantId, call: Call, change: EdgeChange) -> Result<Reply, Problem> {
    let edge = edge_of(&call)?;
    edges::change_one(tenant, &call, change, edge).await
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let following = call.node.is_member(tenant, edge_of(&call)?).await?;
    Ok(Reply::json(200, &FollowState { following }))
}

pub async fn change_many(tenant: TenantId, call: Call, change: EdgeChange) -> Result<Reply, Problem> {
    let edges = edges_of(call.json()?)?;
    edges::change_many(tenant, &call, change, edges).await
}

pub async fn list_follows(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let user = call.name("user")?;
    let owner = format!("follows {user}");
    let owner = Owner { tenant, name: &owner };
    let place = edges::place_of(&call, owner)?;
    let names = call.node.follows(tenant, user, place, call.list_limit()?).await?;
    let count = call.node.follow_count(tenant, user).await?;
    let next_cursor = edges::next_cursor(owner, &names);
    Ok(Reply::json(200, &Follows { follows: names.names, count, next_cursor }))
}

/// The followers of an actor, who need not be a user.
pub async fn list_followers(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let actor = call.name("user")?;
    let owner = format!("followers {actor}");
    let owner = Owner { tenant, name: &owner };
    let place = edges::place_of(&call, owner)?;
    let list = ListAsk::FollowersOf(actor.to_owned());
    let names = call.node.members(tenant, list.clone(), place, call.list_limit()?).await?;
    let count = call.node.member_count(tenant, list).await?;
    let next_cursor = edges::next_cursor(owner, &names);
    Ok(Reply::json(200, &Followers { followers: names.names, count, next_cursor }))
}

fn edge_of(call: &Call) -> Result<EdgeAsk, Problem> {
    let user = call.name("user")?.to_owned();
    let list = ListAsk::FollowersOf(call.name("actor")?.to_owned());
    Ok(EdgeAsk { user, list })
}

fn edges_of(request: FollowsBatch) -> Result<Vec<EdgeAsk>, Problem> {
    let root = Pointer::ROOT;
    let list = root.key("follows");
    let mut faults = Faults::default();
    if request.follows.is_empty() || request.follows.len() > BATCH_ITEMS_MAX {
        faults.add(list, format!("must have 1 to {BATCH_ITEMS_MAX} follows"));
    }
    for (index, follow) in request.follows.iter().enumerate().take(BATCH_ITEMS_MAX) {
        let at = list.index(index);
        faults.name(at.key("user"), &follow.user);
        faults.name(at.key("actor"), &follow.actor);
    }
    faults.into_result()?;
    let edge = |follow: fantail_wire::list::Follow| EdgeAsk {
        user: follow.user,
        list: ListAsk::FollowersOf(follow.actor),
    };
    Ok(request.follows.into_iter().map(edge).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_wire::list::Follow;

    #[test]
    fn an_actor_that_only_posts_can_be_followed_whatever_its_name() {
        let follow = |actor: &str| FollowsBatch {
            follows: vec![Follow { user: "bob".to_owned(), actor: actor.to_owned() }],
        };
        assert_eq!(edges_of(follow("Shop\u{200b} ")).map(|edges| edges.len()).ok(), Some(1));
        for never in ["", "a\nb"] {
            let problem = edges_of(follow(never)).expect_err("never a name");
            assert_eq!(problem.errors[0].pointer, "/follows/0/actor");
        }
    }
}
