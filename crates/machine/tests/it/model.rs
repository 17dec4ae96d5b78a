//! Inboxes in the plainest way: every user has a row per entry with all its states, and counting is counting. What
//! the machines answer is right if it equals what this answers.

use crate::harness::{DAY_MS, Node, walk};
use fantail_machine::shard::inbox::{Counts, Entry, UserInbox};
use fantail_rules::ids::{Arrival, ListId, Millis, UserNo};
use fantail_rules::marks::{Mark, State};
use fantail_rules::merge::Direction;
use fantail_rules::ulid::Ulid;
use std::collections::{BTreeMap, BTreeSet};

pub const STATES: [State; 6] =
    [State::Inbox, State::Unread, State::Read, State::Archived, State::Snoozed, State::All];

/// One shard of one tenant.
#[derive(Default)]
pub struct Model {
    pub people: BTreeMap<UserNo, Person>,
    pub events: Vec<Event>,
    /// What the front said and the shard has not taken.
    waiting: Vec<Said>,
}

#[derive(Default)]
pub struct Person {
    pub lists: BTreeSet<ListId>,
    pub rows: BTreeMap<u64, Row>,
}

#[derive(Default)]
pub struct Row {
    read: bool,
    seen: bool,
    archived: bool,
    deleted: bool,
    snoozed: Option<Millis>,
}

/// In the order of arrival.
pub struct Event {
    pub id: Ulid,
    pub taken: Millis,
    pub retracted: bool,
    pub expired: bool,
}

enum Said {
    List(Ulid, ListId),
    Members(Ulid, Vec<UserNo>),
    Retract(Ulid),
    Cancel,
}

impl Model {
    pub fn post(&mut self, event: Ulid, list: ListId) {
        self.waiting.push(Said::List(event, list));
    }

    pub fn send(&mut self, event: Ulid, members: Vec<UserNo>) {
        self.waiting.push(Said::Members(event, members));
    }

    pub fn retract(&mut self, event: Ulid) {
        self.waiting.push(Said::Retract(event));
    }

    /// Of no concern to inboxes, but it takes its place in the front's order.
    pub fn cancel(&mut self) {
        self.waiting.push(Said::Cancel);
    }

    /// Ids that were given out, taken or not.
    pub fn known(&self) -> Vec<Ulid> {
        let waiting = self.waiting.iter().filter_map(|said| match said {
            Said::List(event, _) | Said::Members(event, _) => Some(*event),
            Said::Retract(_) | Said::Cancel => None,
        });
        self.events.iter().map(|event| event.id).chain(waiting).collect()
    }

    pub fn take(&mut self, at_most: usize, now: Millis) {
        let count = at_most.min(self.waiting.len());
        let taken: Vec<Said> = self.waiting.drain(..count).collect();
        for said in taken {
            match said {
                Said::List(event, list) => self.arrive(event, now, |_, person| person.lists.contains(&list)),
                Said::Members(event, members) => self.arrive(event, now, |user, _| members.contains(user)),
                Said::Cancel => {}
                Said::Retract(event) => {
                    let found = self.events.iter_mut().filter(|other| other.id == event);
                    found.for_each(|other| other.retracted = true);
                }
            }
        }
    }

    fn arrive(&mut self, id: Ulid, now: Millis, has: impl Fn(&UserNo, &Person) -> bool) {
        self.events.push(Event { id, taken: now, retracted: false, expired: false });
        let arrival = self.events.len() as u64;
        for (user, person) in &mut self.people {
            if has(user, person) {
                person.rows.insert(arrival, Row::default());
            }
        }
    }

    pub fn expire(&mut self, retention_days: u32, now: Millis) {
        let oldest_kept = now.0 - u64::from(retention_days) * DAY_MS;
        self.events.iter_mut().for_each(|event| event.expired |= event.taken.0 < oldest_kept);
    }

    pub fn mark(&mut self, user: UserNo, mark: Mark, arrivals: &[u64]) {
        let rows = &mut self.people.get_mut(&user).unwrap().rows;
        arrivals.iter().for_each(|arrival| rows.get_mut(arrival).unwrap().mark(mark));
    }

    pub fn mark_all(&mut self, user: UserNo, mark: Mark, through: u64) {
        let through = match mark {
            Mark::Read | Mark::Seen | Mark::Archive => through,
            Mark::Unread | Mark::Unarchive => u64::MAX,
            // Entries are snoozed and deleted one by one only.
            Mark::Snooze { .. } | Mark::Unsnooze | Mark::Delete => 0,
        };
        let rows = &mut self.people.get_mut(&user).unwrap().rows;
        rows.range_mut(..=through).for_each(|(_, row)| row.mark(mark));
    }

    fn is_gone(&self, arrival: u64) -> bool {
        let event = &self.events[arrival as usize - 1];
        event.retracted || event.expired
    }

    fn page(&self, user: UserNo, state: State, now: Millis) -> Vec<Entry> {
        let rows = self.people[&user].rows.iter();
        let shown = rows.filter(|(arrival, row)| !self.is_gone(**arrival) && row.shows(state, now));
        shown
            .map(|(arrival, row)| Entry {
                arrival: Arrival(*arrival),
                event: self.events[*arrival as usize - 1].id,
                read: row.read,
                seen: row.seen,
                archived: row.archived,
                snoozed_until: row.snoozed.filter(|until| *until > now),
            })
            .collect()
    }

    fn counts(&self, user: UserNo, now: Millis) -> Counts {
        let inbox = self.page(user, State::Inbox, now);
        let unread = inbox.iter().filter(|entry| !entry.read).count() as u64;
        Counts { unread, unseen: inbox.iter().filter(|entry| !entry.seen).count() as u64 }
    }

    /// Every answer about every user equals the model's.
    pub fn check(&self, node: &Node, limit: usize) {
        for user in self.people.keys() {
            node.inbox(*user, |inbox| self.check_user(inbox, *user, node.now, limit));
        }
    }

    fn check_user(&self, inbox: &UserInbox<'_>, user: UserNo, now: Millis, limit: usize) {
        assert_eq!(inbox.counts().unwrap(), self.counts(user, now), "counts of user {user}");
        for state in STATES {
            let mut expected = self.page(user, state, now);
            let ascending = walk(inbox, Direction::OldestFirst, state, limit);
            assert_eq!(ascending, expected, "{state:?} of user {user}, oldest first");
            expected.reverse();
            let descending = walk(inbox, Direction::NewestFirst, state, limit);
            assert_eq!(descending, expected, "{state:?} of user {user}, newest first");
        }
        let visible: BTreeMap<Ulid, Entry> =
            self.page(user, State::All, now).into_iter().map(|entry| (entry.event, entry)).collect();
        for event in self.known() {
            assert_eq!(inbox.entry(event).unwrap(), visible.get(&event).copied(), "{event} of user {user}");
        }
    }
}

impl Row {
    fn mark(&mut self, mark: Mark) {
        match mark {
            Mark::Read => (self.read, self.seen) = (true, true),
            Mark::Unread => self.read = false,
            Mark::Seen => self.seen = true,
            Mark::Archive => self.archived = true,
            Mark::Unarchive => self.archived = false,
            Mark::Snooze { until } => self.snoozed = Some(until),
            Mark::Unsnooze => self.snoozed = None,
            Mark::Delete => self.deleted = true,
        }
    }

    fn shows(&self, state: State, now: Millis) -> bool {
        let snoozed = self.snoozed.is_some_and(|until| until > now);
        let in_inbox = !self.archived && !snoozed;
        !self.deleted
            && match state {
                State::Inbox => in_inbox,
                State::Unread => in_inbox && !self.read,
                State::Read => in_inbox && self.read,
                State::Archived => self.archived,
                State::Snoozed => snoozed,
                State::All => true,
            }
    }
}
