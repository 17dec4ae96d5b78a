//! Limits that no setting changes, each with its reason.

/// A reference is 38 bytes; `bounce+` and this are a local part of at most 64.
pub const REFERENCE_BYTES_MAX: usize = 57;
/// Templates give at most 240 KiB; escaped as JSON that can be more.
pub const CONTENT_BYTES_MAX: usize = 1 << 20;
/// Longer subjects are cut: nobody shows them, and a header has an end.
pub const SUBJECT_BYTES_MAX: usize = 998;
/// Links of one mail that are tracked; the rest stays as it is.
pub const LINKS_MAX: usize = 500;
/// A URL of a header stands on one line, and a line has at most 998 bytes.
pub const HEADER_URL_BYTES_MAX: usize = 900;
/// A signature of each kind.
pub const PEM_BYTES_MAX: usize = 16 * 1_024;
