//! The audit log at the end: caught up, its chains unbroken, and everything told once, whatever crashed in between; notes as
//! their callers were answered.

use super::Oracle;
use super::notes::Actions;
use crate::broken::{Broken, Invariant};
use crate::executor::at_once;
use fantail_audit::chain::Chains;
use fantail_audit::entry;
use fantail_audit::fact::Fact;
use fantail_memory::audit::MemoryAudit;
use fantail_node::Node;
use fantail_ports::audit::{AuditLog, Sequence};
use fantail_ports::journal::ReadLimit;
use std::collections::BTreeSet;

const ALL: ReadLimit = ReadLimit { records: usize::MAX, bytes: usize::MAX };

pub fn check_audit(oracle: &Oracle, node: &Node, audit: &MemoryAudit) -> Result<(), Broken> {
    let lag = node.health().audit_lag;
    Invariant::Drains.holds(lag == 0, || format!("the audit log has {lag} records to derive"))?;
    let (mut chains, mut accepted) = (Chains::default(), BTreeSet::new());
    let mut actions = Actions::new();
    let heads = audit.heads();
    for head in &heads {
        let entries = at_once(audit.read_chain(head.chain, Sequence(1), ALL));
        let Some(Ok(entries)) = entries else {
            return Invariant::Audit.broken(format!("{} cannot be read", head.chain));
        };
        for stored in entries {
            let follows = chains.fold_stored(&stored, entry::hash(&stored));
            let about = || format!("{} breaks at {}", stored.chain, stored.sequence);
            Invariant::Audit.holds(follows.is_ok(), about)?;
            let fact = Fact::decode(stored.kind, &stored.body);
            if let Ok(Fact::Accepted(fact)) = &fact {
                let is_new = accepted.insert((stored.chain.tenant, fact.event));
                Invariant::Audit.holds(is_new, || format!("{} was accepted twice", fact.event))?;
            }
            if let Ok(Fact::Action(fact)) = fact {
                actions.entry(stored.chain.tenant).or_default().push((fact.action, fact.target));
            }
        }
    }
    Invariant::Audit.holds(chains.heads() == heads, || "the heads are others".to_owned())?;
    oracle.check_notes(&actions)
}
