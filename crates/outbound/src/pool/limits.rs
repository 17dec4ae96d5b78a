//! What a pool holds to. The defaults are for providers with long-lived HTTP/2 connections.

/// Chosen by the client of a provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections with many streams each: few, and used up to the server's limit before there is another.
    pub http2_connections_max: usize,
    /// Connections with one request each.
    pub http1_connections_max: usize,
    /// Streams of a connection, if the server allows more.
    pub streams_max: usize,
    /// One stream alone until the first success: APNs takes no more before it has seen a token.
    pub warm_up: bool,
    /// An HTTP/1.1 connection that waited longer is not used any more: its server may be closing it, and then nobody knows
    /// whether a request was taken. Below the shortest common limit of servers, 5 s.
    pub http1_idle_ms_max: u64,
    /// How often an HTTP/2 connection is asked whether it lives.
    pub ping_every_ms: u64,
    /// One that does not answer for so long is dropped.
    pub pong_within_ms: u64,
    /// Older connections take nothing new, so that load moves to servers that were added.
    pub age_ms_max: u64,
    /// TCP and TLS together.
    pub connect_ms_max: u64,
    /// Callers that wait for a place.
    pub waiting_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            http2_connections_max: 8,
            http1_connections_max: 64,
            streams_max: 500,
            warm_up: false,
            http1_idle_ms_max: 4_000,
            ping_every_ms: 30_000,
            pong_within_ms: 10_000,
            age_ms_max: 3_600_000,
            connect_ms_max: 10_000,
            waiting_max: 65_536,
        }
    }
}

/// A request that was given back so often is the caller's again: a server that refuses everything must not be hammered.
pub const TRIES_MAX: u32 = 5;
/// An answer has at most so many bytes.
pub const REPLY_BYTES_MAX: usize = 4 << 20;
/// Of an answer's header, together.
pub const REPLY_HEADER_BYTES_MAX: u32 = 16 << 10;
/// So many answers in a row that did not come, and the connection is not trusted any more.
pub const TIMEOUTS_MAX: u32 = 3;
/// Concurrency is never cut below this by trouble: growing again takes a round per place.
pub const WINDOW_MIN: usize = 8;
/// Trouble within this time of the last cut is the same trouble.
pub const CUT_EVERY_MS: u64 = 1_000;
/// A pool that is so full...
pub const BUSY_PERCENT: usize = 80;
/// ...for so long opens another connection.
pub const BUSY_MS: u64 = 1_000;
/// After the first failed connection; doubled with each.
pub const BACKOFF_MS_MIN: u64 = 100;
pub const BACKOFF_MS_MAX: u64 = 10_000;
