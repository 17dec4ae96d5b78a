//! What goes over the wire for one mail: the envelope, and the bytes with their dots doubled.

use super::limits::LOCAL_PART_BYTES_MAX;
use super::settings::ReturnPath;

/// Who gets it, and where reports about it go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    pub from: String,
    pub to: String,
}

impl Envelope {
    /// `None` if the reference does not fit. Both addresses were checked and hold nothing that could end a command.
    #[must_use]
    pub fn new(return_path: &ReturnPath, reference: &str, to: &str) -> Option<Self> {
        let local = format!("{}+{reference}", return_path.local);
        (local.len() <= LOCAL_PART_BYTES_MAX)
            .then(|| Self { from: format!("{local}@{}", return_path.domain), to: to.to_owned() })
    }

    /// Of the recipient, in lower case.
    #[must_use]
    pub fn domain(&self) -> &str {
        domain(&self.to)
    }
}

/// Of an address that was read: its domain is in lower case already.
#[must_use]
pub fn domain(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, domain)| domain)
}

/// The reference in the address that a report was sent to.
#[must_use]
pub fn reference_of_return_path(address: &str) -> Option<&str> {
    let (local, _) = address.rsplit_once('@')?;
    local.rsplit_once('+').map(|(_, reference)| reference).filter(|reference| !reference.is_empty())
}

/// All of the mail up to its final dot: lines that begin with a dot get another one, and the last line ends.
#[must_use]
pub fn stuffed(mail: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(mail.len() + 16);
    for line in mail.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            bytes.push(b'.');
        }
        bytes.extend_from_slice(line);
    }
    if !bytes.ends_with(b"\r\n") {
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_find_their_way_back() {
        let path = ReturnPath { local: "bounce".into(), domain: "b.example".into() };
        let envelope = Envelope::new(&path, "0w1w1h07", "ann@a.example").expect("an envelope");
        assert_eq!(envelope.from, "bounce+0w1w1h07@b.example");
        assert_eq!(envelope.domain(), "a.example");
        assert_eq!(reference_of_return_path(&envelope.from), Some("0w1w1h07"));
        assert_eq!(Envelope::new(&path, &"r".repeat(58), "ann@a.example"), None);
        for other in ["", "bounce@b.example", "bounce+@b.example", "bounce+x"] {
            assert_eq!(reference_of_return_path(other), None, "{other}");
        }
    }

    #[test]
    fn dots_are_doubled() {
        for (mail, expected) in [
            ("a\r\n.b\r\n", "a\r\n..b\r\n"),
            (".", "..\r\n"),
            ("", "\r\n"),
            ("a", "a\r\n"),
            ("a\r\n.\r\nb", "a\r\n..\r\nb\r\n"),
        ] {
            assert_eq!(stuffed(mail.as_bytes()), expected.as_bytes(), "{mail:?}");
        }
    }
}
