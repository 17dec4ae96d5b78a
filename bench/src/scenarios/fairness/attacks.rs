//! The attacks of a loud tenant, one for each resource that tenants share.

use super::{TOGETHER, post};
use crate::http::{Connection, Target};
use crate::server::Server;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub const LOUD_USERS: u64 = 2_000;
const ATTACKERS: u64 = 8;
/// Connections of an attacker that say nothing, and requests that it sends without reading an answer.
const IDLE_CONNECTIONS: usize = 32;
const PIPELINED: usize = 2_000;
/// How long an attacker keeps what it does not read.
const UNREAD_FOR: Duration = Duration::from_secs(2);
/// Notifications that each export has.
const KEPT_NOTIFICATIONS: u64 = 2_000;
const EXPORTED_USERS: u64 = 8;

#[derive(Clone, Copy)]
pub enum Attack {
    /// Thousands of pushes that its provider answers after a while.
    Flood,
    /// Thousands of pushes that its provider does not answer.
    Hanging,
    /// Templates that are as dear to render as a template may be.
    Rendering,
    /// Single sends as fast as they are answered.
    Requests,
    /// Imports of users, a thousand in each request: they fill the queues.
    Import,
    /// Connections that are idle, and some that send requests and read no answer.
    Connections,
    /// Users who are made and erased: each erasure looks at all that is kept.
    Erasures,
    /// Registrations of devices: each asks the directory for its address.
    Registrations,
    /// Large exports, and backups beside them.
    Disk,
    /// A receiver of webhooks that never answers.
    HangingWebhook,
}

impl Attack {
    pub const ALL: [Self; 10] = [
        Self::Flood,
        Self::Hanging,
        Self::Rendering,
        Self::Requests,
        Self::Import,
        Self::Connections,
        Self::Erasures,
        Self::Registrations,
        Self::Disk,
        Self::HangingWebhook,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Flood => "a flood of pushes",
            Self::Hanging => "a provider that hangs",
            Self::Rendering => "rendering",
            Self::Requests => "single requests",
            Self::Import => "imports of users",
            Self::Connections => "idle and pipelining connections",
            Self::Erasures => "erasures",
            Self::Registrations => "registrations of devices",
            Self::Disk => "exports and backups",
            Self::HangingWebhook => "a webhook receiver that hangs",
        }
    }

    /// The wish in the addresses of the loud tenant's devices.
    pub fn token(self) -> &'static str {
        match self {
            Self::Flood => "stub:slow=100",
            Self::Hanging => "stub:slow=3600000",
            Self::Rendering
            | Self::Requests
            | Self::Import
            | Self::Connections
            | Self::Erasures
            | Self::Registrations
            | Self::Disk
            | Self::HangingWebhook => "stub:ok",
        }
    }
}

/// A receiver of webhooks that takes connections and answers nothing.
pub struct HangingReceiver {
    port: u16,
    tasks: JoinSet<()>,
}

impl HangingReceiver {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for a receiver")?;
        let port = listener.local_addr()?.port();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                held.push(stream);
            }
        });
        Ok(Self { port, tasks })
    }

    /// Settings of a server that may reach it.
    pub fn settings(&self) -> [(&'static str, String); 3] {
        [
            ("FANTAIL_WEBHOOK_PRIVATE_NETWORKS", "127.0.0.0/8".to_owned()),
            ("FANTAIL_WEBHOOK_HTTP_ALLOWED", "true".to_owned()),
            ("FANTAIL_WEBHOOK_PORTS", self.port.to_string()),
        ]
    }

    pub fn stop(mut self) {
        self.tasks.abort_all();
    }
}

/// Prepares an attack before the quiet tenant is measured alone.
pub async fn prepare(attack: Attack, loud: &Target, receiver: &HangingReceiver) -> Result<()> {
    match attack {
        Attack::Disk => {
            for no in 0..KEPT_NOTIFICATIONS {
                loud.ask(&post(loud, "/api/v1/notifications", &notification(0, EXPORTED_USERS)), 202)
                    .await
                    .with_context(|| format!("notification {no}"))?;
            }
        }
        Attack::HangingWebhook => {
            let hook = json!({"url": format!("http://127.0.0.1:{}/hooks", receiver.port)});
            loud.ask(&post(loud, "/api/v1/webhooks", &hook), 201).await?;
        }
        Attack::Flood
        | Attack::Hanging
        | Attack::Rendering
        | Attack::Requests
        | Attack::Import
        | Attack::Connections
        | Attack::Erasures
        | Attack::Registrations => {}
    }
    Ok(())
}

/// Begins an attack, which goes on until it is aborted. It takes no for an answer.
pub fn begin(attack: Attack, server: &Server, loud: &Target) -> JoinSet<Result<()>> {
    let mut attackers = JoinSet::new();
    for no in 0..ATTACKERS {
        let (loud, admin) = (loud.clone(), server.admin.clone());
        attackers.spawn(async move {
            match attack {
                Attack::Connections => pipeline(&loud).await,
                Attack::Disk if no == 0 => back_up(&admin).await,
                Attack::Disk => export(&loud, no).await,
                Attack::Erasures => erase(&loud, no).await,
                Attack::Flood
                | Attack::Hanging
                | Attack::Rendering
                | Attack::Requests
                | Attack::Import
                | Attack::Registrations
                | Attack::HangingWebhook => ask(&loud, no, attack).await,
            }
        });
    }
    attackers
}

/// Asks as fast as it is answered.
async fn ask(loud: &Target, first: u64, attack: Attack) -> Result<()> {
    let mut connection = Connection::open(loud.address).await?;
    for no in (first * TOGETHER..).step_by((ATTACKERS * TOGETHER) as usize) {
        connection.exchange(&request(attack, loud, no)).await?;
    }
    Ok(())
}

fn notification(first: u64, count: u64) -> Value {
    let users: Vec<Value> =
        (0..count).map(|at| json!({"userId": format!("loud{}", (first + at) % LOUD_USERS)})).collect();
    json!({"content": {"title": "Loud"}, "recipients": users, "channels": ["push"]})
}

/// One request of the attacks that are nothing but requests.
fn request(attack: Attack, target: &Target, no: u64) -> Vec<u8> {
    match attack {
        Attack::Import => {
            let users: Vec<Value> =
                (0..TOGETHER).map(|at| json!({"userId": format!("import{}", no + at)})).collect();
            post(target, "/api/v1/users/batch", &json!({"users": users}))
        }
        Attack::Registrations => {
            let device = json!({"userId": format!("loud{}", no / TOGETHER % LOUD_USERS), "deviceId": "tablet",
                "platform": "android", "token": format!("stub:ok/tablet{no}")});
            post(target, "/api/v1/devices", &device)
        }
        Attack::Rendering => {
            let body = "{% for a in range(900) %}{{ a }} {% endfor %}";
            let definition = json!({"id": "dear", "name": "Dear", "category": "news", "defaultLocale": "en",
                "channels": {"email": {"subject": "Dear", "html": body}}});
            let ask = json!({"definition": definition, "channel": "email", "locale": "en", "variables": {}});
            post(target, "/api/v1/templates/preview", &ask)
        }
        Attack::Flood | Attack::Hanging => post(target, "/api/v1/notifications", &notification(no, TOGETHER)),
        Attack::Requests | Attack::HangingWebhook | Attack::Connections | Attack::Erasures | Attack::Disk => {
            post(target, "/api/v1/notifications", &notification(no, 1))
        }
    }
}

/// Holds connections that say nothing, and one that sends requests without reading an answer.
async fn pipeline(loud: &Target) -> Result<()> {
    let requests = loud.get("/api/v1/users/loud0").repeat(PIPELINED);
    loop {
        let mut idle = Vec::with_capacity(IDLE_CONNECTIONS);
        for _ in 0..IDLE_CONNECTIONS {
            idle.push(TcpStream::connect(loud.address).await?);
        }
        let mut stream = TcpStream::connect(loud.address).await?;
        // The server stops reading, or ends the connection: both are its right.
        drop(timeout(UNREAD_FOR, stream.write_all(&requests)).await);
        sleep(UNREAD_FOR).await;
    }
}

async fn back_up(admin: &Target) -> Result<()> {
    let mut connection = Connection::open(admin.address).await?;
    loop {
        connection.exchange(&post(admin, "/api/v1/backups", &json!({}))).await?;
    }
}

/// Reads exports to their end.
async fn export(loud: &Target, no: u64) -> Result<()> {
    let head = format!(
        "GET /api/v1/users/loud{}/export HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        no % EXPORTED_USERS,
        loud.address,
        loud.key
    );
    let mut buffer = Vec::new();
    loop {
        let mut stream = TcpStream::connect(loud.address).await?;
        stream.write_all(head.as_bytes()).await?;
        buffer.clear();
        stream.read_to_end(&mut buffer).await?;
    }
}

/// Makes users and erases them.
async fn erase(loud: &Target, first: u64) -> Result<()> {
    let mut connection = Connection::open(loud.address).await?;
    for no in (first..).step_by(ATTACKERS as usize) {
        let user = format!("gone{no}");
        connection.exchange(&loud.send("PUT", &format!("/api/v1/users/{user}"), b"")).await?;
        connection.exchange(&post(loud, "/api/v1/erasures", &json!({"userId": user}))).await?;
    }
    Ok(())
}
