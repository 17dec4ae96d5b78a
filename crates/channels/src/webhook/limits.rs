//! Limits that no setting changes, each with its reason.

/// The old one, the new one, and as many again for a rotation inside a rotation. Each costs an HMAC over the body.
pub const SECRETS_MAX: usize = 4;
/// What Standard Webhooks allows a secret to have.
pub const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
pub const HEADERS_MAX: usize = 16;
pub const HEADER_NAME_BYTES_MAX: usize = 64;
/// Bearer tokens can be this long.
pub const HEADER_VALUE_BYTES_MAX: usize = 4_096;
/// Everything above together, so that an endpoint stays a small value.
pub const ENDPOINT_BYTES_MAX: usize = 16_384;
/// A reference is 38 bytes; this leaves room.
pub const REFERENCE_BYTES_MAX: usize = 128;
/// What is read of an answer's body, only so that the connection can be used again.
pub const ANSWER_BYTES_MAX: usize = 64 * 1_024;
/// How long that may take. The status is reported before.
pub const DRAIN_MS_MAX: u64 = 2_000;
/// How long a connection may take to be ready again after a whole answer; a peer that answered early may never be.
pub const SETTLE_MS_MAX: u64 = 100;
/// How long a connection that is not wanted any more may take to say goodbye.
pub const CLOSE_MS_MAX: u64 = 1_000;
pub const ANSWER_HEADERS_MAX: usize = 100;
/// How much of the text of an error is kept: it may quote a certificate.
pub const MESSAGE_BYTES_MAX: usize = 200;
