//! A mail server: SMTP with STARTTLS, AUTH and PIPELINING, and on a port of its own (`smtps`) in TLS from the first byte.
//!
//! A recipient whose name begins with `sandbox-` has the outcome that follows (see `script`). What comes back later (reports of
//! bounces and complaints) is kept for whoever asks, and posted to a URL of this machine if one was set.

mod script;

mod talk;

mod wire;

pub mod letter;

mod reports;

use crate::connection::Connection;
use crate::emulator::{ControlCall, ControlReply, Raw};
use crate::world::World;
use futures_util::future::BoxFuture;
use hyper::http::StatusCode;
use reports::Reports;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

pub const NAME: &str = "smtp";
const HANDSHAKE: Duration = Duration::from_secs(20);

pub struct Smtp {
    world: World,
    manners: Mutex<Manners>,
    reports: Arc<Reports>,
}

/// Changeable while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Manners {
    /// Mail only from whoever logged in.
    auth_needed: bool,
    /// The only name and password; anybody may log in if there is none.
    login: Option<(String, String)>,
    starttls: bool,
}

impl Smtp {
    #[must_use]
    pub fn new(world: World) -> Self {
        let manners = Manners { auth_needed: false, login: None, starttls: true };
        Self { reports: Arc::new(Reports::new(world.clone())), world, manners: Mutex::new(manners) }
    }

    fn manners(&self) -> MutexGuard<'_, Manners> {
        self.manners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(
        &self,
        stream: TcpStream,
        connection: Arc<Connection>,
        is_tls: bool,
    ) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let manners = self.manners().clone();
        let talk = talk::Talk::new(&self.world, &self.reports, manners, connection.number);
        if is_tls {
            let stream = timeout(HANDSHAKE, self.world.tls_plain().accept(stream)).await??;
            return talk.whole(stream, true).await;
        }
        talk.whole(stream, false).await
    }

    async fn converse(&self, stream: TcpStream, connection: Arc<Connection>, is_tls: bool) {
        if let Err(error) = self.take(stream, connection, is_tls).await {
            debug!(%error, "a conversation ended");
        }
    }

    /// `PUT /smtp/settings`, `GET /smtp/reports`, `PUT /smtp/reports`
    fn desk(&self, ask: &ControlCall) -> Option<ControlReply> {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        match (ask.method.as_str(), &path[..]) {
            ("PUT", ["settings"]) => Some(self.set(&ask.body)),
            ("GET", ["reports"]) => Some(ControlReply::ok(self.reports.list())),
            ("PUT", ["reports"]) => {
                let url = ask.body.get("url").and_then(Value::as_str).map(str::to_owned);
                self.reports.post_to(url);
                Some(ControlReply::ok(json!({})))
            }
            _ => None,
        }
    }

    fn set(&self, body: &Value) -> ControlReply {
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let flag = |name: &str, otherwise: bool| body.get(name).map_or(Some(otherwise), Value::as_bool);
        let (Some(auth_needed), Some(starttls)) = (flag("authNeeded", false), flag("starttls", true)) else {
            return ControlReply::bad("authNeeded and starttls are true or false");
        };
        *self.manners() = Manners { auth_needed, starttls, login: text("username").zip(text("password")) };
        ControlReply::Json(StatusCode::OK, json!({"authNeeded": auth_needed, "starttls": starttls}))
    }
}

impl Raw for Smtp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve(&self, stream: TcpStream, connection: Arc<Connection>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.converse(stream, connection, false).await;
        })
    }

    fn control<'a>(&'a self, ask: &'a ControlCall) -> BoxFuture<'a, Option<ControlReply>> {
        Box::pin(async move { self.desk(ask) })
    }
}

/// The same server in TLS from the first byte.
pub struct Smtps(pub Arc<Smtp>);

impl Raw for Smtps {
    fn name(&self) -> &'static str {
        "smtps"
    }

    fn serve(&self, stream: TcpStream, connection: Arc<Connection>) -> BoxFuture<'_, ()> {
        Box::pin(self.0.converse(stream, connection, true))
    }
}
