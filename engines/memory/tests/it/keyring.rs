//! The keyring that hides nothing behaves like one that does.

use fantail_conformance::keyring::{Rig, keyring_suite};
use fantail_memory::keyring::MemoryKeyring;
use fantail_ports::keyring::Keyring;

struct MemoryRig(MemoryKeyring);

impl Rig for MemoryRig {
    fn keyring(&self) -> &dyn Keyring {
        &self.0
    }

    fn crash(&mut self) {}
}

// proves: NFR-03
#[test]
fn memory_keyring_passes_the_suite() {
    keyring_suite(|| MemoryRig(MemoryKeyring::new(1)));
}
