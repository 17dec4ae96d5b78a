//! One request as a handler sees it: already routed, authenticated and read.

use crate::app::App;
use crate::auth::Caller;
use crate::bodies::BodyClaim;
use crate::body;
use crate::check;
use crate::problem::Problem;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName};
use fantail_node::Node;
use fantail_node::ask::Refusal;
use fantail_node::named::Named;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::LIST_PAGE_MAX;
use fantail_rules::trace;
use fantail_rules::ulid::Ulid;
use fantail_wire::code::Code;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, PoisonError};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

pub struct Call {
    pub app: Arc<App>,
    pub node: Node,
    pub request_id: String,
    pub caller: Caller,
    pub headers: HeaderMap,
    pub params: Vec<(String, String)>,
    pub query: Query,
    pub body: Bytes,
    /// For the body, as long as anything of the request is under way; `None` if it has none.
    pub held: Option<BodyClaim>,
    /// Whether the server itself asks, for a run of a schedule.
    pub is_run: bool,
    /// For routes that read it themselves.
    pub stream: Mutex<Option<Body>>,
}

impl Call {
    /// Charges what is asked for to the tenant and the key.
    pub fn spend(&self, tenant: TenantId, cost: usize) -> Result<(), Problem> {
        let key = match &self.caller {
            Caller::Server => None,
            Caller::Key(key) => Some(&**key),
        };
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        self.node.spend(tenant, key, cost).inspect_err(|refusal| {
            if matches!(refusal, Refusal::TooFast { .. }) {
                self.app.telemetry.producer_limited(tenant);
            }
        })?;
        Ok(())
    }

    /// Charges users, edges or lines of an upload to the tenant and the key.
    pub fn spend_import(&self, tenant: TenantId, items: usize) -> Result<(), Refusal> {
        let key = match &self.caller {
            Caller::Server => None,
            Caller::Key(key) => Some(&**key),
        };
        self.node.spend_import(tenant, key, items).inspect_err(|refusal| {
            if matches!(refusal, Refusal::TooFast { .. }) {
                self.app.telemetry.producer_limited(tenant);
            }
        })
    }

    /// The caller's span, if the request names one.
    pub fn origin(&self) -> Option<trace::Place> {
        let mut given = self.headers.get_all(TRACEPARENT).iter();
        // Given twice means nothing.
        match (given.next(), given.next()) {
            (Some(one), None) => trace::origin(one.to_str().ok()?),
            (None, _) | (Some(_), Some(_)) => None,
        }
    }

    /// A path parameter as it stands there. Routes only ask for the parameters of their own path.
    pub fn param(&self, name: &str) -> &str {
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).expect("the route's path has this parameter")
    }

    /// A path parameter that is a tenant's name for something.
    pub fn name(&self, name: &str) -> Result<&str, Problem> {
        let value = self.param(name);
        match check::name_fault(value) {
            None => Ok(value),
            Some(fault) => Err(Problem::field(format!("/{name}"), fault)),
        }
    }

    /// A path parameter that names something which this creates, unless it exists.
    pub fn new_name<'a>(
        &'a self,
        tenant: TenantId,
        name: &str,
        kind: fn(&'a str) -> Named<'a>,
    ) -> Result<&'a str, Problem> {
        let value = self.param(name);
        match check::new_name_fault(value, || self.is_taken(tenant, kind(value))) {
            None => Ok(value),
            Some(fault) => Err(Problem::field(format!("/{name}"), fault)),
        }
    }

    /// Whether a name is no new one. The names that the server gives to runs follow from those of their schedules.
    pub fn is_taken(&self, tenant: TenantId, named: Named<'_>) -> bool {
        // A lookup that fails is no fault of the name: what follows meets the same failure, and answers with it.
        self.is_run || self.node.is_taken(tenant, named).unwrap_or(true)
    }

    /// A path parameter that is an id of ours; `None` if it cannot be one.
    pub fn ulid(&self, name: &str) -> Option<Ulid> {
        Ulid::parse(self.param(name))
    }

    /// The body as it arrives. Only for routes that take lines, and once.
    pub fn stream(&self) -> Result<Body, Problem> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        stream.ok_or_else(|| Problem::new(Code::Internal, "the body was read already"))
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        body::require_json(&self.headers)?;
        body::parse(&self.body)
    }

    /// As `json`, but no body at all means the default.
    pub fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.body.is_empty() { Ok(T::default()) } else { self.json() }
    }

    /// `limit` of a page of names.
    pub fn list_limit(&self) -> Result<usize, Problem> {
        self.query.limit(100, LIST_PAGE_MAX)
    }
}

/// The parameters after `?`, decoded.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Refuses parameters that the route does not know, and repeated ones.
    pub fn read(text: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if !known.contains(&name.as_str()) {
                return Err(Problem::field(format!("/{name}"), "unknown query parameter"));
            }
            if pairs.iter().any(|(seen, _)| *seen == name) {
                return Err(Problem::field(format!("/{name}"), "given twice"));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn limit(&self, default: usize, max: usize) -> Result<usize, Problem> {
        let Some(text) = self.get("limit") else { return Ok(default) };
        match text.parse() {
            Ok(limit) if (1..=max).contains(&limit) => Ok(limit),
            Ok(_) | Err(_) => Err(Problem::field("/limit", format!("must be a number from 1 to {max}"))),
        }
    }
}

fn decode(text: &str) -> Result<String, Problem> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| Problem::field("/query", "not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_and_strict() {
        let known = ["limit", "cursor"];
        let query = Query::read(Some("limit=7&cursor=a%2Bb"), &known).expect("known parameters");
        assert_eq!(query.get("cursor"), Some("a+b"));
        assert_eq!(query.limit(50, 100).ok(), Some(7));
        assert_eq!(Query::read(None, &known).expect("none").limit(50, 100).ok(), Some(50));
        for bad in ["limt=7", "limit=1&limit=2", "cursor=%FF"] {
            assert!(Query::read(Some(bad), &known).is_err(), "{bad}");
        }
        for bad in ["limit=0", "limit=101", "limit=-1", "limit=x", "limit="] {
            assert!(Query::read(Some(bad), &known).expect("known").limit(50, 100).is_err(), "{bad}");
        }
    }
}
