//! The server key, which seals all other keys: how it is written, and how it is had from where the operator keeps it.
//!
//! What must never happen: a key in a log or an error, a shell, or a command that the start waits for without end.

use crate::audit_files::hex;
use crate::config::SETTINGS;
use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fantail_local::keyring::{KEY_BYTES, new_server_key};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// A key is 64 bytes of text at most; whoever prints more prints something else.
const OUTPUT_BYTES_MAX: usize = 4_096;

/// Shows nothing of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ServerKey(pub [u8; KEY_BYTES]);

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("a server key has 32 bytes, as they are, as 64 hexadecimal digits or in base64")]
pub struct NoServerKey;

impl ServerKey {
    /// A new one.
    #[must_use]
    pub fn make() -> Self {
        Self(new_server_key())
    }

    /// As it is written in files and printed by commands.
    #[must_use]
    pub fn text(&self) -> String {
        hex(&self.0)
    }

    /// Reads 32 bytes as they are, or text with line breaks behind it.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoServerKey> {
        if let Ok(raw) = bytes.try_into() {
            return Ok(Self(raw));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| NoServerKey)?.trim_end_matches(['\r', '\n']);
        let decoded = match text.len() {
            64 => from_hex(text),
            _ => STANDARD.decode(text).ok(),
        };
        decoded.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(NoServerKey)
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let digits: Option<Vec<u32>> = text.as_bytes().iter().map(digit).collect();
    Some(digits?.chunks(2).map(|two| (two[0] * 16 + two[1]) as u8).collect())
}

#[derive(Clone, Debug)]
pub enum ServerKeySource {
    /// `keys/server.key`, made at the first start.
    DataDirectory,
    Given {
        key: ServerKey,
        /// The setting that says it.
        setting: String,
    },
    /// What a program prints.
    Command { arguments: Vec<String>, time: Duration },
}

impl ServerKeySource {
    /// Where an operator finds it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::DataDirectory => "keys/server.key",
            Self::Given { setting, .. } => setting,
            Self::Command { .. } => "keyring.server_key_command",
        }
    }

    /// What the banner says about it.
    #[must_use]
    pub fn sealed_by(&self) -> String {
        match self {
            Self::DataDirectory => {
                "by keys/server.key in the same directory: whoever copies all of it can read it".to_owned()
            }
            Self::Given { .. } | Self::Command { .. } => format!("by the key of {}", self.name()),
        }
    }

    /// The key, unless it is in the data directory. Runs the command and waits for it.
    pub fn key(&self) -> Result<Option<ServerKey>> {
        match self {
            Self::DataDirectory => Ok(None),
            Self::Given { key, .. } => Ok(Some(*key)),
            Self::Command { arguments, time } => {
                let printed =
                    output_of(arguments, *time).with_context(|| format!("{} failed", self.name()))?;
                let key = ServerKey::parse(&printed);
                Ok(Some(key.with_context(|| format!("{} printed something else", self.name()))?))
            }
        }
    }
}

/// What a program prints before it ends well. It gets no input, and its complaints go where ours go.
fn output_of(arguments: &[String], time: Duration) -> Result<Vec<u8>> {
    let (program, rest) = arguments.split_first().context("there is no program to run")?;
    let mut command = Command::new(program);
    command.args(rest).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    for setting in SETTINGS.iter().filter(|setting| setting.secret) {
        command.env_remove(setting.environment());
    }
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let printed = child.stdout.take().context("a program without an output")?;
    let group = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel::<io::Result<(Vec<u8>, ExitStatus)>>();
    thread::spawn(move || {
        let mut output = Vec::new();
        let read = printed.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(&mut output);
        let ended = read.and_then(|_| child.wait());
        // Nobody waits any more: the time is over.
        sender.send(ended.map(|status| (output, status))).ok();
    });
    match receiver.recv_timeout(time) {
        Ok(ended) => {
            let (output, status) = ended.with_context(|| format!("cannot wait for {program}"))?;
            ensure!(output.len() <= OUTPUT_BYTES_MAX, "{program} printed more than {OUTPUT_BYTES_MAX} bytes");
            ensure!(status.success(), "{program} ended with {status}");
            Ok(output)
        }
        Err(RecvTimeoutError::Timeout) => {
            // It was not waited for to its end, so the number is still its own.
            let killed = kill_process_group(group, Signal::KILL);
            let how = if killed.is_ok() { "was killed" } else { "cannot be killed" };
            bail!("{program} did not end within {} s and {how}", time.as_secs_f64())
        }
        Err(RecvTimeoutError::Disconnected) => Err(anyhow!("cannot wait for {program}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: ServerKey = ServerKey([0xa7; KEY_BYTES]);

    #[test]
    fn keys_are_read_however_they_are_written() {
        let (digits, base64) = (KEY.text(), STANDARD.encode(KEY.0));
        let written = [
            KEY.0.to_vec(),
            digits.clone().into_bytes(),
            digits.to_uppercase().into_bytes(),
            format!("{digits}\n").into_bytes(),
            format!("{digits}\r\n").into_bytes(),
            format!("{base64}\n").into_bytes(),
        ];
        for bytes in written {
            assert_eq!(ServerKey::parse(&bytes), Ok(KEY), "{bytes:?}");
        }
        for wrong in ["", "\n", &digits[1..], &format!("{digits}0"), &"g".repeat(64), &base64[4..], " "] {
            assert_eq!(ServerKey::parse(wrong.as_bytes()), Err(NoServerKey), "{wrong:?}");
        }
        assert_eq!(ServerKey::parse(&[0xff; 33]), Err(NoServerKey));
        assert_eq!(format!("{KEY:?}"), "(hidden)");
        assert_ne!(ServerKey::make(), ServerKey::make());
    }

    fn run(arguments: &[&str], time: Duration) -> Result<Option<ServerKey>> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        ServerKeySource::Command { arguments, time }.key()
    }

    #[test]
    fn a_command_gives_the_key_or_says_why_not() {
        let (text, long) = (KEY.text(), Duration::from_secs(60));
        assert_eq!(run(&["printf", "%s\\n", &text], long).expect("a key"), Some(KEY));
        // One argument, whatever is in it: no shell takes it apart.
        assert_eq!(
            run(&["printf", "%.64s", &format!("{text}; exit 1 $(id)")], long).expect("a key"),
            Some(KEY)
        );
        for (arguments, part) in [
            (vec!["/nonexistent/program"], "cannot run /nonexistent/program"),
            (vec!["false"], "false ended with"),
            (vec!["true"], "printed something else"),
            (vec!["printf", "s3cr3t-and-no-key"], "printed something else"),
            (vec!["yes"], "more than 4096 bytes"),
            (vec![], "there is no program"),
        ] {
            let error = format!("{:#}", run(&arguments, long).expect_err("no key"));
            assert!(error.contains(part) && error.contains("keyring.server_key_command"), "{error}");
            assert!(!error.contains("s3cr3t"), "{error}");
        }
        let hung = run(&["tail", "-f", "/dev/null"], Duration::from_millis(1));
        let error = format!("{:#}", hung.expect_err("it does not end"));
        assert!(error.contains("did not end within") && error.contains("was killed"), "{error}");
    }
}
