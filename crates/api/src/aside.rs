//! Work that takes longer than a runtime thread may be held: compiling, rendering, comparing templates. It runs on
//! threads of its own, few at a time, so that it cannot take the machine away from everybody else. Whoever waits for
//! a place holds nothing but the request, and those are bounded by the listener.

use crate::app::App;
use crate::problem::Problem;
use fantail_wire::code::Code;
use tracing::error;

pub const PLACES: usize = 4;

pub async fn run<T: Send + 'static>(
    app: &App,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let place = app.aside.acquire().await;
    let done = tokio::task::spawn_blocking(work).await;
    drop(place);
    done.map_err(|failed| {
        error!(%failed, "work beside a request failed");
        Problem::new(Code::Internal, "see the server's log")
    })
}
