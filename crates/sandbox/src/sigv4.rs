//! Whether a request was signed as AWS Signature Version 4 says, by a key that we know. Written from the standard; the sender has
//! code of its own.

use crate::emulator::Call;
use crate::record::{hex, sha256};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Known from the beginning, so that nothing has to be set up.
pub const KEY_ID: &str = "AKIDSANDBOX";
pub const SECRET: &str = "sandbox-secret";
const KEYS_MAX: usize = 1_000;
/// AWS allows a clock to be wrong by so much.
const SKEW_SECONDS_MAX: u64 = 15 * 60;

pub struct Keys(Mutex<BTreeMap<String, String>>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    Missing,
    Incomplete,
    UnknownKey,
    Skewed,
    WrongService,
    Mismatch,
}

impl Denied {
    /// As AWS calls it.
    pub fn code(self) -> &'static str {
        match self {
            Self::Missing => "MissingAuthenticationTokenException",
            Self::Incomplete => "IncompleteSignatureException",
            Self::UnknownKey => "UnrecognizedClientException",
            Self::Skewed => "RequestExpired",
            Self::WrongService | Self::Mismatch => "SignatureDoesNotMatch",
        }
    }
}

impl Default for Keys {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::from([(KEY_ID.to_owned(), SECRET.to_owned())])))
    }
}

impl Keys {
    pub fn add(&self, id: &str, secret: &str) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() < KEYS_MAX {
            keys.insert(id.to_owned(), secret.to_owned());
        }
    }

    pub fn check(&self, call: &Call, service: &str) -> Result<(), Denied> {
        let header = call.header("authorization").ok_or(Denied::Missing)?;
        let rest = header.strip_prefix("AWS4-HMAC-SHA256").ok_or(Denied::Incomplete)?;
        let field = |name: &str| {
            rest.split(',').map(str::trim).find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
        };
        let (Some(credential), Some(names), Some(given)) =
            (field("Credential"), field("SignedHeaders"), field("Signature"))
        else {
            return Err(Denied::Incomplete);
        };
        let time = call.header("x-amz-date").ok_or(Denied::Incomplete)?;
        let scope: Vec<&str> = credential.split('/').collect();
        let [id, day, region, of, "aws4_request"] = scope[..] else { return Err(Denied::Incomplete) };
        if !time.starts_with(day)
            || seconds(time).is_none_or(|at| at.abs_diff(call.now_ms / 1_000) > SKEW_SECONDS_MAX)
        {
            return Err(Denied::Skewed);
        }
        if of != service {
            return Err(Denied::WrongService);
        }
        let secret = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let secret = secret.ok_or(Denied::UnknownKey)?;
        let names: Vec<&str> = names.split(';').collect();
        // Whoever leaves these out could be replayed elsewhere.
        if !names.contains(&"host") || !names.contains(&"x-amz-date") {
            return Err(Denied::Incomplete);
        }
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n{time}\n{day}/{region}/{of}/aws4_request\n{}",
            hex(&sha256(canonical(call, &names).as_bytes())),
        );
        let mut key = format!("AWS4{secret}").into_bytes();
        for part in [day, region, of, "aws4_request"] {
            key = sign(&Key::new(HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec();
        }
        let expected = hex(sign(&Key::new(HMAC_SHA256, &key), to_sign.as_bytes()).as_ref());
        if expected == given { Ok(()) } else { Err(Denied::Mismatch) }
    }
}

fn canonical(call: &Call, names: &[&str]) -> String {
    let mut path = String::new();
    for byte in call.path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => path.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => path.push(char::from(byte)),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    let mut query: Vec<String> = call
        .query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=") })
        .collect();
    query.sort();
    let mut text = format!("{}\n{path}\n{}\n", call.method, query.join("&"));
    for name in names {
        let values: Vec<String> = call
            .headers
            .get_all(*name)
            .iter()
            .map(|value| {
                String::from_utf8_lossy(value.as_bytes()).split_whitespace().collect::<Vec<_>>().join(" ")
            })
            .collect();
        // Over HTTP/2 the host is not a header.
        let value = match (values.is_empty(), *name) {
            (true, "host") => call.authority.clone(),
            _ => values.join(","),
        };
        text.push_str(&format!("{name}:{value}\n"));
    }
    let hash =
        call.header("x-amz-content-sha256").map(str::to_owned).unwrap_or_else(|| hex(&sha256(&call.body)));
    format!("{text}\n{}\n{hash}", names.join(";"))
}

/// Since 1970, of `20261116T083000Z`.
fn seconds(time: &str) -> Option<u64> {
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    if digits.len() != 14 || time.len() != 16 {
        return None;
    }
    let number = |from: usize, to: usize| digits[from..to].parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    if year < 1970 || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    // Years begin in March here, so that the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + number(8, 10)? * 3_600 + number(10, 12)? * 60 + number(12, 14)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted() {
        assert_eq!(seconds("19700101T000000Z"), Some(0));
        assert_eq!(seconds("20261116T083000Z"), Some(1_794_817_800));
        assert_eq!(seconds("20240229T000000Z"), Some(1_709_164_800));
        for wrong in ["", "2026-11-16T08:30", "20261316T083000Z", "20261116T083000"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
