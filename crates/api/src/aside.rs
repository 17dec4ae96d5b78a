//! Work that takes longer than a runtime thread may be held: compiling, rendering, comparing templates, counting segments. It
//! runs on threads of its own, few at a time, in fair turns of the tenants (`places`).
//!
//! Invariant: work that one tenant asks for holds up no send of another; counts and estimates hold up no rendering.

use crate::app::App;
use crate::places::Places;
use crate::problem::Problem;
use fantail_node::ask::Refusal;
use fantail_rules::ids::TenantId;
use fantail_wire::code::Code;
use std::sync::Arc;
use tracing::error;

/// The purpose of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// A notification or an event waits for it.
    Send,
    /// A person looks at a template.
    Look,
    /// Walks over tables: counts, estimates, lists.
    Scan,
}

/// Threads for rendering: more would only take turns on the cores that serve requests.
const RENDERING: usize = 4;
/// One of them is kept for sends.
const KEPT_FOR_SENDS: usize = 1;
/// A scan reads tables that others read as well.
const SCANS: usize = 2;

/// The places of this process.
pub struct AsidePlaces {
    rendering: Arc<Places>,
    scans: Arc<Places>,
}

impl Default for AsidePlaces {
    fn default() -> Self {
        Self { rendering: Places::new(RENDERING, KEPT_FOR_SENDS), scans: Places::new(SCANS, 0) }
    }
}

pub async fn run<T: Send + 'static>(
    app: &App,
    tenant: TenantId,
    work: Work,
    perform: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let place = match work {
        Work::Send => app.aside.rendering.acquire(tenant, true),
        Work::Look => app.aside.rendering.acquire(tenant, false),
        Work::Scan => app.aside.scans.acquire(tenant, false),
    };
    let place = place.await.ok_or(Refusal::Busy { retry_after_ms: 1_000 })?;
    // The place is held as long as the thread works, even if the request is gone before.
    let done = tokio::task::spawn_blocking(move || {
        let _place = place;
        perform()
    });
    done.await.map_err(|failed| {
        error!(%failed, "work beside a request failed");
        Problem::new(Code::Internal, "see the server's log")
    })
}
