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
use crate::tables::todo::Todo;
use crate::tables::{progress, put, user};
use crate::view::View;
use fantail_ports::keyring::Sealed;
use fantail_ports::lists::{ListEdit, ListKey};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::{Arrival, ListId, Lookup, TenantId, UserNo};
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
    let horizon = progress::find(view, tenant)?.horizon;
    let change = edit.change;
    let mut planner =
        Planner { view, tenant, horizon, change, open: BTreeMap::new(), decided: BTreeSet::new() };
    let mut named: BTreeSet<ListId> = BTreeSet::new();
    let (mut edges, mut answers) = (Vec::new(), Vec::with_capacity(edit.edges.len()));
    for ask in edit.edges {
        let (answer, user) = planner.decide(&ask)?;
        answers.push(answer);
        if answer != EdgeAnswer::Changed {
            continue;
        }
        let unnamed = edit.change == Change::Join
            && named.insert(ask.list)
            && list::find(view, tenant, ask.list)?.is_none();
        edges.push(Edge { user, list: ask.list, name: unnamed.then_some(ask.name) });
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
    horizon: Arrival,
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
        intervals.forget_through(self.horizon);
        if wanted && (known >= FOLLOWS_PER_USER_MAX as u64 || intervals.is_full()) {
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
        derived.edits.push(ListEdit { key, user: edge.user, intervals, at: state.last });
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
