//! Work that takes longer than a runtime thread may be held: compiling, rendering, comparing templates, counting segments, reading exports. It
//! runs on threads of its own, few at a time, in fair turns of the tenants (`places`).
//!
//! Invariant: work that one tenant asks for holds up no send of another; counts and estimates hold up no rendering.

use crate::app::App;
use crate::places::{Place, Places};
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
    /// A page of an export.
    Page,
}

/// Threads for rendering: more would only take turns on the cores that serve requests.
const RENDERING: usize = 4;
/// One of them is kept for sends.
const KEPT_FOR_SENDS: usize = 1;
/// A scan reads tables that others read as well.
const SCANS: usize = 2;
/// Pages of exports and of the audit log: one of each of two tenants at a time, however many they ask for.
const PAGES: usize = 2;

/// The places of this process.
pub struct AsidePlaces {
    rendering: Arc<Places>,
    scans: Arc<Places>,
    pages: Arc<Places>,
}

impl Default for AsidePlaces {
    fn default() -> Self {
        Self {
            rendering: Places::new(RENDERING, KEPT_FOR_SENDS),
            scans: Places::new(SCANS, 0),
            pages: Places::new(PAGES, 0),
        }
    }
}

/// Waits for a turn to read a page of an export. Many of a tenant may wait: each is a response that has begun.
pub async fn page_turn(app: &App, tenant: TenantId) -> Option<Place> {
    app.aside.pages.acquire_late(tenant).await
}

/// Waits for a turn to read something large, such as the audit log. Too many of a tenant are refused.
pub async fn read_turn(app: &App, tenant: TenantId) -> Result<Place, Problem> {
    let turn = app.aside.pages.acquire(tenant, false).await;
    Ok(turn.ok_or(Refusal::Busy { retry_after_ms: 1_000 })?)
}

pub async fn run<T: Send + 'static>(
    app: &App,
    tenant: TenantId,
    work: Work,
    perform: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let place = match work {
        Work::Send => app.aside.rendering.acquire(tenant, true).await,
        Work::Look => app.aside.rendering.acquire(tenant, false).await,
        Work::Scan => app.aside.scans.acquire(tenant, false).await,
        Work::Page => page_turn(app, tenant).await,
    };
    let place = place.ok_or(Refusal::Busy { retry_after_ms: 1_000 })?;
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
