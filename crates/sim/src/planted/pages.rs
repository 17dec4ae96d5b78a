//! A store whose whole pages the dispatcher sees once: what of them does not fit into memory is forgotten.

use fantail_machine::tables::Family;
use fantail_ports::inbox::Inbox;
use fantail_ports::lists::Lists;
use fantail_ports::store::View;
use fantail_ports::tables::{KeyRange, Order, Read, Tables, TablesError, Visit};
use fantail_rules::ids::{PartitionId, Position};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

type RowKey = (PartitionId, Vec<u8>);

/// Keys that were on a whole page. A new leader begins with none.
#[derive(Clone, Default)]
pub struct PagesSeen(Arc<Mutex<BTreeSet<RowKey>>>);

/// A view that shows each whole page of work and timers once.
pub struct SeenOnce<'a> {
    pub view: &'a dyn View,
    pub partition: PartitionId,
    pub seen: PagesSeen,
}

impl View for SeenOnce<'_> {
    fn position(&self) -> Position {
        self.view.position()
    }

    fn tables(&self) -> &dyn Tables {
        self
    }

    fn lists(&self) -> &dyn Lists {
        self.view.lists()
    }

    fn inbox(&self) -> &dyn Inbox {
        self.view.inbox()
    }
}

impl Tables for SeenOnce<'_> {
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        self.view.tables().read(key, visit)
    }

    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        let families = [Family::Work as u8, Family::Timer as u8];
        if !range.from.first().is_some_and(|family| families.contains(family)) {
            return self.view.tables().scan(range, order, visit);
        }
        let mut seen = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut page, mut is_whole) = (Vec::new(), false);
        self.view.tables().scan(range, order, &mut |key, value| {
            let key_here = (self.partition, key.to_vec());
            if seen.contains(&key_here) {
                return std::ops::ControlFlow::Continue(());
            }
            page.push(key_here);
            let goes_on = visit(key, value);
            is_whole = goes_on.is_break();
            goes_on
        })?;
        // The one timer that is asked for beside a page says when to look again, and no more.
        if is_whole && page.len() > 1 {
            seen.extend(page);
        }
        Ok(())
    }
}
