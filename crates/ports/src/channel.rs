//! A way out of the house: one provider of push, email, SMS or webhooks, or the stub that stands for all of them.
//!
//! What must never happen: a first byte after the deadline; an answer `NotSent` without proof that the provider cannot
//! have taken the message; a message that gets two answers.

use crate::BoxFuture;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::pacing::Signal;
use fantail_rules::priority::Priority;
use std::sync::Arc;

pub trait Channel: Send + Sync {
    /// Sends the messages of one parcel, each at most once, and reports each answer as soon as it is known: exactly one
    /// per message, in any order. Returns when all have been reported. Never retries on its own: what came of an attempt
    /// is a fact that the caller writes down before anything else is tried.
    ///
    /// An endpoint that the channel cannot read is `Rejected` as `Malformed`. Dropping the future calls off what has not
    /// been started; of messages without a report nothing is known then.
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()>;

    /// Whether it sends to many hosts and paces each for itself. One that rests or fails then says nothing about the
    /// channel as a whole.
    fn paces_hosts(&self) -> bool {
        false
    }

    /// The same for what goes to one endpoint, where a channel has several ways out.
    fn paces(&self, _endpoint: &[u8]) -> bool {
        self.paces_hosts()
    }

    /// How many messages of a tenant may be under way here, counted from their planning on, so that none waits long for
    /// room at a limit of the tenant's own. More may be given: they are answered [`Proof::NoRoom`].
    fn places(&self, _tenant: TenantId) -> u32 {
        u32::MAX
    }
}

/// Called with the index of a message in its shipment. May borrow what the caller keeps.
pub type Report<'a> = dyn Fn(usize, Answer) + Send + Sync + 'a;

/// Messages that share everything but the recipient.
#[derive(Clone, Debug)]
pub struct Shipment {
    pub tenant: TenantId,
    /// The rendered content that all messages share: a JSON object as the templates of this channel give it.
    pub content: Arc<[u8]>,
    pub lane: Priority,
    /// Wall time after which no provider may deliver it.
    pub expires_at: Millis,
    /// The same for every attempt, so that a provider or device can replace an earlier copy.
    pub collapse_key: Option<String>,
    /// On [`Clock::monotonic`](crate::clock::Clock::monotonic): a message whose first byte was not written by then is
    /// answered `NotSent`.
    pub deadline: Millis,
    /// Where providers and recipients find us, if they can.
    pub callbacks: Option<Arc<Callbacks>>,
    pub messages: Vec<Message>,
}

/// Addresses of ours that a message may carry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Callbacks {
    /// `https://notify.example.com`, without a slash at the end.
    pub base_url: String,
    /// Signs the links that a message carries, so that nobody can have us lead anywhere else.
    pub key: [u8; 16],
}

#[derive(Clone, Debug)]
pub struct Message {
    /// Names the delivery, the same for every attempt: idempotency keys and message ids derive from it.
    pub reference: String,
    /// Where it goes: a token, an address, a URL with its secret; what it looks like is the channel's business.
    pub endpoint: Vec<u8>,
    /// Content of this recipient alone, instead of the shared one.
    pub content: Option<Arc<[u8]>>,
    /// 1 for the first attempt.
    pub attempt: u8,
    /// Equal for everything that one user gets: whoever has several ways for a channel keeps each user on one of them.
    pub recipient: u64,
    /// Where this recipient says no to more of this kind. Mail carries it in its headers.
    pub unsubscribe: Option<String>,
}

/// What came of one attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The provider has it.
    Accepted { provider_id: Option<String> },
    /// The provider will never take this message.
    Rejected { refusal: Refusal, code: String, message: String },
    /// The provider did not take it and says so; later it may.
    Later { after_ms: Option<u64>, scope: Scope, code: String, message: String },
    /// Proof that the provider cannot have taken it.
    NotSent { proof: Proof, message: String },
    /// It may or may not have been taken.
    Unknown { code: String, message: String },
}

/// Why a message was refused for good, and so what follows for its endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// This message: too large, expired, not allowed. The endpoint stays.
    Message,
    /// The payload is malformed: no attempt will ever do better, and others of its kind will fail as well.
    Malformed,
    /// The endpoint is dead: a token that was unregistered, a mailbox that does not exist.
    DeadEndpoint,
    /// The recipient wants nothing more: a complaint, a STOP.
    Unwanted,
}

/// What should wait when a provider says "later".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// This message alone; the provider may not work for others either.
    Message,
    /// This endpoint alone: the provider works, and says something about the recipient.
    Endpoint,
    /// Everything that goes to the same host, project or sender.
    Origin,
    /// Everything sent with the same credential.
    Credential,
}

/// Why a message certainly was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// No connection was made: name resolution, connect or TLS failed.
    NoConnection,
    /// The connection gave the request back unsent, or the peer said that it was not processed.
    Unprocessed,
    /// The deadline passed before the first byte.
    Deadline,
    /// The target may not be connected to.
    Forbidden,
    /// Its host wants a rest or does not answer, and is left alone for so long.
    Resting { after_ms: u64 },
    /// A limit of ours is in use: there is room for it after so long.
    NoRoom { after_ms: u64 },
}

impl Answer {
    /// The provider certainly does not have it, and another one may take it.
    #[must_use]
    pub fn was_not_taken(&self) -> bool {
        match self {
            Self::Later { .. } => true,
            Self::NotSent { proof, .. } => match proof {
                Proof::NoConnection | Proof::Unprocessed | Proof::Resting { .. } | Proof::NoRoom { .. } => {
                    true
                }
                // Late is late everywhere, and a forbidden target stays one.
                Proof::Deadline | Proof::Forbidden => false,
            },
            Self::Accepted { .. } | Self::Rejected { .. } | Self::Unknown { .. } => false,
        }
    }

    /// What it says about whoever gave it.
    #[must_use]
    pub fn signal(&self) -> Signal {
        match self {
            Self::Accepted { .. } | Self::Rejected { .. } | Self::Later { scope: Scope::Endpoint, .. } => {
                Signal::Works
            }
            Self::Later { scope: Scope::Message, .. } => Signal::Fails,
            Self::Later { scope: Scope::Origin | Scope::Credential, after_ms, .. } => {
                Signal::Rest { after_ms: *after_ms }
            }
            Self::NotSent { proof: Proof::NoConnection | Proof::Unprocessed, .. } => Signal::Fails,
            Self::NotSent {
                proof: Proof::Deadline | Proof::Forbidden | Proof::Resting { .. } | Proof::NoRoom { .. },
                ..
            } => Signal::Nothing,
            Self::Unknown { .. } => Signal::Fails,
        }
    }
}
