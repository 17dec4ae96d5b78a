//! What is told about deliveries that were asked for one by one: attempts with their times, and what the provider said.
//! Fan-out has its ledger alone.
//!
//! ```text
//! 59 tenant arrival: u64 channel: u8 user: u64 device: u16 -> list of (at, state: u8, code: text,
//!                                                             message: text, provider id: text)
//! ```

use super::{Family, Key, Row, get, put};
use crate::codec::{Malformed, Reader, Writer};
use crate::columns;
use crate::parcel::Member;
use crate::tables::ledger::ParcelId;
use crate::view::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::attempt::State;
use fantail_rules::ids::Millis;

/// Attempts that are kept; of more the first and the latest.
const ATTEMPTS_MAX: usize = 8;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrackRow {
    pub notes: Vec<Note>,
}

/// One thing that happened to a delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    pub at: Millis,
    /// Where it stood afterwards.
    pub state: State,
    pub code: String,
    pub message: String,
    pub provider_id: String,
}

#[must_use]
pub fn key(parcel: ParcelId, member: Member) -> Vec<u8> {
    let key = Key::new(Family::Track, parcel.tenant).u64(parcel.arrival.0).bytes(&[parcel.channel as u8]);
    key.u64(member.user.0).bytes(&member.device.0.to_be_bytes()).finish()
}

pub fn exists(tables: &dyn Tables, parcel: ParcelId, member: Member) -> Result<bool, TablesError> {
    Ok(tables.get(&key(parcel, member))?.is_some())
}

/// Adds what is told about a member; nothing about one who has gone.
pub(crate) fn add(
    view: &mut View<'_>,
    parcel: ParcelId,
    member: Member,
    note: &Note,
) -> Result<(), TablesError> {
    if !columns::find(view, parcel.tenant, member.user)?.reach.exists() {
        return Ok(());
    }
    let mut row = find(view, parcel, member)?;
    row.add(note.clone());
    put(view, key(parcel, member), &row);
    Ok(())
}

pub fn find(tables: &dyn Tables, parcel: ParcelId, member: Member) -> Result<TrackRow, TablesError> {
    Ok(get(tables, &key(parcel, member))?.unwrap_or_default())
}

impl TrackRow {
    pub fn add(&mut self, note: Note) {
        if self.notes.len() >= ATTEMPTS_MAX {
            self.notes.remove(1);
        }
        self.notes.push(note);
    }
}

impl Note {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.millis(self.at).u8(self.state as u8);
        w.text(&self.code).text(&self.message).text(&self.provider_id);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            at: r.millis()?,
            state: State::from_stored(r.u8()?).ok_or(Malformed::Value("state"))?,
            code: r.text()?,
            message: r.text()?,
            provider_id: r.text()?,
        })
    }
}

impl Row for TrackRow {
    const NAME: &'static str = "track";

    fn write(&self, w: &mut Writer) {
        w.list(self.notes.iter(), |w, note| note.write(w));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { notes: r.list(Note::read)? })
    }
}
