//! Every JSON shape of the public API and every public error code. Shared by `api`, the command line, SDKs and the
//! OpenAPI document, so that what is said and what is documented cannot drift apart.
//!
//! Shapes only: what a value may be is decided where it is accepted. Requests refuse unknown fields, so that a
//! misspelt option is an error and not a silent default. Names are camelCase and frozen once released.

pub mod bulk;
pub mod category;
pub mod code;
pub mod problem;
pub mod receipt;

pub mod audit;
pub mod delivery;
pub mod device;
mod encoded_data;
pub mod erasure;
pub mod event;
pub mod inbox;
pub mod link;
pub mod list;
pub mod nesting;
pub mod notification;
pub mod preference;
pub mod provider;
pub mod schedule;
pub mod segment;
pub mod sent;
pub mod template;
pub mod template_resource;
pub mod user;
pub mod webhook;

pub mod health;
pub mod tenant;
