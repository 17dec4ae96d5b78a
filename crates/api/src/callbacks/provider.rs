//! Callbacks of providers: what became of deliveries, and what recipients answered.
//!
//! ```text
//! POST /callbacks/{tenant}/{provider}             events of an account, reports of mail servers, answers of recipients
//! POST /callbacks/twilio/{provider}/{reference}   what became of one delivery; the reference says whose it is
//! ```
//! Comes from: the provider. Decides: by the account's own code, by the secret in the address or by a key whether the provider says
//! it. Goes to: `Node::receive`, and the suppressions. A repeated call changes nothing. A reference that is not ours is
//! accepted and ignored, because providers repeat refused calls for days.
//!
//! What must never happen: an answer that shows a caller without proof which tenants and accounts exist; a change of a delivery on
//! a channel that the account does not serve.

use super::{Arrival, BYTES_MAX};
use crate::access::AccessFault;
use crate::auth;
use crate::bodies::BodyHolder;
use crate::body::{self, UnreadBody};
use crate::problem::Problem;
use crate::reply::Reply;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::http::HeaderMap;
use fantail_channels::accounts::client::{Deaf, Heard, Incoming, Wish};
use fantail_channels::accounts::open::check_in_vain;
use fantail_channels::accounts::{CallbackProof, CalledAccount};
use fantail_channels::receipt::{self, Event};
use fantail_channels::twilio::signature;
use fantail_node::Node;
use fantail_node::ask::{Outcome, ReceiptAsk, Refusal, SuppressionAsk};
use fantail_node::callback_secrets::CallbackSecret;
use fantail_rules::actor::Actor;
use fantail_rules::address;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::RECEIPT_CODE_BYTES_MAX;
use fantail_rules::suppression::Reason;
use fantail_wire::code::Code;
use fantail_wire::tenant::Scope;
use tracing::{debug, info, warn};

/// What Twilio takes for "nothing to say".
const NOTHING_TO_SAY: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Response></Response>";
const XML: &str = "text/xml";
const FORM: &str = "application/x-www-form-urlencoded";
const TEXT: &str = "text/plain; charset=utf-8";
/// The header that SNS sends with every call.
const SNS_MESSAGE_TYPE: &str = "x-amz-sns-message-type";
/// The query parameter that holds the secret of an address.
const SECRET_PARAMETER: &str = "k";

pub async fn take(arrival: Arrival, unread: UnreadBody) -> Result<Reply, Problem> {
    let tenant = arrival.node.tenant_by_slug(arrival.param("tenant")).map(|tenant| tenant.id);
    hear(&arrival, tenant, unread).await
}

pub async fn take_status(arrival: Arrival, unread: UnreadBody) -> Result<Reply, Problem> {
    let tenant = arrival.node.tenant_of_reference(arrival.param("reference")).ok();
    hear(&arrival, tenant, unread).await
}

/// Reads the body only of a call that may prove itself by it. All others are refused alike, whether there is such an account
/// or not, and after the same work: what is read is held and checked, by the account or in vain.
async fn hear(arrival: &Arrival, tenant: Option<TenantId>, unread: UnreadBody) -> Result<Reply, Problem> {
    let announced = announced(&arrival.headers);
    let trusted = trusted(arrival, tenant)?;
    if trusted.is_none() && announced.is_empty() {
        return Err(refused());
    }
    let body = unread.read(BodyHolder::NoKey, BYTES_MAX).await?;
    let call = Incoming {
        url: format!("{}{}", arrival.app.public_url(), arrival.path_and_query),
        headers: headers_of(&arrival.headers),
        body: body.bytes.clone(),
    };
    let own = trusted.as_ref().map(|trusted| trusted.account.proof);
    announced.into_iter().filter(|proof| Some(*proof) != own).for_each(|proof| check_in_vain(&call, proof));
    let Some(Trusted { tenant, account, by }) = trusted else { return Err(refused()) };
    let heard = match account.hear(&call).await {
        Err(Deaf::NothingExpected | Deaf::NotProven) => {
            info!(provider = arrival.param("provider"), %tenant, "a callback is not proven");
            return Err(refused());
        }
        Err(deaf @ Deaf::Malformed(_)) => return Err(Problem::field("", deaf.to_string())),
        Err(Deaf::NotNow(reason)) => {
            // The reason may name places inside, and the caller may be a stranger.
            warn!(provider = arrival.param("provider"), %tenant, reason, "a callback cannot be checked now");
            return Err(Problem::new(Code::NotReady, "the callback cannot be checked now").retry_after_s(60));
        }
        Ok(heard) => heard,
    };
    let message_id = heard.message_id.clone();
    write_down(&arrival.node.acting_as(by), (tenant, account.channel()), heard).await?;
    if let Some(message_id) = message_id {
        account.written(message_id);
    }
    Ok(thanks(body::media_type(&arrival.headers).as_deref()))
}

/// A call that is from a provider, or from a caller with a key, unless a signature turns out to be wrong.
struct Trusted {
    tenant: TenantId,
    account: CalledAccount,
    by: Actor,
}

/// `None` for a call that proves nothing, or to an account that has no callbacks.
fn trusted(arrival: &Arrival, tenant: Option<TenantId>) -> Result<Option<Trusted>, Problem> {
    let id = arrival.param("provider");
    // Asked about every call, so that the time does not tell which accounts there are.
    let (has_secret, key_holder) = (has_secret(arrival, tenant, id)?, key_holder(arrival));
    let Some(tenant) = tenant else { return Ok(None) };
    let Some(account) = arrival.app.accounts()?.called(tenant, id, arrival.is_local) else { return Ok(None) };
    let by_provider = || Actor::provider(id);
    let by = match account.proof {
        CallbackProof::TwilioSignature | CallbackProof::SnsSignature => {
            announced(&arrival.headers).contains(&account.proof).then(by_provider)
        }
        CallbackProof::Secret if has_secret => Some(by_provider()),
        CallbackProof::Secret => key_holder.filter(|(of_key, _)| *of_key == tenant).map(|(_, by)| by),
    };
    if by.is_none() {
        info!(provider = id, %tenant, "a callback came without its signature, secret or key");
    }
    Ok(by.map(|by| Trusted { tenant, account, by }))
}

/// Which signatures are to be expected: in its head, or in the body that it says to have.
fn announced(headers: &HeaderMap) -> Vec<CallbackProof> {
    let all = [
        (signature::SIGNATURE, CallbackProof::TwilioSignature),
        (SNS_MESSAGE_TYPE, CallbackProof::SnsSignature),
    ];
    all.into_iter().filter(|(header, _)| headers.contains_key(*header)).map(|(_, proof)| proof).collect()
}

/// Whether the address is one that is, or was lately, shown with the account.
fn has_secret(arrival: &Arrival, tenant: Option<TenantId>, id: &str) -> Result<bool, Problem> {
    let Some(given) = arrival.query(SECRET_PARAMETER) else { return Ok(false) };
    let secrets = arrival.node.callback_secrets(tenant, id)?;
    let fits = |one: &CallbackSecret| {
        let is_equal = verify_slices_are_equal(given.as_bytes(), one.text.as_bytes()).is_ok();
        is_equal && one.is_believed
    };
    Ok(secrets.iter().filter(|one| fits(one)).count() > 0)
}

/// Returns the holder of the call's key, and the tenant whose receipts it may report.
fn key_holder(arrival: &Arrival) -> Option<(TenantId, Actor)> {
    let (node, headers) = (&arrival.node, &arrival.headers);
    let mut requester = arrival.requester.clone();
    let caller = auth::identify(&arrival.app, node, headers, arrival.listener, &mut requester).ok()?;
    let tenant = auth::tenant_with(node, headers, &caller, Scope::ReceiptsWrite).ok()?;
    Some((tenant, caller.actor()))
}

/// Says nothing about which accounts there are.
fn refused() -> Problem {
    Problem::new(
        Code::CallbackRefused,
        "nothing proves that an account of this server is called by its provider",
    )
    .because(AccessFault::NotProven)
}

/// The address at which calls to an account are believed.
pub fn address(public_url: &str, tenant: &str, account: &str, secret: Option<&str>) -> String {
    let secret = secret.map(|secret| format!("?{SECRET_PARAMETER}={secret}")).unwrap_or_default();
    format!("{public_url}/callbacks/{tenant}/{account}{secret}")
}

/// Twilio alone posts forms, and takes the answer for what it is to say. All others read nothing but the status.
fn thanks(media_type: Option<&str>) -> Reply {
    match media_type {
        Some(FORM) => Reply::bytes(200, XML, NOTHING_TO_SAY),
        Some(_) | None => Reply::bytes(200, TEXT, ""),
    }
}

async fn write_down(
    node: &Node,
    (tenant, channel): (TenantId, ChannelKind),
    heard: Heard,
) -> Result<(), Problem> {
    let asks: Vec<ReceiptAsk> = heard.events.into_iter().filter_map(|event| ask_of(event, channel)).collect();
    for result in node.receive(tenant, &asks).await {
        match result {
            Ok(_) => {}
            Err(Refusal::UnknownDelivery) => debug!(%tenant, "a callback about no delivery of ours"),
            Err(refusal) => return Err(refusal.into()),
        }
    }
    for wish in heard.wishes {
        grant(node, tenant, &wish).await?;
    }
    Ok(())
}

/// What is only on its way changes nothing.
fn ask_of(event: Event, channel: ChannelKind) -> Option<ReceiptAsk> {
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
    Some(ReceiptAsk { reference: event.reference, channel: Some(channel), outcome, at: event.at, code })
}

/// STOP and START of a recipient.
async fn grant(node: &Node, tenant: TenantId, wish: &Wish) -> Result<(), Problem> {
    let Ok(from) = address::read(ChannelKind::Sms, &wish.from) else { return Ok(()) };
    let ask = SuppressionAsk { kind: ChannelKind::Sms, identity: from.identity };
    match wish.is_stop {
        true => node.suppress(tenant, &ask, Reason::Stop).await.map(drop)?,
        false => node.start_address(tenant, &ask).await?,
    }
    Ok(())
}

fn headers_of(headers: &HeaderMap) -> Vec<(String, String)> {
    let readable = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    readable.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
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
            let ask = ask_of(event, ChannelKind::Email);
            assert_eq!(ask.as_ref().map(|ask| ask.outcome), expected);
            assert!(ask.as_ref().is_none_or(|ask| ask.channel == Some(ChannelKind::Email)));
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
