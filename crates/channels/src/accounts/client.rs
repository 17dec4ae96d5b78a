//! What an account needs of the code that speaks its provider's protocol, beside sending.

use crate::probe::Hop;
use crate::receipt::Event;
use bytes::Bytes;
use fantail_ports::BoxFuture;
use fantail_ports::channel::Channel;
use fantail_rules::pacing::{Concurrency, Rate};

pub trait Client: Channel {
    /// Each hop of the way to the provider, tried without a message.
    fn probe(&self) -> BoxFuture<'_, Vec<Hop>>;

    /// How fast and how many at once, unless the account says otherwise.
    fn usual(&self) -> Usual;

    /// Whether this endpoint belongs to the account: a token belongs to one app and is dead to every other.
    fn serves(&self, _endpoint: &[u8]) -> bool {
        true
    }

    /// What apps have to know of its credentials, if anything.
    fn public_key(&self) -> Option<&str> {
        None
    }

    /// What the provider, or somebody in its name, tells us later. Refused unless it is proven that the provider says it.
    fn hear<'a>(&'a self, _call: &'a Incoming) -> BoxFuture<'a, Result<Heard, Deaf>> {
        Box::pin(async { Err(Deaf::NothingExpected) })
    }

    /// What was heard under this id is durable: a repeat of it says nothing.
    fn written(&self, _message_id: String) {}
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usual {
    pub rate: Rate,
    pub concurrency: Concurrency,
}

/// A request that came to our callback address.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// As the provider called it, since some sign it: scheme, host, path and query.
    pub url: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
}

impl Incoming {
    /// The first header of this name, given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What a callback said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Heard {
    pub events: Vec<Event>,
    /// What recipients wrote back, if that is what it was.
    pub wishes: Vec<Wish>,
    /// The provider's name for it, if it has one.
    pub message_id: Option<String>,
}

/// A recipient answered with a word that means something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The address that it came from.
    pub from: String,
    pub is_stop: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Deaf {
    #[error("this provider calls nobody back")]
    NothingExpected,
    #[error("the call is not signed by the provider")]
    NotProven,
    #[error("the call is malformed: {0}")]
    Malformed(String),
    /// Worth repeating.
    #[error("the call cannot be checked now: {0}")]
    NotNow(String),
}
