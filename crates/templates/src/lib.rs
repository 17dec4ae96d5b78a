//! Templates: one definition, a body per channel, checked when it is written and rendered when a notification is
//! accepted. Pure: no IO, no clock, no loader, no async; time, zone and user are arguments.
//!
//! What must never happen: a template that compiles and then asks for a variable the schema does not know; a value that
//! becomes markup, a header or a JSON token; a render without bound in time or memory; two renders of the same ask that
//! differ by a byte.
//!
//! Reading order: `compile` (definition → [`Compiled`] or problems: `content`, `locale`, `schema`, `source`, `walk`,
//! `html`, `mjml`; `canonical` for what is stored), `render` ([`RenderAsk`] → [`Rendered`]: `engine`, `filters`),
//! `editions` (what a list is told, and who gets which), then what the API shows: `preview`, `difference`. Shapes live in `fantail_wire::template`.

pub mod limits;

mod canonical;
mod compile;
mod content;
mod html;
mod links;
mod locale;
mod mjml;
mod problems;
mod schema;
mod source;
mod walk;

mod engine;
mod filters;
mod render;
mod variant;

mod editions;

mod difference;
mod preview;

pub use canonical::{Canonical, canonical};
pub use compile::{Compiled, compile, compile_stored};
pub use difference::diff;
pub use editions::{Body, EDITIONS, EDITIONS_MAX, Edition, EditionKey, Editions, Press, Reader};
pub use preview::preview;
pub use render::{NotificationFacts, RenderAsk, RenderError, Rendered, TenantFacts, UserFacts};
pub use schema::{VariableFault, Variables, VariablesError};
pub use variant::variant_seed;
