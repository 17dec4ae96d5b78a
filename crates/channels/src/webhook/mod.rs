//! Webhooks: a signed HTTP POST to a URL that a stranger chose.
//!
//! What must never happen: a connection to an address that was not judged (names are resolved here, each address is
//! judged, and that very address is connected to), a redirect that is followed, a proxy of the environment, or the text
//! of an answer in a log.
//!
//! Reading order: what an operator sets, where a message goes (`url`, `endpoint`, `address`, `policy`), what is sent (`signature`,
//! `payload`), what came of it (`answer`), then the IO (`resolve`, `gate`, `connect`, `pool`, `hosts`, `client`).

pub mod settings;

pub mod address;
pub mod endpoint;
pub mod url;

pub mod policy;

pub mod payload;
pub mod signature;

pub mod answer;

pub mod resolve;

mod gate;

mod connect;

mod pool;

pub(crate) mod hosts;

mod client;

pub mod limits;

pub use client::{Ports, Webhook};
pub use endpoint::{Endpoint, EndpointError, Previous};
pub use resolve::{Resolve, SystemResolver};
pub use settings::{Settings, SettingsError};
pub use signature::{Public, Secret, Untrusted, verify, verify_public};
