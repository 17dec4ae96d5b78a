//! What a mail server sends back later: reports of deliveries (RFC 3464) and complaints (RFC 5965), as mails.
//!
//! Kept for whoever asks, and posted as `message/rfc822` to a URL of this machine if one was set; the header
//! `x-envelope-to` says to which address the report went. Copies and delays are those of the fault profile.

use super::NAME;
use super::script::Report;
use crate::faults::receipt;
use crate::ids;
use crate::outgoing;
use crate::record::hex;
use crate::world::World;
use bytes::Bytes;
use hyper::http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};
use tracing::warn;

/// The oldest make room.
const KEPT_MAX: usize = 1_000;
/// Of the original mail that comes back.
const HEADERS_BYTES_MAX: usize = 16 * 1_024;

pub struct Reports {
    world: World,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: VecDeque<(String, String)>,
    url: Option<String>,
    count: u64,
}

impl Reports {
    pub fn new(world: World) -> Self {
        Self { world, state: Mutex::default() }
    }

    pub fn post_to(&self, url: Option<String>) {
        self.state().url = url;
    }

    pub fn list(&self) -> Value {
        let show = |(to, mail): &(String, String)| json!({"to": to, "mail": mail});
        self.state().kept.iter().map(show).collect()
    }

    /// Nothing is sent back to nobody.
    pub fn add(&self, report: Report, from: &str, to: &str, mail: &[u8], id: &str) {
        if from.is_empty() {
            return;
        }
        let text = write(report, from, to, mail, id, self.world.now_ms(NAME));
        let (url, count) = {
            let mut state = self.state();
            if state.kept.len() >= KEPT_MAX {
                state.kept.pop_front();
            }
            state.kept.push_back((from.to_owned(), text.clone()));
            state.count += 1;
            (state.url.clone(), state.count)
        };
        let Some(url) = url else { return };
        let how = receipt(&self.world.faults().profile(NAME), count);
        let (world, from) = (self.world.clone(), from.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(how.delay_ms)).await;
            let mut headers = HeaderMap::new();
            headers.insert("content-type", HeaderValue::from_static("message/rfc822"));
            if let Ok(to) = HeaderValue::from_str(&from) {
                headers.insert("x-envelope-to", to);
            }
            for _ in 0..how.copies {
                let posted = outgoing::post(&world, &url, headers.clone(), Bytes::from(text.clone())).await;
                if let Err(error) = posted {
                    warn!(%error, "a report was not taken");
                }
            }
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(report: Report, from: &str, to: &str, mail: &[u8], id: &str, now_ms: u64) -> String {
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(now_ms)).replace("GMT", "+0000");
    let boundary = hex(&ids::bytes::<12>());
    let text = String::from_utf8_lossy(mail);
    let headers = text.split("\r\n\r\n").next().unwrap_or_default();
    let headers = &headers[..headers.floor_char_boundary(HEADERS_BYTES_MAX)];
    let (kind, prose, fields) = match report {
        Report::Failed { status, reply } => (
            "delivery-status",
            "Your mail could not be delivered.",
            format!("Action: failed\r\nStatus: {status}\r\nDiagnostic-Code: smtp; {reply}\r\n"),
        ),
        Report::Delayed => (
            "delivery-status",
            "Your mail was not delivered yet.",
            "Action: delayed\r\nStatus: 4.4.1\r\nDiagnostic-Code: smtp; 421 4.4.1 no answer\r\n".to_owned(),
        ),
        Report::Complaint => ("feedback-report", "A recipient complains.", String::new()),
    };
    let machine = match report {
        Report::Failed { .. } | Report::Delayed => format!(
            "Reporting-MTA: dns; sandbox\r\nX-Sandbox-Id: {id}\r\n\r\nFinal-Recipient: rfc822; {to}\r\n{fields}"
        ),
        Report::Complaint => format!(
            "Feedback-Type: abuse\r\nUser-Agent: FantailSandbox/1\r\nVersion: 1\r\n\
             Original-Mail-From: <{from}>\r\nOriginal-Rcpt-To: <{to}>\r\n"
        ),
    };
    format!(
        "From: Mail Delivery <MAILER-DAEMON@sandbox.example>\r\nTo: {from}\r\nSubject: A report about your mail\r\n\
         Date: {date}\r\n\
         Message-ID: <{}@sandbox.example>\r\nMIME-Version: 1.0\r\nAuto-Submitted: auto-replied\r\n\
         Content-Type: multipart/report; report-type={kind}; boundary=\"{boundary}\"\r\n\r\n\
         --{boundary}\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n{prose}\r\n\r\n\
         --{boundary}\r\nContent-Type: message/{kind}\r\n\r\n{machine}\r\n\
         --{boundary}\r\nContent-Type: text/rfc822-headers\r\n\r\n{headers}\r\n\r\n--{boundary}--\r\n",
        ids::uuid(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // fixes: interop small
    #[test]
    fn every_report_says_when_it_was_written() {
        let failed = Report::Failed { status: "5.1.1", reply: "550 5.1.1 unknown" };
        for report in [failed, Report::Delayed, Report::Complaint] {
            let text =
                write(report, "a@b.example", "c@d.example", b"Subject: x\r\n\r\nbody", "id", 784_111_777_000);
            let (headers, _) = text.split_once("\r\n\r\n").expect("headers");
            let dates: Vec<&str> = headers.lines().filter(|line| line.starts_with("Date: ")).collect();
            assert_eq!(dates, ["Date: Sun, 06 Nov 1994 08:49:37 +0000"]);
        }
    }
}
