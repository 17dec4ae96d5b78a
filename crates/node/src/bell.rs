//! A bell: whoever rings it wakes the one who waits, now or at its next wait.

use fantail_ports::BoxFuture;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

#[derive(Default)]
pub struct Bell(Mutex<State>);

#[derive(Default)]
struct State {
    is_rung: bool,
    waiting: Option<Waker>,
}

impl Bell {
    pub fn ring(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_rung = true;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// Returns when the bell was rung since the last wait, or when `until` is over.
    pub async fn wait(&self, mut until: Option<BoxFuture<'static, ()>>) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::take(&mut state.is_rung) {
                return Poll::Ready(());
            }
            state.waiting = Some(context.waker().clone());
            drop(state);
            match until.as_mut().map(|until| Pin::new(until).poll(context)) {
                Some(Poll::Ready(())) => Poll::Ready(()),
                Some(Poll::Pending) | None => Poll::Pending,
            }
        })
        .await;
    }
}
