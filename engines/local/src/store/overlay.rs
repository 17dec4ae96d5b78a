//! What was committed since the last sync point, over what the database holds.
//!
//! Readers look into the active overlay, then into the one a running sync is writing (frozen), then into the
//! database. So it makes no difference to them when exactly the write of a sync lands.

use super::columns::{AHEAD, is_column};
use super::keys::{self, PREFIX, PageKey};
use super::rows::{Rows, read_error, taken};
use fantail_ports::tables::{COLUMNS, Changes, KeyRange, Order, Read, TablesError, Visit};
use fantail_rules::ids::PartitionId;
use fjall::{UserKey, UserValue};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Pages of lists as they are stored; `None` deletes.
pub type PageMap = BTreeMap<PageKey, Option<Vec<u8>>>;

#[derive(Default)]
pub struct Overlay {
    pub tables: TableRows,
    pub pages: PageMap,
    /// Rows of the other families, by whole key.
    pub notes: Changes,
    /// About what it takes in memory.
    pub bytes: u64,
}

/// What a map entry costs beside its bytes.
const ENTRY_BYTES: usize = 64;

impl Overlay {
    pub fn put_tables(&mut self, changes: Changes) {
        for (key, to) in &changes {
            self.bytes += (ENTRY_BYTES + key.len() + to.as_ref().map_or(0, Vec::len)) as u64;
        }
        self.tables.put(changes);
    }

    pub fn put_page(&mut self, key: PageKey, to: Option<Vec<u8>>) {
        let bytes = |page: &Option<Vec<u8>>| (ENTRY_BYTES + page.as_ref().map_or(0, Vec::len)) as u64;
        self.bytes += bytes(&to);
        let replaced = self.pages.insert(key, to);
        self.bytes -= replaced.as_ref().map_or(0, bytes);
    }

    pub fn put_note(&mut self, key: Vec<u8>, to: Option<Vec<u8>>) {
        self.bytes += (ENTRY_BYTES + key.len() + to.as_ref().map_or(0, Vec::len)) as u64;
        self.notes.insert(key, to);
    }

    pub fn rows(&self) -> usize {
        self.tables.len() + self.pages.len() + self.notes.len()
    }
}

/// Changed rows of tables, those of each family (the first byte of a key) apart: what is asked most often, columns and
/// endpoints, is then not looked for among the ledgers of a burst.
#[derive(Default)]
pub struct TableRows(BTreeMap<u8, Changes>);

impl TableRows {
    fn put(&mut self, mut changes: Changes) {
        while let Some((first, _)) = changes.first_key_value() {
            let family = family_of(first);
            let later = family.checked_add(1).map(|next| changes.split_off([next].as_slice()));
            let rows = self.0.entry(family).or_default();
            if rows.is_empty() {
                *rows = changes;
            } else {
                rows.extend(changes);
            }
            changes = later.unwrap_or_default();
        }
    }

    fn get(&self, key: &[u8]) -> Option<&Option<Vec<u8>>> {
        self.0.get(&family_of(key))?.get(key)
    }

    fn range<'a>(&'a self, range: KeyRange<'_>) -> impl DoubleEndedIterator<Item = Changed<'a>> {
        let (from, to) = (range.from.to_vec(), range.to.to_vec());
        let families = self.0.range(family_of(&from)..=family_of(&to));
        families.flat_map(move |(_, rows)| {
            rows.range::<[u8], _>((Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice())))
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = Changed<'_>> {
        self.0.values().flatten()
    }

    fn len(&self) -> usize {
        self.0.values().map(Changes::len).sum()
    }
}

fn family_of(key: &[u8]) -> u8 {
    key.first().copied().unwrap_or_default()
}

/// The table rows of one partition, merged.
pub struct MergedTables<'a> {
    pub rows: &'a Rows,
    pub partition: PartitionId,
    pub active: &'a TableRows,
    pub frozen: Option<&'a TableRows>,
}

impl MergedTables<'_> {
    pub fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        let recent = self.active.get(key).or_else(|| self.frozen?.get(key));
        if let Some(row) = recent {
            visit(row.as_deref());
        } else if is_column(key) {
            self.column(key, visit)?;
        } else {
            visit(self.stored(key)?.as_deref());
        }
        Ok(())
    }

    fn stored(&self, key: &[u8]) -> Result<Option<UserValue>, TablesError> {
        let stored = self.rows.main.get(keys::table(self.partition, key));
        stored.map_err(|cause| read_error(&cause))
    }

    fn column(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError> {
        if let Some(row) = self.rows.columns.get(self.partition, key) {
            visit(Some(&row));
            return Ok(());
        }
        let stored = match self.frozen {
            Some(_) => self.stored(key)?,
            None => self.kept_from_now_on(key)?,
        };
        visit(stored.as_deref());
        Ok(())
    }

    /// Reads a column, and perhaps those behind it, into memory.
    fn kept_from_now_on(&self, key: &[u8]) -> Result<Option<UserValue>, TablesError> {
        let columns = &self.rows.columns;
        if !columns.is_in_order(self.partition, key) {
            let stored = self.stored(key)?;
            columns.take_in(self.partition, stored.iter().map(|row| (key, &row[..])));
            return Ok(stored);
        }
        let [from, to] = [key, &[COLUMNS + 1]].map(|key| keys::table(self.partition, key));
        let rows = self.rows.main.range(from.clone()..to).take(AHEAD).map(taken);
        let rows: Vec<(UserKey, UserValue)> = rows.collect::<Result<_, _>>()?;
        columns.take_in(self.partition, rows.iter().map(|(key, row)| (&key[PREFIX..], &row[..])));
        Ok(rows.into_iter().next().filter(|(first, _)| first[..] == from).map(|(_, row)| row))
    }

    pub fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError> {
        if range.from >= range.to {
            return Ok(());
        }
        let nothing = TableRows::default();
        let active = self.active.range(range);
        let frozen = self.frozen.unwrap_or(&nothing).range(range);
        let (from, to) = (keys::table(self.partition, range.from), keys::table(self.partition, range.to));
        let stored = self.rows.main.range(from..to);
        match order {
            Order::Ascending => merge(active, frozen, stored, order, visit),
            Order::Descending => merge(active.rev(), frozen.rev(), stored.rev(), order, visit),
        }
    }
}

type Changed<'a> = (&'a Vec<u8>, &'a Option<Vec<u8>>);

/// Visits what three sequences of one order hold together; where keys are equal the earlier sequence wins.
fn merge<'a>(
    active: impl Iterator<Item = Changed<'a>>,
    frozen: impl Iterator<Item = Changed<'a>>,
    stored: impl Iterator<Item = fjall::Guard>,
    order: Order,
    visit: Visit<'_>,
) -> Result<(), TablesError> {
    let (mut active, mut frozen) = (active.peekable(), frozen.peekable());
    let mut stored = stored.map(taken);
    let mut waiting = stored.next().transpose()?;
    loop {
        let changed = match (active.peek(), frozen.peek()) {
            (Some(newer), Some(older)) => {
                Some(if comes_after(newer.0, older.0, order) { *older } else { *newer })
            }
            (newer, older) => newer.or(older).copied(),
        };
        let at_stored = match (&changed, &waiting) {
            (None, None) => return Ok(()),
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (Some((key, _)), Some((stored, _))) => comes_after(key, &stored[PREFIX..], order),
        };
        let flow = if at_stored {
            let (key, value) = waiting.take().expect("the stored row is first, so there is one");
            waiting = stored.next().transpose()?;
            visit(&key[PREFIX..], &value)
        } else {
            let (key, to) = changed.expect("the changed row is first, so there is one");
            active.next_if(|(other, _)| *other == key);
            frozen.next_if(|(other, _)| *other == key);
            if waiting.as_ref().is_some_and(|(stored, _)| stored[PREFIX..] == key[..]) {
                waiting = stored.next().transpose()?;
            }
            match to {
                Some(value) => visit(key, value),
                None => continue,
            }
        };
        if flow.is_break() {
            return Ok(());
        }
    }
}

fn comes_after(one: &[u8], other: &[u8], order: Order) -> bool {
    match order {
        Order::Ascending => one.cmp(other) == Ordering::Greater,
        Order::Descending => one.cmp(other) == Ordering::Less,
    }
}
