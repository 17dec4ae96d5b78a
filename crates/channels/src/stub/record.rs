//! What arrived: how many copies of which reference. Bounded in memory; in a file, one line per arrival: reference,
//! attempt, collapse key or `-`, content.
//!
//! What must never happen: an arrival that is answered before its line is written, or a line that is written in pieces
//! (a kill -9 would leave half of one).

use super::settings::Settings;
use fantail_ports::channel::{Message, Shipment};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub struct Record {
    references_max: usize,
    copies: Mutex<BTreeMap<String, u32>>,
    file: Option<File>,
}

impl Record {
    pub fn open(settings: &Settings) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        let file = settings.arrivals_file.as_ref().map(open).transpose()?;
        Ok(Self { references_max: settings.references_max, copies: Mutex::default(), file })
    }

    pub fn is_off(&self) -> bool {
        self.references_max == 0 && self.file.is_none()
    }

    /// An error leaves open whether the line was written.
    pub fn arrived(&self, shipment: &Shipment, message: &Message) -> io::Result<()> {
        if let Some(mut file) = self.file.as_ref() {
            let reference = &message.reference;
            let content = message.content.as_ref().unwrap_or(&shipment.content);
            let line = format!(
                "{reference} {} {} {}\n",
                message.attempt,
                shipment.collapse_key.as_deref().unwrap_or("-"),
                String::from_utf8_lossy(content).replace('\n', " "),
            );
            // Not `write_all`, which may write in pieces.
            if file.write(line.as_bytes())? != line.len() {
                return Err(io::Error::new(io::ErrorKind::WriteZero, "a line was written in part"));
            }
        }
        if self.references_max > 0 {
            let mut copies = self.lock();
            if let Some(count) = copies.get_mut(&message.reference) {
                *count += 1;
            } else if copies.len() < self.references_max {
                copies.insert(message.reference.clone(), 1);
            } else {
                return Err(io::Error::other("the record is full"));
            }
        }
        Ok(())
    }

    pub fn copies(&self, reference: &str) -> u32 {
        self.lock().get(reference).copied().unwrap_or_default()
    }

    pub fn all(&self) -> BTreeMap<String, u32> {
        self.lock().clone()
    }

    /// Every critical section leaves the map whole.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
