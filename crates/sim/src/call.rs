//! What the simulated clients ask of the node, and what they hear.
//!
//! Comes from: `workload`. Does: turns a call into requests on the node's public surface, nothing else.
//! Goes to: `oracle`, which hears of every call before it starts and of every answer as it comes.

use crate::executor::Executor;
use fantail_memory::clock::ManualClock;
use fantail_node::Node;
use fantail_node::ask::{
    Accepted, AudienceAsk, ChannelSet, Counts, DeviceAsk, EdgeAsk, EdgeChange, EventAsk, InboxAsk, InboxFrom,
    InboxPage, ListAsk, MarkAsk, MarkTarget, NotificationView, Priority, ProfileAsk, Refusal, Registered,
    SuppressionAsk, Upserted, UserAsk, UserView,
};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Platform;
use fantail_rules::ids::{Arrival, TenantId};
use fantail_rules::marks::{Mark, State};
use fantail_rules::suppression::Reason;
use fantail_rules::ulid::Ulid;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

/// A user of a tenant. The same numbers exist in every tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Who {
    pub tenant: TenantId,
    pub user: u16,
}

impl Who {
    #[must_use]
    pub fn name(self) -> String {
        user_name(self.user)
    }
}

#[must_use]
pub fn user_name(user: u16) -> String {
    format!("u{user}")
}

/// A device of a user, and a token that any of them may come to have.
pub type DeviceNo = u8;
pub type Token = u8;

#[must_use]
pub fn device_name(device: DeviceNo) -> String {
    format!("d{device}")
}

fn token_text(token: Token) -> String {
    format!("stub:{token}")
}

/// A list by its number; actors below `ACTORS_WITH_USER` are users too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum List {
    Actor(u16),
    Topic(u16),
}

pub const ACTORS_WITH_USER: u16 = 2;

#[must_use]
pub fn actor_name(actor: u16) -> String {
    if actor < ACTORS_WITH_USER { user_name(actor) } else { format!("star{actor}") }
}

impl List {
    #[must_use]
    pub fn ask(self) -> ListAsk {
        match self {
            Self::Actor(actor) => ListAsk::FollowersOf(actor_name(actor)),
            Self::Topic(topic) => ListAsk::Topic(format!("topic{topic}")),
        }
    }
}

/// Which request of the oracle's book.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PostId(pub usize);

/// Everything a post says. The same key with another body is another `Post`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    pub tenant: TenantId,
    pub key: u32,
    pub body: u8,
    pub actor: Option<u16>,
    pub audience: Audience,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    List(List),
    Users(Vec<u16>),
}

impl Post {
    /// Names its tenant, so that a leak shows.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        format!("{{\"tenant\":{},\"key\":{},\"body\":{}}}", self.tenant, self.key, self.body).into_bytes()
    }

    fn ask(&self) -> EventAsk {
        let mut body_hash = [0; 16];
        body_hash[0] = self.body;
        EventAsk {
            source: "sim".to_owned(),
            id: format!("k{}", self.key),
            kind: "post".to_owned(),
            actor: self.actor.map(actor_name),
            audience: match &self.audience {
                Audience::List(list) => match list.ask() {
                    ListAsk::FollowersOf(actor) => AudienceAsk::FollowersOf(actor),
                    ListAsk::Topic(topic) => AudienceAsk::Topic(topic),
                },
                Audience::Users(users) => {
                    AudienceAsk::Users(users.iter().map(|user| user_name(*user)).collect())
                }
            },
            category: "social".to_owned(),
            priority: Priority::Normal,
            channels: ChannelSet::EMPTY,
            ttl_ms: 86_400_000,
            content: self.content(),
            body_hash,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Call {
    PutUsers {
        tenant: TenantId,
        users: Vec<(u16, u64)>,
    },
    DeleteUser {
        who: Who,
    },
    /// An upsert and a deletion of one user at the same time.
    Duel {
        who: Who,
        attribute: u64,
        delete_first: bool,
    },
    Edit {
        tenant: TenantId,
        change: EdgeChange,
        edges: Vec<(u16, List)>,
    },
    Post {
        tenant: TenantId,
        posts: Vec<(PostId, Post)>,
    },
    Retract {
        tenant: TenantId,
        post: PostId,
        event: Ulid,
    },
    Mark {
        who: Who,
        mark: Mark,
        target: Target,
    },
    Register {
        who: Who,
        device: DeviceNo,
        token: Token,
    },
    Unregister {
        who: Who,
        device: DeviceNo,
    },
    /// Nothing may be sent to a token, or it may again.
    Suppress {
        tenant: TenantId,
        token: Token,
        on: bool,
    },
    ReadUser {
        who: Who,
    },
    /// The whole inbox and its counts, in one state.
    Audit {
        who: Who,
    },
    /// The whole inbox, page by page, while others go on.
    Walk {
        who: Who,
        limit: usize,
    },
    /// What arrived since the last poll.
    Poll {
        who: Who,
        from: Arrival,
        limit: usize,
    },
}

#[derive(Clone, Debug)]
pub enum Target {
    Some(Vec<(PostId, Ulid)>),
    All { through: Option<Arrival> },
}

#[derive(Debug)]
pub enum Answer {
    Users(Vec<Result<Upserted, Refusal>>),
    Deleted(Result<(), Refusal>),
    Duel { put: Result<Upserted, Refusal>, delete: Result<(), Refusal> },
    Edges(Vec<Result<bool, Refusal>>),
    Posted(Vec<Result<Accepted, Refusal>>),
    Retracted(Result<(), Refusal>),
    Marked(Result<Counts, Refusal>),
    Registered(Result<Registered, Refusal>),
    Unregistered(Result<(), Refusal>),
    Suppressed(Result<(), Refusal>),
    User(Result<UserView, Refusal>),
    Page(Result<InboxPage, Refusal>),
    Walked(Result<Vec<NotificationView>, Refusal>),
}

/// More than any simulated inbox holds.
pub const WHOLE: usize = 100_000;

pub async fn perform(node: Node, call: Call, tasks: Executor, clock: Arc<ManualClock>) -> Answer {
    match call {
        Call::PutUsers { tenant, users } => {
            let asks = users.iter().map(|(user, attribute)| user_ask(*user, *attribute)).collect();
            Answer::Users(node.put_users(tenant, asks).await)
        }
        Call::DeleteUser { who } => Answer::Deleted(node.delete_user(who.tenant, &who.name()).await),
        Call::Duel { who, attribute, delete_first } => duel(&node, who, attribute, delete_first).await,
        Call::Edit { tenant, change, edges } => {
            let ask = |(user, list): &(u16, List)| EdgeAsk { user: user_name(*user), list: list.ask() };
            Answer::Edges(node.edit_lists(tenant, change, edges.iter().map(ask).collect()).await)
        }
        Call::Post { tenant, posts } => {
            let asks = posts.iter().map(|(_, post)| post.ask()).collect();
            Answer::Posted(node.post_events(tenant, asks).await)
        }
        Call::Retract { tenant, event, .. } => Answer::Retracted(node.retract(tenant, event).await),
        Call::Mark { who, mark, target } => {
            let target = match target {
                Target::Some(posts) => {
                    MarkTarget::Events(posts.into_iter().map(|(_, event)| event).collect())
                }
                Target::All { through } => MarkTarget::All { through },
            };
            Answer::Marked(node.mark(who.tenant, MarkAsk { user: who.name(), mark, target }).await)
        }
        Call::Register { who, device, token } => {
            Answer::Registered(node.register_device(who.tenant, device_ask(who, device, token)).await)
        }
        Call::Unregister { who, device } => {
            let (user, device) = (who.name(), device_name(device));
            Answer::Unregistered(node.unregister_device(who.tenant, &user, &device).await)
        }
        Call::Suppress { tenant, token, on } => {
            let ask = SuppressionAsk { kind: ChannelKind::Push, identity: token_text(token) };
            Answer::Suppressed(match on {
                true => node.suppress(tenant, &ask, Reason::Manual).await,
                false => node.unsuppress(tenant, &ask).await,
            })
        }
        Call::ReadUser { who } => Answer::User(node.user(who.tenant, &who.name()).await),
        Call::Audit { who } => Answer::Page(page(&node, who, InboxFrom::Newest, WHOLE).await),
        Call::Poll { who, from, limit } => {
            Answer::Page(page(&node, who, InboxFrom::Since(from), limit).await)
        }
        Call::Walk { who, limit } => Answer::Walked(walk(&node, who, limit, &tasks, &clock).await),
    }
}

fn device_ask(who: Who, device: DeviceNo, token: Token) -> DeviceAsk {
    DeviceAsk {
        user: who.name(),
        device: device_name(device),
        kind: ChannelKind::Push,
        platform: Platform::Ios,
        address: token_text(token).into_bytes(),
        identity: token_text(token),
        meta: Vec::new(),
    }
}

fn user_ask(user: u16, attribute: u64) -> UserAsk {
    UserAsk { user: user_name(user), attributes: attributes(attribute), profile: ProfileAsk::default() }
}

#[must_use]
pub fn attributes(attribute: u64) -> Vec<u8> {
    format!("{{\"a\":{attribute}}}").into_bytes()
}

pub async fn page(node: &Node, who: Who, from: InboxFrom, limit: usize) -> Result<InboxPage, Refusal> {
    node.inbox(who.tenant, InboxAsk { user: who.name(), limit, from, state: State::All }).await
}

async fn walk(
    node: &Node,
    who: Who,
    limit: usize,
    tasks: &Executor,
    clock: &ManualClock,
) -> Result<Vec<NotificationView>, Refusal> {
    let (mut seen, mut from) = (Vec::new(), InboxFrom::Newest);
    loop {
        let page = page(node, who, from, limit).await?;
        seen.extend(page.notifications);
        match page.next {
            Some(next) => from = next,
            None => return Ok(seen),
        }
        tasks.sleep_until(clock.monotonic().plus(1)).await;
    }
}

async fn duel(node: &Node, who: Who, attribute: u64, delete_first: bool) -> Answer {
    let name = who.name();
    let mut put = Box::pin(node.put_users(who.tenant, vec![user_ask(who.user, attribute)]));
    let mut delete = Box::pin(node.delete_user(who.tenant, &name));
    let (mut put_answer, mut delete_answer) = (None, None);
    poll_fn(|context| {
        for turn in [delete_first, !delete_first] {
            if turn
                && delete_answer.is_none()
                && let Poll::Ready(answer) = delete.as_mut().poll(context)
            {
                delete_answer = Some(answer);
            }
            if !turn
                && put_answer.is_none()
                && let Poll::Ready(answer) = put.as_mut().poll(context)
            {
                put_answer = Some(answer);
            }
        }
        match (put_answer.take(), delete_answer.take()) {
            (Some(mut put), Some(delete)) => {
                let put = put.pop().unwrap_or(Err(Refusal::UnknownTenant));
                Poll::Ready(Answer::Duel { put, delete })
            }
            (put, delete) => {
                (put_answer, delete_answer) = (put, delete);
                Poll::Pending
            }
        }
    })
    .await
}
