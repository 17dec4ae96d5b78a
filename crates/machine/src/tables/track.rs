//! What is told about deliveries that were asked for one by one: attempts with their times, and what the provider said.
//! Fan-out has its ledger alone.
//!
//! ```text
//! 59 tenant arrival: u64 channel: u8 first: u64 block: u8 -> list of (place: u8, notes), places ascend
//!    notes = list of (at, state: u8, code: text, message: text, provider id: text)      position = block * 32 + place
//! ```
//! Those of 32 members lie together: a provider answers for many of a parcel at once, and a row for each would be most of
//! what a send writes.

use super::{Family, Key, Row, get, put};
use crate::codec::{Malformed, Reader, Writer};
use crate::columns;
use crate::parcel::Members;
use crate::tables::ledger::ParcelId;
use crate::view::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::attempt::State;
use fantail_rules::gates::Reason;
use fantail_rules::ids::{Millis, UserNo};
use std::collections::BTreeMap;

const BLOCK_BITS: u32 = 5;
const BLOCK_MEMBERS: u16 = 1 << BLOCK_BITS;

/// Attempts that are kept; of more the first and the latest.
const ATTEMPTS_MAX: usize = 8;

/// Notes about the members of one block, by their places.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrackRow(BTreeMap<u8, Vec<Note>>);

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

/// Where the notes about the member at a position lie.
#[must_use]
pub fn key(parcel: ParcelId, position: u16) -> Vec<u8> {
    let key = Key::new(Family::Track, parcel.tenant).u64(parcel.arrival.0).bytes(&[parcel.channel as u8]);
    key.u64(parcel.first.0).bytes(&[(position >> BLOCK_BITS) as u8]).finish()
}

/// The keys of everything that is told about a parcel of so many members.
pub(crate) fn keys(parcel: ParcelId, members: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..blocks(members) as u16).map(move |block| key(parcel, block << BLOCK_BITS))
}

/// How many rows tell of so many members.
pub(crate) fn blocks(members: usize) -> usize {
    members.div_ceil(usize::from(BLOCK_MEMBERS))
}

fn place(position: u16) -> u8 {
    (position % BLOCK_MEMBERS) as u8
}

/// Adds what is told about members, whose positions ascend; nothing about those who have gone.
pub(crate) fn add<'n>(
    view: &mut View<'_>,
    parcel: ParcelId,
    members: &Members,
    notes: impl Iterator<Item = (u16, &'n Note)>,
) -> Result<(), TablesError> {
    let all: Vec<UserNo> = members.iter().map(|member| member.user).collect();
    let known = notes.filter_map(|(position, note)| Some((*all.get(usize::from(position))?, position, note)));
    let known: Vec<(UserNo, u16, &Note)> = known.collect();
    let users: Vec<UserNo> = known.iter().map(|(user, _, _)| *user).collect();
    let mut is_here = vec![false; users.len()];
    columns::visit(view, parcel.tenant, &users, &mut |at, column| is_here[at] = column.reach.exists())?;
    for block in known.chunk_by(|one, other| one.1 >> BLOCK_BITS == other.1 >> BLOCK_BITS) {
        let mut row = row(view, parcel, block[0].1)?;
        let here = is_here.drain(..block.len());
        for ((_, position, note), _) in block.iter().zip(here).filter(|(_, is_here)| *is_here) {
            row.add(place(*position), (*note).clone());
        }
        if !row.0.is_empty() {
            put(view, key(parcel, block[0].1), &row);
        }
    }
    Ok(())
}

/// What was told about the member at a position, oldest first.
pub fn find(tables: &dyn Tables, parcel: ParcelId, position: u16) -> Result<Vec<Note>, TablesError> {
    Ok(row(tables, parcel, position)?.notes(place(position)).to_vec())
}

/// Reads the notes of a parcel's members, in order of their positions: each row once.
pub struct NotesReader {
    parcel: ParcelId,
    /// The row that was read last, by the number of its block.
    block: Option<(u16, TrackRow)>,
}

impl NotesReader {
    #[must_use]
    pub fn new(parcel: ParcelId) -> Self {
        Self { parcel, block: None }
    }

    /// Notes about the member at a position, oldest first.
    pub fn read(&mut self, tables: &dyn Tables, position: u16) -> Result<&[Note], TablesError> {
        let no = position >> BLOCK_BITS;
        if self.block.as_ref().is_none_or(|(known, _)| *known != no) {
            self.block = Some((no, row(tables, self.parcel, position)?));
        }
        Ok(self.block.as_ref().map_or(&[], |(_, row)| row.notes(place(position))))
    }
}

/// Nothing of what was told about the member at a position stays.
pub(crate) fn forget(view: &mut View<'_>, parcel: ParcelId, position: u16) -> Result<(), TablesError> {
    let mut row = row(view, parcel, position)?;
    if row.0.remove(&place(position)).is_none() {
        return Ok(());
    }
    if row.0.is_empty() {
        view.delete(key(parcel, position));
    } else {
        put(view, key(parcel, position), &row);
    }
    Ok(())
}

fn row(tables: &dyn Tables, parcel: ParcelId, position: u16) -> Result<TrackRow, TablesError> {
    Ok(get(tables, &key(parcel, position))?.unwrap_or_default())
}

impl TrackRow {
    /// A gate that puts off again what it has just put off says nothing new.
    pub fn add(&mut self, place: u8, note: Note) {
        let notes = self.0.entry(place).or_default();
        let says_again =
            |last: &Note| (last.state, &last.code) == (note.state, &note.code) && note.gate().is_some();
        if notes.last().is_some_and(says_again) {
            return;
        }
        if notes.len() >= ATTEMPTS_MAX {
            // What gates decided stays as long as there are attempts to leave out.
            let attempt = notes.iter().skip(1).position(|note| note.gate().is_none()).unwrap_or(0);
            notes.remove(attempt + 1);
        }
        notes.push(note);
    }

    /// What is told about the member at a place.
    pub fn notes(&self, place: u8) -> &[Note] {
        self.0.get(&place).map_or(&[], Vec::as_slice)
    }
}

impl Note {
    /// Which gate put the delivery off, if that is what it says: no provider was asked then.
    #[must_use]
    pub fn gate(&self) -> Option<Reason> {
        let is_ours = self.state == State::Deferred && self.message.is_empty() && self.provider_id.is_empty();
        Reason::parse(&self.code).filter(|_| is_ours)
    }

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
        w.list(self.0.iter(), |w, (place, notes)| {
            w.u8(*place).list(notes.iter(), |w, note| note.write(w));
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let members = r.list(|r| Ok((r.u8()?, r.list(Note::read)?)))?;
        if !members.is_sorted_by(|one, other| one.0 < other.0) {
            return Err(Malformed::Value("place"));
        }
        Ok(Self(members.into_iter().collect()))
    }
}
