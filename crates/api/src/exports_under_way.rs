//! Exports that are being read, counted by tenant.
//!
//! Input: a tenant that wants an export. Decides: whether one more may begin, before anything is answered. An export counts until
//! its response is gone and its last page is read, so that one which is broken off makes no room while it still works.
//!
//! Invariant: no more pages of a tenant wait for their turn, or for a reader, than the tenant has exports.

use crate::problem::Problem;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::EXPORTS_PER_TENANT_MAX;
use fantail_wire::code::Code;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By tenant; those without an export are not in it.
#[derive(Debug, Default)]
pub struct ExportsUnderWay(Mutex<BTreeMap<TenantId, usize>>);

/// One export, counted until this is dropped.
#[derive(Debug)]
pub struct ExportUnderWay {
    of: Arc<ExportsUnderWay>,
    tenant: TenantId,
}

impl ExportsUnderWay {
    pub fn begin(self: &Arc<Self>, tenant: TenantId) -> Result<ExportUnderWay, Problem> {
        let mut exports = self.exports();
        let count = exports.entry(tenant).or_default();
        if *count >= EXPORTS_PER_TENANT_MAX {
            let detail = "as many exports of the tenant are under way as there can be";
            return Err(Problem::new(Code::QueueFull, detail).retry_after_s(1));
        }
        *count += 1;
        Ok(ExportUnderWay { of: Arc::clone(self), tenant })
    }

    fn exports(&self) -> MutexGuard<'_, BTreeMap<TenantId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ExportUnderWay {
    fn drop(&mut self) {
        let mut exports = self.of.exports();
        if let Some(count) = exports.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                exports.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // fixes: security M8
    #[test]
    fn a_tenant_has_so_many_exports_under_way_and_leaves_room_to_others() {
        let exports = Arc::new(ExportsUnderWay::default());
        let begin = |tenant| exports.begin(TenantId(tenant));
        let mut loud: Vec<ExportUnderWay> = std::iter::from_fn(|| begin(1).ok()).take(1_000).collect();
        assert_eq!(loud.len(), EXPORTS_PER_TENANT_MAX);
        let reply = begin(1).expect_err("no more").into_reply("r");
        assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("1")));
        let quiet = begin(2).expect("another tenant's");
        loud.pop();
        loud.push(begin(1).expect("room again"));
        assert!(begin(1).is_err());
        drop((loud, quiet));
        assert!(exports.exports().is_empty(), "nothing is remembered of tenants without one");
    }
}
