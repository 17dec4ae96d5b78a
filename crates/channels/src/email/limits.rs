//! Limits that no setting changes, each with its reason.

/// A reference is 38 bytes; `bounce+` and this are a local part of at most 64.
pub const REFERENCE_BYTES_MAX: usize = 57;
/// Templates give at most 240 KiB; escaped as JSON that can be more.
pub const CONTENT_BYTES_MAX: usize = 1 << 20;
/// Longer subjects are cut: nobody shows them, and a header has an end.
pub const SUBJECT_BYTES_MAX: usize = 998;
/// A tag that is longer is text: those that people write have some hundred bytes, pictures in them a few thousand.
pub const TAG_BYTES_MAX: usize = 16 * 1_024;
/// Bytes that are looked at in vain for the ends of tags; then the rest of the document is text. Without a limit a document of
/// such beginnings is read once for each of them.
pub const UNENDED_TAGS_BYTES_MAX: usize = 256 * 1_024;
/// Of a processor. A mail that takes longer to prepare or to write is given up: the next attempt would take as long, and none
/// would ever begin in time.
pub const WRITE_MS_MAX: u64 = 1_500;
/// Smaller contents are prepared where they are sent: that takes less than half a millisecond.
pub const PREPARED_AT_ONCE_BYTES_MAX: usize = 8 * 1_024;
/// Links of one mail that are tracked; the rest stays as it is.
pub const LINKS_MAX: usize = 500;
/// A URL of a header stands on one line, and a line has at most 998 bytes.
pub const HEADER_URL_BYTES_MAX: usize = 900;
/// A signature of each kind.
pub const PEM_BYTES_MAX: usize = 16 * 1_024;
