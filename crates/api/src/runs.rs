//! Runs of recurring schedules, issued when they are due.
//!
//! Comes from: the timers of the root, through `Node::due_runs`. Does: asks for what a schedule sends as a producer would, under a name
//! that the schedule and the time of the run give it. Goes to: the same handlers as requests, then to the root, which waits for
//! the next run from there on.
//!
//! A run may do what the key may that wrote the schedule last, as it is then: it is refused once the key is revoked or over, and
//! what became critical meanwhile needs `send:critical`. It is charged to the tenant, and to the key, as a request is.
//!
//! What must never happen: a run that is told twice. After a crash in between it is asked for again, under the same name. A run that
//! does more than its author may.

use crate::app::App;
use crate::auth::{self, Caller};
use crate::call::{Call, Query};
use crate::problem::Problem;
use crate::time;
use crate::v1::notification_ask::Draft;
use crate::v1::{bulk, notifications};
use axum::body::Bytes;
use axum::http::HeaderMap;
use fantail_node::Node;
use fantail_node::ask::{Priority, Refusal};
use fantail_node::recurring::{Author, Came, DueRun, PutOff, Sends};
use fantail_node::supervise::caught;
use fantail_rules::ulid::Ulid;
use fantail_wire::bulk::BulkSend;
use fantail_wire::code::Code;
use fantail_wire::notification::{NotificationSend, SendOptions};
use fantail_wire::tenant::Scope;
use std::sync::{Arc, Mutex};
use tracing::warn;

/// None of the recipients is there any more.
const NOBODY: &str = "NO_RECIPIENTS";

/// Issues runs until the node stops. A run that fails, or panics, holds up no other one.
pub async fn run(app: Arc<App>, node: Node) {
    let mut put_off = PutOff::default();
    while let Some(due) = node.due_runs(&mut put_off).await {
        for run in due {
            let issued = caught(Box::pin(issue(&app, &node, &run)), |panic| node.run_panicked(panic)).await;
            let came = match issued {
                Ok(Ok(came)) => came,
                Ok(Err(problem)) if is_for_now(problem.code) => {
                    warn!(schedule = run.id, code = problem.code.text(), "a run has to wait");
                    node.put_off(&mut put_off, &run);
                    continue;
                }
                Ok(Err(problem)) => Came::Refused(problem.code.text().to_owned()),
                Err(_) => Came::Refused(Code::Internal.text().to_owned()),
            };
            if let Err(refusal) = node.run_came(&run, came).await {
                warn!(%refusal, schedule = run.id, "a run could not be written down");
                node.put_off(&mut put_off, &run);
            }
        }
    }
}

/// Whether the same could be taken a little later.
fn is_for_now(code: Code) -> bool {
    code.status() >= 500 || code == Code::RateLimited
}

/// The name of a run: the same for everybody who issues it.
fn name_of(run: &DueRun) -> String {
    format!("{}@{}", run.id, time::text(run.run))
}

async fn issue(app: &Arc<App>, node: &Node, run: &DueRun) -> Result<Came, Problem> {
    let name = name_of(run);
    let (caller, may_be_critical) = rights_of(node, run)?;
    let call = Call {
        app: app.clone(),
        node: node.clone(),
        request_id: name.clone(),
        caller,
        headers: HeaderMap::new(),
        params: Vec::new(),
        query: Query::default(),
        body: Bytes::new(),
        held: None,
        is_run: true,
        stream: Mutex::new(None),
    };
    let unread = |_| Problem::new(Code::InvalidRequest, "what the schedule sends cannot be read");
    let issued = match run.sends {
        Sends::Notification => {
            let mut request: NotificationSend = serde_json::from_slice(&run.body).map_err(unread)?;
            request.notification_id = Some(name.clone());
            at_its_time(&mut request.options, run);
            notify(&call, run, request, may_be_critical).await
        }
        Sends::ToSegment => {
            let mut request: BulkSend = serde_json::from_slice(&run.body).map_err(unread)?;
            request.notification_id = Some(name.clone());
            at_its_time(&mut request.options, run);
            let ask = bulk::read(run.tenant, &call, request).await?;
            require_critical(ask.event.priority, may_be_critical)?;
            call.spend(run.tenant, 1)?;
            node.bulk(run.tenant, ask)
                .await
                .map(|accepted| Came::Issued(accepted.event))
                .map_err(Problem::from)
        }
    };
    match issued {
        // It was issued before the schedule was changed, or its recipients.
        Err(problem) if problem.code == Code::DuplicateNotification => {
            let first: Option<Ulid> = node.find_notification(run.tenant, &name)?;
            first.map(Came::Issued).ok_or(problem)
        }
        other => other,
    }
}

/// The actor of a run, and whether it may send critical notifications.
fn rights_of(node: &Node, run: &DueRun) -> Result<(Caller, bool), Problem> {
    match &run.author {
        None => Ok((Caller::Server, false)),
        Some(Author { key: None, may_be_critical }) => Ok((Caller::Server, *may_be_critical)),
        Some(Author { key: Some(id), may_be_critical }) => {
            let caller = auth::named_key(node, run.tenant, id, Scope::NotificationsWrite)?;
            let may_now = auth::require_priority(&caller, Priority::Critical).is_ok();
            Ok((caller, *may_be_critical && may_now))
        }
    }
}

fn require_critical(priority: Priority, may_be_critical: bool) -> Result<(), Problem> {
    match priority {
        Priority::Critical if !may_be_critical => Err(Problem::new(
            Code::Forbidden,
            "the key that wrote the schedule may not send what is critical",
        )),
        Priority::Critical | Priority::High | Priority::Normal | Priority::Low => Ok(()),
    }
}

/// On the recipients' clocks, everybody's delivery waits for the time of the run.
fn at_its_time(options: &mut SendOptions, run: &DueRun) {
    if let Some(local) = run.recurrence.local_time(run.run) {
        options.send_at_local = Some(local.to_string());
    }
}

/// Those who are not there any more are left out.
async fn notify(
    call: &Call,
    run: &DueRun,
    mut request: NotificationSend,
    may_be_critical: bool,
) -> Result<Came, Problem> {
    let named = Draft::of(run.tenant, call, request.clone())?;
    if let Err(Refusal::UnknownRecipients { users }) = call.node.recipients(run.tenant, &named.who).await {
        let is_gone = |user: &Option<String>| user.as_ref().is_some_and(|user| users.contains(user));
        request.recipients.retain(|recipient| !is_gone(&recipient.user_id));
    }
    if request.recipients.is_empty() {
        return Ok(Came::Refused(NOBODY.to_owned()));
    }
    let mut draft = Draft::of(run.tenant, call, request)?;
    let template = draft.choose_template(run.tenant, call)?;
    require_critical(draft.ask.priority, may_be_critical)?;
    call.spend(run.tenant, draft.who.len())?;
    let accepted = notifications::issue(run.tenant, call, &mut draft, template).await?;
    Ok(Came::Issued(accepted.event))
}
