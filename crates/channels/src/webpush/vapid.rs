//! Who sends (RFC 8292): a signed token for each push service, used for half a day.
//!
//! What must never happen: a token for one origin that is sent to another, or one whose end lies more than a day ahead, as
//! the clock of the push service has it.

use super::keys::Secrets;
use fantail_rules::ids::Millis;
use hyper::header::HeaderValue;
use serde_json::json;

/// An hour less than a day: clocks differ.
const EXPIRES_S: u64 = 23 * 3_600;
/// A token is used for so long.
pub const USED_MS: u64 = 12 * 3_600 * 1_000;

pub struct Vapid {
    secrets: Secrets,
    subject: String,
}

impl Vapid {
    pub fn new(secrets: Secrets, subject: String) -> Self {
        Self { secrets, subject }
    }

    /// The `authorization` header for an origin; `now` is the wall time.
    pub fn header(&self, origin: &str, now: Millis) -> HeaderValue {
        let claims = json!({"aud": origin, "exp": now.0 / 1_000 + EXPIRES_S, "sub": self.subject});
        let token = self.secrets.signer.token(None, &claims);
        let text = format!("vapid t={token}, k={}", self.secrets.public_key());
        let mut header = HeaderValue::from_str(&text).expect("base64url and dots are a header");
        header.set_sensitive(true);
        header
    }

    pub fn public_key(&self) -> &str {
        self.secrets.public_key()
    }
}
