//! The list of all emulators. A new provider is one folder and one line here.

use crate::apns::Apns;
use crate::emulator::{Emulator, Raw};
use crate::fcm::Fcm;
use crate::sandbox::Options;
use crate::webpush::WebPush;
use crate::world::World;
use std::sync::Arc;

pub(crate) struct All {
    pub http: Vec<Arc<dyn Emulator>>,
    pub raw: Vec<Arc<dyn Raw>>,
}

pub(crate) fn all(world: &World, options: &Options) -> All {
    let http: Vec<Arc<dyn Emulator>> = vec![
        Arc::new(Apns::new(world.clone())),
        Arc::new(Fcm::new(world.clone())),
        Arc::new(WebPush::new(world.clone(), options.takes_unknown_subscriptions)),
    ];
    All { http, raw: vec![] }
}
