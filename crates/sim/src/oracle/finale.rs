//! Lists and names at the end: who is on which list, as everybody was told.

use super::{Oracle, Who};
use crate::broken::{Broken, Invariant};
use crate::call::{ACTORS_WITH_USER, List, actor_name, user_name};
use crate::executor::at_once;
use fantail_node::Node;
use fantail_node::ask::{EdgeAsk, Names, Refusal};
use fantail_rules::ids::TenantId;
use std::collections::BTreeSet;

const PAGE: usize = 7;

/// Members, sizes and follows as the node shows them equal those of the model.
pub fn check_lists(oracle: &Oracle, node: &Node, tenant: TenantId, lists: &[List]) -> Result<(), Broken> {
    for list in lists {
        check_members(oracle, node, tenant, *list)?;
    }
    for (who, person) in oracle.people.iter().filter(|(who, person)| who.tenant == tenant && !person.retired)
    {
        if person.exists {
            check_follows(oracle, node, *who)?;
        }
    }
    Ok(())
}

fn check_members(oracle: &Oracle, node: &Node, tenant: TenantId, list: List) -> Result<(), Broken> {
    let mut expected = BTreeSet::new();
    let mut unsure = BTreeSet::new();
    for (who, person) in oracle.people.iter().filter(|(who, _)| who.tenant == tenant) {
        let edge = EdgeAsk { user: who.name(), list: list.ask() };
        let open = person.exists && person.edges.get(&list).is_some_and(super::people::Edge::is_open);
        if person.retired {
            unsure.insert(who.name());
            continue;
        }
        if open {
            expected.insert(who.name());
        }
        if person.exists {
            let told = at_once(node.is_member(tenant, edge));
            let right = matches!(told, Some(Ok(member)) if member == open);
            Invariant::Survives.holds(right, || format!("{who:?} {list:?}: {told:?}, expected {open}"))?;
        }
    }
    let found = names(|cursor| at_once(node.members(tenant, list.ask(), cursor, PAGE)), "members")?;
    let surely: BTreeSet<String> = found.difference(&unsure).cloned().collect();
    Invariant::Survives.holds(surely == expected, || {
        format!("tenant {tenant} {list:?} has members {found:?}, expected {expected:?} and maybe {unsure:?}")
    })?;
    let count = at_once(node.member_count(tenant, list.ask()));
    let (low, high) = (expected.len() as u64, (expected.len() + unsure.len()) as u64);
    let right = matches!(count, Some(Ok(count)) if (low..=high).contains(&count));
    Invariant::Survives
        .holds(right, || format!("tenant {tenant} {list:?} counts {count:?}, expected {low} to {high}"))
}

fn check_follows(oracle: &Oracle, node: &Node, who: Who) -> Result<(), Broken> {
    let Some(person) = oracle.people.get(&who) else { return Ok(()) };
    let (mut named, mut maybe, mut count) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (list, _) in person.edges.iter().filter(|(_, edge)| edge.is_open()) {
        let List::Actor(actor) = *list else { continue };
        count += 1;
        // The name of an actor who was deleted once is erased with its key.
        let own = oracle.people.get(&Who { tenant: who.tenant, user: actor });
        let erased = actor < ACTORS_WITH_USER && own.is_some_and(super::Person::may_be_erased);
        if erased { &mut maybe } else { &mut named }.insert(actor_name(actor));
    }
    let name = user_name(who.user);
    let found = names(|cursor| at_once(node.follows(who.tenant, &name, cursor, PAGE)), "follows")?;
    let right = named.is_subset(&found) && found.iter().all(|one| named.contains(one) || maybe.contains(one));
    Invariant::Survives
        .holds(right, || format!("{who:?} follows {found:?}, expected {named:?} and maybe {maybe:?}"))?;
    let counted = at_once(node.follow_count(who.tenant, &name));
    let right = matches!(counted, Some(Ok(counted)) if counted == count);
    Invariant::Survives.holds(right, || format!("{who:?} follows {counted:?} actors, expected {count}"))
}

/// All pages of names, each name once.
fn names(
    mut page: impl FnMut(Option<String>) -> Option<Result<Names, Refusal>>,
    what: &str,
) -> Result<BTreeSet<String>, Broken> {
    let (mut found, mut cursor) = (BTreeSet::new(), None);
    loop {
        let Some(Ok(Names { names, next })) = page(cursor) else {
            return Invariant::Serves.broken(format!("{what} cannot be read"));
        };
        for name in names {
            let told = format!("{what} show {name} twice");
            Invariant::Paging.holds(found.insert(name), || told)?;
        }
        match next {
            Some(next) => cursor = Some(next),
            None => return Ok(found),
        }
    }
}
