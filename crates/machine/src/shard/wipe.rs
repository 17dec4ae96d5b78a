//! What goes beside the rows of a deleted tenant.
//!
//! Comes from: a `Wiped` record. Does: deletes the rows, ends the stays on lists, has the inbox forget all entries. Goes to: the lists and
//! the inbox index.

use super::Derived;
use crate::records::wipe::WipedStretch;
use crate::tables::progress::Progress;
use crate::tables::{Family, Row, follow, progress};
use crate::view::View;
use crate::wipe;
use fantail_ports::inbox::Forget;
use fantail_ports::lists::{ListEdit, ListKey};
use fantail_ports::tables::TablesError;
use fantail_rules::ids::Arrival;
use fantail_rules::interval::Intervals;

/// Nothing of the tenant is left to be delivered.
const NO_FLOOR: Arrival = Arrival(u64::MAX);

pub(super) fn apply(
    view: &mut View<'_>,
    stretch: &WipedStretch,
    derived: &mut Derived,
) -> Result<(), TablesError> {
    let tenant = stretch.tenant;
    let at = progress::find(view, tenant)?.last;
    wipe::apply(view, stretch, |family, key, value| {
        if family == Family::Follow {
            let (user, list) = follow::read_key(key)?;
            let (key, intervals) = (ListKey { tenant, list }, Intervals::default());
            derived.edits.push(ListEdit { key, user, intervals, at, floor: NO_FLOOR });
        }
        if family == Family::ShardState {
            let arrival = Progress::decode(value)?.last;
            derived.forgets.push(Forget::Through { tenant, arrival });
        }
        Ok(())
    })
}
