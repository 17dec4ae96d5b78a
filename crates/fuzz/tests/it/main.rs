//! Every reader of foreign or stored bytes, with mutated inputs.

mod events;
mod html;
mod keyring;
mod records;
mod reports;
