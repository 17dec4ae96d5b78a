//! What the audit log is told although no table changes.

/// Which note of the oracle's book.
pub type NoteNo = usize;

/// What a note says was done; of the server and of tenants alike.
#[must_use]
pub fn note_action(note: NoteNo) -> &'static str {
    ["backup.create", "user.export", "provider.test", "login.refuse"][note % 4]
}

#[must_use]
pub fn note_target(note: NoteNo) -> String {
    format!("note {note}")
}
