//! Users join and leave lists.
//!
//! Comes from: the follow and topic APIs. Decides: which edges change.
//! Goes to: `Edges`, folded into follow intervals, list sizes and the `lists` port; a size that the fronts
//! should hear of becomes a to-do row.

use super::{Derived, Plan, ShardAnswer};
use crate::Planned;
use crate::records::shard::{Change, Edge, ShardRecord};
use crate::tables::follow;
use crate::tables::list::{self, ListRow};
use crate::tables::progress::Progress;
use crate::tables::todo::Todo;
use crate::tables::{progress, put, user, work};
use crate::view::View;
use fantail_ports::keyring::Sealed;
use fantail_ports::lists::{ListEdit, ListKey};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{ListId, Lookup, TenantId, UserNo};
use fantail_rules::interval::Intervals;
use fantail_rules::limits::{EDGES_PER_RECORD_MAX, FOLLOWS_PER_USER_MAX};
use fantail_rules::tier::worth_reporting;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub struct Edit {
    pub change: Change,
    pub edges: Vec<AskEdge>,
}

#[derive(Clone, Debug)]
pub struct AskEdge {
    pub user: Lookup,
    pub list: ListId,
    /// The list's name, sealed; kept if the shard does not have it.
    pub name: Sealed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdgeAnswer {
    Changed,
    Unchanged,
    UnknownUser,
    TooMany,
}

pub(super) fn plan(view: &View<'_>, tenant: TenantId, edit: Edit) -> Result<Plan, TablesError> {
    let progress = progress::find(view, tenant)?;
    let change = edit.change;
    let mut planner =
        Planner { view, tenant, progress, change, open: BTreeMap::new(), decided: BTreeSet::new() };
    // Only the first edge of each list carries its name, and that one need not change anything.
    let mut names: BTreeMap<ListId, Sealed> = BTreeMap::new();
    for ask in &edit.edges {
        names.entry(ask.list).or_insert_with(|| ask.name.clone());
    }
    let (mut edges, mut answers) = (Vec::new(), Vec::with_capacity(edit.edges.len()));
    for ask in edit.edges {
        let (answer, user) = planner.decide(&ask)?;
        answers.push(answer);
        if answer != EdgeAnswer::Changed {
            continue;
        }
        let name = match names.remove(&ask.list).filter(|_| edit.change == Change::Join) {
            Some(name) if list::find(view, tenant, ask.list)?.is_none() => Some(name),
            _ => None,
        };
        edges.push(Edge { user, list: ask.list, name });
    }
    let records = edges
        .chunks(EDGES_PER_RECORD_MAX)
        .map(|edges| ShardRecord::Edges { tenant, change: edit.change, edges: edges.to_vec() })
        .collect();
    Ok(Planned { records, answer: ShardAnswer::Edges(answers) })
}

/// Decides edge by edge, remembering what the batch itself has changed already.
struct Planner<'a> {
    view: &'a View<'a>,
    tenant: TenantId,
    progress: Progress,
    change: Change,
    /// Lists each user of the batch is on so far.
    open: BTreeMap<UserNo, u64>,
    decided: BTreeSet<(UserNo, ListId)>,
}

impl Planner<'_> {
    fn decide(&mut self, ask: &AskEdge) -> Result<(EdgeAnswer, UserNo), TablesError> {
        let Some(user) = user::number(self.view, self.tenant, ask.user)? else {
            return Ok((EdgeAnswer::UnknownUser, UserNo(0)));
        };
        let mut intervals = follow::find(self.view, self.tenant, user, ask.list)?;
        let wanted = self.change == Change::Join;
        if intervals.is_open() == wanted || self.decided.contains(&(user, ask.list)) {
            return Ok((EdgeAnswer::Unchanged, user));
        }
        let known = match self.open.get(&user) {
            Some(open) => *open,
            None => follow::count(self.view, self.tenant, user)?.total(),
        };
        intervals.forget_through(self.progress.horizon);
        let full = intervals.is_full() && !intervals.would_reopen(self.progress.last);
        if wanted && (known >= FOLLOWS_PER_USER_MAX as u64 || full) {
            return Ok((EdgeAnswer::TooMany, user));
        }
        self.open.insert(user, if wanted { known + 1 } else { known.saturating_sub(1) });
        self.decided.insert((user, ask.list));
        Ok((EdgeAnswer::Changed, user))
    }
}

pub(super) fn apply(
    view: &mut View<'_>,
    tenant: TenantId,
    change: Change,
    edges: &[Edge],
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let state = progress::find(view, tenant)?;
    let floor = work::floor(view, tenant)?;
    for edge in edges {
        let mut intervals = follow::find(view, tenant, edge.user, edge.list)?;
        intervals.forget_through(state.horizon);
        let changed = match change {
            Change::Join => intervals.open(state.last),
            Change::Leave => intervals.close(state.last),
        };
        if !changed {
            continue;
        }
        let key = follow::key(tenant, edge.user, edge.list);
        if intervals.is_empty() {
            view.delete(key);
        } else {
            put(view, key, &intervals);
        }
        count_user(view, tenant, edge, change)?;
        count_list(view, tenant, edge, change)?;
        let key = ListKey { tenant, list: edge.list };
        derived.edits.push(ListEdit { key, user: edge.user, intervals, at: state.last, floor });
    }
    Ok(())
}

/// Drops stays that are over. One that was opened again meanwhile is kept.
pub(super) fn apply_unlisted(
    view: &mut View<'_>,
    tenant: TenantId,
    user: UserNo,
    lists: &[ListId],
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let at = progress::find(view, tenant)?.last;
    let floor = work::floor(view, tenant)?;
    for list in lists {
        if follow::find(view, tenant, user, *list)?.is_open() {
            continue;
        }
        view.delete(follow::key(tenant, user, *list));
        let key = ListKey { tenant, list: *list };
        derived.edits.push(ListEdit { key, user, intervals: Intervals::default(), at, floor });
    }
    Ok(())
}

fn count_user(view: &mut View<'_>, tenant: TenantId, edge: &Edge, change: Change) -> Result<(), TablesError> {
    let mut open = follow::count(view, tenant, edge.user)?;
    let lists = open.of_kind(edge.list);
    *lists = match change {
        Change::Join => *lists + 1,
        Change::Leave => lists.saturating_sub(1),
    };
    put(view, follow::count_key(tenant, edge.user), &open);
    Ok(())
}

fn count_list(view: &mut View<'_>, tenant: TenantId, edge: &Edge, change: Change) -> Result<(), TablesError> {
    let mut row = list::find(view, tenant, edge.list)?
        .unwrap_or_else(|| ListRow { name: edge.name.clone().unwrap_or_default(), ..ListRow::default() });
    row.members = match change {
        Change::Join => row.members + 1,
        Change::Leave => row.members.saturating_sub(1),
    };
    if worth_reporting(row.members, row.reported) {
        view.put(Todo::Report { tenant, list: edge.list }.key(), Vec::new());
    }
    put(view, list::key(tenant, edge.list), &row);
    Ok(())
}
