//! What the simulated clients ask of the node, and what they hear.
//!
//! Comes from: `workload`. Goes to: `perform`, and to `oracle`, which hears of every call before it starts and of every
//! answer as it comes.

use crate::note::NoteNo;
use crate::template;
use fantail_node::ask::{
    Accepted, AudienceAsk, Called, ChannelSet, Counts, EdgeChange, EventAsk, InboxPage, ListAsk,
    NotificationView, OptionsAsk, Outcome, Priority, Refusal, Registered, Upserted, UserView,
};
use fantail_node::bulk::Steer;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Arrival, Millis, TenantId};
use fantail_rules::marks::Mark;
use fantail_rules::nameless;
use fantail_rules::ulid::Ulid;

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

#[must_use]
pub fn token_text(token: Token) -> String {
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
    /// By which channels it leaves the house, and how urgent it is.
    pub channels: ChannelSet,
    pub priority: Priority,
    pub later: Later,
    /// Says what `template` makes of it, to each reader in its own language.
    pub by_template: bool,
}

/// When it is to be sent, and how it can be called off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Later {
    pub due: Option<Millis>,
    pub cancellation: Option<CancellationNo>,
}

/// A cancellation key, of few.
pub type CancellationNo = u8;

#[must_use]
pub fn cancellation_name(key: CancellationNo) -> String {
    format!("c{key}")
}

impl Later {
    #[must_use]
    pub fn options(self) -> OptionsAsk {
        let cancellation_key = self.cancellation.map(cancellation_name);
        OptionsAsk { due: self.due, cancellation_key, ..OptionsAsk::default() }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    List(List),
    Users(Vec<u16>),
    /// Addresses that are nobody's, each once, by the one channel of the post.
    Strangers(Vec<Stranger>),
    /// Everybody there is, found by a walk.
    Everyone,
}

/// The segment that chooses everybody.
pub const EVERYONE: &str = "all";

impl Post {
    /// Whether it is a bulk send, and no event.
    #[must_use]
    pub fn is_bulk(&self) -> bool {
        self.audience == Audience::Everyone && self.key.is_multiple_of(2)
    }

    /// Names its tenant, so that a leak shows.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        if self.by_template {
            return template::content(self);
        }
        format!("{{\"tenant\":{},\"key\":{},\"body\":{}}}", self.tenant, self.key, self.body).into_bytes()
    }

    #[must_use]
    pub fn ask(&self) -> EventAsk {
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
                // Nobody by this name; they are asked for by `strangers`.
                Audience::Strangers(_) => AudienceAsk::Users(Vec::new()),
                Audience::Everyone => AudienceAsk::Segment(EVERYONE.to_owned()),
            },
            // Some are collected and told together.
            category: if self.key.is_multiple_of(3) && !self.by_template { "like" } else { "social" }
                .to_owned(),
            priority: self.priority,
            channels: self.channels,
            ttl_ms: 86_400_000,
            options: self.later.options(),
            content: self.content(),
            body_hash,
        }
    }
}

/// An address that no user of ours has. The same exist in every tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stranger {
    pub tenant: TenantId,
    pub kind: ChannelKind,
    pub no: u8,
}

impl Stranger {
    /// Names its tenant, so that a leak shows.
    #[must_use]
    pub fn text(self) -> String {
        format!("nobody:{}:{}:{}", self.tenant, self.kind.name(), self.no)
    }

    /// The name of the user that is made of it.
    #[must_use]
    pub fn name(self) -> String {
        nameless::name(self.kind, &self.text())
    }

    #[must_use]
    pub fn is_at(endpoint: &[u8]) -> bool {
        endpoint.starts_with(b"nobody:")
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
        /// From everything that is kept, too.
        erases: bool,
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
    Cancel {
        tenant: TenantId,
        post: PostId,
        event: Ulid,
    },
    /// A walk is paused, goes on, or has another pace.
    Steer {
        tenant: TenantId,
        event: Ulid,
        steer: Steer,
    },
    /// Whoever is behind an address is deleted.
    Forget {
        stranger: Stranger,
    },
    /// Everything under a key is called off.
    CancelKey {
        tenant: TenantId,
        key: CancellationNo,
    },
    /// Somebody says what became of a message that was taken in.
    Receipt {
        tenant: TenantId,
        reference: String,
        outcome: Outcome,
        /// It is about a message of this tenant.
        is_own: bool,
        /// Whose endpoint it was, if that is known.
        owner: Option<(Who, ChannelKind)>,
    },
    /// A device of a user says where it can be reached.
    Enrol {
        who: Who,
        address: Address,
    },
    Mark {
        who: Who,
        mark: Mark,
        target: Target,
    },
    /// A user agrees to push, or does not any more.
    Consent {
        who: Who,
        is_granted: bool,
    },
    /// A user wants at most so many pushes in an hour.
    Limit {
        who: Who,
        per_hour: u16,
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
    /// Something that changes no table enters the audit log of a tenant, or of the server.
    Note {
        tenant: TenantId,
        note: NoteNo,
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

/// An endpoint of a user: one device per channel, whose address may change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Address {
    pub kind: ChannelKind,
    pub generation: u32,
}

impl Address {
    /// Names its owner, so that a leak shows.
    #[must_use]
    pub fn text(self, who: Who) -> String {
        format!("{} {} {} {}", who.tenant, who.user, self.kind.name(), self.generation)
    }

    /// The owner that an endpoint names.
    #[must_use]
    pub fn owner(endpoint: &[u8]) -> Option<Who> {
        let mut words = std::str::from_utf8(endpoint).ok()?.split(' ');
        let tenant = TenantId(words.next()?.parse().ok()?);
        Some(Who { tenant, user: words.next()?.parse().ok()? })
    }
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
    Duel {
        put: Result<Upserted, Refusal>,
        delete: Result<(), Refusal>,
    },
    Edges(Vec<Result<bool, Refusal>>),
    Posted(Vec<Result<Accepted, Refusal>>),
    /// Whether every shard has taken it.
    Retracted(Result<bool, Refusal>),
    Cancelled(Result<Called, Refusal>),
    Steered(Result<(), Refusal>),
    CalledOff(Result<Called, Refusal>),
    Receipt(Result<bool, Refusal>),
    Enrolled(Result<(), Refusal>),
    Consented(Result<u32, Refusal>),
    Noted(Result<(), Refusal>),
    Marked(Result<Counts, Refusal>),
    Registered(Result<Registered, Refusal>),
    Unregistered(Result<(), Refusal>),
    /// Whether its owner has heard of it.
    Suppressed(Result<bool, Refusal>),
    User(Result<UserView, Refusal>),
    Page(Result<InboxPage, Refusal>),
    Walked(Result<Vec<NotificationView>, Refusal>),
}

#[must_use]
pub fn attributes(attribute: u64) -> Vec<u8> {
    format!("{{\"a\":{attribute}}}").into_bytes()
}
