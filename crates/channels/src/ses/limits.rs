//! Limits that no setting changes, each with its reason.

/// What an account may send per second until it was asked what it may: what a new account has.
pub const RATE_UNTIL_KNOWN: f64 = 1.0;
/// Below this a rate does not fall, or nobody would notice that it works again.
pub const RATE_MIN: f64 = 0.2;
/// Calls under way. At 100 ms each this is more than any account may send.
pub const CALLS_MAX: usize = 256;
/// How long an answer may take.
pub const ANSWER_MS_MAX: u64 = 30_000;
/// A message that would wait longer for its turn is given back, so that others are tried meanwhile.
pub const TURN_MS_MAX: u64 = 5_000;
/// How often the account is asked what it may.
pub const ACCOUNT_MS: u64 = 15 * 60_000;
/// And how soon again if it did not answer.
pub const ACCOUNT_AGAIN_MS: u64 = 60_000;
/// How long a sender rests whose key or address was refused: somebody has to change something.
pub const CREDENTIAL_REST_MS: u64 = 300_000;
/// How long a paused account rests. Others may take its mails meanwhile.
pub const PAUSED_REST_MS: u64 = 600_000;
/// How long an account rests that has used its day up: its window moves by the hour.
pub const DAY_REST_MS: u64 = 3_600_000;
/// SES takes 40 MB with everything encoded.
pub const MAIL_BYTES_MAX: usize = 28 << 20;
/// SES takes so many entries in a bulk call.
pub const BULK_ENTRIES_MAX: usize = 50;
/// SES takes 1 MB of a call whose template stands in it.
pub const BULK_BYTES_MAX: usize = 1_000_000;
/// What SES takes as the data of one entry, and as the value of a header.
pub const BULK_DATA_BYTES_MAX: usize = 262_144;
pub const BULK_HEADER_BYTES_MAX: usize = 995;
/// Turns that are so near go together, when the last of them has come. Critical mails wait for no other.
pub const BULK_TURNS_MS: u64 = 200;
/// How much of a provider's text is kept.
pub const TEXT_BYTES_MAX: usize = 120;
/// SNS sends at most 256 KiB.
pub const ENVELOPE_BYTES_MAX: usize = 256 * 1_024;
/// Certificates that are remembered; SNS has one per region and year.
pub const CERTIFICATES_MAX: usize = 16;
pub const CERTIFICATE_MS: u64 = 24 * 3_600_000;
/// Names of certificates that could not be fetched, and how long each is not asked for again.
pub const MISSING_MAX: usize = 256;
pub const MISSING_MS: u64 = 60_000;
pub const CERTIFICATE_BYTES_MAX: usize = 64 * 1_024;
/// Messages of SNS that are remembered, so that a repeat is known as one.
pub const REMEMBERED_MAX: usize = 10_000;
/// How long ago SNS may have written a message, or how far ahead its clock may be. SNS gives up after an hour; the rest is for
/// clocks that are wrong.
pub const MESSAGE_AGE_MS_MAX: u64 = 24 * 3_600_000;
pub const TOPICS_MAX: usize = 100;
