//! Segments: conditions about users, and lists that were uploaded.
//!
//! Comes from: `pipeline`. Decides: that a filter can be understood, and says where it cannot. Goes to: `Node::{put_segment, …}`;
//! uploads are in `upload`.

use crate::call::Call;
use crate::cursor::{self, Owner};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use fantail_node::ask::Refusal;
use fantail_node::named::Named;
use fantail_node::segments::{SegmentPut as Put, SegmentRow, Size};
use fantail_rules::ids::TenantId;
use fantail_rules::limits::SEGMENT_NOTE_BYTES_MAX;
use fantail_rules::segment::Filter;
use fantail_wire::code::Code;
use fantail_wire::problem::FieldError;
use fantail_wire::segment::{Segment, SegmentCount, SegmentList, SegmentPut, Segments};

pub async fn put(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let name = call.new_name(tenant, "segment", Named::Segment)?.to_owned();
    let SegmentPut { filter, description } = call.json_or_default()?;
    if description.len() > SEGMENT_NOTE_BYTES_MAX {
        let rule = format!("must have at most {SEGMENT_NOTE_BYTES_MAX} bytes");
        return Err(Problem::field("/description", rule));
    }
    if let Some(filter) = &filter {
        understand(filter)?;
    }
    let put = Put { tenant, name, filter, note: description };
    let (row, is_new) = call.node.put_segment(put).await?;
    Ok(Reply::json(if is_new { 201 } else { 200 }, &shown(row)))
}

/// The place in the text is in the detail: pointers end at the field.
fn understand(filter: &str) -> Result<(), Problem> {
    Filter::parse(filter).map(drop).map_err(|fault| {
        let before = filter.get(..fault.at).map_or(0, |before| before.chars().count());
        let what = format!("at character {}: {}", before + 1, fault.what);
        let error = FieldError::new("/filter", what.clone());
        Problem::new(Code::InvalidFilter, what).with_errors(vec![error])
    })
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let row = call.node.segment(tenant, call.name("segment")?)?;
    Ok(Reply::json(200, &shown(row)))
}

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let owner = Owner { tenant, name: "segments" };
    let behind = match call.query.get("cursor") {
        Some(text) => Some(cursor::to_names(owner, text).ok_or(Refusal::BadCursor)?),
        None => None,
    };
    let limit = call.list_limit()?;
    let rows = call.node.segments(tenant, behind.as_deref(), limit)?;
    let last = rows.last().filter(|_| rows.len() == limit).map(|row| row.put.name.clone());
    let next_cursor = last.map(|name| cursor::of_names(owner, &name));
    Ok(Reply::json(200, &Segments { segments: rows.into_iter().map(shown).collect(), next_cursor }))
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    call.node.delete_segment(tenant, call.name("segment")?).await?;
    Ok(Reply::no_content())
}

pub async fn count(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (node, name) = (call.node.clone(), call.name("segment")?.to_owned());
    let counted = crate::aside::run(&call.app, tenant, crate::aside::Work::Scan, move || {
        node.count_segment(tenant, &name)
    })
    .await?;
    let Size { members, users, is_exact } = counted?;
    Ok(Reply::json(200, &SegmentCount { members, users, exact: is_exact }))
}

pub fn shown(row: SegmentRow) -> Segment {
    let list = |list: fantail_node::segments::SegmentList| SegmentList {
        members: list.members,
        uploaded_at: time::text(list.uploaded),
    };
    Segment {
        name: row.put.name,
        filter: row.put.filter,
        description: row.put.note,
        list: row.list.map(list),
        created_at: time::text(row.created),
        updated_at: time::text(row.updated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_a_filter_say_where() {
        assert!(understand("everyone").is_ok());
        let problem = understand("attributes.é == ?").expect_err("no filter");
        assert_eq!(problem.code, Code::InvalidFilter);
        assert!(problem.detail.starts_with("at character 17:"), "{}", problem.detail);
        assert_eq!(problem.errors[0].pointer, "/filter");
    }
}
