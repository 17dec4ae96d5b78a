//! Signatures of mails (RFC 6376, 8463): relaxed/relaxed, rsa-sha256, and ed25519-sha256 beside it.
//!
//! What must never happen: a way out that is not signed. Both `List-Unsubscribe` headers, the message id and the headers of
//! MIME are covered wherever they are, and From twice, so that nobody can add another one.

use super::mime::Header;
use aws_lc_rs::digest::{Context, SHA256, digest};
use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fantail_outbound::jwt;
use fantail_rules::ids::Millis;
use std::fmt;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Signed wherever they are, in the order in which they stand.
const SIGNED: &[&str] = &[
    "From",
    "To",
    "Reply-To",
    "Subject",
    "Date",
    "Message-ID",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "Feedback-ID",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Rsa,
    Ed25519,
}

/// Whose signature, and with what. The private part is never shown.
pub struct Key {
    domain: String,
    selector: String,
    signer: Signer,
}

enum Signer {
    Rsa(jwt::Signer),
    Ed25519(Ed25519KeyPair),
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({}._domainkey.{})", self.selector, self.domain)
    }
}

impl Key {
    pub fn read(domain: &str, selector: &str, kind: Kind, pem: &[u8]) -> Result<Self, jwt::KeyError> {
        let signer = match kind {
            Kind::Rsa => Signer::Rsa(jwt::Signer::rs256_pem(pem)?),
            Kind::Ed25519 => Signer::Ed25519(ed25519(pem)?),
        };
        Ok(Self { domain: domain.to_owned(), selector: selector.to_owned(), signer })
    }

    /// The value of a `DKIM-Signature` over these headers and a body with this hash.
    #[must_use]
    pub fn sign(&self, headers: &[Header], body_hash: &str, at: Millis) -> Header {
        let signed: Vec<&Header> = headers.iter().filter(|(name, _)| SIGNED.contains(name)).collect();
        let mut names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
        // Once more than there are.
        names.push("From");
        let algorithm = match self.signer {
            Signer::Rsa(_) => "rsa-sha256",
            Signer::Ed25519(_) => "ed25519-sha256",
        };
        let value = format!(
            "v=1; a={algorithm}; c=relaxed/relaxed; d={}; s={};\r\n t={}; h={};\r\n bh={body_hash};\r\n b=",
            self.domain,
            self.selector,
            at.0 / 1_000,
            names.chunks(5).map(|some| some.join(":")).collect::<Vec<_>>().join(":\r\n  "),
        );
        let mut canonical = Vec::with_capacity(1_024);
        for (name, value) in signed {
            header(&mut canonical, name, value);
        }
        header(&mut canonical, "DKIM-Signature", &value);
        // The last one has no line break.
        canonical.truncate(canonical.len() - 2);
        let signature = STANDARD.encode(self.signer.sign(&canonical));
        ("DKIM-Signature", value + &folded(&signature))
    }
}

impl Signer {
    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Rsa(key) => key.sign(bytes),
            Self::Ed25519(key) => key.sign(digest(&SHA256, bytes).as_ref()).as_ref().to_vec(),
        }
    }
}

fn ed25519(pem: &[u8]) -> Result<Ed25519KeyPair, jwt::KeyError> {
    let wrong = jwt::KeyError::WrongKind { expected: "Ed25519 in PKCS#8" };
    match PrivateKeyDer::from_pem_slice(pem).map_err(|_| jwt::KeyError::NotPem)? {
        PrivateKeyDer::Pkcs8(key) => Ed25519KeyPair::from_pkcs8(key.secret_pkcs8_der()).map_err(|_| wrong),
        _ => Err(wrong),
    }
}

fn folded(signature: &str) -> String {
    let lines: Vec<&str> = (0..signature.len())
        .step_by(72)
        .map(|begin| &signature[begin..signature.len().min(begin + 72)])
        .collect();
    lines.join("\r\n  ")
}

/// Relaxed: the name in lower case, no folding, white space as one space, none at the ends.
fn header(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
    out.push(b':');
    let begin = out.len();
    for word in value.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()) {
        if out.len() > begin {
            out.push(b' ');
        }
        out.extend_from_slice(word.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Base64 of SHA-256 over the relaxed body: white space as one space, none at the ends of lines, no empty lines at the end.
#[must_use]
pub fn body_hash(body: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    let mut line = Vec::with_capacity(128);
    let mut empty = 0;
    for raw in body.split_inclusive(|byte| *byte == b'\n') {
        let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        line.clear();
        relaxed(&mut line, raw);
        if line.is_empty() {
            empty += 1;
            continue;
        }
        (0..empty).for_each(|_| context.update(b"\r\n"));
        empty = 0;
        line.extend_from_slice(b"\r\n");
        context.update(&line);
    }
    STANDARD.encode(context.finish())
}

fn relaxed(line: &mut Vec<u8>, raw: &[u8]) {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let mut gap = false;
    for byte in raw {
        if is_space(byte) {
            gap = true;
            continue;
        }
        if gap {
            line.push(b' ');
            gap = false;
        }
        line.push(*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(bytes: &[u8]) -> String {
        STANDARD.encode(digest(&SHA256, bytes))
    }

    #[test]
    fn the_examples_of_the_standards_hold() {
        let mut out = Vec::new();
        header(&mut out, "A", " X");
        header(&mut out, "B ".trim_end(), " Y\t\r\n\tZ  ");
        assert_eq!(out, b"a:X\r\nb:Y Z\r\n");
        assert_eq!(body_hash(b" C \r\nD \t E\r\n\r\n\r\n"), hash(b" C\r\nD E\r\n"));
        assert_eq!(body_hash(b""), hash(b""));
        assert_eq!(body_hash(b"\r\n\r\n"), hash(b""));
        assert_eq!(body_hash(b"a\r\n\r\nb"), hash(b"a\r\n\r\nb\r\n"));
        // The body of RFC 8463.
        let body = b"Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n";
        assert_eq!(body_hash(body), "2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for kind in [Kind::Rsa, Kind::Ed25519] {
            let error = Key::read("d", "s", kind, b"secret").expect_err("no key");
            assert_eq!(error, jwt::KeyError::NotPem);
        }
    }
}
