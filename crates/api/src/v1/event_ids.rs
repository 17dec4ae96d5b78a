//! From what a caller writes to the platform's id: an `eventId`, or the `notificationId` of a producer.
//!
//! A name may look like an id. An id that exists goes first, then a name that is known, then the id: what it is asked about says
//! that there is none. Names are found as long as repeats are (48 hours), ids as long as the event is kept.

use crate::call::Call;
use crate::check::name_fault;
use crate::problem::Problem;
use fantail_rules::ids::TenantId;
use fantail_rules::ulid::Ulid;
use fantail_wire::code::Code;

/// The event of a path.
pub fn of_path(tenant: TenantId, call: &Call, param: &str) -> Result<Ulid, Problem> {
    let found = find(tenant, call, call.name(param)?)?;
    found.ok_or_else(|| Problem::new(Code::EventNotFound, "there is no notification or event with this id"))
}

/// The event of a field or a query parameter.
pub fn of_field(tenant: TenantId, call: &Call, pointer: &str, text: &str) -> Result<Ulid, Problem> {
    if let Some(fault) = name_fault(text) {
        return Err(Problem::field(pointer, fault));
    }
    let found = find(tenant, call, text)?;
    found.ok_or_else(|| Problem::new(Code::EventNotFound, "there is no notification or event with this id"))
}

/// `None`: it is neither an id nor a name that is known.
pub fn find(tenant: TenantId, call: &Call, text: &str) -> Result<Option<Ulid>, Problem> {
    let id = Ulid::parse(text);
    if let Some(event) = id
        && call.node.is_known_event(tenant, event)?
    {
        return Ok(Some(event));
    }
    Ok(call.node.find_notification(tenant, text)?.or(id))
}
