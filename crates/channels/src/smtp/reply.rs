//! How a server speaks: lines of three digits and a text, the last of them with a space behind the digits.
//!
//! ```text
//! 250-PIPELINING
//! 250 SIZE 10240000          550 5.1.1 <ann@a.example>: no such user
//! ```

use super::limits::{REPLY_LINE_BYTES_MAX, REPLY_LINES_MAX};
use std::fmt;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    pub code: u16,
    /// RFC 3463, if the server says it and means it: its class is that of the code.
    pub enhanced: Option<Enhanced>,
    /// Texts behind the digits.
    pub lines: Vec<String>,
}

/// `5.1.1`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Enhanced {
    pub class: u8,
    pub subject: u16,
    pub detail: u16,
}

impl fmt::Display for Enhanced {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

impl Enhanced {
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut number = || -> Option<u16> {
            let part = parts.next().filter(|part| (1..=3).contains(&part.len()))?;
            part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
        };
        let (class, subject, detail) = (number()?, number()?, number()?);
        let class = u8::try_from(class).ok().filter(|class| matches!(class, 2 | 4 | 5))?;
        parts.next().is_none().then_some(Self { class, subject, detail })
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplyError {
    #[error("a reply is no reply of SMTP")]
    NotAReply,
    #[error("a reply is too long")]
    TooLong,
}

/// Puts the lines of a reply together, one after the other.
#[derive(Default)]
pub struct Reader {
    code: Option<u16>,
    lines: Vec<String>,
}

impl Reader {
    /// A line without its line break. The reply, if this was its last one.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Reply>, ReplyError> {
        if line.len() > REPLY_LINE_BYTES_MAX || self.lines.len() >= REPLY_LINES_MAX {
            return Err(ReplyError::TooLong);
        }
        let digits = line.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let code: u16 = digits.and_then(|digits| digits.parse().ok()).ok_or(ReplyError::NotAReply)?;
        if !(200..600).contains(&code) || self.code.is_some_and(|first| first != code) {
            return Err(ReplyError::NotAReply);
        }
        self.code = Some(code);
        let is_last = match line.get(3) {
            None | Some(b' ') => true,
            Some(b'-') => false,
            Some(_) => return Err(ReplyError::NotAReply),
        };
        self.lines.push(String::from_utf8_lossy(line.get(4..).unwrap_or_default()).into_owned());
        Ok(is_last.then(|| Reply::new(code, std::mem::take(self).lines)))
    }
}

impl Reply {
    #[must_use]
    pub fn new(code: u16, lines: Vec<String>) -> Self {
        let word = lines.first().and_then(|line| line.split_whitespace().next());
        let enhanced =
            word.and_then(Enhanced::read).filter(|enhanced| u16::from(enhanced.class) == code / 100);
        Self { code, enhanced, lines }
    }

    #[must_use]
    pub fn is_positive(&self) -> bool {
        self.code < 400
    }

    /// The server's own words for why, without its prose: `550 5.1.1`.
    #[must_use]
    pub fn codes(&self) -> String {
        match self.enhanced {
            Some(enhanced) => format!("{} {enhanced}", self.code),
            None => self.code.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Option<Reply>, ReplyError> {
        let mut reader = Reader::default();
        let mut reply = None;
        for line in text.lines() {
            assert_eq!(reply, None, "nothing behind the last line");
            reply = reader.line(line.as_bytes())?;
        }
        Ok(reply)
    }

    #[test]
    fn replies_are_read() {
        for (text, codes, lines) in [
            ("250 ok", "250", 1),
            ("250-a\n250-b\n250 c", "250", 3),
            ("250", "250", 1),
            ("550 5.1.1 no such user", "550 5.1.1", 1),
            ("550-5.1.1 no such\n550 5.1.1 user", "550 5.1.1", 2),
            ("550 4.1.1 confused", "550", 1),
            ("450 4.7.1. a dot", "450", 1),
            ("421 4.7.1000 no", "421", 1),
        ] {
            let reply = read(text).expect("a reply").expect("the last line");
            assert_eq!((reply.codes().as_str(), reply.lines.len()), (codes, lines), "{text}");
        }
        for text in ["", "ok", "25", "2500 x", "199 x", "600 x", "250-a\n251 b", "250_x"] {
            assert!(matches!(read(text), Err(_) | Ok(None)), "{text}");
        }
        assert_eq!(read(&"250-a\n".repeat(REPLY_LINES_MAX + 1)), Err(ReplyError::TooLong));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(lines in proptest::collection::vec(any::<Vec<u8>>(), 0..5)) {
            let mut reader = Reader::default();
            for line in lines {
                if reader.line(&line).is_err() {
                    break;
                }
            }
        }
    }
}
