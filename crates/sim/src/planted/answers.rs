//! Answers that promise what is not so yet.

use fantail_node::Node;
use fantail_node::ask::{Called, Refusal};
use fantail_rules::ids::TenantId;
use fantail_rules::ulid::Ulid;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Cancels an event, and does not wait for anybody but its front.
pub(crate) async fn cancel_early(node: &Node, tenant: TenantId, event: Ulid) -> Result<Called, Refusal> {
    let mut cancel = pin!(node.cancel(tenant, event));
    poll_fn(|context| {
        if let Poll::Ready(answer) = cancel.as_mut().poll(context) {
            return Poll::Ready(answer);
        }
        match node.status(tenant, event) {
            Ok(status) if status.is_cancelled => {
                Poll::Ready(Ok(Called { cancelled: 1, ..Called::default() }))
            }
            Ok(_) | Err(_) => Poll::Pending,
        }
    })
    .await
}
