//! One connection to the relay, from the greeting to the reply to a final dot. It always knows how far it got.
//!
//! What must never happen: a password before TLS (unless the relay is this machine), a reply that is taken for another
//! command's, a command that a server slipped in before TLS (what was read in the clear is thrown away).

use super::answer::Stage;
use super::limits::{CONNECT_MS_MAX, REPLY_LINE_BYTES_MAX, REPLY_MS_MAX, STORED_MS_MAX};
use super::payload::Envelope;
use super::reply::{Reader, Reply};
use super::settings::{Login, Security, Settings};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fantail_outbound::connector::ConnectError;
use fantail_outbound::pool::Ports;
use fantail_rules::ids::Millis;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tracing::debug;

pub struct Session {
    stream: Box<dyn Stream>,
    ports: Ports,
    /// Bytes that were read and belong to the next reply.
    unread: Vec<u8>,
    extensions: Extensions,
    pub mails: u32,
    pub idle_since: Millis,
    /// The last transaction was left in the middle.
    needs_reset: bool,
}

#[derive(Clone, Default)]
struct Extensions {
    pipelining: bool,
    starttls: bool,
    auth_plain: bool,
    auth_login: bool,
}

/// Why there is no session, or no reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Broken {
    /// The server said no.
    Refused {
        stage: Stage,
        reply: Reply,
    },
    /// The connection is gone; nothing is known about what was sent at this stage.
    Lost {
        stage: Stage,
        code: &'static str,
        message: String,
    },
    /// The relay offers no way to log in.
    NoAuth,
    NoStartTls,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// What it takes to make a session.
pub struct Opener {
    pub settings: Settings,
    pub login: Option<Login>,
    pub tls: Option<Arc<ClientConfig>>,
    pub ports: Ports,
}

impl Opener {
    /// Ready for the first mail. Gives up at `until`.
    pub async fn open(&self, until: Millis) -> Result<Session, Broken> {
        let until = until.min(self.ports.clock.monotonic().plus(CONNECT_MS_MAX));
        let opening = self.connect();
        match within(&self.ports, until, opening).await {
            Some(session) => session,
            None => Err(lost(Stage::Greeting, "timeout", "no connection in time")),
        }
    }

    async fn connect(&self) -> Result<Session, Broken> {
        let gone = |error: ConnectError| lost(Stage::Greeting, "connect", &error.to_string());
        let security = &self.settings.security;
        let tcp = self.ports.connector.connect(&self.settings.destination()).await.map_err(gone)?;
        let stream: Box<dyn Stream> = match security {
            Security::Tls => self.secured(Box::new(tcp)).await?,
            Security::StartTls | Security::None => Box::new(tcp),
        };
        let mut session = Session {
            stream,
            ports: self.ports.clone(),
            unread: Vec::new(),
            extensions: Extensions::default(),
            mails: 0,
            idle_since: self.ports.clock.monotonic(),
            needs_reset: false,
        };
        let greeting = session.reply(Stage::Greeting, REPLY_MS_MAX).await?;
        positive(Stage::Greeting, greeting)?;
        session.greet(&self.settings.helo_name).await?;
        if *security == Security::StartTls {
            if !session.extensions.starttls {
                return Err(Broken::NoStartTls);
            }
            session.command(Stage::Greeting, "STARTTLS\r\n").await?;
            // Whatever was sent in the clear behind the reply is not TLS and not ours.
            session.unread.clear();
            session.stream = self.secured(session.stream).await?;
            session.greet(&self.settings.helo_name).await?;
        }
        if let Some(login) = &self.login {
            session.log_in(login).await?;
        }
        Ok(session)
    }

    async fn secured(&self, stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, Broken> {
        let gone = |message: &str| lost(Stage::Greeting, "tls", message);
        let Some(tls) = &self.tls else { return Err(gone("there is no TLS")) };
        let name =
            ServerName::try_from(self.settings.host.clone()).map_err(|error| gone(&error.to_string()))?;
        let connecting = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
        Ok(Box::new(connecting.map_err(|error| gone(&error.to_string()))?))
    }
}

impl Session {
    async fn greet(&mut self, name: &str) -> Result<(), Broken> {
        let reply = self.command(Stage::Greeting, &format!("EHLO {name}\r\n")).await?;
        let mut extensions = Extensions::default();
        for line in reply.lines.iter().skip(1) {
            let line = line.to_ascii_uppercase();
            let mut words = line.split([' ', '=']);
            match words.next() {
                Some("PIPELINING") => extensions.pipelining = true,
                Some("STARTTLS") => extensions.starttls = true,
                Some("AUTH") => words.for_each(|word| match word {
                    "PLAIN" => extensions.auth_plain = true,
                    "LOGIN" => extensions.auth_login = true,
                    _ => {}
                }),
                Some(_) | None => {}
            }
        }
        self.extensions = extensions;
        Ok(())
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), Broken> {
        let Login { username, password } = login;
        if self.extensions.auth_plain {
            let both = STANDARD.encode(format!("\0{username}\0{password}"));
            self.command(Stage::Auth, &format!("AUTH PLAIN {both}\r\n")).await?;
        } else if self.extensions.auth_login {
            self.command(Stage::Auth, "AUTH LOGIN\r\n").await?;
            self.command(Stage::Auth, &format!("{}\r\n", STANDARD.encode(username))).await?;
            self.command(Stage::Auth, &format!("{}\r\n", STANDARD.encode(password))).await?;
        } else {
            return Err(Broken::NoAuth);
        }
        Ok(())
    }

    /// Sends one mail, whose dots are doubled. The reply is the one that decided: of the dot, or an earlier one that is
    /// negative.
    pub async fn send(&mut self, envelope: &Envelope, mail: &[u8]) -> Result<(Stage, Reply), Broken> {
        self.mails += 1;
        let reset = if std::mem::take(&mut self.needs_reset) { "RSET\r\n" } else { "" };
        let commands = [
            (Stage::Mail, format!("MAIL FROM:<{}>\r\n", envelope.from)),
            (Stage::Rcpt, format!("RCPT TO:<{}>\r\n", envelope.to)),
            (Stage::Data, "DATA\r\n".to_owned()),
        ];
        if self.extensions.pipelining {
            let all: String = commands.iter().map(|(_, command)| command.as_str()).collect();
            self.write(Stage::Mail, format!("{reset}{all}").as_bytes()).await?;
            if !reset.is_empty() {
                self.reply(Stage::Mail, REPLY_MS_MAX).await?;
            }
        } else if !reset.is_empty() {
            self.write(Stage::Mail, reset.as_bytes()).await?;
            self.reply(Stage::Mail, REPLY_MS_MAX).await?;
        }
        let mut refused = None;
        for (stage, command) in commands {
            if !self.extensions.pipelining {
                self.write(stage, command.as_bytes()).await?;
            }
            let reply = self.reply(stage, REPLY_MS_MAX).await?;
            let is_well = if stage == Stage::Data { reply.code == 354 } else { reply.code / 100 == 2 };
            match (&refused, is_well) {
                (None, false) => {
                    self.needs_reset = true;
                    if !self.extensions.pipelining || reply.code == 421 {
                        return Ok((stage, reply));
                    }
                    refused = Some((stage, reply));
                }
                // Wants data although there is nobody to take it: only a new connection is sure.
                (Some(_), true) if stage == Stage::Data => self.mails = u32::MAX,
                (Some(_) | None, _) => {}
            }
        }
        match refused {
            Some(refused) => Ok(refused),
            None => self.data(mail).await,
        }
    }

    async fn data(&mut self, mail: &[u8]) -> Result<(Stage, Reply), Broken> {
        self.write(Stage::Data, mail).await?;
        self.write(Stage::Dot, b".\r\n").await?;
        Ok((Stage::Dot, self.reply(Stage::Dot, STORED_MS_MAX).await?))
    }

    /// Whether the server has said nothing and not gone since the last reply.
    pub async fn is_quiet(&mut self) -> bool {
        let mut byte = [0; 1];
        let read = poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut byte);
            Poll::Ready(Pin::new(&mut self.stream).poll_read(context, &mut buffer).is_pending())
        });
        self.unread.is_empty() && read.await
    }

    /// Says goodbye without waiting for an answer.
    pub async fn quit(mut self) {
        let until = self.ports.clock.monotonic().plus(REPLY_MS_MAX);
        let ports = self.ports.clone();
        let leaving = async {
            let said = self.stream.write_all(b"QUIT\r\n").await;
            if let Err(error) = said.and(self.stream.shutdown().await) {
                debug!(%error, "nothing follows from a goodbye that was not heard");
            }
        };
        within(&ports, until, leaving).await;
    }

    async fn command(&mut self, stage: Stage, command: &str) -> Result<Reply, Broken> {
        self.write(stage, command.as_bytes()).await?;
        positive(stage, self.reply(stage, REPLY_MS_MAX).await?)
    }

    async fn write(&mut self, stage: Stage, bytes: &[u8]) -> Result<(), Broken> {
        let until = self.ports.clock.monotonic().plus(REPLY_MS_MAX);
        let stream = &mut self.stream;
        let writing = async {
            stream.write_all(bytes).await?;
            stream.flush().await
        };
        match within(&self.ports, until, writing).await {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(lost(stage, "reset", &error.to_string())),
            None => Err(lost(stage, "timeout", "the server does not read")),
        }
    }

    async fn reply(&mut self, stage: Stage, within_ms: u64) -> Result<Reply, Broken> {
        let until = self.ports.clock.monotonic().plus(within_ms);
        let ports = self.ports.clone();
        match within(&ports, until, self.read_reply(stage)).await {
            Some(reply) => reply,
            None => Err(lost(stage, "timeout", "no reply in time")),
        }
    }

    async fn read_reply(&mut self, stage: Stage) -> Result<Reply, Broken> {
        let mut reader = Reader::default();
        let mut chunk = [0; 2_048];
        loop {
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let line = line.strip_suffix(b"\n").unwrap_or(&line);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let read = reader.line(line).map_err(|error| lost(stage, "protocol", &error.to_string()))?;
                if let Some(reply) = read {
                    return Ok(reply);
                }
            }
            if self.unread.len() > REPLY_LINE_BYTES_MAX {
                return Err(lost(stage, "protocol", "a reply is too long"));
            }
            match self.stream.read(&mut chunk).await {
                Ok(0) => return Err(lost(stage, "reset", "the server closed the connection")),
                Ok(length) => self.unread.extend_from_slice(&chunk[..length]),
                Err(error) => return Err(lost(stage, "reset", &error.to_string())),
            }
        }
    }
}

fn positive(stage: Stage, reply: Reply) -> Result<Reply, Broken> {
    if reply.is_positive() { Ok(reply) } else { Err(Broken::Refused { stage, reply }) }
}

fn lost(stage: Stage, code: &'static str, message: &str) -> Broken {
    Broken::Lost { stage, code, message: message.to_owned() }
}

pub async fn within<F: Future>(ports: &Ports, until: Millis, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = ports.tasks.sleep_until(until) => None,
    }
}
