//! Templates: what can be said of them without rendering: segments of a text message, the variant of a user, and where
//! two versions differ.

pub mod limits;

mod problems;
mod variant;

mod difference;
mod sms;

pub use difference::diff;
pub use sms::{Segments, segments};
pub use variant::variant_seed;
