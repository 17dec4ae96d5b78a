//! Mail through Amazon SES (API version 2), and what SES tells later through SNS.
//!
//! What must never happen: more per second than the account allows, a notification that is believed without its signature, or a
//! URL that is called because a stranger sent it.
//!
//! Reading order: what an operator sets, what is sent (`payload`) and how fast (`pace`), what came of it (`answer`), then the IO
//! (`client`, and `bulk` for
//! many in one call); and what comes later: the envelope of SNS (`envelope`), for what its certificate is good (`certificate`), who is believed (`sns`), what it says (`events`).

pub mod settings;

pub mod payload;

mod pace;

pub mod answer;

mod client;

mod bulk;

pub mod envelope;

pub mod certificate;

pub mod events;

pub mod sns;

mod limits;

pub use client::Ses;
pub use settings::{Secrets, Settings};
pub use sns::{Sns, SnsError, Told};
