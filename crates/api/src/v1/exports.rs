//! Everything that is kept about one user, as lines of JSON, for the user.
//!
//! Pages are read and sent one after the other, so that an export of any size takes little memory. Each page waits for its
//! tenant's turn (`aside`), so that the exports of one tenant keep few threads busy. A tenant has so many of them
//! (`exports_under_way`), and more are refused before the first line. The last line says how many
//! there were before it: without it the export is not whole. Tokens and URLs of devices are not in it: they let their holder
//! send.

use crate::app::App;
use crate::aside::{self, Work};
use crate::call::Call;
use crate::exports_under_way::ExportUnderWay;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::{consents, devices, inbox, notifications, preferences, users};
use axum::body::{Body, Bytes};
use fantail_node::Node;
use fantail_node::ask::{DeliveryView, InboxAsk, InboxFrom};
use fantail_node::exports::Delivered;
use fantail_rules::ids::{Arrival, TenantId};
use fantail_rules::limits::{EXPORT_INBOX_PAGE, RESPONSE_SLICE_BYTES};
use fantail_rules::marks::State;
use futures_core::Stream;
use serde::Serialize;
use serde_json::{Value, json};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tracing::warn;

pub const LINES: &str = "application/x-ndjson";
/// Frames that wait for a slow reader.
const WAITING_MAX: usize = 2;
const PAGE: usize = 100;
/// Events whose deliveries are looked at together.
const EVENTS: usize = 64;

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let user = call.name("user")?.to_owned();
    let under_way = Arc::new(call.app.exports.begin(tenant)?);
    let view = call.node.user(tenant, &user).await?;
    // Before the first line: nothing leaves without a trace.
    call.node.note_about(tenant, "user.export", &user).await?;
    let profile = serde_json::to_value(users::shown(&view)?).expect("our shapes are JSON");
    let (sender, receiver) = channel(WAITING_MAX);
    let mut export = Export { app: call.app, node: call.node, tenant, user, sender, lines: 0 };
    let pages = Pages { receiver, _under_way: under_way.clone() };
    tokio::spawn(async move {
        let _under_way = under_way;
        if let Err(Ended::Failed(problem)) = export.write(profile).await {
            warn!(detail = %problem.detail, "export broken off");
            // The reader sees that the answer has no end.
            let broken = io::Error::other("the export could not be finished");
            drop(export.sender.send(Err(broken)).await);
        }
    });
    Ok(Reply::stream(200, LINES, Body::from_stream(pages)))
}

/// Why an export stops before its end.
enum Ended {
    /// Nobody reads it any more.
    Unread,
    Failed(Problem),
}

impl<E: Into<Problem>> From<E> for Ended {
    fn from(failed: E) -> Self {
        Self::Failed(failed.into())
    }
}

struct Export {
    app: Arc<App>,
    node: Node,
    tenant: TenantId,
    user: String,
    sender: Sender<Result<Bytes, io::Error>>,
    lines: u64,
}

impl Export {
    async fn write(&mut self, profile: Value) -> Result<(), Ended> {
        self.send("profile", vec![profile]).await?;
        let turn = aside::page_turn(&self.app, self.tenant).await;
        let devices = self.node.devices(self.tenant, &self.user).await?;
        drop(turn);
        self.send("device", devices.into_iter().map(devices::shown).collect()).await?;
        let row = self.node.respect(self.tenant, &self.user)?;
        self.send("preferences", vec![preferences::shown(&row.preferences)]).await?;
        let consented = row.consents.into_iter().map(|known| {
            json!({"channel": notifications::shown(known.channel), "consent": consents::shown(known.consent)})
        });
        self.send("consent", consented.collect()).await?;
        self.history().await?;
        self.lists().await?;
        self.inbox().await?;
        self.deliveries().await?;
        let lines = self.lines;
        self.send("end", vec![json!({"lines": lines})]).await
    }

    async fn history(&mut self) -> Result<(), Ended> {
        let mut below = u32::MAX;
        loop {
            let (node, tenant, user) = (self.node.clone(), self.tenant, self.user.clone());
            let read = move || node.respect_history(tenant, &user, below, PAGE);
            let changes = aside::run(&self.app, tenant, Work::Page, read).await??;
            let Some((last, _)) = changes.last() else { return Ok(()) };
            below = *last;
            let shown = changes.into_iter().map(|(version, changed)| preferences::change(version, changed));
            self.send("preferenceChange", shown.collect()).await?;
        }
    }

    async fn lists(&mut self) -> Result<(), Ended> {
        let mut behind = None;
        loop {
            let (node, tenant, user) = (self.node.clone(), self.tenant, self.user.clone());
            let read = move || node.lists_of(tenant, &user, behind, PAGE);
            let (found, next) = aside::run(&self.app, tenant, Work::Page, read).await??;
            let shown = found.into_iter().map(|one| {
                let of = if one.is_topic { "topic" } else { "actor" };
                json!({of: one.name, "isOn": one.is_on})
            });
            self.send("follow", shown.collect()).await?;
            match next {
                Some(next) => behind = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn inbox(&mut self) -> Result<(), Ended> {
        let mut from = InboxFrom::Newest;
        loop {
            let ask = InboxAsk { user: self.user.clone(), limit: EXPORT_INBOX_PAGE, from, state: State::All };
            let turn = aside::page_turn(&self.app, self.tenant).await;
            let page = self.node.inbox(self.tenant, ask).await?;
            let shown: Result<Vec<Value>, Problem> = page
                .notifications
                .iter()
                .map(|one| Ok(serde_json::to_value(inbox::shown(one)?).expect("our shapes are JSON")))
                .collect();
            drop(turn);
            self.send("notification", shown?).await?;
            match page.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    async fn deliveries(&mut self) -> Result<(), Ended> {
        let mut behind = Arrival::START;
        loop {
            let (node, tenant, user) = (self.node.clone(), self.tenant, self.user.clone());
            let read = move || node.deliveries_to(tenant, &user, behind, EVENTS);
            let (found, next) = aside::run(&self.app, tenant, Work::Page, read).await??;
            let shown = found.iter().flat_map(|one| one.deliveries.iter().map(|view| delivery(one, view)));
            self.send("delivery", shown.collect()).await?;
            match next {
                Some(next) => behind = next,
                None => return Ok(()),
            }
        }
    }

    /// Sends some lines of a kind, in frames of about a slice: what waits for a slow reader is bounded in bytes.
    async fn send<T: Serialize>(&mut self, kind: &str, values: Vec<T>) -> Result<(), Ended> {
        let mut frame = Vec::new();
        for value in values {
            let line = json!({"kind": kind, "data": value});
            serde_json::to_writer(&mut frame, &line).expect("our shapes are JSON, and memory takes it");
            frame.push(b'\n');
            self.lines += 1;
            if frame.len() >= RESPONSE_SLICE_BYTES {
                self.send_frame(std::mem::take(&mut frame)).await?;
            }
        }
        if frame.is_empty() { Ok(()) } else { self.send_frame(frame).await }
    }

    async fn send_frame(&self, frame: Vec<u8>) -> Result<(), Ended> {
        self.sender.send(Ok(frame.into())).await.map_err(|_| Ended::Unread)
    }
}

fn delivery(of: &Delivered, view: &DeliveryView) -> Value {
    let attempts = view.notes.iter().map(|note| {
        json!({
            "at": time::text(note.at), "state": note.state.public_word(), "code": note.code,
            "message": note.message, "providerId": note.provider_id,
        })
    });
    json!({
        "eventId": of.event.map(|event| event.to_string()),
        "channel": notifications::shown(of.channel),
        "endpoint": view.device,
        "state": view.state.public_word(),
        "code": view.code,
        // As it was released, and as the status calls it.
        "beganAt": time::text(view.begun_at),
        "begunAt": time::text(view.begun_at),
        "attempts": attempts.collect::<Vec<_>>(),
    })
}

/// What the task has written.
struct Pages {
    receiver: Receiver<Result<Bytes, io::Error>>,
    _under_way: Arc<ExportUnderWay>,
}

impl Stream for Pages {
    type Item = Result<Bytes, io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context)
    }
}
