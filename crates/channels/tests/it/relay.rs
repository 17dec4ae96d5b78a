//! A mail server on 127.0.0.1 that does as the recipient's name says; it never waits for time to pass.
//!
//! | local part | behaviour |
//! |---|---|
//! | `rcpt-550-5.1.1` | refuses the recipient so; `dot-…` the mail |
//! | `close-rcpt`, `close-dot` | closes instead of an answer; what came up to the dot was taken |
//! | `silent-dot` | takes the mail and says nothing |
//! | anything else | takes it |

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    pub from: String,
    pub to: String,
    /// With its dots as they were meant.
    pub mail: String,
}

impl Taken {
    /// Of the message id.
    pub fn reference(&self) -> &str {
        let id = self.mail.split("Message-ID: <").nth(1).and_then(|rest| rest.split('@').next());
        id.expect("a message id")
    }
}

/// What the server is like.
#[derive(Clone, Default)]
pub struct Manners {
    pub pipelining: bool,
    pub starttls: Option<TlsAcceptor>,
    pub tls: Option<TlsAcceptor>,
    /// `AUTH` with these kinds is offered, and the password is `open sesame`.
    pub auth: Option<&'static str>,
    /// Says this instead of hello.
    pub greeting: Option<&'static str>,
    /// Closes after each mail, without a word.
    pub closes_after_mail: bool,
}

pub struct Relay {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    manners: Manners,
    taken: Mutex<Vec<Taken>>,
    connections: watch::Sender<(usize, usize)>,
    commands: Mutex<Vec<String>>,
}

impl Relay {
    pub async fn start(handle: &Handle, manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared {
            manners,
            taken: Mutex::default(),
            connections: watch::Sender::default(),
            commands: Mutex::default(),
        });
        let (accepting, spawner) = (shared.clone(), handle.clone());
        handle.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepting.connections.send_modify(|(open, _)| *open += 1);
                // No line waits for the kernel to acknowledge the one before.
                stream.set_nodelay(true).expect("a socket");
                let shared = accepting.clone();
                spawner.spawn(async move {
                    match &shared.manners.tls {
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                shared.talk(stream).await;
                            }
                        }
                        None => {
                            shared.talk(stream).await;
                        }
                    }
                    shared.connections.send_modify(|(_, closed)| *closed += 1);
                });
            }
        });
        Self { address, shared }
    }

    pub fn taken(&self) -> Vec<Taken> {
        self.shared.taken.lock().expect("not poisoned").clone()
    }

    /// Without what belongs to a login.
    pub fn commands(&self) -> Vec<String> {
        self.shared.commands.lock().expect("not poisoned").clone()
    }

    /// How many commands were heard.
    pub fn heard(&self) -> usize {
        self.shared.commands.lock().expect("not poisoned").len()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.borrow().0
    }

    /// Until so many were closed.
    pub async fn closed(&self, count: usize) {
        let mut connections = self.shared.connections.subscribe();
        connections.wait_for(|(_, closed)| *closed >= count).await.expect("the server lives");
    }
}

enum End {
    Closed,
    /// Goes on in TLS.
    Secured,
}

impl Shared {
    async fn talk<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> Option<()> {
        let mut stream = BufStream::new(stream);
        say(&mut stream, self.manners.greeting.unwrap_or("220 relay.example")).await?;
        match self.converse(&mut stream, self.manners.starttls.is_some()).await? {
            End::Closed => Some(()),
            End::Secured => {
                let acceptor = self.manners.starttls.as_ref().expect("it was offered");
                let secured = acceptor.accept(stream.into_inner()).await.ok()?;
                self.converse(&mut BufStream::new(secured), false).await.map(|_| ())
            }
        }
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        offers_tls: bool,
    ) -> Option<End> {
        let (mut from, mut to) = (String::new(), String::new());
        loop {
            let line = hear(stream).await?;
            self.commands
                .lock()
                .expect("not poisoned")
                .push(line.split(' ').next().unwrap_or_default().into());
            let word = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            match word.as_str() {
                "EHLO" => {
                    let mut lines = vec!["relay.example".to_owned()];
                    lines.extend(self.manners.pipelining.then(|| "PIPELINING".to_owned()));
                    lines.extend(offers_tls.then(|| "STARTTLS".to_owned()));
                    lines.extend(self.manners.auth.map(|kinds| format!("AUTH {kinds}")));
                    for line in &lines {
                        say(stream, &format!("250-{line}")).await?;
                    }
                    say(stream, "250 8BITMIME").await?;
                }
                "STARTTLS" => {
                    say(stream, "220 go on").await?;
                    return Some(End::Secured);
                }
                "AUTH" => self.log_in(stream, &line).await?,
                "MAIL" => {
                    from = between(&line);
                    say(stream, "250 2.1.0 ok").await?;
                }
                "RCPT" => {
                    to = between(&line);
                    match scripted(&to, "rcpt") {
                        Some(reply) => say(stream, &reply).await?,
                        None if is_at(&to, "close-rcpt") => return Some(End::Closed),
                        None => say(stream, "250 2.1.5 ok").await?,
                    }
                }
                "DATA" if scripted(&to, "rcpt").is_some() => say(stream, "503 5.5.1 nobody").await?,
                "DATA" => {
                    say(stream, "354 go on").await?;
                    self.take(stream, &from, &to).await?;
                    if is_at(&to, "close-dot") || (is_at(&to, "silent-dot") && hear(stream).await.is_none()) {
                        return Some(End::Closed);
                    }
                    if self.manners.closes_after_mail {
                        return Some(End::Closed);
                    }
                }
                "RSET" => say(stream, "250 ok").await?,
                "QUIT" => {
                    say(stream, "221 bye").await?;
                    return Some(End::Closed);
                }
                _ => say(stream, "500 what").await?,
            }
        }
    }

    async fn take<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        from: &str,
        to: &str,
    ) -> Option<()> {
        let mut mail = String::new();
        loop {
            let line = hear(stream).await?;
            if line == "." {
                break;
            }
            mail.push_str(line.strip_prefix('.').unwrap_or(&line));
            mail.push_str("\r\n");
        }
        if let Some(reply) = scripted(to, "dot") {
            return say(stream, &reply).await;
        }
        self.taken.lock().expect("not poisoned").push(Taken { from: from.into(), to: to.into(), mail });
        match is_at(to, "close-dot") || is_at(to, "silent-dot") {
            true => Some(()),
            false => say(stream, "250 2.0.0 ok: queued as Q1").await,
        }
    }

    async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        line: &str,
    ) -> Option<()> {
        let is_right = match line.strip_prefix("AUTH PLAIN ") {
            // "\0me\0open sesame"
            Some(both) => both == "AG1lAG9wZW4gc2VzYW1l",
            None => {
                say(stream, "334 VXNlcm5hbWU6").await?;
                let name = hear(stream).await?;
                say(stream, "334 UGFzc3dvcmQ6").await?;
                (name.as_str(), hear(stream).await?.as_str()) == ("bWU=", "b3BlbiBzZXNhbWU=")
            }
        };
        say(stream, if is_right { "235 2.7.0 welcome" } else { "535 5.7.8 no" }).await
    }
}

fn is_at(address: &str, local: &str) -> bool {
    address.split(['@', '+']).next() == Some(local)
}

/// `rcpt-550-5.1.1@…` is `550 5.1.1 as told`.
fn scripted(to: &str, stage: &str) -> Option<String> {
    let local = to.split('@').next()?.strip_prefix(stage)?.strip_prefix('-')?;
    Some(format!("{} as told", local.replacen('-', " ", 1)))
}

fn between(line: &str) -> String {
    let begin = line.find('<').map_or(0, |place| place + 1);
    line[begin..line.find('>').unwrap_or(line.len())].to_owned()
}

async fn say<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufStream<S>, line: &str) -> Option<()> {
    stream.write_all(format!("{line}\r\n").as_bytes()).await.ok()?;
    stream.flush().await.ok()
}

/// `None` when the client is gone.
async fn hear<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufStream<S>) -> Option<String> {
    let mut line = String::new();
    let length = stream.read_line(&mut line).await.ok()?;
    (length > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}
