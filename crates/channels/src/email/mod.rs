//! What every way of sending mail shares: the mail itself, its signature, and how much a new sender may send.
//!
//! What must never happen: a text of a template or an address that becomes a header of its own; a link that leads through us
//! to where no mail led; two mails of one delivery with different message ids.
//!
//! Reading order: what an operator sets (`settings`), what a template gives (`content`, read by `html`), what becomes of it
//! (`text`, `links`, `encode`, `mime`), the signature (`dkim`, by `scribe`), all of it together (`compose`, `batch`), or
//! in parts for who writes it himself (`parts`); and the first days (`warm_up`).

pub mod settings;

pub mod content;

mod html;

pub mod text;

pub mod links;

pub mod encode;

pub mod mime;

pub mod dkim;

mod scribe;

pub mod batch;
pub mod compose;
pub mod parts;

pub mod warm_up;

mod limits;

pub use batch::Batch;
pub use compose::{Composer, Mail};
pub use parts::Parts;
pub use settings::{Sender, SenderSecrets};
