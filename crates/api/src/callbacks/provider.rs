//! Callbacks of providers: what became of deliveries, and what recipients answered.
//!
//! ```text
//! POST /callbacks/{tenant}/{provider}             events of an account, reports of mail servers, answers of recipients
//! POST /callbacks/twilio/{provider}/{reference}   what became of one delivery; the reference says whose it is
//! ```
//! Comes from: the provider. Decides: by the account's own code whether the provider says it. Goes to: `Node::receive`, and the
//! suppressions. Said twice it changes nothing; a reference that is not ours is passed over, so that nobody repeats it for days.

use super::{Arrival, BYTES_MAX};
use crate::bodies::BodyHolder;
use crate::body::{self, UnreadBody};
use crate::problem::Problem;
use crate::reply::Reply;
use axum::http::HeaderMap;
use fantail_channels::accounts::client::{Deaf, Heard, Incoming, Wish};
use fantail_channels::receipt::{self, Event};
use fantail_node::ask::{Outcome, ReceiptAsk, Refusal, SuppressionAsk};
use fantail_rules::address;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::RECEIPT_CODE_BYTES_MAX;
use fantail_rules::suppression::Reason;
use fantail_wire::code::Code;
use tracing::{debug, info};

/// What Twilio takes for "nothing to say".
const NOTHING_TO_SAY: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Response></Response>";
const XML: &str = "text/xml";
const FORM: &str = "application/x-www-form-urlencoded";
const TEXT: &str = "text/plain; charset=utf-8";

pub async fn take(arrival: Arrival, unread: UnreadBody) -> Result<Reply, Problem> {
    let tenant = arrival.node.tenant_by_slug(arrival.param("tenant"));
    let tenant = tenant.ok_or_else(|| unknown(arrival.param("provider")))?;
    hear(&arrival, tenant.id, unread).await
}

pub async fn take_status(arrival: Arrival, unread: UnreadBody) -> Result<Reply, Problem> {
    let tenant = arrival.node.tenant_of_reference(arrival.param("reference"))?;
    hear(&arrival, tenant, unread).await
}

/// Reads the body only of a call to an account that there is.
async fn hear(arrival: &Arrival, tenant: TenantId, unread: UnreadBody) -> Result<Reply, Problem> {
    let id = arrival.param("provider");
    if !arrival.app.accounts()?.knows(tenant, id) {
        return Err(unknown(id));
    }
    let body = unread.read(BodyHolder::NoKey, BYTES_MAX).await?;
    let call = Incoming {
        url: format!("{}{}", arrival.app.public_url(), arrival.path_and_query),
        headers: headers_of(&arrival.headers),
        body: body.bytes.clone(),
    };
    let heard = match arrival.app.accounts()?.hear(tenant, id, &call).await {
        None | Some(Err(Deaf::NothingExpected)) => return Err(unknown(id)),
        Some(Err(deaf @ Deaf::NotProven)) => {
            info!(provider = id, %tenant, "a callback is not proven");
            return Err(Problem::new(Code::CallbackRefused, deaf.to_string()));
        }
        Some(Err(deaf @ Deaf::Malformed(_))) => return Err(Problem::field("", deaf.to_string())),
        Some(Err(deaf @ Deaf::NotNow(_))) => {
            return Err(Problem::new(Code::NotReady, deaf.to_string()).retry_after_s(60));
        }
        Some(Ok(heard)) => heard,
    };
    let message_id = heard.message_id.clone();
    write_down(arrival, tenant, heard).await?;
    if let Some(message_id) = message_id {
        arrival.app.accounts()?.written(tenant, id, message_id);
    }
    Ok(thanks(body::media_type(&arrival.headers).as_deref()))
}

/// Twilio alone posts forms, and takes the answer for what it is to say. All others read nothing but the status.
fn thanks(media_type: Option<&str>) -> Reply {
    match media_type {
        Some(FORM) => Reply::bytes(200, XML, NOTHING_TO_SAY),
        Some(_) | None => Reply::bytes(200, TEXT, ""),
    }
}

async fn write_down(arrival: &Arrival, tenant: TenantId, heard: Heard) -> Result<(), Problem> {
    let asks: Vec<ReceiptAsk> = heard.events.into_iter().filter_map(ask_of).collect();
    for result in arrival.node.receive(tenant, &asks).await {
        match result {
            Ok(_) => {}
            Err(Refusal::UnknownDelivery) => debug!(%tenant, "a callback about no delivery of ours"),
            Err(refusal) => return Err(refusal.into()),
        }
    }
    for wish in heard.wishes {
        grant(arrival, tenant, &wish).await?;
    }
    Ok(())
}

/// What is only on its way changes nothing.
fn ask_of(event: Event) -> Option<ReceiptAsk> {
    let outcome = match event.outcome {
        receipt::Outcome::Delivered => Outcome::Delivered,
        receipt::Outcome::Opened => Outcome::Opened,
        receipt::Outcome::Clicked => Outcome::Clicked,
        receipt::Outcome::Complained => Outcome::Complained,
        receipt::Outcome::Bounced { hard: true } => Outcome::Bounced,
        receipt::Outcome::Bounced { hard: false } | receipt::Outcome::Failed => Outcome::Failed,
        receipt::Outcome::Delayed => return None,
    };
    let code = event.code.bytes().filter(u8::is_ascii_graphic).map(char::from);
    let code = code.take(RECEIPT_CODE_BYTES_MAX).collect();
    Some(ReceiptAsk { reference: event.reference, outcome, at: event.at, code })
}

/// STOP and START of a recipient.
async fn grant(arrival: &Arrival, tenant: TenantId, wish: &Wish) -> Result<(), Problem> {
    let Ok(from) = address::read(ChannelKind::Sms, &wish.from) else { return Ok(()) };
    let ask = SuppressionAsk { kind: ChannelKind::Sms, identity: from.identity };
    let done = match wish.is_stop {
        true => arrival.node.suppress(tenant, &ask, Reason::Stop).await.map(drop),
        false => arrival.node.unsuppress(tenant, &ask).await,
    };
    match done {
        Ok(()) | Err(Refusal::NotSuppressed) => Ok(()),
        Err(refusal) => Err(refusal.into()),
    }
}

fn headers_of(headers: &HeaderMap) -> Vec<(String, String)> {
    let readable = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    readable.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn unknown(provider: &str) -> Problem {
    Refusal::UnknownProvider { provider: provider.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // fixes: interop small
    #[test]
    fn only_a_form_is_answered_with_what_twilio_reads() {
        for (media_type, is_xml) in [
            (Some("application/x-www-form-urlencoded"), true),
            (Some("message/rfc822"), false),
            (Some("text/plain"), false),
            (None, false),
        ] {
            let reply = thanks(media_type);
            assert_eq!(
                (reply.status.as_u16(), reply.body.starts_with(b"<?xml")),
                (200, is_xml),
                "{media_type:?}"
            );
        }
    }

    // proves: TRK-03
    #[test]
    fn events_become_receipts_but_for_what_is_on_its_way() {
        let check = |outcome, expected: Option<Outcome>| {
            let event = Event { reference: "r".into(), outcome, code: "5.1.1 böse\r\n".into(), at: None };
            let ask = ask_of(event);
            assert_eq!(ask.as_ref().map(|ask| ask.outcome), expected);
            assert!(ask.is_none_or(|ask| ask.code == "5.1.1bse"), "codes are plain");
        };
        check(receipt::Outcome::Delivered, Some(Outcome::Delivered));
        check(receipt::Outcome::Opened, Some(Outcome::Opened));
        check(receipt::Outcome::Clicked, Some(Outcome::Clicked));
        check(receipt::Outcome::Complained, Some(Outcome::Complained));
        check(receipt::Outcome::Bounced { hard: true }, Some(Outcome::Bounced));
        check(receipt::Outcome::Bounced { hard: false }, Some(Outcome::Failed));
        check(receipt::Outcome::Failed, Some(Outcome::Failed));
        check(receipt::Outcome::Delayed, None);
    }
}
