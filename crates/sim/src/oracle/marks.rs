//! Marks under way: what they surely reach, what they may reach, and what remains when they are refused.

use super::entries::Entries;
use super::people::{Known, Marking};
use super::posts::Fate;
use super::{Heard, Open, Oracle, Who};
use crate::broken::{Broken, Invariant};
use crate::call::{Audience, PostId, Target};
use fantail_node::ask::{MarkResult, Refusal};
use fantail_rules::marks::Mark;
use std::collections::{BTreeMap, BTreeSet};

impl Oracle {
    pub(super) fn invoke_mark(&mut self, who: Who, mark: Mark, target: &Target, open: &mut Open) {
        let all: Vec<PostId> = (0..self.records.len()).map(PostId).collect();
        match target {
            Target::Some(posts) => {
                open.absent = self.surely_absent(who);
                let named = posts.iter().map(|(post, _)| *post);
                open.present = named.filter(|post| self.has(who, *post) == Known::Yes).collect();
                open.reached = posts.iter().map(|(post, _)| *post).collect();
                posts.iter().for_each(|(post, _)| self.mark_maybe(who, mark, *post, open));
            }
            Target::All { through } => {
                // These two reach everything there is, and change nothing for what comes later.
                let timeless = matches!(mark, Mark::Unread | Mark::Unarchive);
                for post in all {
                    if self.records[post.0].fate == Fate::Never || self.covers(who, post) == Known::No {
                        continue;
                    }
                    let arrived = self.person(who).arrivals.get(&post).copied();
                    let reached = match (through, arrived) {
                        _ if timeless => Known::Yes,
                        (None, _) if self.has_come(post) => Known::Yes,
                        (None, Some(_)) => Known::Yes,
                        (Some(through), Some(arrived)) if arrived <= *through => Known::Yes,
                        (Some(_), Some(_)) => Known::No,
                        (_, None) => Known::Maybe,
                    };
                    if reached == Known::Yes {
                        open.reached.insert(post);
                    }
                    if reached != Known::No {
                        self.mark_maybe(who, mark, post, open);
                    }
                }
            }
        }
        let person = self.person(who);
        person.marking = Some(Marking { mark, all: matches!(target, Target::All { .. }) });
        person.readers += 1;
    }

    /// Whoever was to have it has it. What a walk brings may come to somebody later.
    fn has_come(&self, post: PostId) -> bool {
        let record = &self.records[post.0];
        record.is_settled_event() && record.post.audience != Audience::Everyone
    }

    /// A mark of everything may also reach what was sent, or what the user joined, while it was under way.
    pub(super) fn mark_latecomers(
        &mut self,
        who: Who,
        mark: Mark,
        target: &Target,
        before: &BTreeMap<PostId, Entries>,
    ) {
        let Target::All { through } = target else { return };
        for post in (0..self.records.len()).map(PostId) {
            let arrived = self.person(who).arrivals.get(&post).copied();
            let beyond = matches!((through, arrived), (Some(through), Some(arrived)) if arrived > *through);
            if !beyond && !before.contains_key(&post) && self.covers(who, post) != Known::No {
                self.person(who).entries.entry(post).or_default().mark_maybe(mark);
            }
        }
    }

    fn mark_maybe(&mut self, who: Who, mark: Mark, post: PostId, open: &mut Open) {
        let entries = self.person(who).entries.entry(post).or_default();
        open.before.insert(post, entries.clone());
        entries.mark_maybe(mark);
    }

    pub(super) fn heard_mark(
        &mut self,
        who: Who,
        mark: Mark,
        target: &Target,
        open: Open,
        heard: Heard<MarkResult>,
    ) -> Result<(), Broken> {
        if !matches!(heard, Heard::No(_)) {
            self.mark_latecomers(who, mark, target, &open.before);
        }
        self.person(who).marked();
        match heard {
            Heard::Unknown => Ok(()),
            Heard::Yes(done) => {
                let mut unmarked = BTreeSet::new();
                if let Target::Some(posts) = target {
                    let is_marked = |event| !done.unknown.contains(event);
                    let marked: BTreeSet<PostId> =
                        posts.iter().filter(|(_, event)| is_marked(event)).map(|(post, _)| *post).collect();
                    unmarked
                        .extend(posts.iter().map(|(post, _)| *post).filter(|post| !marked.contains(post)));
                    let wrong = marked.iter().find(|post| open.absent.contains(*post));
                    Invariant::ExactlyOnce
                        .holds(wrong.is_none(), || format!("{who:?} marked {wrong:?} without having it"))?;
                }
                for (post, before) in open.before.iter().filter(|(post, _)| unmarked.contains(*post)) {
                    self.person(who).entries.entry(*post).or_default().go_back(before);
                }
                for event in done.unknown {
                    self.judge_refusal(who, &Refusal::UnknownNotification { event }, &open.present)?;
                }
                for post in open.reached.into_iter().filter(|post| !unmarked.contains(post)) {
                    self.person(who).entries.entry(post).or_default().mark(mark);
                }
                Ok(())
            }
            Heard::No(refusal) => {
                for (post, before) in &open.before {
                    self.person(who).entries.entry(*post).or_default().go_back(before);
                }
                self.judge_refusal(who, &refusal, &open.present)
            }
        }
    }

    /// `present`: what the user surely had when the mark began. What came meanwhile may be missed.
    fn judge_refusal(
        &mut self,
        who: Who,
        refusal: &Refusal,
        present: &BTreeSet<PostId>,
    ) -> Result<(), Broken> {
        match refusal {
            Refusal::UnknownUser { .. } => {
                Invariant::Survives.broken(format!("{who:?} exists but its marks are refused"))
            }
            Refusal::UnknownNotification { event } => {
                let Some(post) = self.events.get(event).copied() else { return Ok(()) };
                let has = present.contains(&post) && self.has(who, post) == Known::Yes;
                Invariant::ExactlyOnce
                    .holds(!has, || format!("{who:?} has {:?} but cannot mark it", self.post(post)))
            }
            _ => Ok(()),
        }
    }
}
