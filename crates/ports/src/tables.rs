//! Ordered keys and values of one partition. The machines' typed tables sit on top (`machine::tables`).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use thiserror::Error;

/// Reads of one partition's rows. Keys compare as bytes.
pub trait Tables {
    /// Calls `visit` once, with the value of the row or, if there is none, with nothing.
    fn read(&self, key: &[u8], visit: Read<'_>) -> Result<(), TablesError>;

    /// Visits the rows of `range` in `order` until the visitor breaks or the range ends.
    fn scan(&self, range: KeyRange<'_>, order: Order, visit: Visit<'_>) -> Result<(), TablesError>;

    /// A copy of the row's value.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TablesError> {
        let mut found = None;
        self.read(key, &mut |row| found = row.map(<[u8]>::to_vec))?;
        Ok(found)
    }
}

/// Keys with this first byte are columns: a few bytes of each of many users, read for every member of a parcel. There
/// are not many of them, and engines that find rows on disk keep them in memory.
pub const COLUMNS: u8 = 49;

/// Called with the value of a row.
pub type Read<'a> = &'a mut dyn FnMut(Option<&[u8]>);

/// Called with key and value of each row.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Keys from `from` (included) to `to` (not included).
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'a> {
    pub from: &'a [u8],
    pub to: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Ascending,
    Descending,
}

/// What a batch puts (`Some`) and deletes (`None`), at most one change per key.
pub type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TablesError {
    /// Stop: the storage below failed.
    #[error("table read failed: {reason}")]
    Io { reason: String },
    /// Stop: a row does not decode, so what is stored is not what was written.
    #[error("row of {family} is damaged: {reason}")]
    Damaged { family: &'static str, reason: String },
}
