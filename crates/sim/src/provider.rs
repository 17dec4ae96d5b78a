//! The world outside: a provider that remembers everything it was given, and answers as a seed chooses.
//!
//! It belongs to no node: a crash loses the answers that were under way, never what was taken in. What must never
//! happen: an answer that promises more than is true, such as "not sent" for what was taken in.

use crate::call::Stranger;
use crate::chance::Chance;
use crate::executor::Executor;
use fantail_memory::clock::ManualClock;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Proof, Refusal, Report, Scope, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, TenantId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The channels that the simulation has.
pub const KINDS: [ChannelKind; 2] = [ChannelKind::Push, ChannelKind::Webhook];

pub struct Provider {
    chance: Chance,
    /// Its answers are as long as they may be.
    is_wordy: bool,
    tasks: Executor,
    clock: Arc<ManualClock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether it may do anything but take what it is given.
    is_moody: bool,
    is_down: bool,
    /// Calls since they were last looked at.
    calls: Vec<Sent>,
    /// References of messages that were handed over since then, in order; bytes leave a little later, in any order.
    starts: Vec<String>,
    /// Copies that were taken in, by reference.
    copies: BTreeMap<String, u64>,
    /// Endpoints at which nobody is any more.
    dead: BTreeSet<Vec<u8>>,
    seen: Seen,
}

/// How often things happened that a run should see.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    pub taken: u64,
    pub refused: u64,
    pub not_sent: u64,
    pub silent: u64,
    pub dead: u64,
    /// Taken in for addresses that are nobody's.
    pub strangers: u64,
}

/// One call of the provider.
#[derive(Clone, Debug)]
pub struct Sent {
    pub tenant: TenantId,
    pub channel: ChannelKind,
    pub reference: String,
    pub endpoint: Vec<u8>,
    pub content: Vec<u8>,
    /// Copies taken in so far, this one included.
    pub copies: u64,
}

/// One channel of the provider.
pub struct Way {
    pub kind: ChannelKind,
    pub provider: Arc<Provider>,
}

/// What happens next to a message.
enum Step {
    Leaves,
    IsAnswered(Answer),
}

impl Provider {
    #[must_use]
    pub fn new((seed, is_wordy): (u64, bool), tasks: Executor, clock: Arc<ManualClock>) -> Arc<Self> {
        Arc::new(Self {
            chance: Chance::of(seed, "provider"),
            is_wordy,
            tasks,
            clock,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_moody(&self, is_moody: bool) {
        let mut state = self.state();
        (state.is_moody, state.is_down) = (is_moody, false);
    }

    /// Goes down or comes back; says which.
    pub fn turn(&self) -> bool {
        let mut state = self.state();
        state.is_down = !state.is_down;
        state.is_down
    }

    pub fn take_calls(&self) -> Vec<Sent> {
        std::mem::take(&mut self.state().calls)
    }

    pub fn take_starts(&self) -> Vec<String> {
        std::mem::take(&mut self.state().starts)
    }

    #[must_use]
    pub fn copies(&self, reference: &str) -> u64 {
        self.state().copies.get(reference).copied().unwrap_or(0)
    }

    #[must_use]
    pub fn is_dead(&self, endpoint: &[u8]) -> bool {
        self.state().dead.contains(endpoint)
    }

    #[must_use]
    pub fn seen(&self) -> Seen {
        self.state().seen
    }

    /// The first byte of a message arrives. Returns what is answered, and after how long.
    fn hear(&self, kind: ChannelKind, shipment: &Shipment, message: &Message) -> (Answer, u64) {
        let mut state = self.state();
        let (is_taken, answer) = self.decide(&mut state, &message.endpoint);
        let delay_ms = match (&answer, state.is_moody && self.chance.percent(8)) {
            (Answer::Accepted { .. }, true) => self.chance.between(200, 4_000),
            (_, _) => self.chance.below(30),
        };
        let copies = state.copies.entry(message.reference.clone()).or_default();
        *copies += u64::from(is_taken);
        let content = message.content.as_ref().unwrap_or(&shipment.content).to_vec();
        let sent = Sent {
            tenant: shipment.tenant,
            channel: kind,
            reference: message.reference.clone(),
            endpoint: message.endpoint.to_vec(),
            content,
            copies: *copies,
        };
        state.calls.push(sent);
        let seen = &mut state.seen;
        seen.taken += u64::from(is_taken);
        seen.strangers += u64::from(is_taken && Stranger::is_at(&message.endpoint));
        match &answer {
            Answer::Accepted { .. } => {}
            Answer::Rejected { .. } | Answer::Later { .. } => seen.refused += 1,
            Answer::NotSent { .. } => seen.not_sent += 1,
            Answer::Unknown { .. } => seen.silent += 1,
        }
        (answer, delay_ms)
    }

    /// Whether it takes the message in, and what it says.
    fn decide(&self, state: &mut State, endpoint: &[u8]) -> (bool, Answer) {
        let text = if self.is_wordy { "long words of a provider, ".repeat(20) } else { String::new() };
        let said = |code: &str| (code.to_owned(), text.clone());
        let reject = |refusal, (code, message)| (false, Answer::Rejected { refusal, code, message });
        let later =
            |scope, after_ms, (code, message)| (false, Answer::Later { after_ms, scope, code, message });
        let lost = |is_taken, (code, message)| (is_taken, Answer::Unknown { code, message });
        let not_sent = |proof| (false, Answer::NotSent { proof, message: String::new() });
        if state.is_down {
            return if self.chance.percent(70) {
                not_sent(Proof::NoConnection)
            } else {
                lost(false, said("reset"))
            };
        }
        if state.dead.contains(endpoint) {
            return reject(Refusal::DeadEndpoint, said("unregistered"));
        }
        let weights = [60, 8, 3, 4, 1, 2, 5, 2, 5, 6];
        match if state.is_moody { self.chance.weighted(&weights) } else { 0 } {
            1 => later(Scope::Message, None, said("busy")),
            2 => later(Scope::Origin, Some(self.chance.between(100, 3_000)), said("slow_down")),
            3 => reject(Refusal::Message, said("too_large")),
            4 => reject(Refusal::Malformed, said("bad_payload")),
            5 => {
                state.dead.insert(endpoint.to_vec());
                state.seen.dead += 1;
                reject(Refusal::DeadEndpoint, said("unregistered"))
            }
            6 => not_sent(Proof::NoConnection),
            7 => not_sent(Proof::Unprocessed),
            8 => lost(false, said("reset")),
            9 => lost(true, said("timeout")),
            _ => (true, Answer::Accepted { provider_id: self.is_wordy.then(|| text.clone()) }),
        }
    }
}

impl Channel for Way {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        let Provider { chance, tasks, clock, .. } = &*self.provider;
        Box::pin(async move {
            let begun = clock.monotonic();
            let references = shipment.messages.iter().map(|message| message.reference.clone());
            self.provider.state().starts.extend(references);
            let mut agenda: BTreeMap<(Millis, usize), Step> = BTreeMap::new();
            for index in 0..shipment.messages.len() {
                // Now and then somebody waits for a connection for so long that it is too late.
                let wait = if chance.percent(2) { 2_500 } else { chance.below(20) };
                agenda.insert((begun.plus(wait), index), Step::Leaves);
            }
            while let Some(((at, index), step)) = agenda.pop_first() {
                if at > clock.monotonic() {
                    tasks.sleep_until(at).await;
                }
                let now = clock.monotonic();
                match step {
                    Step::IsAnswered(answer) => report(index, answer),
                    Step::Leaves if now > shipment.deadline => {
                        report(index, Answer::NotSent { proof: Proof::Deadline, message: String::new() });
                    }
                    Step::Leaves => {
                        let (answer, delay_ms) =
                            self.provider.hear(self.kind, shipment, &shipment.messages[index]);
                        agenda.insert((now.plus(delay_ms), index), Step::IsAnswered(answer));
                    }
                }
            }
        })
    }
}
