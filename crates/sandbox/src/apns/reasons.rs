//! Apple's reasons and the statuses they come with, and device tokens whose first bytes choose one.

use crate::emulator::Reply;
use hyper::http::StatusCode;
use serde_json::json;

/// Every reason that can be asked for, by a check, a magic token or a fault profile.
pub const REASONS: &[(&str, u16)] = &[
    ("BadCollapseId", 400),
    ("BadDeviceToken", 400),
    ("BadExpirationDate", 400),
    ("BadMessageId", 400),
    ("BadPriority", 400),
    ("BadTopic", 400),
    ("DeviceTokenNotForTopic", 400),
    ("DuplicateHeaders", 400),
    ("IdleTimeout", 400),
    ("InvalidPushType", 400),
    ("MissingDeviceToken", 400),
    ("MissingTopic", 400),
    ("PayloadEmpty", 400),
    ("TopicDisallowed", 400),
    ("BadCertificate", 403),
    ("BadCertificateEnvironment", 403),
    ("BadEnvironmentKeyIdInToken", 403),
    ("ExpiredProviderToken", 403),
    ("Forbidden", 403),
    ("InvalidProviderToken", 403),
    ("MissingProviderToken", 403),
    ("UnrelatedKeyIdInToken", 403),
    ("BadPath", 404),
    ("MethodNotAllowed", 405),
    ("ExpiredToken", 410),
    ("Unregistered", 410),
    ("PayloadTooLarge", 413),
    ("TooManyProviderTokenUpdates", 429),
    ("TooManyRequests", 429),
    ("InternalServerError", 500),
    ("ServiceUnavailable", 503),
    ("Shutdown", 503),
    // Of broadcasts and channels.
    ("BadChannelId", 400),
    ("BadRequestParams", 400),
    ("BadRequestPayload", 400),
    ("CannotCreateChannelConfig", 400),
    ("ChannelNotRegistered", 400),
    ("FeatureNotEnabled", 400),
    ("MissingChannelId", 400),
    ("MissingPushType", 400),
    ("TopicMismatch", 400),
    // The sandbox's own: Apple does not say what it answers to a payload that is no JSON object.
    ("InvalidPayload", 400),
];

/// A refusal; `None` if Apple has no such reason.
#[must_use]
pub fn reply(reason: &str) -> Option<Reply> {
    let (reason, status) = REASONS.iter().find(|(known, _)| *known == reason)?;
    let status = StatusCode::from_u16(*status).ok()?;
    Some(Reply::json(status, &json!({"reason": reason})))
}

/// 410, with the time in milliseconds since which the token was dead.
#[must_use]
pub fn gone(reason: &str, since_ms: u64) -> Reply {
    Reply::json(StatusCode::GONE, &json!({"reason": reason, "timestamp": since_ms}))
}

/// What a token with these first digits always does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Magic {
    Reason(&'static str),
    /// Dead since now.
    DeadNow,
    /// Its time is over, since now.
    ExpiredNow,
    /// Dead since the beginning of 2020: whoever registered later is meant by it no more.
    DeadLongAgo,
    /// Neither taken nor answered.
    BlackHole,
    /// Taken, then the connection is closed.
    LoseConnection,
    /// Taken, never answered.
    LoseAnswer,
}

pub const MAGIC: &[(&str, Magic)] = &[
    ("bad00400", Magic::Reason("BadDeviceToken")),
    ("bad0040f", Magic::Reason("DeviceTokenNotForTopic")),
    ("bad0040d", Magic::Reason("TopicDisallowed")),
    ("bad00403", Magic::Reason("InvalidProviderToken")),
    ("bad0043e", Magic::Reason("ExpiredProviderToken")),
    ("bad00413", Magic::Reason("PayloadTooLarge")),
    ("bad00429", Magic::Reason("TooManyRequests")),
    ("bad00500", Magic::Reason("InternalServerError")),
    ("bad00503", Magic::Reason("ServiceUnavailable")),
    ("bad0050d", Magic::Reason("Shutdown")),
    ("dead0410", Magic::DeadNow),
    ("dead0411", Magic::DeadLongAgo),
    ("dead0412", Magic::ExpiredNow),
    ("badf0000", Magic::BlackHole),
    ("badf0001", Magic::LoseConnection),
    ("badf0002", Magic::LoseAnswer),
];

pub const LONG_AGO_MS: u64 = 1_577_836_800_000;

#[must_use]
pub fn magic(token: &str) -> Option<Magic> {
    let first = token.get(..8)?.to_ascii_lowercase();
    MAGIC.iter().find(|(prefix, _)| *prefix == first).map(|(_, magic)| *magic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_magic_reason_is_one_of_apples() {
        for (prefix, magic) in MAGIC {
            assert!(prefix.bytes().all(|byte| byte.is_ascii_hexdigit()), "{prefix}");
            if let Magic::Reason(reason) = magic {
                assert!(reply(reason).is_some(), "{reason}");
            }
        }
        assert_eq!(super::magic("DEAD0410ff"), Some(Magic::DeadNow));
        assert_eq!(super::magic("dead"), None);
        assert_eq!(reply("NoSuchReason"), None);
    }
}
