//! What Twilio tells later: statuses of messages and what people write back, signed.

use super::accounts::Account;
use super::form::Form;
use super::message::{Message, Status};
use crate::outgoing::post;
use crate::world::World;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::http::{HeaderMap, HeaderValue, StatusCode};
use std::collections::{BTreeMap, BTreeSet};
use tracing::debug;

/// What a status callback says.
#[must_use]
pub fn status_form(message: &Message, status: Status) -> Form {
    let mut form = Form::default();
    form.push("AccountSid", &message.account);
    form.push("ApiVersion", "2010-04-01");
    if let (Some(code), Status::Undelivered | Status::Failed) = (message.error_code, status) {
        form.push("ErrorCode", &code.to_string());
    }
    form.push("From", message.from.as_deref().unwrap_or_default());
    form.push("MessageSid", &message.sid);
    form.push("MessageStatus", status.name());
    if let Some(service) = &message.service {
        form.push("MessagingServiceSid", service);
    }
    form.push("SmsSid", &message.sid);
    form.push("SmsStatus", status.name());
    form.push("To", &message.to);
    form
}

/// Posts a form, signed. Failures are told to nobody but the log: Twilio does not try again either.
pub async fn send(world: &World, account: &Account, url: &str, form: &Form) -> Option<StatusCode> {
    let mut headers = HeaderMap::new();
    let (signature, settings) = signature(account, url, form);
    let text = |text: &str| HeaderValue::from_str(text).ok();
    headers
        .insert("content-type", HeaderValue::from_static("application/x-www-form-urlencoded; charset=UTF-8"));
    headers.insert("user-agent", HeaderValue::from_static("TwilioProxy/1.1"));
    headers.insert("x-twilio-signature", text(&signature)?);
    if let Some(settings) = settings {
        headers.insert("x-twilio-webhooks-signature-settings", text(&settings)?);
    }
    match post(world, url, headers, Bytes::from(form.write())).await {
        Ok(status) => Some(status),
        Err(error) => {
            debug!(%error, "a callback was not taken");
            None
        }
    }
}

/// The signature, and which key made it if it was a shared one.
#[must_use]
pub fn signature(account: &Account, url: &str, form: &Form) -> (String, Option<String>) {
    let mut fields: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    form.0.iter().for_each(|(name, value)| {
        fields.entry(name).or_default().insert(value);
    });
    let mut signed = url.to_owned();
    for (name, values) in &fields {
        values.iter().for_each(|value| signed.extend([*name, *value]));
    }
    let (algorithm, secret, settings) = match &account.shared_key {
        None => (hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &account.auth_token, None),
        Some((id, secret)) => (hmac::HMAC_SHA256, secret, Some(format!("key={id},algorithm=HMAC_SHA256"))),
    };
    let key = hmac::Key::new(algorithm, secret.as_bytes());
    (STANDARD.encode(hmac::sign(&key, signed.as_bytes())), settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documents_is_signed_the_same() {
        let account = Account { auth_token: "12345".into(), ..Account::default() };
        let form = Form::read(
            "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212",
        );
        let signed = signature(&account, "https://mycompany.com/myapp.php?foo=1&bar=2", &form);
        assert_eq!(signed, ("RSOYDt4T1cUTdK1PDd93/VVr8B8=".to_owned(), None));
    }
}
