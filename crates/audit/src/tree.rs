//! A Merkle tree over leaf hashes, in the shape of RFC 6962: the left part of every node is the largest power of two.
//!
//! ```text
//!            root              Level by level: neighbours are hashed together, and one without a
//!          ┌───┴───┐           neighbour is carried up as it is. That gives the same shape.
//!        ┌─┴─┐     │
//!       0 1 2 3    4
//! ```
//! What must never happen: a path that proves a leaf at another place, or under another number of leaves. Both are
//! arguments of the check, and what commits to a root also commits to the number.

use crate::digest::{NODE, sha256};
use fantail_ports::audit::Digest;

/// The root over leaves that are already hashed. The root over nothing is the hash of nothing.
#[must_use]
pub fn root(leaves: Vec<Digest>) -> Digest {
    let mut level = leaves;
    while level.len() > 1 {
        climb(&mut level);
    }
    level.first().copied().unwrap_or_else(|| sha256(&[]))
}

/// The hashes that lead from one leaf to the root. `None` if there is no such leaf.
#[must_use]
pub fn path(leaves: Vec<Digest>, index: usize) -> Option<Vec<Digest>> {
    if index >= leaves.len() {
        return None;
    }
    let (mut level, mut index) = (leaves, index);
    let mut path = Vec::new();
    while level.len() > 1 {
        path.extend(level.get(index ^ 1));
        climb(&mut level);
        index /= 2;
    }
    Some(path)
}

/// The root that a leaf at `index` of `count` leads to by a path. `None` if no path of such a leaf has this length.
#[must_use]
pub fn root_by_path(leaf: Digest, index: usize, count: usize, path: &[Digest]) -> Option<Digest> {
    if index >= count {
        return None;
    }
    let (mut hash, mut index, mut width) = (leaf, index, count);
    let mut path = path.iter();
    while width > 1 {
        if index ^ 1 < width {
            let neighbour = *path.next()?;
            hash = if index % 2 == 0 { node(hash, neighbour) } else { node(neighbour, hash) };
        }
        index /= 2;
        width = width.div_ceil(2);
    }
    path.next().is_none().then_some(hash)
}

/// Replaces a level by the one above, in place.
fn climb(level: &mut Vec<Digest>) {
    let pairs = level.len() / 2;
    for pair in 0..pairs {
        level[pair] = node(level[2 * pair], level[2 * pair + 1]);
    }
    if level.len() % 2 == 1 {
        level[pairs] = level[2 * pairs];
    }
    level.truncate(level.len().div_ceil(2));
}

fn node(left: Digest, right: Digest) -> Digest {
    let mut bytes = [NODE; 65];
    bytes[1..33].copy_from_slice(&left.0);
    bytes[33..].copy_from_slice(&right.0);
    sha256(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaves(count: usize) -> Vec<Digest> {
        (0..count).map(|no| sha256(&[&[0][..], &no.to_le_bytes()].concat())).collect()
    }

    /// As the standard says it: split at the largest power of two below the length.
    fn root_as_defined(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => sha256(&[]),
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                node(root_as_defined(left), root_as_defined(right))
            }
        }
    }

    #[test]
    fn the_shape_is_that_of_the_standard() {
        for count in 0..=70 {
            assert_eq!(root(leaves(count)), root_as_defined(&leaves(count)), "{count}");
        }
    }

    #[test]
    fn every_leaf_is_proven_at_its_place_and_nowhere_else() {
        for count in 1..=33 {
            let (all, root) = (leaves(count), root(leaves(count)));
            for index in 0..count {
                let path = path(all.clone(), index).expect("the leaf is there");
                for (other, leaf) in all.iter().enumerate() {
                    let proven = root_by_path(*leaf, index, count, &path) == Some(root);
                    assert_eq!(proven, other == index, "{count} {index} {other}");
                    assert_eq!(root_by_path(all[index], other, count, &path) == Some(root), other == index);
                }
            }
            assert_eq!(path(all, count), None);
        }
    }

    proptest! {
        #[test]
        fn a_path_that_was_touched_proves_nothing(
            count in 2usize..200, at: prop::sample::Index, part: prop::sample::Index, byte in 0usize..32, bit in 0u8..8,
        ) {
            let (all, root) = (leaves(count), root(leaves(count)));
            let index = at.index(count);
            let path = path(all.clone(), index).expect("the leaf is there");
            let check = |path: &[Digest]| root_by_path(all[index], index, count, path);
            prop_assert_eq!(check(&path), Some(root));
            let mut flipped = path.clone();
            flipped[part.index(path.len())].0[byte] ^= 1 << bit;
            prop_assert_ne!(check(&flipped), Some(root));
            prop_assert_eq!(check(&path[1..]), None);
            prop_assert_eq!(check(&[path.clone(), vec![Digest([0; 32])]].concat()), None);
        }
    }
}
