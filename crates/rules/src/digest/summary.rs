//! What a digest says: how many, by whom, and which.
//!
//! "A and 4 others" counts people, not things: who likes three posts is one person. The newest are named first, because
//! they are the news.

use crate::ids::ListId;
use crate::limits::DIGEST_ACTORS_MAX;
use crate::ulid::Ulid;
use std::collections::BTreeSet;

/// Something that waits for a digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    pub event: Ulid,
    /// Who did it, if anybody is said to have: the list of the actor's followers stands for the actor.
    pub actor: Option<ListId>,
}

/// What is frozen when a window closes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Of items.
    pub count: u32,
    /// The newest first, each once.
    pub actors: Vec<ListId>,
    /// People beside those.
    pub others: u32,
    /// Of the items, as they came.
    pub events: Vec<Ulid>,
}

/// `items` in the order in which they came.
#[must_use]
pub fn summarise(items: &[Item]) -> Summary {
    let mut people = BTreeSet::new();
    let newest = items.iter().rev().filter_map(|item| item.actor).filter(|actor| people.insert(*actor));
    let mut actors: Vec<ListId> = newest.collect();
    let others = actors.len().saturating_sub(DIGEST_ACTORS_MAX);
    actors.truncate(DIGEST_ACTORS_MAX);
    Summary {
        count: u32::try_from(items.len()).unwrap_or(u32::MAX),
        actors,
        others: u32::try_from(others).unwrap_or(u32::MAX),
        events: items.iter().map(|item| item.event).collect(),
    }
}

/// "A and 4 others", or how many things there are if nobody is said to have done them. `first` is the name of the first
/// actor.
#[must_use]
pub fn headline(summary: &Summary, first: Option<&str>) -> String {
    let people = summary.actors.len() + summary.others as usize;
    match (first, people) {
        (Some(first), 0 | 1) => first.to_owned(),
        (Some(first), 2) => format!("{first} and 1 other"),
        (Some(first), people) => format!("{first} and {} others", people - 1),
        (None, _) => format!("{} new notifications", summary.count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: AGG-04
    #[test]
    fn a_headline_names_one_and_counts_the_others() {
        for (actors, others, first, text) in [
            (0, 0, None, "7 new notifications"),
            (1, 0, Some("Ann"), "Ann"),
            (2, 0, Some("Ann"), "Ann and 1 other"),
            (3, 0, Some("Ann"), "Ann and 2 others"),
            (3, 496, Some("Ann"), "Ann and 498 others"),
            (1, 0, None, "7 new notifications"),
        ] {
            let actors = vec![ListId([0; 16]); actors];
            let summary = Summary { count: 7, actors, others, events: Vec::new() };
            assert_eq!(headline(&summary, first), text);
        }
    }

    // proves: AGG-04, AGG-05
    #[test]
    fn people_are_counted_once_and_three_are_named() {
        let check = |actors: &str, named: &str, others: u32| {
            let actor =
                |letter: char| (letter != '-').then(|| ListId([u8::try_from(letter).expect("a letter"); 16]));
            let items: Vec<Item> = (1..)
                .zip(actors.chars())
                .map(|(at, letter)| Item { event: Ulid(at), actor: actor(letter) })
                .collect();
            let summary = summarise(&items);
            let shown: String = summary.actors.iter().map(|actor| char::from(actor.0[0])).collect();
            assert_eq!((shown.as_str(), summary.others), (named, others), "{actors}");
            assert_eq!(summary.count as usize, items.len());
            assert!(summary.events.iter().copied().eq(items.iter().map(|item| item.event)));
        };
        check("", "", 0);
        check("a", "a", 0);
        check("ab", "ba", 0);
        check("aba", "ab", 0);
        check("abc", "cba", 0);
        check("abcd", "dcb", 1);
        check("abcdabcdeaaa", "aed", 2);
        check("--", "", 0);
        check("a-b", "ba", 0);
    }
}
