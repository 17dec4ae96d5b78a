//! What the shard told others, and heard that they have it: list sizes at the fronts, keys destroyed.
//!
//! Comes from: the leader, after the effect is durable elsewhere. Does: deletes the to-do row, unless there is
//! something new to tell. Goes to: nowhere; the circle is closed.

use crate::records::front::Size;
use crate::tables::todo::Todo;
use crate::tables::{list, put};
use crate::view::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{KeyNo, TenantId};
use fantail_rules::tier::worth_reporting;

/// The sizes that wait to be reported, read from the to-do rows.
pub fn sizes_to_report(tables: &dyn Tables, todos: &[Todo]) -> Result<Vec<Size>, TablesError> {
    let mut sizes = Vec::new();
    for todo in todos {
        if let Todo::Report { tenant, list } = *todo {
            let members = list::find(tables, tenant, list)?.map_or(0, |row| row.members);
            sizes.push(Size { tenant, list, members });
        }
    }
    Ok(sizes)
}

pub(super) fn apply_reported(view: &mut View<'_>, sizes: &[Size]) -> Result<(), TablesError> {
    for size in sizes {
        let Some(mut row) = list::find(view, size.tenant, size.list)? else { continue };
        row.reported = size.members;
        if !worth_reporting(row.members, row.reported) {
            view.delete(Todo::Report { tenant: size.tenant, list: size.list }.key());
        }
        put(view, list::key(size.tenant, size.list), &row);
    }
    Ok(())
}

pub(super) fn apply_shredded(view: &mut View<'_>, keys: &[(TenantId, KeyNo)]) {
    for (tenant, key) in keys {
        view.delete(Todo::Shred { tenant: *tenant, key: *key }.key());
    }
}
