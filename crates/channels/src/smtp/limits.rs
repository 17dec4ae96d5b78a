//! Limits that no setting changes, each with its reason.

/// A line of a reply; the standard allows 512.
pub const REPLY_LINE_BYTES_MAX: usize = 2_048;
/// Lines of one reply; servers list about twenty extensions.
pub const REPLY_LINES_MAX: usize = 64;
/// To look up, connect, and have TLS.
pub const CONNECT_MS_MAX: u64 = 15_000;
/// To each command but the last. The standard gives a server five minutes; nobody waits that long.
pub const REPLY_MS_MAX: u64 = 60_000;
/// To the final dot, when the server stores the mail and perhaps looks for viruses. Who gives up early asks for a second copy.
pub const STORED_MS_MAX: u64 = 300_000;
/// Mails over one connection: many servers allow 100.
pub const MAILS_PER_CONNECTION_MAX: u32 = 100;
/// Below what servers wait for the next mail; the shortest usual limit is 10 s.
pub const IDLE_MS_MAX: u64 = 8_000;
/// Domains that rest, altogether. When there are more, the one that would be free first is free at once.
pub const RESTING_DOMAINS_MAX: usize = 4_096;
/// How long a domain rests that does not know us yet, or does not like us. Greylists want at least five minutes.
pub const DOMAIN_REST_MS: u64 = 300_000;
/// How long a sender rests whose login or address was refused: somebody has to change something.
pub const CREDENTIAL_REST_MS: u64 = 300_000;
/// How long a relay rests that greets us with a refusal.
pub const RELAY_REST_MS: u64 = 60_000;
/// How much of a server's text is kept.
pub const TEXT_BYTES_MAX: usize = 120;
/// The part of an address before the `@`.
pub const LOCAL_PART_BYTES_MAX: usize = 64;
/// A whole report that comes back, with the mail it is about.
pub const REPORT_BYTES_MAX: usize = 4 << 20;
/// Recipients that one report may be about: ours always have one.
pub const REPORT_RECIPIENTS_MAX: usize = 100;
