//! Users and the lists they are on, as clients were told.
//!
//! One writer per user and one change per edge are under way at a time (see `Oracle::may_start`), so that every
//! answer can be judged exactly. An edge keeps its changes with the moments between which each became true: what
//! an event meets is decided from those.

use super::devices::Devices;
use super::posts::Record;
use super::{Doubt, Heard, Oracle, Step, Who, entries::Entries};
use crate::broken::{Broken, Invariant};
use crate::call::{Address, List, PostId, attributes};
use fantail_node::ask::{ChannelKind, EdgeChange, Refusal, Upserted, UserView};
use fantail_rules::ids::{Arrival, TenantId};
use fantail_rules::marks::Mark;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Person {
    pub exists: bool,
    /// Counts births: a user who was deleted and comes back has nothing of before.
    pub incarnation: u32,
    pub attribute: u64,
    pub ever_deleted: bool,
    /// What became of this user cannot be known any more; nothing is asked or expected of it.
    pub retired: bool,
    pub writing: bool,
    /// A deletion is under way.
    pub ending: bool,
    /// Edges, marks, walks and polls under way.
    pub readers: u32,
    pub marking: Option<Marking>,
    pub polling: bool,
    pub edges: BTreeMap<List, Edge>,
    pub enrolled: BTreeMap<ChannelKind, Enrolled>,
    pub entries: BTreeMap<PostId, Entries>,
    /// Where entries were seen; they must stay there.
    pub arrivals: BTreeMap<PostId, Arrival>,
    /// Where the next poll goes on, and everything that polls have shown.
    pub polled_through: Arrival,
    pub polled: BTreeSet<PostId>,
    pub devices: Devices,
}

/// A device with an address that is nobody else's.
#[derive(Clone, Copy)]
pub struct Enrolled {
    pub address: Address,
    pub since: Step,
    /// It has had one address, and was told so.
    pub surely: bool,
}

/// A mark under way.
#[derive(Clone, Copy)]
pub struct Marking {
    pub mark: Mark,
    /// It is for everything that has arrived when it gets its turn, later posts included.
    pub all: bool,
}

#[derive(Default)]
pub struct Edge {
    changes: Vec<Change>,
    pending: Option<Pending>,
}

struct Change {
    invoked: Step,
    acked: Step,
    join: bool,
}

#[derive(Clone, Copy)]
struct Pending {
    invoked: Step,
    join: bool,
}

/// What is known of a yes-or-no question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    No,
    Maybe,
    Yes,
}

impl Person {
    pub fn may_write(&self) -> bool {
        !self.retired && !self.writing && self.readers == 0
    }

    pub fn may_use(&self) -> bool {
        !self.retired && !self.writing
    }

    pub fn may_edit(&self, list: List) -> bool {
        self.may_use() && self.edges.get(&list).is_none_or(|edge| edge.pending.is_none())
    }

    /// Names sealed under this user's key may be unreadable.
    pub fn may_be_erased(&self) -> bool {
        self.ever_deleted || self.retired || self.ending
    }

    pub fn marked(&mut self) {
        self.marking = None;
        self.readers -= 1;
    }

    pub fn polled(&mut self) {
        self.polling = false;
        self.readers -= 1;
    }

    fn born(&mut self, attribute: u64) {
        self.exists = true;
        self.incarnation += 1;
        self.attribute = attribute;
    }

    /// Everything of a deleted user is gone.
    fn gone(&mut self) {
        let incarnation = self.incarnation;
        *self = Self { incarnation, ever_deleted: true, ..Self::default() };
    }

    fn written(&mut self) {
        (self.writing, self.ending) = (false, false);
    }
}

impl Edge {
    pub fn is_open(&self) -> bool {
        self.changes.last().is_some_and(|change| change.join)
    }

    /// Whether an event of the list found this user on it. A change acknowledged before the event was sent applies;
    /// one sent after the event was taken does not; in between either may be.
    pub fn covers(&self, record: &Record) -> Known {
        let taken = record.taken_at();
        let pending = self.pending.map(|pending| Change {
            invoked: pending.invoked,
            acked: Step::MAX,
            join: pending.join,
        });
        let (mut yes, mut no, mut joined) = (false, false, false);
        for change in self.changes.iter().chain(&pending) {
            if change.acked < record.first_invoked {
                joined = change.join;
                continue;
            }
            if taken.is_some_and(|taken| taken < change.invoked) {
                break;
            }
            (yes, no) = (yes | joined, no | !joined);
            joined = change.join;
        }
        (yes, no) = (yes | joined, no | !joined);
        match (yes, no) {
            (true, false) => Known::Yes,
            (false, _) => Known::No,
            (true, true) => Known::Maybe,
        }
    }
}

impl Oracle {
    pub(super) fn heard_put(
        &mut self,
        who: Who,
        attribute: u64,
        heard: Heard<Upserted>,
    ) -> Result<(), Broken> {
        let person = self.person(who);
        match heard {
            Heard::Yes(upserted) => {
                person.written();
                let fits = person.exists == (upserted == Upserted::Updated);
                Invariant::Survives
                    .holds(fits, || format!("{who:?} is {upserted:?}, existed: {}", person.exists))?;
                if !person.exists {
                    person.born(attribute);
                }
                person.attribute = attribute;
            }
            Heard::No(_) => person.written(),
            Heard::Unknown => self.doubts.push(Doubt::Put { who, attribute }),
        }
        Ok(())
    }

    pub(super) fn heard_delete(&mut self, who: Who, heard: Heard<()>) -> Result<(), Broken> {
        let person = self.person(who);
        match heard {
            Heard::Yes(()) => {
                Invariant::Survives
                    .holds(person.exists, || format!("{who:?} was deleted but never existed"))?;
                person.gone();
            }
            Heard::No(Refusal::UnknownUser { .. }) => {
                person.written();
                Invariant::Survives
                    .holds(!person.exists, || format!("{who:?} exists but cannot be deleted"))?;
            }
            Heard::No(_) => person.written(),
            Heard::Unknown => self.doubts.push(Doubt::Deleted { who }),
        }
        Ok(())
    }

    /// The two answers say which came first.
    pub(super) fn heard_duel(
        &mut self,
        who: Who,
        attribute: u64,
        put: Heard<Upserted>,
        delete: Heard<()>,
    ) -> Result<(), Broken> {
        let person = self.person(who);
        let existed = person.exists;
        let survives = match (put, delete) {
            (Heard::Unknown, _) | (_, Heard::Unknown) => {
                self.doubts.push(Doubt::Duel { who });
                return Ok(());
            }
            (Heard::No(_), delete) => return self.heard_delete(who, delete),
            (Heard::Yes(upserted), Heard::No(Refusal::UnknownUser { .. })) => {
                let fits = !existed && upserted == Upserted::Created;
                Invariant::Survives
                    .holds(fits, || format!("{who:?} {upserted:?} while deleting found nobody"))?;
                true
            }
            (put @ Heard::Yes(_), Heard::No(_)) => return self.heard_put(who, attribute, put),
            (Heard::Yes(upserted), Heard::Yes(())) => {
                let fits = existed || upserted == Upserted::Created;
                Invariant::Survives.holds(fits, || format!("{who:?} was updated but did not exist"))?;
                existed && upserted == Upserted::Created
            }
        };
        person.gone();
        if survives {
            person.born(attribute);
        }
        Ok(())
    }

    pub(super) fn heard_user(&mut self, who: Who, heard: Heard<UserView>) -> Result<(), Broken> {
        let person = self.person(who);
        if person.writing || person.retired {
            return Ok(());
        }
        match heard {
            Heard::Yes(view) => {
                let known = person.exists && view.attributes == attributes(person.attribute);
                Invariant::Survives.holds(known, || format!("{who:?} reads {view:?}, not as written"))
            }
            Heard::No(Refusal::UnknownUser { .. }) => Invariant::Survives
                .holds(!person.exists, || format!("{who:?} was acknowledged and cannot be read")),
            Heard::No(_) | Heard::Unknown => Ok(()),
        }
    }

    pub(super) fn invoke_edges(
        &mut self,
        tenant: TenantId,
        change: EdgeChange,
        edges: &[(u16, List)],
        step: Step,
    ) {
        for (user, list) in edges {
            let person = self.person(Who { tenant, user: *user });
            person.readers += 1;
            let pending = Pending { invoked: step, join: change == EdgeChange::Join };
            person.edges.entry(*list).or_default().pending = Some(pending);
        }
    }

    pub(super) fn heard_edge(
        &mut self,
        who: Who,
        list: List,
        heard: Heard<bool>,
        step: Step,
    ) -> Result<(), Broken> {
        if let Heard::Unknown = heard {
            self.doubts.push(Doubt::Edge { who, list });
            return Ok(());
        }
        let person = self.person(who);
        person.readers -= 1;
        let edge = person.edges.entry(list).or_default();
        let Some(Pending { invoked, join }) = edge.pending.take() else { return Ok(()) };
        let (exists, open) = (person.exists, edge.is_open());
        let told =
            |what: &str| format!("{who:?} {list:?} join {join}: {what}, exists {exists}, on the list {open}");
        match heard {
            Heard::Yes(changed) => {
                let fits = exists && changed == (open != join);
                Invariant::Survives.holds(fits, || told(if changed { "changed" } else { "unchanged" }))?;
                if changed {
                    edge.changes.push(Change { invoked, acked: step, join });
                }
                Ok(())
            }
            Heard::No(Refusal::UnknownUser { .. }) => {
                Invariant::Survives.holds(!exists, || told("unknown user"))
            }
            Heard::No(_) | Heard::Unknown => Ok(()),
        }
    }

    /// What is read of a user after the restart decides whether a lost upsert or deletion happened.
    pub fn resolve_user(&mut self, doubt: &Doubt, found: Option<Vec<u8>>) -> Result<(), Broken> {
        let (who, written) = match doubt {
            Doubt::Put { who, attribute } => (*who, Some(*attribute)),
            Doubt::Deleted { who } => (*who, None),
            Doubt::Duel { who } | Doubt::Edge { who, .. } => {
                self.person(*who).retired = true;
                return Ok(());
            }
        };
        let person = self.person(who);
        let told = format!("{who:?} reads {found:?} after {doubt:?}, existed: {}", person.exists);
        let old = person.exists.then(|| attributes(person.attribute));
        person.written();
        match (written, found) {
            (_, found) if found == old => Ok(()),
            (Some(new), Some(found)) if found == attributes(new) => {
                if !person.exists {
                    person.born(new);
                }
                person.attribute = new;
                Ok(())
            }
            (None, None) => {
                person.gone();
                Ok(())
            }
            (_, _) => Invariant::Survives.broken(told),
        }
    }

    /// What is read of an edge after the restart decides whether a lost change happened.
    pub fn resolve_edge(
        &mut self,
        who: Who,
        list: List,
        found: Option<bool>,
        step: Step,
    ) -> Result<(), Broken> {
        let person = self.person(who);
        person.readers -= 1;
        let edge = person.edges.entry(list).or_default();
        let Some(Pending { invoked, join }) = edge.pending.take() else { return Ok(()) };
        let open = edge.is_open();
        let told = format!("{who:?} {list:?} reads {found:?}, was {open}, join {join} was lost");
        match found {
            Some(found) if found == open => {}
            Some(found) if found == join => edge.changes.push(Change { invoked, acked: step, join }),
            Some(_) => return Invariant::Survives.broken(told),
            None => return Invariant::Survives.holds(!person.exists, || told),
        }
        Ok(())
    }
}
