//! Uploads: users line by line, as they arrive, so that a list of any length needs no more memory than some lines.
//!
//! Comes from: `pipeline`, with a body that was not read. Decides: what each line says, and that it is one. Goes to:
//! `Node::begin_upload`, in portions; the list is the segment's once the last line is durable.
//!
//! ```text
//! application/x-ndjson   "ann" or {"userId": "ann"} on each line
//! text/csv               the first column; a first line that says userId is a heading
//! ```

use crate::body;
use crate::call::Call;
use crate::check;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::v1::segments::shown;
use axum::body::Body;
use fantail_node::ask::Refusal;
use fantail_node::segments::Upload;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{UPLOAD_BYTES_PER_SECOND_MIN, UPLOAD_LINE_BYTES_MAX, UPLOAD_LINES_AT_ONCE};
use fantail_wire::code::Code;
use fantail_wire::segment::SegmentUploaded;
use http_body_util::BodyExt;
use serde::Deserialize;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Ndjson,
    Csv,
}

pub async fn put(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let form = match body::media_type(&call.headers).as_deref() {
        Some("application/x-ndjson" | "application/ndjson" | "application/jsonl") => Form::Ndjson,
        Some("text/csv") => Form::Csv,
        Some(_) | None => {
            let which = "send `Content-Type: application/x-ndjson` or `text/csv`";
            return Err(Problem::new(Code::UnsupportedMediaType, which));
        }
    };
    let mut body = call.stream()?;
    let mut upload = call.node.begin_upload(tenant, call.name("segment")?)?;
    let mut lines = Lines { form, count: 0, rest: Vec::new(), users: Vec::new() };
    let mut patience = Patience::new(call.app.settings.body_timeout);
    while let Some(frame) = next(&mut body, &call, &mut patience).await? {
        lines.push(&frame)?;
        send(&call, tenant, &mut upload, &mut lines.users, UPLOAD_LINES_AT_ONCE).await?;
    }
    lines.finish()?;
    send(&call, tenant, &mut upload, &mut lines.users, 1).await?;
    let unknown = upload.unknown;
    let segment = shown(upload.finish().await?);
    Ok(Reply::json(200, &SegmentUploaded { segment, lines: lines.count, unknown }))
}

/// Once there are enough of them.
async fn send(
    call: &Call,
    tenant: TenantId,
    upload: &mut Upload,
    users: &mut Vec<String>,
    least: usize,
) -> Result<(), Problem> {
    if users.len() < least {
        return Ok(());
    }
    for portion in std::mem::take(users).chunks(UPLOAD_LINES_AT_ONCE) {
        allowed(call, tenant, portion.len()).await?;
        upload.add(portion).await?;
    }
    Ok(())
}

/// Waits until the producer's rate allows so many lines: an upload is slowed down, not refused in its middle.
async fn allowed(call: &Call, tenant: TenantId, lines: usize) -> Result<(), Problem> {
    loop {
        match call.spend_import(tenant, lines) {
            Ok(()) => return Ok(()),
            Err(Refusal::TooFast { retry_after_ms }) => {
                tokio::time::sleep(Duration::from_millis(retry_after_ms)).await;
            }
            Err(refusal) => return Err(refusal.into()),
        }
    }
}

async fn next(
    body: &mut Body,
    call: &Call,
    patience: &mut Patience,
) -> Result<Option<axum::body::Bytes>, Problem> {
    let late = || Problem::new(Code::RequestTimeout, "the body did not arrive in time");
    loop {
        let began_us = call.app.clock.micros();
        let frame = tokio::time::timeout(patience.left, body.frame()).await;
        patience.waited(Duration::from_micros(call.app.clock.micros().saturating_sub(began_us)));
        match frame.map_err(|_| late())? {
            None => return Ok(None),
            Some(Err(error)) => return Err(body::broken(&error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    patience.received(data.len());
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// How long an upload may still keep us waiting. Waiting uses it up, and bytes bring it back at the slowest rate that an
/// upload may have.
#[derive(Debug)]
struct Patience {
    left: Duration,
    max: Duration,
}

impl Patience {
    fn new(max: Duration) -> Self {
        Self { left: max, max }
    }

    fn waited(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    fn received(&mut self, bytes: usize) {
        let earned_us = (bytes as u64).saturating_mul(1_000_000) / UPLOAD_BYTES_PER_SECOND_MIN;
        self.left = self.left.saturating_add(Duration::from_micros(earned_us)).min(self.max);
    }
}

/// What has arrived so far.
struct Lines {
    form: Form,
    /// Lines that named somebody.
    count: u64,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    users: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    user_id: String,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            if self.rest.len() + part.len() > UPLOAD_LINE_BYTES_MAX {
                return Err(self.fault(format!("is longer than {UPLOAD_LINE_BYTES_MAX} bytes")));
            }
            self.rest.extend_from_slice(part);
            if parts.peek().is_some() {
                let line = std::mem::take(&mut self.rest);
                self.line(&line)?;
            }
        }
        Ok(())
    }

    /// The last line may lack its end.
    fn finish(&mut self) -> Result<(), Problem> {
        let line = std::mem::take(&mut self.rest);
        self.line(&line)
    }

    fn line(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let text = str::from_utf8(bytes).map_err(|_| self.fault("is not UTF-8".to_owned()))?.trim();
        if text.is_empty() {
            return Ok(());
        }
        let user = match self.form {
            Form::Ndjson => {
                let user = match text.starts_with('"') {
                    true => serde_json::from_str(text).ok(),
                    false => body::parse(bytes).ok().map(|Line { user_id }| user_id),
                };
                user.ok_or_else(|| self.fault("is neither a name nor {\"userId\": …}".to_owned()))?
            }
            Form::Csv => first_column(text),
        };
        let is_heading = self.form == Form::Csv && self.count == 0 && user == "userId";
        if is_heading {
            return Ok(());
        }
        if let Some(fault) = check::name_fault(&user) {
            return Err(self.fault(fault.to_string()));
        }
        self.count += 1;
        self.users.push(user);
        Ok(())
    }

    fn fault(&self, what: String) -> Problem {
        Problem::field(format!("/{}", self.count), what)
    }
}

/// Quoted or not.
fn first_column(line: &str) -> String {
    let Some(quoted) = line.strip_prefix('"') else {
        return line.split([',', ';', '\t']).next().unwrap_or_default().trim().to_owned();
    };
    let (mut text, mut chars) = (String::new(), quoted.chars().peekable());
    while let Some(one) = chars.next() {
        match (one, chars.peek()) {
            ('"', Some('"')) => {
                chars.next();
                text.push('"');
            }
            ('"', _) => break,
            (other, _) => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: Form, parts: &[&str]) -> Result<Vec<String>, String> {
        let mut lines = Lines { form, count: 0, rest: Vec::new(), users: Vec::new() };
        let pushed = parts.iter().try_for_each(|part| lines.push(part.as_bytes()));
        match pushed.and_then(|()| lines.finish()) {
            Ok(()) => Ok(lines.users),
            Err(problem) => Err(problem.errors[0].pointer.clone()),
        }
    }

    // proves: BLK-07
    #[test]
    fn lines_may_be_cut_anywhere() {
        let all = "\"ann\"\n{\"userId\":\"b\u{f6}b\"}\r\n\n\"cat\"";
        for cut in 0..all.len() {
            if all.is_char_boundary(cut) {
                let users = read(Form::Ndjson, &[&all[..cut], &all[cut..]]).expect("lines");
                assert_eq!(users, ["ann", "b\u{f6}b", "cat"], "{cut}");
            }
        }
        let csv = ["userId,plan\nann,pro\n\"b\"\"ob, jr\",x\n", "cat;1\ndan\t2\n", "userId\n"];
        assert_eq!(read(Form::Csv, &csv).expect("lines"), ["ann", "b\"ob, jr", "cat", "dan", "userId"]);
    }

    /// Seconds until an upload is given up that brings so many bytes in each; `None` if it is not within a day.
    fn given_up_after(bytes_per_second: usize) -> Option<u32> {
        let mut patience = Patience::new(Duration::from_secs(30));
        (1..86_400).find(|_| {
            patience.waited(Duration::from_secs(1));
            let is_over = patience.left.is_zero();
            patience.received(bytes_per_second);
            is_over
        })
    }

    // fixes: usability C15
    #[test]
    fn a_trickle_is_given_up_and_a_slow_upload_is_not() {
        assert_eq!(given_up_after(0), Some(30));
        assert_eq!(given_up_after(8), Some(31));
        assert_eq!(given_up_after(1_024), None);
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(read(Form::Ndjson, &["\"a\"\n{\"user\":1}\n"]).expect_err("no name"), "/1");
        assert_eq!(read(Form::Ndjson, &["\"a\"\n[\"b\"]\n"]).expect_err("an array"), "/1");
        assert_eq!(read(Form::Csv, &["a\n\u{1}b\n"]).expect_err("a control character"), "/1");
        let long = "x".repeat(UPLOAD_LINE_BYTES_MAX + 1);
        assert_eq!(read(Form::Csv, &[&long]).expect_err("too long"), "/0");
    }
}
