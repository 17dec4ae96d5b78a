//! The mails of one shipment: what they share is prepared when the first of them is written, once.
//!
//! Invariant: nothing that takes longer than half a millisecond (a large content, a signature) runs on a thread of the runtime.

use super::compose::{Composer, Mail, MailError, Prepared};
use super::limits::{PREPARED_AT_ONCE_BYTES_MAX, WRITE_MS_MAX};
use super::parts::{Parts, SharedParts};
use fantail_ports::channel::{Callbacks, Message, Shipment};
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Makes what the mails of a content share.
type Prepare<T> = fn(&Composer, &[u8], Option<&Callbacks>) -> Result<T, MailError>;

pub struct Batch<'a> {
    composer: &'a Arc<Composer>,
    shipment: &'a Shipment,
    clock: &'a Arc<dyn Clock>,
    shared: OnceCell<Result<Arc<Prepared>, MailError>>,
    shared_parts: OnceCell<Result<Arc<SharedParts>, MailError>>,
}

impl<'a> Batch<'a> {
    #[must_use]
    pub fn new(composer: &'a Arc<Composer>, shipment: &'a Shipment, clock: &'a Arc<dyn Clock>) -> Self {
        Self { composer, shipment, clock, shared: OnceCell::new(), shared_parts: OnceCell::new() }
    }

    /// Written and signed at this wall time.
    pub async fn mail(&self, message: &Message, now: Millis) -> Result<Mail, MailError> {
        let prepare = |composer: &Composer, content: &[u8], callbacks: Option<&Callbacks>| {
            composer.prepare(content, callbacks).map(Arc::new)
        };
        let prepared = match &message.content {
            Some(own) => self.aside(own, prepare).await?,
            None => {
                let shared = self.shared.get_or_init(|| self.aside(&self.shipment.content, prepare));
                shared.await.clone()?
            }
        };
        let callbacks = self.shipment.callbacks.clone();
        if !self.composer.signs() && prepared.bytes() <= PREPARED_AT_ONCE_BYTES_MAX {
            return self.composer.mail(&prepared, message, callbacks.as_deref(), now);
        }
        let (composer, message) = (Arc::clone(self.composer), Message { content: None, ..message.clone() });
        let write = move || composer.mail(&prepared, &message, callbacks.as_deref(), now);
        self.timed(write).await
    }

    /// The same in parts, for a provider that writes the mail itself.
    pub async fn parts(&self, message: &Message) -> Result<Parts, MailError> {
        let share = |composer: &Composer, content: &[u8], callbacks: Option<&Callbacks>| {
            composer.shared_parts(content, callbacks).map(Arc::new)
        };
        let shared = match &message.content {
            Some(own) => self.aside(own, share).await?,
            None => {
                let shared = self.shared_parts.get_or_init(|| self.aside(&self.shipment.content, share));
                shared.await.clone()?
            }
        };
        self.composer.parts(&shared, message, self.shipment.callbacks.as_deref())
    }

    /// Prepares a content: a large one on the scribe's threads, not on one that other tenants wait for.
    async fn aside<T: Send + 'static>(
        &self,
        content: &Arc<[u8]>,
        prepare: Prepare<T>,
    ) -> Result<T, MailError> {
        let callbacks = self.shipment.callbacks.clone();
        if content.len() <= PREPARED_AT_ONCE_BYTES_MAX {
            return prepare(self.composer, content, callbacks.as_deref());
        }
        let (composer, content) = (Arc::clone(self.composer), Arc::clone(content));
        self.timed(move || prepare(&composer, &content, callbacks.as_deref())).await
    }

    /// On the scribe's threads. Only the work itself counts: neither the wait for it, nor a pause of the machine, after which the
    /// next attempt is as quick as ever. What cannot begin in time any more is not written: it would make those behind it late.
    async fn timed<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, MailError> + Send + 'static,
    ) -> Result<T, MailError> {
        let (clock, deadline) = (Arc::clone(self.clock), self.shipment.deadline);
        let work = move || {
            if clock.monotonic() > deadline {
                return (Err(MailError::TooLate), 0);
            }
            let began = clock.worked_micros();
            (work(), clock.worked_micros().saturating_sub(began) / 1_000)
        };
        match self.composer.scribe.write(work).await {
            (Ok(_), worked_ms) if worked_ms > WRITE_MS_MAX => Err(MailError::TooSlow),
            (result, _) => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::email::{Sender, SenderSecrets};
    use fantail_ports::channel::{Answer, Proof, Refusal};
    use fantail_rules::ids::TenantId;
    use fantail_rules::priority::Priority;
    use futures_util::FutureExt;
    use serde_json::json;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// So much time passes whenever the time is asked for, and so much of it was work.
    #[derive(Default)]
    struct Slow {
        step_ms: u64,
        work_ms: u64,
        now: AtomicU64,
        worked: AtomicU64,
    }

    impl Clock for Slow {
        fn wall(&self) -> Millis {
            self.monotonic()
        }

        fn monotonic(&self) -> Millis {
            Millis(self.now.fetch_add(self.step_ms, Ordering::Relaxed))
        }

        fn worked_micros(&self) -> u64 {
            self.worked.fetch_add(self.work_ms * 1_000, Ordering::Relaxed)
        }
    }

    fn composer() -> Arc<Composer> {
        let sender = Sender {
            from_address: "news@shop.example".to_owned(),
            from_name: None,
            reply_to: None,
            tracking: false,
            unsubscribe_mailbox: None,
            feedback_id: None,
            warm_up: None,
            dkim: None,
        };
        Arc::new(Composer::new(sender, &SenderSecrets::default()).expect("a composer"))
    }

    async fn mail(html: &str, clock: Slow) -> Result<Mail, MailError> {
        mail_until(Millis(u64::MAX), html, clock).await
    }

    async fn mail_until(deadline: Millis, html: &str, clock: Slow) -> Result<Mail, MailError> {
        let composer = composer();
        let message = Message {
            reference: "r1".into(),
            endpoint: b"ann@example.com".to_vec(),
            content: None,
            attempt: 1,
            recipient: 1,
            unsubscribe: None,
        };
        let shipment = Shipment {
            tenant: TenantId(1),
            content: json!({"subject": "Hello", "html": html}).to_string().into_bytes().into(),
            lane: Priority::Normal,
            expires_at: Millis(u64::MAX),
            collapse_key: None,
            deadline,
            callbacks: None,
            messages: vec![message.clone()],
        };
        let clock: Arc<dyn Clock> = Arc::new(clock);
        Batch::new(&composer, &shipment, &clock).mail(&message, Millis(0)).await
    }

    /// It would miss its time in every attempt: one counts, and is the last.
    // fixes: security H4
    #[tokio::test]
    async fn a_mail_that_takes_too_long_to_write_is_given_up() {
        let large = "<p>text</p>".repeat(10_000);
        let slow = |work_ms| Slow { work_ms, ..Slow::default() };
        assert!(mail(&large, slow(WRITE_MS_MAX)).await.is_ok());
        assert_eq!(mail(&large, slow(WRITE_MS_MAX + 1)).await, Err(MailError::TooSlow));
        assert_eq!(MailError::TooSlow.code(), "too_slow");
    }

    /// A stopped process, a virtual machine that moves, a container without its share of the processor.
    #[tokio::test]
    async fn a_mail_that_is_written_across_a_pause_is_sent() {
        let large = "<p>text</p>".repeat(10_000);
        let paused = Slow { step_ms: 60_000, work_ms: 1, ..Slow::default() };
        assert!(mail(&large, paused).await.is_ok());
    }

    /// It waited too long for its turn on a machine that is busy: those behind it do not wait for it as well.
    #[tokio::test]
    async fn a_mail_whose_deadline_has_passed_is_not_written() {
        let large = "<p>text</p>".repeat(10_000);
        let deadline = Millis(2_000);
        let busy =
            |waited_ms| Slow { now: AtomicU64::new(waited_ms), work_ms: WRITE_MS_MAX + 1, ..Slow::default() };
        assert_eq!(mail_until(deadline, &large, busy(2_000)).await, Err(MailError::TooSlow), "it is written");
        let late = mail_until(deadline, &large, busy(2_001)).await.expect_err("it is not written");
        assert_eq!(late, MailError::TooLate);
        assert!(matches!(late.answer(), Answer::NotSent { proof: Proof::Deadline, .. }), "and comes back");
        assert!(matches!(MailError::TooSlow.answer(), Answer::Rejected { refusal: Refusal::Malformed, .. }));
    }

    // fixes: security H4, security M1
    #[test]
    fn a_large_content_is_prepared_on_other_threads() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let large = format!("{}<p>end</p>", "<a".repeat(65_536));
        runtime.block_on(async {
            let mut writing = std::pin::pin!(mail(&large, Slow::default()));
            assert!(writing.as_mut().now_or_never().is_none(), "its thread is free for others meanwhile");
            let mail = writing.await.expect("it is written");
            assert!(mail.bytes.len() > large.len());
        });
    }
}
