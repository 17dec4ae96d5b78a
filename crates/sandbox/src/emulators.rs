//! The list of all emulators. A new provider is one folder and one line here.

use crate::apns::Apns;
use crate::emulator::{Emulator, Raw};
use crate::fcm::Fcm;
use crate::sandbox::Options;
use crate::ses::Ses;
use crate::sigv4::Keys;
use crate::smtp::{Smtp, Smtps};
use crate::sns::{Sns, Topics};
use crate::twilio::Twilio;
use crate::webhook::Webhook;
use crate::webpush::WebPush;
use crate::world::World;
use std::sync::Arc;

pub(crate) struct All {
    pub http: Vec<Arc<dyn Emulator>>,
    pub raw: Vec<Arc<dyn Raw>>,
}

pub(crate) fn all(world: &World, options: &Options) -> All {
    let (keys, topics) = (Arc::new(Keys::default()), Topics::new(world.clone()));
    let smtp = Arc::new(Smtp::new(world.clone()));
    let http: Vec<Arc<dyn Emulator>> = vec![
        Arc::new(Apns::new(world.clone())),
        Arc::new(Fcm::new(world.clone())),
        Arc::new(WebPush::new(world.clone(), options.takes_unknown_subscriptions)),
        Arc::new(Ses::new(world.clone(), Arc::clone(&topics), Arc::clone(&keys))),
        Arc::new(Sns::new(topics, keys)),
        Arc::new(Twilio::new(world.clone())),
        Arc::new(Webhook::new(world.clone())),
    ];
    All { http, raw: vec![Arc::clone(&smtp) as Arc<dyn Raw>, Arc::new(Smtps(smtp))] }
}
