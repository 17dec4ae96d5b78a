//! Errors in Twilio's shape, and the numbers that have them.

use crate::emulator::Reply;
use hyper::http::StatusCode;
use serde_json::json;

/// Code, status and text.
pub const ERRORS: &[(u32, u16, &str)] = &[
    (20_001, 400, "Invalid parameter"),
    (20_003, 401, "Authenticate"),
    (20_404, 404, "The requested resource was not found"),
    (20_429, 429, "Too Many Requests"),
    (20_500, 500, "An internal server error has occurred"),
    (20_503, 503, "Service unavailable"),
    (21_211, 400, "Invalid 'To' Phone Number"),
    (21_212, 400, "Invalid 'From' Number (Caller ID)"),
    (
        21_408,
        400,
        "Permission to send an SMS has not been enabled for the region indicated by the 'To' number",
    ),
    (21_602, 400, "Message body is required"),
    (21_603, 400, "A 'From' phone number is required"),
    (21_604, 400, "A 'To' phone number is required"),
    (21_606, 400, "The 'From' phone number provided is not a valid, message-capable Twilio phone number"),
    (21_608, 400, "The number is unverified. Trial accounts cannot send messages to unverified numbers"),
    (21_610, 400, "Attempt to send to unsubscribed recipient"),
    (21_611, 429, "This 'From' number has exceeded the maximum number of queued messages"),
    (21_612, 400, "Message cannot be sent with the current combination of 'To' and 'From' parameters"),
    (21_614, 400, "'To' number is not a valid mobile number"),
    (21_617, 400, "The concatenated message body exceeds the 1600 character limit"),
];

/// Numbers that Twilio itself keeps for tests, as receivers and as senders.
const MAGIC_TO: &[(&str, u32)] = &[
    ("+15005550001", 21_211),
    ("+15005550002", 21_612),
    ("+15005550003", 21_408),
    ("+15005550004", 21_610),
    ("+15005550009", 21_614),
];
const MAGIC_FROM: &[(&str, u32)] =
    &[("+15005550001", 21_212), ("+15005550007", 21_606), ("+15005550008", 21_611)];

/// Ours: `+15005530003` is taken and then comes back with 30003, up to 30008.
const MAGIC_LATER: &str = "+1500553000";

#[must_use]
pub fn refused_to(number: &str) -> Option<u32> {
    MAGIC_TO.iter().find(|(magic, _)| *magic == number).map(|(_, code)| *code)
}

#[must_use]
pub fn refused_from(number: &str) -> Option<u32> {
    MAGIC_FROM.iter().find(|(magic, _)| *magic == number).map(|(_, code)| *code)
}

#[must_use]
pub fn fails_later(number: &str) -> Option<u32> {
    let last: u32 = number.strip_prefix(MAGIC_LATER)?.parse().ok()?;
    (1..=8).contains(&last).then_some(30_000 + last)
}

/// `None` if there is no such code.
#[must_use]
pub fn error(code: u32) -> Option<Reply> {
    let (_, status, text) = ERRORS.iter().find(|(known, _, _)| *known == code)?;
    let body = json!({
        "code": code,
        "message": text,
        "more_info": format!("https://www.twilio.com/docs/errors/{code}"),
        "status": status,
    });
    let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_REQUEST);
    Some(Reply::json(status, &body).with("x-api-domain", "api.twilio.com"))
}
