//! Webhooks: a signed HTTP POST to a URL that a stranger chose.
//!
//! What must never happen: a connection to an address that was not judged (names are resolved here, each address is
//! judged, and that very address is connected to), a redirect that is followed, a proxy of the environment, or the text
//! of an answer in a log.
//!
//! Reading order: what an operator sets, where a message goes (`url`, `endpoint`), what is sent (`signature`,
//! `payload`), what came of it (`answer`), then the IO (`gate`, `connect`, `pool`, `hosts`, `client`). Which targets may be
//! connected to is decided in `fantail_outbound` (`policy`, `connector`).

pub mod settings;

pub mod endpoint;
pub use fantail_outbound::url;

pub mod payload;
pub mod signature;

pub mod answer;

mod gate;

mod connect;

mod pool;

pub(crate) mod hosts;

mod client;

pub mod limits;

pub use client::Webhook;
pub use endpoint::{Endpoint, EndpointError, Previous};
pub use settings::{Settings, SettingsError};
pub use signature::{Public, Secret, Untrusted, verify, verify_public};
