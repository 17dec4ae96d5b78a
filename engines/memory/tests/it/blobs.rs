//! Blobs in a map pass the suite.

use fantail_conformance::blobs::{Rig, blobs_suite};
use fantail_memory::blobs::MemoryBlobs;
use fantail_ports::blobs::Blobs;

struct MemoryRig(MemoryBlobs);

impl Rig for MemoryRig {
    fn blobs(&self) -> &dyn Blobs {
        &self.0
    }

    fn crash(&mut self) {}
}

// proves: NFR-03
#[test]
fn memory_blobs_pass_the_suite() {
    blobs_suite(|| MemoryRig(MemoryBlobs::new()));
}
