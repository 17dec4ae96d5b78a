//! The mails of one shipment: what they share is prepared when the first of them is written, once.

use super::compose::{Composer, Mail, MailError, Prepared};
use fantail_ports::channel::{Message, Shipment};
use fantail_rules::ids::Millis;
use std::sync::{Arc, OnceLock};

pub struct Batch<'a> {
    composer: &'a Arc<Composer>,
    shipment: &'a Shipment,
    shared: OnceLock<Result<Arc<Prepared>, MailError>>,
}

impl<'a> Batch<'a> {
    #[must_use]
    pub fn new(composer: &'a Arc<Composer>, shipment: &'a Shipment) -> Self {
        Self { composer, shipment, shared: OnceLock::new() }
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
        let writing = tokio::task::spawn_blocking(move || {
            composer.mail(&prepared, &message, callbacks.as_deref(), now)
        });
        writing.await.expect("a mail is written without a panic, and nobody calls it off")
    }
}
