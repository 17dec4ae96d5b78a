//! The model of the audit log passes the suite.

use fantail_conformance::audit::{Rig, audit_suite};
use fantail_memory::audit::MemoryAudit;
use fantail_ports::audit::AuditLog;

struct MemoryRig(MemoryAudit);

impl Rig for MemoryRig {
    fn log(&self) -> &dyn AuditLog {
        &self.0
    }

    fn reopen(&mut self) {
        self.0.crash();
    }

    fn crash(&mut self) {
        self.0.crash();
    }

    fn set_full(&self, full: bool) {
        self.0.set_full(full);
    }

    fn break_disk(&self) {
        self.0.fail("the disk is broken");
    }
}

// proves: NFR-03
#[test]
fn memory_audit_passes_the_suite() {
    audit_suite(|| MemoryRig(MemoryAudit::new()));
}
