//! What comes back from outside without a key of ours: callbacks of providers, opened mails, followed links.
//!
//! Comes from: providers, mail programs and readers. Decides: nothing by itself; each proves itself by a signature of the
//! provider or a seal of ours. Goes to: `Node::receive`, as receipts.
//!
//! What must never happen: an effect of a call that nobody signed, or a redirect to where no mail of ours led.

pub mod provider;
pub mod tracking;

use crate::access::Requester;
use crate::app::App;
use crate::listener_kinds::ListenerKinds;
use axum::http::HeaderMap;
use fantail_node::Node;
use std::sync::Arc;

/// Reports of mail servers carry the mail itself.
pub const BYTES_MAX: usize = 1 << 20;

/// A request from outside. Its body is read by whoever knows that somebody expects it.
pub struct Arrival {
    pub app: Arc<App>,
    pub node: Node,
    /// Of the path.
    pub params: Vec<(String, String)>,
    pub path_and_query: String,
    pub headers: HeaderMap,
    /// Whether it came from this machine.
    pub is_local: bool,
    pub listener: ListenerKinds,
    pub requester: Requester,
}

impl Arrival {
    /// Of a parameter that the route has.
    fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Of the query, as it was sent.
    fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.path_and_query.split_once('?')?;
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}
