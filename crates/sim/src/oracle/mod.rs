//! The oracle: a model of what clients may see, fed by their calls and the answers they heard, never by Fantail's
//! own tables. A call whose answer was lost may have happened or not; what is read later decides, and from then on
//! it holds.
//!
//! Reading order: `beside` (what may be asked at once), `people` (users and their lists), `devices`, `posts` (requests, repeats, retractions), `entries` (what marks
//! mean), `marks`, `inboxes` (what each user must, may and must not see), `sends` (what leaves the house), `later` (what is
//! held back, called off by a key, and told by receipts), `notes` (what the audit log is told beside all that), `finale` (lists and names at the end).

mod audit;
mod beside;
mod devices;
mod entries;
mod finale;
mod heard;
mod inboxes;
mod later;
mod marks;
mod notes;
mod people;
mod posts;
mod sends;

use crate::broken::{Broken, Invariant};
use crate::call::{Answer, Audience, Call, List, Post, PostId, Stranger, Token, Who};
use crate::template;
use entries::Entries;
use fantail_node::ask::{Refusal, Upserted};
use fantail_rules::ids::{Arrival, Millis, TenantId};
use fantail_rules::ulid::Ulid;
use heard::{Heard, sort};
use later::{Agenda, heard_consent};
use notes::Notes;
use people::Person;
use posts::{Fate, Record};
use std::collections::{BTreeMap, BTreeSet};

pub use audit::check_audit;
pub use devices::check_devices;
pub use finale::check_lists;
pub use later::Told;
pub use sends::Due;

/// A moment of the run.
pub type Step = u64;
pub type CallId = u64;

/// When an answer is heard.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub step: Step,
    /// The time that the node goes by.
    pub wall: Millis,
    /// The latest time that any node of the run went by: snoozes beyond it are surely asleep.
    pub latest: Millis,
}

#[derive(Default)]
pub struct Oracle {
    people: BTreeMap<Who, Person>,
    records: Vec<Record>,
    keys: BTreeMap<(TenantId, u32), Vec<PostId>>,
    contents: BTreeMap<Vec<u8>, PostId>,
    events: BTreeMap<Ulid, PostId>,
    calls: BTreeMap<CallId, Open>,
    doubts: Vec<Doubt>,
    /// Tokens that were once put on the suppression list: whether they are, if that is known.
    suppressed: BTreeMap<(TenantId, Token), Option<bool>>,
    agenda: Agenda,
    notes: Notes,
    /// Addresses whose user was deleted, or may have been.
    forgotten: BTreeSet<Stranger>,
    pub seen: Seen,
}

/// How often things happened that a run should see.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    pub accepted: u64,
    pub repeats: u64,
    pub other_bodies: u64,
    pub retracts: u64,
    pub lost_calls: u64,
    pub audits: u64,
    pub walks: u64,
    pub refused: u64,
    pub registered: u64,
    pub cancels: u64,
    pub enrolments: u64,
    /// Events that were released when they were due, and that never were.
    pub released: u64,
    pub dropped: u64,
    /// Events that were called off by a key.
    pub called_off: u64,
    pub receipts: u64,
    /// Walks that were paused, resumed or given another pace.
    pub steered: u64,
    /// Entries and messages in a language of their own.
    pub translated: u64,
    /// Notes for the audit log that were acknowledged.
    pub noted: u64,
}

/// A call under way.
struct Open {
    call: Call,
    invoked: Step,
    /// For marks: the entries before the mark, and those it surely reaches.
    before: BTreeMap<PostId, Entries>,
    reached: BTreeSet<PostId>,
    /// Posts this user surely does not have when the call starts, and those of a mark that it surely has.
    absent: BTreeSet<PostId>,
    present: BTreeSet<PostId>,
}

/// Something a lost call may have changed; to be read after the restart.
#[derive(Clone, Debug)]
pub enum Doubt {
    Put { who: Who, attribute: u64 },
    Deleted { who: Who },
    Duel { who: Who },
    Edge { who: Who, list: List },
}

impl Oracle {
    pub fn invoke(&mut self, id: CallId, call: &Call, step: Step) {
        let mut open = Open {
            call: call.clone(),
            invoked: step,
            before: BTreeMap::new(),
            reached: BTreeSet::new(),
            absent: BTreeSet::new(),
            present: BTreeSet::new(),
        };
        match call {
            Call::PutUsers { tenant, users } => {
                for (user, _) in users {
                    self.person(Who { tenant: *tenant, user: *user }).writing = true;
                }
            }
            Call::DeleteUser { who, .. } | Call::Duel { who, .. } => {
                let person = self.person(*who);
                (person.writing, person.ending) = (true, true);
            }
            Call::Edit { tenant, change, edges } => self.invoke_edges(*tenant, *change, edges, step),
            Call::Post { posts, .. } => posts.iter().for_each(|(post, _)| self.invoke_post(*post, step)),
            Call::Retract { post, .. } => self.records[post.0].retraction.in_flight += 1,
            Call::Cancel { post, .. } => self.records[post.0].may_be_cancelled = true,
            Call::Forget { stranger } => drop(self.forgotten.insert(*stranger)),
            Call::CancelKey { tenant, key } => self.invoke_cancel_key(*tenant, *key),
            Call::Receipt { outcome, owner, .. } => self.invoke_receipt(*outcome, *owner),
            Call::Enrol { who, .. } => self.person(*who).readers += 1,
            Call::Mark { who, mark, target } => self.invoke_mark(*who, *mark, target, &mut open),
            Call::Poll { who, .. } => {
                let person = self.person(*who);
                (person.readers, person.polling) = (person.readers + 1, true);
            }
            Call::Walk { who, .. } => {
                open.absent = self.surely_absent(*who);
                self.person(*who).readers += 1;
            }
            Call::Register { who, .. } | Call::Unregister { who, .. } => self.invoke_device(*who),
            Call::Suppress { tenant, token, .. } => {
                self.suppressed.insert((*tenant, *token), None);
            }
            Call::Note { note, .. } => self.invoke_note(*note, step),
            Call::ReadUser { .. }
            | Call::Audit { .. }
            | Call::Consent { .. }
            | Call::Limit { .. }
            | Call::Steer { .. } => {}
        }
        self.calls.insert(id, open);
    }

    /// An answer was heard. `failing`: the journal has failed, so the node may say that it stopped.
    pub fn complete(&mut self, id: CallId, answer: Answer, now: Now, failing: bool) -> Result<(), Broken> {
        let Some(open) = self.calls.remove(&id) else { return Ok(()) };
        let invoked = open.invoked;
        match (open.call.clone(), answer) {
            (Call::PutUsers { tenant, users }, Answer::Users(answers)) => {
                self.heard_puts(tenant, users, answers, failing)
            }
            (Call::DeleteUser { who, .. }, Answer::Deleted(answer)) => {
                self.heard_delete(who, sort(answer, failing)?)
            }
            (Call::Forget { .. }, Answer::Deleted(answer)) => sort(answer, failing).map(drop),
            (Call::Duel { who, attribute, .. }, Answer::Duel { put, delete }) => {
                self.heard_duel(who, attribute, sort(put, failing)?, sort(delete, failing)?)
            }
            (Call::Edit { tenant, edges, .. }, Answer::Edges(answers)) => {
                for ((user, list), answer) in edges.into_iter().zip(answers) {
                    self.heard_edge(Who { tenant, user }, list, sort(answer, failing)?, now.step)?;
                }
                Ok(())
            }
            (Call::Post { posts, .. }, Answer::Posted(answers)) => {
                for ((post, _), answer) in posts.into_iter().zip(answers) {
                    self.heard_post(post, invoked, sort(answer, failing)?, now.step)?;
                }
                Ok(())
            }
            (Call::Retract { tenant, post, .. }, Answer::Retracted(answer)) => {
                self.heard_retract(tenant, post, sort(answer.map(drop), failing)?, now.step)
            }
            (Call::Cancel { tenant, post, .. }, Answer::Cancelled(answer)) => {
                self.heard_cancel(tenant, post, sort(answer.map(drop), failing)?)
            }
            (Call::CancelKey { tenant, key }, Answer::CalledOff(answer)) => {
                self.heard_cancel_key(tenant, key, invoked, sort(answer, failing)?)
            }
            (Call::Receipt { reference, outcome, is_own, .. }, Answer::Receipt(answer)) => {
                self.heard_receipt(reference, outcome, is_own, sort(answer, failing)?)
            }
            (Call::Steer { .. }, Answer::Steered(answer)) => self.heard_steer(&sort(answer, failing)?),
            (Call::Note { note, .. }, Answer::Noted(answer)) => {
                self.heard_note(note, &sort(answer, failing)?, now.step)
            }
            (_, Answer::Consented(answer)) => heard_consent(sort(answer, failing)?),
            (Call::Enrol { who, address }, Answer::Enrolled(answer)) => {
                self.heard_enrol(who, address, sort(answer, failing)?, now.step)
            }
            (Call::Mark { who, mark, target }, Answer::Marked(answer)) => {
                self.heard_mark(who, mark, &target, open, sort(answer, failing)?)
            }
            (Call::Register { who, device, token }, Answer::Registered(answer)) => {
                self.heard_register(who, device, token, sort(answer, failing)?)
            }
            (Call::Unregister { who, device }, Answer::Unregistered(answer)) => {
                self.heard_unregister(who, device, sort(answer, failing)?)
            }
            (Call::Suppress { tenant, token, on }, Answer::Suppressed(answer)) => {
                self.heard_suppress(tenant, token, on, &sort(answer.map(drop), failing)?);
                Ok(())
            }
            (Call::ReadUser { who }, Answer::User(answer)) => self.heard_user(who, sort(answer, failing)?),
            (Call::Audit { who }, Answer::Page(answer)) => self.heard_audit(who, sort(answer, failing)?, now),
            (Call::Poll { who, from, .. }, Answer::Page(answer)) => {
                self.heard_poll(who, from, sort(answer, failing)?, now)
            }
            (Call::Walk { who, .. }, Answer::Walked(answer)) => {
                self.heard_walk(who, &open, sort(answer, failing)?, now)
            }
            (call, answer) => Invariant::Serves.broken(format!("{call:?} was answered with {answer:?}")),
        }
    }

    fn heard_puts(
        &mut self,
        tenant: TenantId,
        users: Vec<(u16, u64)>,
        answers: Vec<Result<Upserted, Refusal>>,
        failing: bool,
    ) -> Result<(), Broken> {
        for ((user, attribute), answer) in users.into_iter().zip(answers) {
            self.heard_put(Who { tenant, user }, attribute, sort(answer, failing)?)?;
        }
        Ok(())
    }

    fn heard_steer(&mut self, heard: &Heard<()>) -> Result<(), Broken> {
        self.seen.steered += u64::from(matches!(heard, Heard::Yes(())));
        Ok(())
    }

    /// The node died: nobody hears the answers of what was under way.
    pub fn lose_all(&mut self) {
        for (_, open) in std::mem::take(&mut self.calls) {
            self.seen.lost_calls += 1;
            match open.call {
                Call::PutUsers { tenant, users } => {
                    let doubt = |(user, attribute)| Doubt::Put { who: Who { tenant, user }, attribute };
                    self.doubts.extend(users.into_iter().map(doubt));
                }
                Call::DeleteUser { who, .. } => self.doubts.push(Doubt::Deleted { who }),
                Call::Duel { who, .. } => self.doubts.push(Doubt::Duel { who }),
                Call::Edit { tenant, edges, .. } => {
                    let doubt = |(user, list)| Doubt::Edge { who: Who { tenant, user }, list };
                    self.doubts.extend(edges.into_iter().map(doubt));
                }
                Call::Post { posts, .. } => posts.iter().for_each(|(post, _)| self.lose_post(*post)),
                Call::Retract { post, .. } => self.records[post.0].retraction.lose(),
                Call::Enrol { who, address } => self.lose_enrol(who, address),
                Call::Mark { who, mark, target } => {
                    self.mark_latecomers(who, mark, &target, &open.before);
                    self.person(who).marked();
                }
                Call::Poll { who, .. } => self.person(who).polled(),
                Call::Walk { who, .. } => self.person(who).readers -= 1,
                Call::Register { who, device, .. } | Call::Unregister { who, device } => {
                    self.lose_device(who, device);
                }
                Call::Consent { .. }
                | Call::Note { .. }
                | Call::Steer { .. }
                | Call::Limit { .. }
                | Call::Cancel { .. }
                | Call::CancelKey { .. }
                | Call::Forget { .. }
                | Call::Receipt { .. }
                | Call::Suppress { .. }
                | Call::ReadUser { .. }
                | Call::Audit { .. } => {}
            }
        }
    }

    /// The call that an answer is for.
    #[must_use]
    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.calls.get(&id).map(|open| &open.call)
    }

    /// What has to be read before calls go on.
    pub fn doubts(&mut self) -> Vec<Doubt> {
        std::mem::take(&mut self.doubts)
    }

    /// Every shard has taken everything that was durable.
    pub fn quiet(&mut self, step: Step) {
        for record in &mut self.records {
            let may_wait = self.agenda.may_wait(record);
            record.quiet(step, may_wait);
        }
    }

    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.calls.len()
    }

    /// A new request for the book.
    pub fn write_down(&mut self, post: Post) -> PostId {
        let id = PostId(self.records.len());
        self.keys.entry((post.tenant, post.key)).or_default().push(id);
        self.contents.insert(post.content(), id);
        self.contents.insert(sends::written_anew(&post.content()), id);
        if post.by_template {
            self.contents.extend(template::bodies(&post).map(|body| (body, id)));
        }
        self.records.push(Record::new(post));
        id
    }

    #[must_use]
    pub fn post(&self, id: PostId) -> &Post {
        &self.records[id.0].post
    }

    /// The request with this key and body, if it is in the book.
    #[must_use]
    pub fn find(&self, post: &Post) -> Option<PostId> {
        let same_key = self.keys.get(&(post.tenant, post.key))?;
        same_key.iter().copied().find(|id| self.records[id.0].post.body == post.body)
    }

    /// Entries this user was shown, and where.
    #[must_use]
    pub fn seen_by(&self, who: Who) -> Vec<(PostId, Ulid, Arrival)> {
        let arrivals = self.people.get(&who).map(|person| &person.arrivals);
        let known = arrivals.into_iter().flatten();
        known.filter_map(|(post, arrival)| Some((*post, self.event_of(*post)?, *arrival))).collect()
    }

    #[must_use]
    pub fn polled_through(&self, who: Who) -> Arrival {
        self.people.get(&who).map(|person| person.polled_through).unwrap_or_default()
    }

    /// The first so many requests are past retention: nobody has them any more.
    pub fn expire_through(&mut self, count: usize) {
        self.records.iter_mut().take(count).for_each(|record| record.retraction.decide(true));
    }

    #[must_use]
    pub fn post_count(&self) -> usize {
        self.records.len()
    }

    #[must_use]
    pub fn event_of(&self, id: PostId) -> Option<Ulid> {
        self.records[id.0].event
    }

    /// Events that a walk brings to everybody.
    #[must_use]
    pub fn walks(&self) -> Vec<(TenantId, Ulid)> {
        let walks = self.records.iter().filter(|record| record.post.audience == Audience::Everyone);
        walks.filter_map(|record| Some((record.post.tenant, record.event?))).collect()
    }

    /// Everybody who was ever named, in order.
    #[must_use]
    pub fn everybody(&self) -> Vec<Who> {
        self.people.keys().copied().collect()
    }

    fn person(&mut self, who: Who) -> &mut Person {
        self.people.entry(who).or_default()
    }
}
