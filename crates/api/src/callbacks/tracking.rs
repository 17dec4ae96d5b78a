//! Opened mails and followed links.
//!
//! ```text
//! GET /t/o/{picture}                    the picture of one delivery, `{reference}.gif`
//! GET /t/c/{reference}/{url}/{seal}     where a link of one delivery leads
//! ```
//! Comes from: mail programs and readers, and scanners that look at every link: neither proves that anybody read anything. Goes
//! to: `Node::receive`. The picture is always given, and a sealed link always leads on, whatever became of the receipt.

use super::Arrival;
use crate::problem::Problem;
use crate::reply::Reply;
use axum::http::{HeaderValue, header};
use fantail_node::ask::{Outcome, ReceiptAsk, Refusal};
use fantail_rules::actor::Actor;
use fantail_rules::tracked_link;
use fantail_wire::code::Code;
use tracing::debug;

/// One transparent point.
const PICTURE: &[u8] = &[
    0x47, 0x49, 0x46, 0x38, 0x39, 0x61, 1, 0, 1, 0, 0x80, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x21, 0xf9, 4, 1,
    0, 0, 0, 0, 0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 1, 0x44, 0, 0x3b,
];
const GIF: &str = "image/gif";
const TEXT: &str = "text/plain; charset=utf-8";

pub async fn picture(arrival: Arrival) -> Result<Reply, Problem> {
    if let Some(reference) = arrival.param("picture").strip_suffix(".gif") {
        note(&arrival, reference, Outcome::Opened).await;
    }
    Ok(never_kept(Reply::bytes(200, GIF, PICTURE)))
}

pub async fn follow(arrival: Arrival) -> Result<Reply, Problem> {
    let reference = arrival.param("reference").to_owned();
    let wrong = || Problem::new(Code::CallbackRefused, "this link was not made here");
    let tenant = arrival.node.tenant_of_reference(&reference).map_err(|_| wrong())?;
    let key = arrival.node.link_key(tenant)?;
    let url = tracked_link::target(&reference, arrival.param("url"), arrival.param("seal"), &key);
    let url = url.ok_or_else(wrong)?;
    let location = HeaderValue::from_str(&tracked_link::location(&url)).map_err(|_| wrong())?;
    note(&arrival, &reference, Outcome::Clicked).await;
    let reply = Reply::bytes(302, TEXT, "").with_header(header::LOCATION, location);
    Ok(never_kept(reply))
}

async fn note(arrival: &Arrival, reference: &str, outcome: Outcome) {
    let Ok(tenant) = arrival.node.tenant_of_reference(reference) else { return };
    let reference = reference.to_owned();
    let ask = ReceiptAsk { reference, channel: None, outcome, at: None, code: String::new() };
    let node = arrival.node.acting_as(Actor::Recipient);
    for result in node.receive(tenant, &[ask]).await {
        match result {
            Ok(_) | Err(Refusal::UnknownDelivery) => {}
            Err(refusal) => debug!(%refusal, "an opened mail was not written down"),
        }
    }
}

/// Each reader is told of, and no link shows up in somebody else's log.
fn never_kept(reply: Reply) -> Reply {
    reply
        .with_header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
        .with_header(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
}
