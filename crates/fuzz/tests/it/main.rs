//! Every reader of foreign or stored bytes, with mutated inputs.

mod addresses;
mod audit;
mod callbacks;
mod cursors;
mod editions;
mod envelopes;
mod events;
mod filters;
mod html;
mod inbox;
mod keyring;
mod links;
mod records;
mod reports;
mod rows;
