//! Limits that no setting changes, each with its reason.

/// Numbers and services of one account that are told apart here; larger pools are a messaging service.
pub const SENDERS_MAX: usize = 64;
/// There are fewer country codes.
pub const PREFIXES_MAX: usize = 300;
/// The fastest short codes are granted a few hundred.
pub const PER_SECOND_MAX: u64 = 10_000;
pub const CONCURRENCY_MAX: u64 = 1_000;
/// A text waits for the turn of its sender as long as it may begin at most: more of them are told when to come back.
pub const WAITING_S_MAX: usize = 2;
pub const SECRET_BYTES_MAX: usize = 256;
/// The old one and the new one of a rotation, and as many again.
pub const WEBHOOK_KEYS_MAX: usize = 4;
/// Twilio refuses longer texts (21617).
pub const BODY_CHARACTERS_MAX: usize = 1_600;
/// The longest and shortest time that Twilio keeps a message in its queue.
pub const VALIDITY_S: std::ops::RangeInclusive<u64> = 1..=36_000;
/// How long an answer may take. Later it is unknown whether the message was taken.
pub const ANSWER_WITHIN_MS: u64 = 15_000;
/// A credential that is refused is tried again so often: an operator has to change it first.
pub const CREDENTIAL_PAUSE_MS: u64 = 5 * 60 * 1_000;
/// A sender whose queue at Twilio is full holds hours of traffic.
pub const SENDER_PAUSE_MS: u64 = 10 * 60 * 1_000;
/// Concurrent requests above the account's limit are over in about a second.
pub const BUSY_MS: u64 = 1_000;
pub const RETRY_AFTER_MS_MAX: u64 = 24 * 3_600 * 1_000;
/// Callbacks are a dozen short parameters; an inbound message adds its text and where it came from.
pub const CALLBACK_BYTES_MAX: usize = 64 * 1_024;
pub const CALLBACK_PARAMETERS_MAX: usize = 200;
/// Inbound messages that are remembered, so that a repeat is known as one. At 128 bytes each this is 2.5 MiB.
pub const REMEMBERED_MAX: usize = 10_000;
/// Provider's codes are five digits.
pub const CODE_BYTES_MAX: usize = 32;
