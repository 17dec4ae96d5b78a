//! Google's token endpoint: a signed assertion of a service account is exchanged for an access token.
//!
//! While no account is registered, any account of any project is good: only the form and the claims are checked.

use crate::emulator::{Call, Reply};
use crate::ids;
use crate::jwt::{Algorithm, Token};
use crate::record::hex;
use hyper::http::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const AUDIENCE: &str = "https://oauth2.googleapis.com/token";
const SCOPES: &[&str] =
    &["https://www.googleapis.com/auth/firebase.messaging", "https://www.googleapis.com/auth/cloud-platform"];
const LIFE_MS: u64 = 3_600_000;
/// Clocks differ a little.
const SKEW_MS: u64 = 300_000;
const TOKENS_MAX: usize = 100_000;
const ACCOUNTS_MAX: usize = 10_000;

/// A service account that Google would know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    pub project: String,
    pub public: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Oauth {
    accounts: Mutex<BTreeMap<String, Account>>,
    given: Mutex<HashMap<String, Given>>,
}

#[derive(Clone, Debug)]
struct Given {
    /// `None` for an account that nobody registered.
    project: Option<String>,
    expires_ms: u64,
}

/// Why an access token does not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
    Unauthenticated,
    OtherProject,
}

impl Oauth {
    /// `false` if there is no room.
    pub fn register(&self, email: &str, account: Account) -> bool {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = accounts.len() < ACCOUNTS_MAX || accounts.contains_key(email);
        if has_room {
            accounts.insert(email.to_owned(), account);
        }
        has_room
    }

    /// All access tokens are worth nothing from now on.
    pub fn revoke_tokens(&self) {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn exchange(&self, call: &Call) -> Reply {
        match self.check(call) {
            Err(description) => {
                let error = if description == "unsupported grant" {
                    "unsupported_grant_type"
                } else {
                    "invalid_grant"
                };
                let body = json!({"error": error, "error_description": description});
                Reply::json(StatusCode::BAD_REQUEST, &body)
            }
            Ok(project) => {
                let token = format!("ya29.{}", hex(&ids::bytes::<24>()));
                let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
                if given.len() >= TOKENS_MAX {
                    given.retain(|_, token| token.expires_ms > call.now_ms);
                }
                if given.len() >= TOKENS_MAX {
                    // Somebody asks anew for every message: all of them have to ask once more.
                    given.clear();
                }
                given.insert(token.clone(), Given { project, expires_ms: call.now_ms + LIFE_MS });
                let body = json!({"access_token": token, "expires_in": 3_599, "token_type": "Bearer"});
                Reply::json(StatusCode::OK, &body)
            }
        }
    }

    fn check(&self, call: &Call) -> Result<Option<String>, &'static str> {
        let body = String::from_utf8_lossy(&call.body);
        if form(&body, "grant_type").as_deref() != Some(GRANT) {
            return Err("unsupported grant");
        }
        let assertion = form(&body, "assertion").ok_or("no assertion")?;
        let token =
            Token::read(&assertion, Algorithm::Rs256).map_err(|_| "the assertion is no RS256 token")?;
        let issuer = token.text("iss").ok_or("iss is missing")?;
        let project = {
            let accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
            match accounts.get(issuer) {
                Some(account) => {
                    let verified = token.verify(Algorithm::Rs256, &account.public);
                    verified.map_err(|_| "Invalid JWT Signature.")?;
                    Some(account.project.clone())
                }
                None if accounts.is_empty() => None,
                None => return Err("Invalid grant: account not found"),
            }
        };
        let own = format!("{}://{}{}", if call.is_tls { "https" } else { "http" }, call.authority, call.path);
        if !token.text("aud").is_some_and(|audience| audience == AUDIENCE || audience == own) {
            return Err("aud is not the address of this endpoint");
        }
        let has_scope = |scopes: &str| scopes.split(' ').any(|scope| SCOPES.contains(&scope));
        if !token.text("scope").is_some_and(has_scope) {
            return Err("scope has no right to send messages");
        }
        let (issued, expires) = (token.seconds("iat").ok_or("iat")?, token.seconds("exp").ok_or("exp")?);
        let (issued_ms, expires_ms) = (issued.saturating_mul(1_000), expires.saturating_mul(1_000));
        if expires_ms > issued_ms.saturating_add(LIFE_MS) || expires_ms <= issued_ms {
            return Err("the token must live for an hour at most");
        }
        if issued_ms > call.now_ms + SKEW_MS || call.now_ms > expires_ms + SKEW_MS {
            return Err("the token is not valid now");
        }
        Ok(project)
    }

    pub fn authorize(&self, authorization: Option<&str>, project: &str, now_ms: u64) -> Result<(), Denied> {
        match self.project(authorization, now_ms)? {
            Some(own) if own != project => Err(Denied::OtherProject),
            Some(_) | None => Ok(()),
        }
    }

    /// Whose access token this is; `None` of an account that nobody registered.
    pub fn project(&self, authorization: Option<&str>, now_ms: u64) -> Result<Option<String>, Denied> {
        let (scheme, token) = authorization.and_then(|value| value.split_once(' ')).unwrap_or_default();
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        match given.get(token.trim()) {
            Some(found) if scheme.eq_ignore_ascii_case("bearer") && now_ms < found.expires_ms => {
                Ok(found.project.clone())
            }
            Some(_) | None => Err(Denied::Unauthenticated),
        }
    }
}

/// A field of a form.
fn form(body: &str, name: &str) -> Option<String> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (decoded(key), decoded(value)))
        .find(|(key, _)| key == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded() {
        assert_eq!(form("a=1&b=x%20y+z", "b"), Some("x y z".to_owned()));
        assert_eq!(form("a=1", "b"), None);
    }
}
