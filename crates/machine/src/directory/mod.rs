//! A directory knows whose an address is: one user's at a time.
//!
//! Comes from: shards, whose endpoints claim addresses and give them up; the suppression API.
//! Decides: who has an address from now on, who has to let go of it first, what may not be sent to.
//! Goes to: `Claimed`, `Released`, `Suppressed`; what a shard must hear of it unasked becomes a to-do row.
//!
//! ```text
//! claim ──► nobody has it: granted at once
//!       └─► somebody has it: queued; row "release it there" ─► released ─► row "tell the owner" ─► told
//! ```
//! What must never happen: an owner who is told that the address is his while another shard may still use it.

use crate::Planned;
use crate::records::difference::{Difference, hash};
use crate::records::directory::{Claim, DirectoryRecord, Owner};
use crate::tables::directory::{self, AddressRow, DirectoryTodo, Suppression};
use crate::tables::put;
use crate::view::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{AddressHash, Millis, TenantId};
use fantail_rules::limits::{CLAIMS_PER_RECORD_MAX, RELEASING_MAX};
use fantail_rules::suppression::Reason;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

#[derive(Clone, Debug)]
pub enum DirectoryAsk {
    Claim {
        tenant: TenantId,
        claims: Vec<Claim>,
    },
    /// These claims are over, in their shards' durable state.
    Released {
        tenant: TenantId,
        claims: Vec<Claim>,
    },
    /// The owners have heard this.
    Told {
        tenant: TenantId,
        told: Vec<Tell>,
    },
    /// A reason that is stronger stays as it is.
    Suppress {
        tenant: TenantId,
        address: AddressHash,
        reason: Reason,
    },
    Unsuppress {
        tenant: TenantId,
        address: AddressHash,
    },
    /// The recipient answered START: lifts a STOP and nothing else.
    Start {
        tenant: TenantId,
        address: AddressHash,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectoryAnswer {
    Claims(Vec<Verdict>),
    Noted,
    /// Whether it was not suppressed before, or for a weaker reason.
    Suppressed {
        changed: bool,
    },
    Unsuppressed,
    NotSuppressed,
}

/// What came of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Granted {
        suppressed: bool,
    },
    /// Others have to let go first; the owner is told when they have.
    Queued,
    /// A later claim has overtaken this one.
    Refused,
    /// Too many wait for this address already: ask again.
    Crowded,
}

/// How it stands with an address, as its owner is to hear it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tell {
    pub claim: Claim,
    pub suppressed: bool,
}

/// What waits to be done, with everything that is needed to do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errand {
    Release { tenant: TenantId, claim: Claim },
    Tell { tenant: TenantId, tell: Tell },
}

impl Errand {
    /// The claim of which the shard is to hear.
    #[must_use]
    pub fn claim(&self) -> Claim {
        match self {
            Self::Release { claim, .. } => *claim,
            Self::Tell { tell, .. } => tell.claim,
        }
    }
}

pub type Plan = Planned<DirectoryRecord, DirectoryAnswer>;

pub fn plan(view: &View<'_>, ask: DirectoryAsk) -> Result<Plan, TablesError> {
    match ask {
        DirectoryAsk::Claim { tenant, claims } => plan_claims(view, tenant, &claims),
        DirectoryAsk::Released { tenant, claims } => {
            let mut known = Vec::new();
            for claim in claims {
                let row = directory::find(view, tenant, claim.address)?;
                if row.owner == Some(claim.owner) || row.releasing.contains(&claim.owner) {
                    known.push(claim);
                }
            }
            let chunks = known.chunks(CLAIMS_PER_RECORD_MAX);
            let records = chunks.map(|claims| DirectoryRecord::Released { tenant, claims: claims.to_vec() });
            Ok(Planned { records: records.collect(), answer: DirectoryAnswer::Noted })
        }
        DirectoryAsk::Told { tenant, told } => {
            let mut addresses = Vec::new();
            for tell in told {
                let row = directory::find(view, tenant, tell.claim.address)?;
                // What changed meanwhile is told again.
                if tell_of(tell.claim.address, &row) == Some(tell) {
                    addresses.push(tell.claim.address);
                }
            }
            let chunks = addresses.chunks(CLAIMS_PER_RECORD_MAX);
            let records =
                chunks.map(|addresses| DirectoryRecord::Told { tenant, addresses: addresses.to_vec() });
            Ok(Planned { records: records.collect(), answer: DirectoryAnswer::Noted })
        }
        DirectoryAsk::Suppress { tenant, address, reason } => {
            let known = reason_of(view, tenant, address)?;
            Ok(plan_suppress((tenant, address), known, reason))
        }
        DirectoryAsk::Unsuppress { tenant, address } => {
            let known = reason_of(view, tenant, address)?;
            Ok(plan_unsuppress((tenant, address), known))
        }
        DirectoryAsk::Start { tenant, address } => {
            let known = reason_of(view, tenant, address)?;
            Ok(plan_unsuppress((tenant, address), known.filter(|reason| *reason == Reason::Stop)))
        }
    }
}

fn reason_of(view: &View<'_>, tenant: TenantId, address: AddressHash) -> Result<Option<Reason>, TablesError> {
    Ok(directory::find(view, tenant, address)?.suppression.map(|known| known.reason))
}

fn plan_suppress((tenant, address): (TenantId, AddressHash), known: Option<Reason>, reason: Reason) -> Plan {
    let changed = known.is_none_or(|known| reason.replaces(known));
    let answer = DirectoryAnswer::Suppressed { changed };
    if !changed {
        return Planned::nothing(answer);
    }
    let difference = suppression_difference(known, Some(reason));
    let record = DirectoryRecord::Suppressed { tenant, address, reason, difference };
    Planned::one(record, answer)
}

fn plan_unsuppress((tenant, address): (TenantId, AddressHash), lifted: Option<Reason>) -> Plan {
    let Some(lifted) = lifted else { return Planned::nothing(DirectoryAnswer::NotSuppressed) };
    let difference = suppression_difference(Some(lifted), None);
    let record = DirectoryRecord::Unsuppressed { tenant, address, difference };
    Planned::one(record, DirectoryAnswer::Unsuppressed)
}

/// Whose the address is, and since when nothing is sent there, are no part of it.
fn suppression_difference(before: Option<Reason>, after: Option<Reason>) -> Difference {
    let hashed = |reason: Reason| hash("suppression", &[reason as u8]);
    Difference { before: before.map(hashed), after: after.map(hashed) }
}

/// Decides claim by claim, each seeing what the ones before it came to.
fn plan_claims(view: &View<'_>, tenant: TenantId, claims: &[Claim]) -> Result<Plan, TablesError> {
    let mut rows: BTreeMap<AddressHash, AddressRow> = BTreeMap::new();
    let (mut new, mut verdicts) = (Vec::new(), Vec::with_capacity(claims.len()));
    for claim in claims {
        if let Entry::Vacant(place) = rows.entry(claim.address) {
            place.insert(directory::find(view, tenant, claim.address)?);
        }
        let row = rows.get_mut(&claim.address).expect("it was put there if it was not");
        let verdict = judge(row, claim.owner);
        if row.owner != Some(claim.owner) && matches!(verdict, Verdict::Granted { .. } | Verdict::Queued) {
            hand_over(row, claim.owner);
            new.push(*claim);
        }
        verdicts.push(verdict);
    }
    let chunks = new.chunks(CLAIMS_PER_RECORD_MAX);
    let records = chunks.map(|claims| DirectoryRecord::Claimed { tenant, claims: claims.to_vec() });
    Ok(Planned { records: records.collect(), answer: DirectoryAnswer::Claims(verdicts) })
}

/// What comes of a claim, before it is recorded.
fn judge(row: &AddressRow, owner: Owner) -> Verdict {
    let granted = Verdict::Granted { suppressed: row.suppression.is_some() };
    let when = |free: bool| if free { granted } else { Verdict::Queued };
    match &row.owner {
        Some(current) if *current == owner => when(row.releasing.is_empty()),
        Some(current) if current.is_same_user(&owner) && current.claim > owner.claim => Verdict::Refused,
        _ if row.releasing.contains(&owner) => Verdict::Refused,
        Some(_) if row.releasing.len() >= RELEASING_MAX => Verdict::Crowded,
        Some(current) => when(row.releasing.is_empty() && current.is_same_endpoint(&owner)),
        None => when(row.releasing.is_empty()),
    }
}

/// Makes the claim the owner; returns who has to let go, if somebody has. An endpoint that claims its address anew has
/// let go of the old claim by itself.
fn hand_over(row: &mut AddressRow, owner: Owner) -> Option<Owner> {
    let before = row.owner.replace(owner).filter(|before| !before.is_same_endpoint(&owner))?;
    row.releasing.push(before);
    Some(before)
}

/// What the owner of an address may hear now. Nothing, as long as somebody has to let go of it.
fn tell_of(address: AddressHash, row: &AddressRow) -> Option<Tell> {
    let owner = row.owner.filter(|_| row.releasing.is_empty())?;
    Some(Tell { claim: Claim { address, owner }, suppressed: row.suppression.is_some() })
}

pub fn apply(view: &mut View<'_>, record: &DirectoryRecord, at: Millis) -> Result<(), TablesError> {
    match record {
        DirectoryRecord::Claimed { tenant, claims } => {
            claims.iter().try_for_each(|claim| apply_claimed(view, *tenant, *claim))
        }
        DirectoryRecord::Released { tenant, claims } => {
            claims.iter().try_for_each(|claim| apply_released(view, *tenant, *claim))
        }
        DirectoryRecord::Told { tenant, addresses } => {
            for address in addresses {
                view.delete(DirectoryTodo::Tell { tenant: *tenant, address: *address }.key());
            }
            Ok(())
        }
        DirectoryRecord::Suppressed { tenant, address, reason, .. } => {
            let mut row = directory::find(view, *tenant, *address)?;
            let before = row.suppression.replace(Suppression { reason: *reason, since: at });
            if before.is_none() {
                must_tell(view, *tenant, *address, &row);
            }
            write(view, *tenant, *address, &row);
            Ok(())
        }
        DirectoryRecord::Unsuppressed { tenant, address, .. } => {
            let mut row = directory::find(view, *tenant, *address)?;
            row.suppression = None;
            must_tell(view, *tenant, *address, &row);
            write(view, *tenant, *address, &row);
            Ok(())
        }
    }
}

fn apply_claimed(view: &mut View<'_>, tenant: TenantId, claim: Claim) -> Result<(), TablesError> {
    let Claim { address, owner } = claim;
    let mut row = directory::find(view, tenant, address)?;
    // Whoever claims is answered. What an earlier owner was to hear is of no use to it any more.
    view.delete(DirectoryTodo::Tell { tenant, address }.key());
    if let Some(before) = hand_over(&mut row, owner) {
        let claim = Claim { address, owner: before };
        view.put(DirectoryTodo::Release { tenant, claim }.key(), Vec::new());
    }
    write(view, tenant, address, &row);
    Ok(())
}

fn apply_released(view: &mut View<'_>, tenant: TenantId, claim: Claim) -> Result<(), TablesError> {
    let Claim { address, owner } = claim;
    let mut row = directory::find(view, tenant, address)?;
    if row.owner == Some(owner) {
        row.owner = None;
        view.delete(DirectoryTodo::Tell { tenant, address }.key());
    }
    if row.releasing.contains(&owner) {
        row.releasing.retain(|one| *one != owner);
        view.delete(DirectoryTodo::Release { tenant, claim }.key());
        must_tell(view, tenant, address, &row);
    }
    write(view, tenant, address, &row);
    Ok(())
}

/// Writes down that the owner is to hear how it stands, if it may hear it already.
fn must_tell(view: &mut View<'_>, tenant: TenantId, address: AddressHash, row: &AddressRow) {
    if tell_of(address, row).is_some() {
        view.put(DirectoryTodo::Tell { tenant, address }.key(), Vec::new());
    }
}

fn write(view: &mut View<'_>, tenant: TenantId, address: AddressHash, row: &AddressRow) {
    let key = directory::key(tenant, address);
    if row.is_empty() {
        view.delete(key);
    } else {
        put(view, key, row);
    }
}

/// Whether the owner of an address has heard how it stands with it, if there is one, and nobody before uses it any more.
pub fn is_told(tables: &dyn Tables, tenant: TenantId, address: AddressHash) -> Result<bool, TablesError> {
    let row = directory::find(tables, tenant, address)?;
    let waits = tables.get(&DirectoryTodo::Tell { tenant, address }.key())?.is_some();
    Ok(row.releasing.is_empty() && (row.owner.is_none() || !waits))
}

/// What these to-do rows want, of those that are still there. The loop of the shard that an errand names does it: whatever
/// that loop has read of its shard, no release can have overtaken it.
pub fn errands(tables: &dyn Tables, todos: &[DirectoryTodo]) -> Result<Vec<Errand>, TablesError> {
    let mut errands = Vec::with_capacity(todos.len());
    for todo in todos {
        if tables.get(&todo.key())?.is_some() {
            errands.extend(errand(tables, *todo)?);
        }
    }
    Ok(errands)
}

fn errand(tables: &dyn Tables, todo: DirectoryTodo) -> Result<Option<Errand>, TablesError> {
    Ok(match todo {
        DirectoryTodo::Release { tenant, claim } => Some(Errand::Release { tenant, claim }),
        DirectoryTodo::Tell { tenant, address } => {
            let tell = tell_of(address, &directory::find(tables, tenant, address)?);
            tell.map(|tell| Errand::Tell { tenant, tell })
        }
    })
}
