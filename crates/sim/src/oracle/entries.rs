//! What marks mean for one entry: plain flags, no watermarks. A set of states is kept where more than one can be.

use fantail_node::ask::NotificationView;
use fantail_rules::ids::Millis;
use fantail_rules::marks::Mark;
use std::collections::BTreeSet;

use super::Now;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Entry {
    pub read: bool,
    pub seen: bool,
    pub archived: bool,
    pub deleted: bool,
    pub snoozed_until: Option<Millis>,
}

impl Entry {
    fn after(mut self, mark: Mark) -> Self {
        match mark {
            Mark::Read => (self.read, self.seen) = (true, true),
            Mark::Unread => self.read = false,
            Mark::Seen => self.seen = true,
            Mark::Archive => self.archived = true,
            Mark::Unarchive => self.archived = false,
            Mark::Delete => self.deleted = true,
            Mark::Snooze { until } => self.snoozed_until = Some(until),
            Mark::Unsnooze => self.snoozed_until = None,
        }
        self
    }

    /// Whether a client may see this entry like that. After a restart under another clock, a snooze
    /// whose end some node has passed may be over or not.
    fn shows_as(&self, view: &NotificationView, now: Now) -> bool {
        let asleep = match (self.snoozed_until, view.snoozed_until) {
            (None, None) => true,
            (Some(until), Some(shown)) => until == shown && until > now.wall,
            (Some(until), None) => until <= now.latest,
            (None, Some(_)) => false,
        };
        let flags = (self.read, self.seen, self.archived) == (view.read, view.seen, view.archived);
        asleep && flags && !self.deleted
    }
}

/// The states an entry may be in; never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entries(BTreeSet<Entry>);

impl Default for Entries {
    fn default() -> Self {
        Self([Entry::default()].into())
    }
}

impl Entries {
    pub fn mark(&mut self, mark: Mark) {
        self.0 = self.0.iter().map(|entry| entry.after(mark)).collect();
    }

    pub fn mark_maybe(&mut self, mark: Mark) {
        self.0.extend(self.0.clone().into_iter().map(|entry| entry.after(mark)));
    }

    /// The mark did not happen after all.
    pub fn go_back(&mut self, before: &Self) {
        let both: BTreeSet<Entry> = self.0.intersection(&before.0).copied().collect();
        self.0 = if both.is_empty() { before.0.clone() } else { both };
    }

    pub fn may_be_deleted(&self) -> bool {
        self.0.iter().any(|entry| entry.deleted)
    }

    pub fn is_deleted(&self) -> bool {
        self.0.iter().all(|entry| entry.deleted)
    }

    pub fn was_deleted(&mut self) {
        self.0.retain(|entry| entry.deleted);
    }

    /// Whether a client may have seen this; if that decides anything, only that remains.
    pub fn saw(&mut self, view: &NotificationView, now: Now, decides: bool) -> bool {
        let kept: BTreeSet<Entry> =
            self.0.iter().copied().filter(|entry| entry.shows_as(view, now)).collect();
        if kept.is_empty() {
            return false;
        }
        if decides {
            self.0 = kept;
        }
        true
    }

    /// Whether a client may have seen this while a mark of everything is under way.
    pub fn saw_beside(mut self, view: &NotificationView, now: Now, mark: Mark) -> bool {
        self.mark_maybe(mark);
        self.saw(view, now, false)
    }
}
