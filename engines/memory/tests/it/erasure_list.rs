//! The list of erasures in memory passes the suite.

use fantail_conformance::erasure_list::{Rig, erasure_list_suite};
use fantail_memory::erasure_list::MemoryErasureList;
use fantail_ports::erasure_list::ErasureList;

struct MemoryRig(MemoryErasureList);

impl Rig for MemoryRig {
    fn list(&self) -> &dyn ErasureList {
        &self.0
    }

    fn crash(&mut self) {}
}

#[test]
fn the_list_in_memory_passes_the_suite() {
    erasure_list_suite(|| MemoryRig(MemoryErasureList::default()));
}
