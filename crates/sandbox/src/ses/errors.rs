//! Errors as SES writes them: the type in a header, the text in the body.

use crate::emulator::Reply;
use crate::ids;
use hyper::http::StatusCode;
use serde_json::json;

/// By name, with their status.
const KNOWN: &[(&str, u16)] = &[
    ("AccountSuspendedException", 400),
    ("BadRequestException", 400),
    ("LimitExceededException", 400),
    ("MailFromDomainNotVerifiedException", 400),
    ("MessageRejected", 400),
    ("NotFoundException", 404),
    ("SendingPausedException", 400),
    ("ThrottlingException", 400),
    ("TooManyRequestsException", 429),
    ("InternalServiceErrorException", 500),
    ("ServiceUnavailable", 503),
    ("AccessDeniedException", 403),
    ("IncompleteSignatureException", 403),
    ("MissingAuthenticationTokenException", 403),
    ("RequestExpired", 403),
    ("SignatureDoesNotMatch", 403),
    ("UnrecognizedClientException", 403),
];

/// One of them, by its name.
pub fn known(kind: &str) -> Option<&'static str> {
    KNOWN.iter().map(|(name, _)| *name).find(|name| *name == kind)
}

pub fn named(kind: &str, message: &str) -> Reply {
    let status = KNOWN.iter().find(|(name, _)| *name == kind).map_or(400, |(_, status)| *status);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    Reply::json(status, &json!({"message": message}))
        .with("x-amzn-errortype", kind)
        .with("x-amzn-requestid", &ids::uuid())
}
