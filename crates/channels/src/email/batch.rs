//! The mails of one shipment: what they share is prepared when the first of them is written, once.

use super::compose::{Composer, Mail, MailError, Prepared};
use super::parts::{Parts, SharedParts};
use fantail_ports::channel::{Message, Shipment};
use fantail_rules::ids::Millis;
use std::sync::{Arc, OnceLock};

pub struct Batch<'a> {
    composer: &'a Arc<Composer>,
    shipment: &'a Shipment,
    shared: OnceLock<Result<Arc<Prepared>, MailError>>,
    shared_parts: OnceLock<Result<Arc<SharedParts>, MailError>>,
}

impl<'a> Batch<'a> {
    #[must_use]
    pub fn new(composer: &'a Arc<Composer>, shipment: &'a Shipment) -> Self {
        Self { composer, shipment, shared: OnceLock::new(), shared_parts: OnceLock::new() }
    }

    /// Written and signed at this wall time. A signature takes half a millisecond: not on a thread that others wait for.
    pub async fn mail(&self, message: &Message, now: Millis) -> Result<Mail, MailError> {
        let callbacks = self.shipment.callbacks.clone();
        let prepare = |content: &[u8]| self.composer.prepare(content, callbacks.as_deref()).map(Arc::new);
        let prepared = match &message.content {
            Some(own) => prepare(own)?,
            None => self.shared.get_or_init(|| prepare(&self.shipment.content)).clone()?,
        };
        if !self.composer.signs() {
            return self.composer.mail(&prepared, message, callbacks.as_deref(), now);
        }
        let (composer, message) = (Arc::clone(self.composer), Message { content: None, ..message.clone() });
        let write = move || composer.mail(&prepared, &message, callbacks.as_deref(), now);
        self.composer.scribe.write(write).await
    }

    /// The same in parts, for a provider that writes the mail itself.
    pub fn parts(&self, message: &Message) -> Result<Parts, MailError> {
        let callbacks = self.shipment.callbacks.as_deref();
        let share = |content: &[u8]| self.composer.shared_parts(content, callbacks).map(Arc::new);
        let shared = match &message.content {
            Some(own) => share(own)?,
            None => self.shared_parts.get_or_init(|| share(&self.shipment.content)).clone()?,
        };
        self.composer.parts(&shared, message, callbacks)
    }
}
