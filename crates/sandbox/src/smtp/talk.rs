//! One conversation, command by command. Replies keep the order of commands, so a client may send several at once.
//!
//! What must never happen: a mail that arrived and is not on the record, whatever becomes of its answer.

use super::letter::{self, Letter};
use super::reports::Reports;
use super::script::{self, Script};
use super::wire::{MAIL_BYTES_MAX, ask, hear, read_mail, say};
use super::{Manners, NAME};
use crate::faults::Deed;
use crate::ids;
use crate::record::{Arrival, Channel, Ticket, hex, sha256};
use crate::world::World;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufStream};

const RECIPIENTS_MAX: usize = 100;

pub struct Talk<'a> {
    world: &'a World,
    reports: &'a Reports,
    manners: Manners,
    connection: u64,
}

#[derive(Default)]
struct State {
    has_greeted: bool,
    is_known: bool,
    mails: u64,
    from: Option<String>,
    to: Vec<String>,
}

enum Next {
    Listen,
    Secure,
    End,
}

impl<'a> Talk<'a> {
    pub fn new(world: &'a World, reports: &'a Reports, manners: Manners, connection: u64) -> Self {
        Self { world, reports, manners, connection }
    }

    pub async fn whole<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, is_tls: bool) -> io::Result<()> {
        let mut stream = BufStream::new(stream);
        say(&mut stream, "220 sandbox ESMTP fantail").await?;
        if let Next::Secure = self.converse(&mut stream, is_tls).await? {
            // What was sent behind STARTTLS in the clear is thrown away with the buffer.
            let secured = self.world.tls_plain().accept(stream.into_inner()).await?;
            self.converse(&mut BufStream::new(secured), true).await?;
        }
        Ok(())
    }

    async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        is_tls: bool,
    ) -> io::Result<Next> {
        let mut state = State::default();
        while let Some(line) = hear(stream).await? {
            let text = String::from_utf8_lossy(&line).into_owned();
            match self.command(stream, &mut state, &text, is_tls).await? {
                Next::Listen => {}
                next @ (Next::Secure | Next::End) => return Ok(next),
            }
        }
        Ok(Next::End)
    }

    async fn command<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        state: &mut State,
        line: &str,
        is_tls: bool,
    ) -> io::Result<Next> {
        let word = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        match word.as_str() {
            "EHLO" => {
                state.has_greeted = true;
                self.extensions(stream, is_tls).await?;
            }
            "HELO" => {
                state.has_greeted = true;
                say(stream, "250 sandbox").await?;
            }
            "STARTTLS" if is_tls || !self.manners.starttls => say(stream, "503 5.5.1 not now").await?,
            "STARTTLS" => {
                say(stream, "220 2.0.0 go ahead").await?;
                return Ok(Next::Secure);
            }
            "AUTH" => state.is_known = self.log_in(stream, line).await?,
            "MAIL" => self.mail_from(stream, state, line).await?,
            "RCPT" => return self.recipient(stream, state, line).await,
            "DATA" => return self.data(stream, state).await,
            "RSET" => {
                (state.from, state.to) = (None, Vec::new());
                say(stream, "250 2.0.0 ok").await?;
            }
            "NOOP" => say(stream, "250 2.0.0 ok").await?,
            "VRFY" => say(stream, "252 2.0.0 perhaps").await?,
            "QUIT" => {
                say(stream, "221 2.0.0 bye").await?;
                return Ok(Next::End);
            }
            _ => say(stream, "500 5.5.2 what").await?,
        }
        Ok(Next::Listen)
    }

    async fn extensions<S: AsyncWrite + AsyncRead + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        is_tls: bool,
    ) -> io::Result<()> {
        let mut lines = vec!["sandbox", "PIPELINING", "SIZE 41943040", "8BITMIME", "ENHANCEDSTATUSCODES"];
        if !is_tls && self.manners.starttls {
            lines.push("STARTTLS");
        }
        lines.push("AUTH PLAIN LOGIN");
        let all: String = lines.iter().map(|line| format!("250-{line}\r\n")).collect();
        stream.write_all(all.as_bytes()).await?;
        say(stream, "250 SMTPUTF8").await
    }

    /// Whether the client is known now.
    async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        line: &str,
    ) -> io::Result<bool> {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next().unwrap_or_default().to_ascii_uppercase();
        let first = words.next().map(str::to_owned);
        let (name, password) = match kind.as_str() {
            "PLAIN" => {
                let both = match first {
                    Some(both) => both,
                    None => ask(stream, "334 ").await?,
                };
                let both = decoded(&both);
                let mut parts = both.split('\0').skip(1);
                (parts.next().unwrap_or_default().to_owned(), parts.next().unwrap_or_default().to_owned())
            }
            "LOGIN" => {
                let name = match first {
                    Some(name) => name,
                    None => ask(stream, "334 VXNlcm5hbWU6").await?,
                };
                let password = ask(stream, "334 UGFzc3dvcmQ6").await?;
                (decoded(&name), decoded(&password))
            }
            _ => {
                say(stream, "504 5.5.4 PLAIN or LOGIN").await?;
                return Ok(false);
            }
        };
        let is_right = match &self.manners.login {
            Some(login) => *login == (name, password),
            None => !name.is_empty(),
        };
        say(stream, if is_right { "235 2.7.0 welcome" } else { "535 5.7.8 no such login" }).await?;
        Ok(is_right)
    }

    async fn mail_from<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        state: &mut State,
        line: &str,
    ) -> io::Result<()> {
        if !state.has_greeted {
            return say(stream, "503 5.5.1 hello first").await;
        }
        if self.manners.auth_needed && !state.is_known {
            return say(stream, "530 5.7.0 log in first").await;
        }
        let size =
            line.to_ascii_uppercase().split("SIZE=").nth(1).and_then(|rest| {
                rest.split_whitespace().next().and_then(|number| number.parse::<usize>().ok())
            });
        if size.is_some_and(|size| size > MAIL_BYTES_MAX) {
            return say(stream, "552 5.3.4 too large").await;
        }
        match between(line) {
            Some(from) if state.from.is_none() => {
                state.from = Some(from);
                say(stream, "250 2.1.0 ok").await
            }
            Some(_) => say(stream, "503 5.5.1 one at a time").await,
            None => say(stream, "501 5.5.4 MAIL FROM:<address>").await,
        }
    }

    async fn recipient<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        state: &mut State,
        line: &str,
    ) -> io::Result<Next> {
        let to = between(line).filter(|to| to.contains('@'));
        let (Some(to), true) = (to, state.from.is_some()) else {
            let reply =
                if state.from.is_none() { "503 5.5.1 MAIL first" } else { "501 5.1.3 RCPT TO:<address>" };
            say(stream, reply).await?;
            return Ok(Next::Listen);
        };
        if state.to.len() >= RECIPIENTS_MAX {
            say(stream, "452 4.5.3 too many recipients").await?;
            return Ok(Next::Listen);
        }
        if let Script::Refuse(reply) = script::script(&to) {
            say(stream, &reply).await?;
            return Ok(if reply.starts_with("421") { Next::End } else { Next::Listen });
        }
        state.to.push(to);
        say(stream, "250 2.1.5 ok").await?;
        Ok(Next::Listen)
    }

    async fn data<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        state: &mut State,
    ) -> io::Result<Next> {
        let to = std::mem::take(&mut state.to);
        let Some(from) = state.from.take() else {
            say(stream, "503 5.5.1 MAIL first").await?;
            return Ok(Next::Listen);
        };
        if to.is_empty() {
            say(stream, "554 5.5.1 nobody to send it to").await?;
            return Ok(Next::Listen);
        }
        say(stream, "354 end with a dot").await?;
        let Some(mail) = read_mail(stream).await? else {
            say(stream, "552 5.3.4 too large").await?;
            return Ok(Next::Listen);
        };
        state.mails += 1;
        let every = self.world.faults().profile(NAME).go_away_every;
        let next = self.decide(stream, &from, &to, mail).await?;
        match next {
            Next::Listen if every == Some(state.mails) => {
                say(stream, "421 4.3.2 enough for one connection").await?;
                Ok(Next::End)
            }
            next @ (Next::Listen | Next::Secure | Next::End) => Ok(next),
        }
    }

    async fn decide<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        from: &str,
        to: &[String],
        mail: Vec<u8>,
    ) -> io::Result<Next> {
        let now_ms = self.world.now_ms(NAME);
        let id = letter::id(&mail).unwrap_or_else(ids::uuid);
        let fate = self.world.faults().next(NAME, Some(&id));
        let script = to.iter().map(|to| script::script(to)).find(|script| *script != Script::Take);
        let script = script.unwrap_or(Script::Take);
        let refusal = match (&fate.deed, &script) {
            (Deed::Error(kind), _) => {
                Some(script::reply(kind).unwrap_or_else(|| "451 4.3.0 a fault".to_owned()))
            }
            (_, Script::RefuseMail(reply)) => Some(reply.clone()),
            (_, _) => {
                let over = self.world.faults().over_quota(NAME, "", now_ms);
                over.map(|_| "451 4.7.1 too many mails".to_owned())
            }
        };
        if matches!((&fate.deed, &script), (Deed::BlackHole, _) | (_, Script::BlackHole)) {
            return silence(stream).await;
        }
        let letters = Letters { from, to, id: &id, mail, now_ms, refused: refusal.as_deref() };
        let tickets = self.arrive(&letters);
        tokio::time::sleep(Duration::from_millis(fate.delay_ms)).await;
        if let Some(reply) = &refusal {
            self.answer(stream, reply, &tickets).await?;
            return Ok(if reply.starts_with("421") { Next::End } else { Next::Listen });
        }
        match (&fate.deed, &script) {
            (Deed::LoseConnection, _) | (_, Script::LoseConnection) => return Ok(Next::End),
            // No gateway stands before a relay: its timeout is an answer that never comes.
            (Deed::LoseAnswer | Deed::GatewayTimeout, _) | (_, Script::LoseAnswer) => {
                return silence(stream).await;
            }
            (Deed::Answer | Deed::Error(_) | Deed::BlackHole, _) => {}
        }
        if let Script::TakeThenReport(report) = script {
            self.reports.add(report, from, &to[0], &letters.mail, &id);
        }
        self.answer(stream, &format!("250 2.0.0 ok: queued as {}", hex(&ids::bytes::<6>())), &tickets)
            .await?;
        Ok(Next::Listen)
    }

    fn arrive(&self, letters: &Letters<'_>) -> Vec<Ticket> {
        let arrival = |to: &String| {
            self.world.arrived(Arrival {
                emulator: NAME,
                channel: Channel::Email,
                id: letters.id.to_owned(),
                recipient: to.clone(),
                sha256: sha256(&letters.mail),
                at_ms: letters.now_ms,
                connection: self.connection,
                refused: letters.refused.map(str::to_owned),
                contents: Box::new(Letter {
                    from: letters.from.to_owned(),
                    to: to.clone(),
                    bytes: letters.mail.clone(),
                }),
            })
        };
        letters.to.iter().map(arrival).collect()
    }

    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut BufStream<S>,
        reply: &str,
        tickets: &[Ticket],
    ) -> io::Result<()> {
        say(stream, reply).await?;
        tickets.iter().for_each(|ticket| self.world.record().answered(*ticket));
        Ok(())
    }
}

struct Letters<'a> {
    from: &'a str,
    to: &'a [String],
    id: &'a str,
    mail: Vec<u8>,
    now_ms: u64,
    refused: Option<&'a str>,
}

/// Until the client goes.
async fn silence<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufStream<S>) -> io::Result<Next> {
    while hear(stream).await?.is_some() {}
    Ok(Next::End)
}

fn between(line: &str) -> Option<String> {
    let begin = line.find('<')? + 1;
    let end = begin + line[begin..].find('>')?;
    Some(line[begin..end].to_owned())
}

fn decoded(text: &str) -> String {
    let bytes = STANDARD.decode(text.trim()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
