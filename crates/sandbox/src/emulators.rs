//! The list of all emulators. A new provider is one folder and one line here.

use crate::emulator::{Emulator, Raw};
use crate::world::World;
use std::sync::Arc;

/// What single emulators can be told at the start.
#[derive(Clone, Debug, Default)]
pub struct Options {}

pub(crate) struct All {
    pub http: Vec<Arc<dyn Emulator>>,
    pub raw: Vec<Arc<dyn Raw>>,
}

pub(crate) fn all(_world: &World, _options: &Options) -> All {
    All { http: vec![], raw: vec![] }
}
