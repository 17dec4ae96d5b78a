//! What plan and apply see of a partition: the store's durable state, under the batches that are still being
//! made durable, under the batch at hand. Writes go to the batch at hand only.

use fantail_ports::lists::Lists;
use fantail_ports::tables::{Changes, KeyRange, Order, Read, Tables, TablesError, Visit};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

pub struct View<'a> {
    base: &'a dyn Tables,
    /// Batches in flight, oldest first.
    pending: &'a [&'a Changes],
    changes: &'a mut Changes,
    /// As of the durable state: batches in flight are not in them.
    lists: Option<&'a dyn Lists>,
}

impl<'a> View<'a> {
    pub fn new(base: &'a dyn Tables, pending: &'a [&'a Changes], changes: &'a mut Changes) -> Self {
        Self { base, pending, changes, lists: None }
    }

    /// The same, for plans that walk lists.
    #[must_use]
    pub fn with_lists(self, lists: &'a dyn Lists) -> Self {
        Self { lists: Some(lists), ..self }
    }

    /// What would be seen if these changes were made too.
    #[must_use]
    pub fn under<'b>(&'b self, changes: &'b mut Changes) -> View<'b> {
        View { base: self, pending: &[], changes, lists: self.lists }
    }

    pub fn lists(&self) -> Result<&'a dyn Lists, TablesError> {
        self.lists.ok_or_else(|| TablesError::Io { reason: "no lists are given here".to_owned() })
    }

    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.changes.insert(key, Some(value));
    }

    pub fn delete(&mut self, key: Vec<u8>) {
        self.changes.insert(key, None);
    }

    /// All changes not yet in the base inside a range; the newest one of each key.
    fn overlay(&self, range: KeyRange<'_>) -> BTreeMap<&[u8], Option<&[u8]>> {
        let bounds = (Bound::Included(range.from.to_vec()), Bound::Excluded(range.to.to_vec()));
        let mut overlay = BTreeMap::new();
        for layer in self.pending.iter().copied().chain([&*self.changes]) {
            for (key, value) in layer.range::<Vec<u8>, _>(bounds.clone()) {
                overlay.insert(key.as_slice(), value.as_deref());
            }
        }
        overlay
    }
}

/// A key and what became of it.
type Change<'a> = (&'a [u8], Option<&'a [u8]>);

impl Tables for View<'_> {
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        let mut layers = [&*self.changes].into_iter().chain(self.pending.iter().copied().rev());
        match layers.find_map(|layer| layer.get(key)) {
            Some(change) => {
                visit(change.as_deref());
                Ok(())
            }
            None => self.base.read(key, visit),
        }
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        if range.from >= range.to {
            return Ok(());
        }
        let overlay = self.overlay(range);
        let mut above: Box<dyn Iterator<Item = Change<'_>>> = match order {
            Order::Ascending => Box::new(overlay.into_iter()),
            Order::Descending => Box::new(overlay.into_iter().rev()),
        };
        let mut next = above.next();
        let mut flow = ControlFlow::Continue(());
        self.base.scan(range, order, &mut |key, value| {
            // Rows that only the overlay has come before this one.
            while let Some((changed, change)) = next {
                let earlier = match order {
                    Order::Ascending => changed < key,
                    Order::Descending => changed > key,
                };
                if !earlier {
                    break;
                }
                next = above.next();
                if let Some(change) = change {
                    flow = visit(changed, change);
                    flow?;
                }
            }
            flow = match next {
                Some((changed, change)) if changed == key => {
                    next = above.next();
                    change.map_or(ControlFlow::Continue(()), |change| visit(key, change))
                }
                _ => visit(key, value),
            };
            flow
        })?;
        while let (Some((changed, change)), ControlFlow::Continue(())) = (next, flow) {
            if let Some(change) = change {
                flow = visit(changed, change);
            }
            next = above.next();
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tables as one map.
    #[derive(Default)]
    pub(crate) struct Plain(pub BTreeMap<Vec<u8>, Vec<u8>>);

    impl Tables for Plain {
        fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
            visit(self.0.get(key).map(Vec::as_slice));
            Ok(())
        }

        fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
            let mut rows: Vec<_> = self.0.range(range.from.to_vec()..range.to.to_vec()).collect();
            if order == Order::Descending {
                rows.reverse();
            }
            for (key, value) in rows {
                if visit(key, value).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }

    type Layer = Vec<(u8, Option<u8>)>;

    proptest! {
        #[test]
        fn layers_read_like_one_map(
            base in proptest::collection::btree_map(0u8..40, 0u8..9, 0..30),
            layers in proptest::collection::vec(
                proptest::collection::vec((0u8..40, proptest::option::of(0u8..9)), 0..12), 1..4),
            from in 0u8..40, span in 0u8..40, stop in 1usize..50, descending: bool,
        ) {
            let plain = Plain(base.iter().map(|(k, v)| (vec![*k], vec![*v])).collect());
            let mut model = plain.0.clone();
            let mut maps: Vec<Changes> = Vec::new();
            for layer in &layers {
                let layer: &Layer = layer;
                let mut map = Changes::new();
                for (key, value) in layer {
                    map.insert(vec![*key], value.map(|value| vec![value]));
                    match value {
                        Some(value) => { model.insert(vec![*key], vec![*value]); }
                        None => { model.remove(&vec![*key]); }
                    }
                }
                maps.push(map);
            }
            let mut top = maps.pop().expect("at least one layer");
            let pending: Vec<&Changes> = maps.iter().collect();
            let view = View::new(&plain, &pending, &mut top);
            let order = if descending { Order::Descending } else { Order::Ascending };
            let (low, high) = ([from], [from.saturating_add(span)]);
            let mut seen = Vec::new();
            view.scan(KeyRange { from: &low, to: &high }, order, &mut |key, value| {
                seen.push((key.to_vec(), value.to_vec()));
                if seen.len() == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }).expect("plain tables do not fail");
            let mut expected: Vec<_> = model.iter()
                .filter(|(key, _)| **key >= low.to_vec() && **key < high.to_vec())
                .map(|(key, value)| (key.clone(), value.clone())).collect();
            if descending { expected.reverse(); }
            expected.truncate(stop);
            prop_assert_eq!(seen, expected);
            for key in 0u8..40 {
                prop_assert_eq!(view.get(&[key]).expect("plain"), model.get(&vec![key]).cloned());
            }
        }
    }
}
