//! What each user must, may and must not see, and whether what was seen fits.
//!
//! An inbox read in one state is judged against the model at that very step. What was uncertain becomes certain by
//! being read: a lost request that one user has, everybody has who should; one that is missing stays missing.

use super::people::{Known, Marking, Person};
use super::posts::{Fate, Record};
use super::{Heard, Now, Open, Oracle, Step, Who};
use crate::broken::{Broken, Invariant};
use crate::call::{Audience, PostId, actor_name};
use crate::template;
use fantail_node::ask::{ChannelKind, InboxPage, NotificationView, Refusal};
use fantail_rules::ids::Arrival;
use fantail_rules::ulid::Ulid;
use std::collections::{BTreeMap, BTreeSet};

impl Record {
    /// It surely happened and every shard has it.
    pub fn is_settled_event(&self) -> bool {
        self.fate == Fate::Happened && self.taken_at().is_some()
    }
}

impl Oracle {
    /// Whether the event was for this user, if it happened.
    pub(super) fn covers(&self, who: Who, post: PostId) -> Known {
        let record = &self.records[post.0];
        let Some(person) = self.people.get(&who).filter(|_| record.post.tenant == who.tenant) else {
            return Known::No;
        };
        match &record.post.audience {
            Audience::List(list) => person.edges.get(list).map_or(Known::No, |edge| edge.covers(record)),
            Audience::Users(_) => record.meant(who.user, person.incarnation),
            Audience::Strangers(_) => Known::No,
            // Whoever must have it is told by the journal; see `deliveries::walks`.
            Audience::Everyone => Known::Maybe,
        }
    }

    /// Whether the user sees the event now.
    pub(super) fn has(&self, who: Who, post: PostId) -> Known {
        let record = &self.records[post.0];
        let covers = self.covers(who, post);
        let entries = self.people.get(&who).and_then(|person| person.entries.get(&post));
        let retracted = record.retraction.known();
        if covers == Known::No
            || matches!(record.fate, Fate::Never | Fate::Beaten)
            || retracted == Known::Yes
            || self.agenda.hides(record.event)
            || entries.is_some_and(super::Entries::is_deleted)
        {
            return Known::No;
        }
        let sure = covers == Known::Yes
            && record.is_settled_event()
            && retracted == Known::No
            && !entries.is_some_and(super::Entries::may_be_deleted);
        if sure { Known::Yes } else { Known::Maybe }
    }

    pub(super) fn surely_absent(&self, who: Who) -> BTreeSet<PostId> {
        let all = (0..self.records.len()).map(PostId);
        all.filter(|post| self.has(who, *post) == Known::No).collect()
    }

    pub(super) fn heard_audit(&mut self, who: Who, heard: Heard<InboxPage>, now: Now) -> Result<(), Broken> {
        if self.person(who).writing || self.person(who).retired {
            return Ok(());
        }
        let exists = self.person(who).exists;
        match heard {
            Heard::Yes(page) => {
                Invariant::Survives.holds(exists, || format!("{who:?} was deleted but has an inbox"))?;
                self.seen.audits += 1;
                recount(who, &page)?;
                self.judge_order(who, &page.notifications)?;
                self.judge_seen(who, &page.notifications, now)?;
                self.judge_missing(who, &page.notifications)
            }
            Heard::No(Refusal::UnknownUser { .. }) => {
                Invariant::Survives.holds(!exists, || format!("{who:?} exists but has no inbox"))
            }
            Heard::No(_) | Heard::Unknown => Ok(()),
        }
    }

    pub(super) fn heard_poll(
        &mut self,
        who: Who,
        from: Arrival,
        heard: Heard<InboxPage>,
        now: Now,
    ) -> Result<(), Broken> {
        self.person(who).polled();
        let Heard::Yes(page) = heard else {
            return Invariant::Survives
                .holds(matches!(heard, Heard::Unknown), || format!("{who:?} cannot poll"));
        };
        let arrivals: Vec<Arrival> = page.notifications.iter().map(|view| view.arrival).collect();
        let ascending =
            arrivals.is_sorted_by(|a, b| a < b) && arrivals.first().is_none_or(|first| *first > from);
        Invariant::Paging.holds(ascending, || format!("{who:?} polled {arrivals:?} from {from}"))?;
        let last = arrivals.last().copied().unwrap_or(from);
        let goes_on = page.horizon >= last;
        Invariant::Paging
            .holds(goes_on, || format!("{who:?} polled to {last} and goes on at {}", page.horizon))?;
        let posts = self.judge_seen(who, &page.notifications, now)?;
        let person = self.person(who);
        person.polled_through = page.horizon.max(from);
        for post in posts {
            let new = person.polled.insert(post);
            Invariant::Paging.holds(new, || format!("{who:?} polled {post:?} twice"))?;
        }
        Ok(())
    }

    pub(super) fn heard_walk(
        &mut self,
        who: Who,
        open: &Open,
        heard: Heard<Vec<NotificationView>>,
        _: Now,
    ) -> Result<(), Broken> {
        self.person(who).readers -= 1;
        let Heard::Yes(seen) = heard else {
            return Invariant::Survives
                .holds(matches!(heard, Heard::Unknown), || format!("{who:?} cannot page"));
        };
        self.seen.walks += 1;
        let descending = seen.is_sorted_by(|a, b| a.arrival > b.arrival);
        Invariant::Paging.holds(descending, || format!("{who:?} paged {:?}", events_of(&seen)))?;
        let mut walked = BTreeSet::new();
        for view in &seen {
            let post = self.identify(who, view)?;
            walked.insert(post);
            let impossible = open.absent.contains(&post) && self.has(who, post) == Known::No;
            let told = || format!("{who:?} paged {:?}, which it cannot have", self.post(post));
            Invariant::ExactlyOnce.holds(!impossible, told)?;
        }
        for post in (0..self.records.len()).map(PostId) {
            let record = &self.records[post.0];
            let before = record.taken_at().is_some_and(|taken| taken < open.invoked);
            if before && self.has(who, post) == Known::Yes && !walked.contains(&post) {
                return Invariant::Paging.broken(format!("{who:?} paged past {:?}", record.post));
            }
        }
        Ok(())
    }

    /// Which request an entry is of. One that nobody of this tenant sent is a leak.
    fn identify(&self, who: Who, view: &NotificationView) -> Result<PostId, Broken> {
        let Some(post) = self.contents.get(&view.post.content).copied() else {
            let content = String::from_utf8_lossy(&view.post.content);
            return Invariant::ExactlyOnce.broken(format!("{who:?} has {} with {content:?}", view.event));
        };
        let record = &self.records[post.0];
        let own = record.post.tenant == who.tenant;
        Invariant::Tenants.holds(own, || format!("{who:?} has {:?}", record.post))?;
        let same = record.event.is_none_or(|event| event == view.event);
        Invariant::Idempotency
            .holds(same, || format!("{who:?} has {} for {:?} {:?}", view.event, record.post, record.event))?;
        Ok(post)
    }

    /// Everything that was seen may be seen, as it was seen; remembers what that decides.
    fn judge_seen(&mut self, who: Who, seen: &[NotificationView], now: Now) -> Result<Vec<PostId>, Broken> {
        let mut posts = Vec::with_capacity(seen.len());
        for view in seen {
            let post = self.identify(who, view)?;
            let told = format!("{who:?} has {view:?} of {:?}", self.post(post));
            Invariant::ExactlyOnce
                .holds(self.has(who, post) != Known::No, || format!("{told}, but must not"))?;
            self.happened(post, view.event, now.step, false)?;
            if self.records[post.0].retraction.is_readable() {
                self.records[post.0].retraction.decide(false);
            }
            self.judge_actor(who, post, view)?;
            self.judge_text(who, post, view)?;
            let person = self.person(who);
            let arrival = *person.arrivals.entry(post).or_insert(view.arrival);
            Invariant::ExactlyOnce
                .holds(arrival == view.arrival, || format!("{told}, before at {arrival}"))?;
            // While a mark is under way, the next look may find it done: then nothing is decided.
            let marking = person.marking;
            let entries = person.entries.entry(post).or_default();
            let fits = match marking {
                Some(Marking { mark, all: true }) => entries.clone().saw_beside(view, now, mark),
                Some(Marking { all: false, .. }) => entries.saw(view, now, false),
                None => entries.saw(view, now, true),
            };
            Invariant::Counts.holds(fits, || format!("{told}, expected {entries:?}"))?;
            posts.push(post);
        }
        Ok(posts)
    }

    /// What a template says, everybody reads in their own language.
    fn judge_text(&mut self, who: Who, post: PostId, view: &NotificationView) -> Result<(), Broken> {
        let own = self.post(post);
        let expected = if own.by_template {
            template::expected(own, ChannelKind::InApp, template::locale_of(who.user))
        } else {
            None
        };
        Invariant::Survives
            .holds(view.content == expected, || format!("{who:?} reads {view:?} of {:?}", self.post(post)))?;
        self.seen.translated += u64::from(expected.is_some());
        Ok(())
    }

    /// An author whose key was destroyed may be unnamed.
    fn judge_actor(&self, who: Who, post: PostId, view: &NotificationView) -> Result<(), Broken> {
        let actor = self.post(post).actor;
        let erased = actor.is_some_and(|user| {
            let person = self.people.get(&Who { tenant: who.tenant, user });
            user < crate::call::ACTORS_WITH_USER && person.is_some_and(Person::may_be_erased)
        });
        let right = view.post.actor == actor.map(actor_name) || (erased && view.post.actor.is_none());
        Invariant::Survives.holds(right, || format!("{who:?} has {view:?} of {:?}", self.post(post)))
    }

    /// Everything that must be seen was seen; what may be missing and is, did not happen.
    fn judge_missing(&mut self, who: Who, seen: &[NotificationView]) -> Result<(), Broken> {
        let seen: BTreeSet<Ulid> = seen.iter().map(|view| view.event).collect();
        for post in (0..self.records.len()).map(PostId) {
            let record = &self.records[post.0];
            if record.event.is_some_and(|event| seen.contains(&event)) {
                continue;
            }
            let told = || format!("{who:?} misses {:?}, {:?}", record.post, record.event);
            Invariant::ExactlyOnce.holds(self.has(who, post) != Known::Yes, told)?;
            self.learn_from_absence(who, post);
        }
        Ok(())
    }

    /// If exactly one uncertain thing can explain why the entry is missing, that is what happened.
    fn learn_from_absence(&mut self, who: Who, post: PostId) {
        if self.covers(who, post) != Known::Yes {
            return;
        }
        let entries = self.people.get(&who).and_then(|person| person.entries.get(&post));
        let deleted = entries.is_some_and(super::Entries::may_be_deleted);
        let record = &mut self.records[post.0];
        let settled = record.is_settled_event();
        let retracted = record.retraction.known();
        if record.is_readable() && !deleted && retracted == Known::No {
            self.did_not_happen(post);
        } else if settled && !deleted && record.retraction.is_readable() {
            record.retraction.decide(true);
        } else if settled && deleted && retracted == Known::No && self.person(who).marking.is_none() {
            self.person(who).entries.entry(post).or_default().was_deleted();
        }
    }

    /// Newest arrival first; what an author said later is above what it said earlier.
    fn judge_order(&self, who: Who, seen: &[NotificationView]) -> Result<(), Broken> {
        let descending = seen.is_sorted_by(|a, b| a.arrival > b.arrival);
        Invariant::Paging.holds(descending, || format!("{who:?} has {:?}", events_of(seen)))?;
        let mut latest: BTreeMap<u16, (Step, Ulid)> = BTreeMap::new();
        for view in seen.iter().rev() {
            let record = &self.records[self.identify(who, view)?.0];
            // What is scheduled comes when it is due, whatever was said since.
            let actor = record.post.actor.filter(|_| record.post.later.due.is_none());
            let Some(actor) = actor else { continue };
            let (invoked, event) = latest.get(&actor).copied().unwrap_or_default();
            let told = || format!("{who:?} has {:?} above what actor {actor} said later", record.post);
            let accepted = if record.fate == Fate::Happened { record.acked } else { Step::MAX };
            Invariant::AuthorOrder.holds(accepted >= invoked && view.event > event, told)?;
            latest.insert(actor, (invoked.max(record.first_invoked), view.event));
        }
        Ok(())
    }

    /// At the end: a client that polled all along has seen everything there is.
    pub fn check_polled(&self, who: Who) -> Result<(), Broken> {
        let Some(person) = self.people.get(&who).filter(|person| person.exists && !person.retired) else {
            return Ok(());
        };
        for post in (0..self.records.len()).map(PostId) {
            if self.has(who, post) == Known::Yes && !person.polled.contains(&post) {
                let record = &self.records[post.0];
                return Invariant::Paging.broken(format!("{who:?} polled past {:?}", record.post));
            }
        }
        Ok(())
    }
}

fn events_of(seen: &[NotificationView]) -> Vec<(Arrival, Ulid)> {
    seen.iter().map(|view| (view.arrival, view.event)).collect()
}

/// The counts of a page equal a recount of what the same page shows.
fn recount(who: Who, page: &InboxPage) -> Result<(), Broken> {
    let counted = |counts: &dyn Fn(&NotificationView) -> bool| {
        let awake = page.notifications.iter().filter(|view| !view.archived && view.snoozed_until.is_none());
        awake.filter(|view| counts(view)).count() as u64
    };
    let (unread, unseen) = (counted(&|view| !view.read), counted(&|view| !view.seen));
    Invariant::Counts.holds((unread, unseen) == (page.unread, page.unseen), || {
        let told = (page.unread, page.unseen);
        format!("{who:?} has unread and unseen {told:?}, a recount gives {:?}", (unread, unseen))
    })
}
