//! How often a delivery was tried, from what its ledger and its notes say.
//!
//! Comes from: the status and dead letters. Goes to: `rules::retry::attempts`.

use fantail_machine::shard::outcome::is_put_off;
use fantail_machine::tables::ledger::Standing;
use fantail_machine::tables::track::Note;
use fantail_rules::attempt::State;
use fantail_rules::retry::Tries;

/// Every burnt retry was a failure.
pub fn tries_of(standing: &Standing) -> Tries {
    let was_put_off = is_put_off(&standing.code);
    Tries { failures: standing.retries, resends: standing.resends, was_put_off }
}

/// The same of a delivery whose notes are kept: a provider that wanted a rest was asked, whatever put it off since.
pub fn tries_by(standing: &Standing, notes: &[Note]) -> Tries {
    let tries = tries_of(standing);
    let was_asked = notes.iter().any(|note| note.state == State::Deferred && !is_put_off(&note.code));
    Tries { was_put_off: tries.was_put_off && !was_asked, ..tries }
}
