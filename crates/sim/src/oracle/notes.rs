//! Notes: what enters the audit log although it changes no table (backups, exports, tests of providers, sums of failed logins).
//!
//! Invariant: a note that was acknowledged is in the log of its tenant once, one that was refused is not there, and any other at most once.
//! A note that was asked for after another was acknowledged stands behind it.

use super::{Heard, Oracle, Step};
use crate::broken::{Broken, Invariant};
use crate::note::{NoteNo, note_action, note_target};
use fantail_rules::ids::TenantId;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// No answer was heard, or one that does not say.
    Unknown,
    Refused,
    Acknowledged(Step),
}

#[derive(Clone, Copy, Debug)]
struct Note {
    tenant: TenantId,
    invoked: Step,
    fate: Fate,
}

#[derive(Default)]
pub struct Notes(Vec<Note>);

/// What the audit log says of actions, in order, by tenant.
pub type Actions = BTreeMap<TenantId, Vec<(String, String)>>;

impl Oracle {
    /// A new note for the book.
    pub fn write_note(&mut self, tenant: TenantId) -> NoteNo {
        let note = self.notes.0.len();
        self.notes.0.push(Note { tenant, invoked: 0, fate: Fate::Unknown });
        note
    }

    pub(super) fn invoke_note(&mut self, note: NoteNo, step: Step) {
        self.notes.0[note].invoked = step;
    }

    pub(super) fn heard_note(&mut self, note: NoteNo, heard: &Heard<()>, step: Step) -> Result<(), Broken> {
        self.notes.0[note].fate = match heard {
            Heard::Yes(()) => Fate::Acknowledged(step),
            Heard::No(_) => Fate::Refused,
            Heard::Unknown => Fate::Unknown,
        };
        self.seen.noted += u64::from(matches!(heard, Heard::Yes(())));
        Ok(())
    }

    /// Holds the log against what was asked for and heard.
    pub(super) fn check_notes(&self, actions: &Actions) -> Result<(), Broken> {
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); self.notes.0.len()];
        for (tenant, said) in actions {
            for (place, (action, target)) in said.iter().enumerate() {
                let Some(no) = target.strip_prefix("note ") else { continue };
                let no = no.parse::<NoteNo>().ok().filter(|no| {
                    let is_its_own = |note: &Note| note.tenant == *tenant && action == note_action(*no);
                    self.notes.0.get(*no).is_some_and(is_its_own)
                });
                match no {
                    Some(no) => places[no].push(place),
                    None => return Invariant::Audit.broken(format!("tenant {tenant} has {action} {target}")),
                }
            }
        }
        for (no, (note, found)) in self.notes.0.iter().zip(&places).enumerate() {
            let is_right = match note.fate {
                Fate::Acknowledged(_) => found.len() == 1,
                Fate::Refused => found.is_empty(),
                Fate::Unknown => found.len() <= 1,
            };
            let about = || format!("{} {note:?} is in the log {} times", note_target(no), found.len());
            Invariant::Audit.holds(is_right, about)?;
        }
        self.check_order(&places)
    }

    fn check_order(&self, places: &[Vec<usize>]) -> Result<(), Broken> {
        for (no, (note, found)) in self.notes.0.iter().zip(places).enumerate() {
            let Fate::Acknowledged(heard) = note.fate else { continue };
            let follows =
                |(other, _): &(&Note, &Vec<usize>)| other.tenant == note.tenant && other.invoked > heard;
            let mut later = self.notes.0.iter().zip(places).filter(follows);
            let is_first = later.all(|(_, others)| others.first() > found.first() || others.is_empty());
            Invariant::Audit.holds(is_first, || format!("{} stands behind a later one", note_target(no)))?;
        }
        Ok(())
    }
}
