//! Three streams of single notifications, each to users of its own.

use crate::http::{Answer, Target};
use crate::load::{self, Script, Until, Verdict};
use crate::server::Server;
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Of each stream.
const USERS: u64 = 2_000;
const CONNECTIONS: u64 = 32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    Iphones,
    Androids,
    Mails,
}

impl Stream {
    pub const ALL: [Self; 3] = [Self::Iphones, Self::Androids, Self::Mails];

    pub fn name(self) -> &'static str {
        match self {
            Self::Iphones => "pushes to iPhones",
            Self::Androids => "pushes to Android",
            Self::Mails => "mails",
        }
    }

    pub fn emulator(self) -> &'static str {
        match self {
            Self::Iphones => "apns",
            Self::Androids => "fcm",
            Self::Mails => "smtp",
        }
    }

    fn channel(self) -> &'static str {
        match self {
            Self::Iphones | Self::Androids => "push",
            Self::Mails => "email",
        }
    }

    fn user(self, no: u64) -> String {
        format!("{}{no:07}", self.emulator())
    }

    /// What gives a user an address there.
    fn reach(self, target: &Target, no: u64) -> Vec<u8> {
        let user = self.user(no);
        let (platform, token) = match self {
            Self::Iphones => ("ios", format!("{no:0>64x}")),
            Self::Androids => ("android", format!("a-token-of-fcm-{no}")),
            Self::Mails => {
                let body = format!(r#"{{"email":"{user}@example.com"}}"#);
                return target.send("PUT", &format!("/api/v1/users/{user}"), body.as_bytes());
            }
        };
        let body = format!(
            r#"{{"userId":"{user}","deviceId":"phone","platform":"{platform}","token":"{token}","consent":{{"granted":true,"version":"1"}}}}"#
        );
        target.send("POST", "/api/v1/devices", body.as_bytes())
    }
}

/// Makes the users, then gives each an address.
pub async fn prepare(server: &Server) -> Result<()> {
    for stream in Stream::ALL {
        for is_reach in [false, true] {
            let next = Arc::new(AtomicU64::new(0));
            let scripts = (0..CONNECTIONS).map(|_| Prepare {
                target: server.target.clone(),
                stream,
                is_reach,
                next: next.clone(),
                bytes: Vec::new(),
            });
            load::closed(server.address, scripts.collect(), Until::Requests(USERS)).await?;
        }
    }
    Ok(())
}

/// All three at this rate each; how many of each were accepted.
pub async fn run(server: &Server, per_second: u64, duration: Duration) -> Result<u64> {
    let one = |stream: Stream| {
        let next = Arc::new(AtomicU64::new(0));
        let scripts = (0..CONNECTIONS).map(|_| Notify {
            target: server.target.clone(),
            stream,
            next: next.clone(),
            bytes: Vec::new(),
        });
        load::open(server.address, scripts.collect(), per_second, duration)
    };
    let (iphones, androids, mails) =
        tokio::try_join!(one(Stream::Iphones), one(Stream::Androids), one(Stream::Mails))?;
    anyhow::ensure!(iphones.done == androids.done && androids.done == mails.done, "some were refused");
    Ok(iphones.done)
}

struct Prepare {
    target: Target,
    stream: Stream,
    is_reach: bool,
    next: Arc<AtomicU64>,
    bytes: Vec<u8>,
}

impl Script for Prepare {
    fn next(&mut self) -> &[u8] {
        let no = self.next.fetch_add(1, Ordering::Relaxed);
        self.bytes = match self.is_reach {
            true => self.stream.reach(&self.target, no),
            false => self.target.send("PUT", &format!("/api/v1/users/{}", self.stream.user(no)), b"{}"),
        };
        &self.bytes
    }

    fn judge(&mut self, answer: &Answer<'_>) -> Result<Verdict> {
        if answer.status != 200 {
            answer.expect(201)?;
        }
        Ok(Verdict::Done)
    }
}

struct Notify {
    target: Target,
    stream: Stream,
    next: Arc<AtomicU64>,
    bytes: Vec<u8>,
}

impl Script for Notify {
    fn next(&mut self) -> &[u8] {
        let no = self.next.fetch_add(1, Ordering::Relaxed);
        let (user, channel) = (self.stream.user(no % USERS), self.stream.channel());
        let body = format!(
            r#"{{"notificationId":"{}-{no}","channels":["{channel}"],"content":{{"title":"Order {no}","body":"It is on its way"}},"recipients":[{{"userId":"{user}"}}]}}"#,
            self.stream.emulator()
        );
        self.bytes = self.target.send("POST", "/api/v1/notifications", body.as_bytes());
        &self.bytes
    }

    fn judge(&mut self, answer: &Answer<'_>) -> Result<Verdict> {
        answer.expect(202)?;
        Ok(Verdict::Done)
    }
}
