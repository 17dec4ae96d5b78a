//! What every channel does: one answer per message, nothing after the deadline, and no answer that says more than is
//! known.

use crate::block_on;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Proof, Refusal, Shipment};
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// One channel under test, with a provider behind it.
pub trait Rig {
    fn channel(&self) -> &dyn Channel;

    /// The monotonic time that deadlines are on; at least 1.
    fn now(&self) -> Millis;

    /// An endpoint whose provider behaves like this.
    fn endpoint(&self, behaviour: Behaviour) -> Vec<u8>;

    /// How many copies of a delivery the provider has taken.
    fn copies(&self, reference: &str) -> usize;

    /// Waits for the channel; a channel that needs a runtime brings it.
    fn wait(&self, future: BoxFuture<'_, ()>) {
        block_on(future);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behaviour {
    Takes,
    SaysLater,
    /// For good.
    Refuses,
    /// No connection can be made.
    IsUnreachable,
    /// Takes the message, and its answer is lost.
    TakesAndFallsSilent,
}

const BEHAVIOURS: [Behaviour; 5] = [
    Behaviour::Takes,
    Behaviour::SaysLater,
    Behaviour::Refuses,
    Behaviour::IsUnreachable,
    Behaviour::TakesAndFallsSilent,
];

type Case = (&'static str, fn(&dyn Rig));

pub const CASES: &[Case] = &[
    ("an empty shipment is done", empty_shipment_is_done),
    ("every message is answered once, by what became of it", every_message_is_answered_once),
    ("nothing leaves after the deadline", nothing_leaves_after_the_deadline),
    ("an endpoint that cannot be read concerns itself alone", unreadable_endpoint_concerns_itself),
    ("shipments at the same time keep their answers", shipments_keep_their_answers),
    ("an attempt is made once, and the next one again", attempts_are_not_repeated),
];

pub fn channel_suite<R: Rig>(mut fresh: impl FnMut() -> R) {
    for (name, case) in CASES {
        let rig = fresh();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&rig)));
        if let Err(cause) = outcome {
            let cause = cause.downcast_ref::<String>().map_or("see above", String::as_str);
            panic!("channel case failed: {name}: {cause}");
        }
    }
}

/// Long enough for any rig.
const IN_TIME_MS: u64 = 60_000;

fn shipment(rig: &dyn Rig, messages: Vec<Message>) -> Shipment {
    Shipment {
        tenant: TenantId(1),
        content: Arc::from(&br#"{"title":"hello"}"#[..]),
        lane: Priority::Normal,
        expires_at: Millis(u64::MAX),
        collapse_key: None,
        deadline: rig.now().plus(IN_TIME_MS),
        callbacks: None,
        messages,
    }
}

fn message(endpoint: Vec<u8>, reference: impl Into<String>) -> Message {
    Message {
        reference: reference.into(),
        endpoint,
        content: None,
        attempt: 1,
        recipient: 1,
        unsubscribe: None,
    }
}

/// The answers in the order of the messages; fails if one has none, or more than one.
fn send(rig: &dyn Rig, shipment: &Shipment) -> Vec<Answer> {
    let reports = Reports::new(shipment);
    let report = |index, answer| reports.add(index, answer);
    rig.wait(rig.channel().send(shipment, &report));
    reports.into_answers()
}

struct Reports(Mutex<Vec<Option<Answer>>>);

impl Reports {
    fn new(shipment: &Shipment) -> Self {
        Self(Mutex::new(vec![None; shipment.messages.len()]))
    }

    fn add(&self, index: usize, answer: Answer) {
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(index < reports.len(), "index {index} names no message");
        let before = reports[index].replace(answer);
        assert_eq!(before, None, "message {index} is answered once");
    }

    fn into_answers(self) -> Vec<Answer> {
        let reports = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let answer = |(index, report): (usize, Option<Answer>)| {
            report.unwrap_or_else(|| panic!("message {index} has no answer when the channel is done"))
        };
        reports.into_iter().enumerate().map(answer).collect()
    }
}

fn check(rig: &dyn Rig, behaviour: Behaviour, reference: &str, answer: &Answer) {
    let fits = match behaviour {
        Behaviour::Takes => matches!(answer, Answer::Accepted { .. }),
        Behaviour::SaysLater => matches!(answer, Answer::Later { .. }),
        Behaviour::Refuses => matches!(answer, Answer::Rejected { .. }),
        Behaviour::IsUnreachable => matches!(answer, Answer::NotSent { proof: Proof::NoConnection, .. }),
        Behaviour::TakesAndFallsSilent => matches!(answer, Answer::Unknown { .. }),
    };
    assert!(fits, "a provider that {behaviour:?} gives {answer:?}");
    let expected = match behaviour {
        Behaviour::Takes | Behaviour::TakesAndFallsSilent => 1,
        Behaviour::SaysLater | Behaviour::Refuses | Behaviour::IsUnreachable => 0,
    };
    assert_eq!(rig.copies(reference), expected, "copies of a message whose provider {behaviour:?}");
}

fn empty_shipment_is_done(rig: &dyn Rig) {
    assert_eq!(send(rig, &shipment(rig, Vec::new())), []);
    let late = Shipment { deadline: Millis(0), ..shipment(rig, Vec::new()) };
    assert_eq!(send(rig, &late), []);
}

fn every_message_is_answered_once(rig: &dyn Rig) {
    for count in [1, 2, 7, 250] {
        let behaviours: Vec<_> = BEHAVIOURS.into_iter().cycle().take(count).collect();
        let messages = behaviours
            .iter()
            .enumerate()
            .map(|(index, behaviour)| message(rig.endpoint(*behaviour), format!("of{count}-{index}")))
            .collect();
        let shipment = shipment(rig, messages);
        let answers = send(rig, &shipment);
        for ((behaviour, message), answer) in behaviours.iter().zip(&shipment.messages).zip(&answers) {
            check(rig, *behaviour, &message.reference, answer);
        }
    }
}

fn nothing_leaves_after_the_deadline(rig: &dyn Rig) {
    let messages = BEHAVIOURS.map(|behaviour| message(rig.endpoint(behaviour), format!("{behaviour:?}")));
    let deadline = Millis(rig.now().0.checked_sub(1).expect("the clock of a rig has begun"));
    let late = Shipment { deadline, ..shipment(rig, messages.to_vec()) };
    for (message, answer) in late.messages.iter().zip(send(rig, &late)) {
        let is_late = matches!(answer, Answer::NotSent { proof: Proof::Deadline, .. });
        assert!(is_late, "{}: {answer:?}", message.reference);
        assert_eq!(rig.copies(&message.reference), 0, "{}", message.reference);
    }
}

fn unreadable_endpoint_concerns_itself(rig: &dyn Rig) {
    let unreadable: [&[u8]; 4] = [b"", b"\0", b"no endpoint of any channel", &[0xff; 70_000]];
    let mut messages = vec![message(rig.endpoint(Behaviour::Takes), "first")];
    messages.extend(unreadable.map(|bytes| message(bytes.to_vec(), "unreadable")));
    messages.push(message(rig.endpoint(Behaviour::Takes), "last"));
    let answers = send(rig, &shipment(rig, messages));
    check(rig, Behaviour::Takes, "first", &answers[0]);
    for answer in &answers[1..=unreadable.len()] {
        let is_malformed = matches!(answer, Answer::Rejected { refusal: Refusal::Malformed, .. });
        assert!(is_malformed, "{answer:?}");
    }
    check(rig, Behaviour::Takes, "last", &answers[unreadable.len() + 1]);
}

fn shipments_keep_their_answers(rig: &dyn Rig) {
    let of = |behaviour| {
        let messages =
            (0..40).map(|index| message(rig.endpoint(behaviour), format!("{behaviour:?}-{index}")));
        shipment(rig, messages.collect())
    };
    let shipments = BEHAVIOURS.map(of);
    let reports: Vec<_> = shipments.iter().map(Reports::new).collect();
    let report: Vec<_> =
        reports.iter().map(|reports| move |index, answer| reports.add(index, answer)).collect();
    let mut sends: Vec<_> = shipments
        .iter()
        .zip(&report)
        .map(|(shipment, report)| rig.channel().send(shipment, report))
        .collect();
    rig.wait(Box::pin(poll_fn(move |context| {
        sends.retain_mut(|send| send.as_mut().poll(context).is_pending());
        if sends.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })));
    for ((behaviour, shipment), reports) in BEHAVIOURS.iter().zip(&shipments).zip(reports) {
        for (message, answer) in shipment.messages.iter().zip(reports.into_answers()) {
            check(rig, *behaviour, &message.reference, &answer);
        }
    }
}

fn attempts_are_not_repeated(rig: &dyn Rig) {
    for behaviour in [Behaviour::Takes, Behaviour::TakesAndFallsSilent] {
        for attempt in 1..=3 {
            let again = Message { attempt, ..message(rig.endpoint(behaviour), format!("{behaviour:?}")) };
            assert_eq!(send(rig, &shipment(rig, vec![again])).len(), 1);
            assert_eq!(rig.copies(&format!("{behaviour:?}")), usize::from(attempt), "{behaviour:?}");
        }
    }
}
