//! Who may send: provider tokens, judged as Apple judges them, with a memory per connection.
//!
//! One connection belongs to one team. A token lives for an hour; a connection that shows another one sooner than 20
//! minutes after the last is told so, and its old token stays good.

use crate::jwt::{Algorithm, Token};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

const TOKEN_MS_MAX: u64 = 3_600_000;
const CHANGE_MS_MIN: u64 = 1_200_000;
/// Clocks differ a little.
const FUTURE_MS_MAX: u64 = 10_000;
const CONNECTIONS_MAX: usize = 100_000;
const KEYS_MAX: usize = 10_000;

/// A key that Apple would know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    pub team: String,
    /// A point, or the DER of a SubjectPublicKeyInfo.
    pub public: Vec<u8>,
    /// Apps the key may send for; all of the team's if there are none.
    pub topics: Vec<String>,
}

/// Keys by id. While there are none, any key is good: only the form of its signature is checked.
#[derive(Debug, Default)]
pub struct Keys {
    known: Mutex<BTreeMap<String, Key>>,
}

impl Keys {
    /// `false` if there is no room.
    pub fn register(&self, kid: &str, key: Key) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = known.len() < KEYS_MAX || known.contains_key(kid);
        if has_room {
            known.insert(kid.to_owned(), key);
        }
        has_room
    }

    /// Whether there was one.
    pub fn revoke(&self, kid: &str) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(kid).is_some()
    }

    fn find(&self, kid: &str) -> Result<Option<Key>, &'static str> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(kid) {
            None if known.is_empty() => Ok(None),
            None => Err("InvalidProviderToken"),
            Some(key) => Ok(Some(key.clone())),
        }
    }
}

/// What a connection has shown.
#[derive(Debug)]
pub struct Shown {
    token: String,
    issued_ms: u64,
    team: String,
    /// What it may send for; everything if there are none.
    pub topics: Vec<String>,
    changed_ms: u64,
}

#[derive(Debug, Default)]
pub struct Credentials {
    pub keys: Keys,
    shown: Mutex<HashMap<u64, Arc<Shown>>>,
}

impl Credentials {
    /// Whose token this is, or Apple's reason.
    pub fn check(
        &self,
        connection: u64,
        authorization: Option<&str>,
        now_ms: u64,
    ) -> Result<Arc<Shown>, &'static str> {
        let text = bearer(authorization).ok_or("MissingProviderToken")?;
        let before = self.shown.lock().unwrap_or_else(PoisonError::into_inner).get(&connection).cloned();
        if let Some(shown) = before.as_ref().filter(|shown| shown.token == text) {
            check_age(shown.issued_ms, now_ms)?;
            return Ok(Arc::clone(shown));
        }
        let mut fresh = self.read(text, now_ms)?;
        if let Some(before) = before {
            if before.team != fresh.team {
                return Err("InvalidProviderToken");
            }
            if now_ms < before.changed_ms + CHANGE_MS_MIN {
                return Err("TooManyProviderTokenUpdates");
            }
        }
        fresh.changed_ms = now_ms;
        let fresh = Arc::new(fresh);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.len() < CONNECTIONS_MAX {
            shown.insert(connection, Arc::clone(&fresh));
        }
        Ok(fresh)
    }

    pub fn forget(&self, connection: u64) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).remove(&connection);
    }

    fn read(&self, text: &str, now_ms: u64) -> Result<Shown, &'static str> {
        let invalid = "InvalidProviderToken";
        let token = Token::read(text, Algorithm::Es256EitherForm).map_err(|_| invalid)?;
        let kid = token.header["kid"].as_str().filter(|kid| !kid.is_empty()).ok_or(invalid)?;
        let team = token.text("iss").filter(|team| !team.is_empty()).ok_or(invalid)?.to_owned();
        let issued_ms = token.seconds("iat").ok_or(invalid)?.saturating_mul(1_000);
        let mut topics = Vec::new();
        if let Some(key) = self.keys.find(kid)? {
            token.verify(Algorithm::Es256EitherForm, &key.public).map_err(|_| invalid)?;
            if key.team != team {
                return Err(invalid);
            }
            topics = key.topics;
        }
        check_age(issued_ms, now_ms)?;
        Ok(Shown { token: text.to_owned(), issued_ms, team, topics, changed_ms: 0 })
    }
}

fn check_age(issued_ms: u64, now_ms: u64) -> Result<(), &'static str> {
    if issued_ms > now_ms + FUTURE_MS_MAX {
        return Err("InvalidProviderToken");
    }
    if now_ms > issued_ms + TOKEN_MS_MAX { Err("ExpiredProviderToken") } else { Ok(()) }
}

/// `bearer` in any case.
fn bearer(authorization: Option<&str>) -> Option<&str> {
    let (scheme, token) = authorization?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jwt::tests::Signer;
    use serde_json::json;

    const NOW_MS: u64 = 1_800_000_000_000;

    fn token(signer: &Signer, kid: &str, team: &str, issued_ms: u64) -> String {
        let token = signer
            .token(&json!({"alg": "ES256", "kid": kid}), &json!({"iss": team, "iat": issued_ms / 1_000}));
        format!("bearer {token}")
    }

    fn known(signer: &Signer) -> Credentials {
        let credentials = Credentials::default();
        let key = Key { team: "TEAM".to_owned(), public: signer.public(), topics: Vec::new() };
        assert!(credentials.keys.register("KEY", key));
        credentials
    }

    #[test]
    fn tokens_are_judged_as_apple_does() {
        let (signer, other) = (Signer::new(), Signer::new());
        let good = token(&signer, "KEY", "TEAM", NOW_MS);
        for (authorization, expected) in [
            (None, Err("MissingProviderToken")),
            (Some("bearer ".to_owned()), Err("MissingProviderToken")),
            (Some("basic abc".to_owned()), Err("MissingProviderToken")),
            (Some("bearer abc".to_owned()), Err("InvalidProviderToken")),
            (Some(format!("{good}=")), Err("InvalidProviderToken")),
            (Some(token(&other, "KEY", "TEAM", NOW_MS)), Err("InvalidProviderToken")),
            (Some(token(&signer, "KEY2", "TEAM", NOW_MS)), Err("InvalidProviderToken")),
            (Some(token(&signer, "KEY", "TEAM2", NOW_MS)), Err("InvalidProviderToken")),
            (Some(token(&signer, "KEY", "TEAM", NOW_MS + 60_000)), Err("InvalidProviderToken")),
            (Some(token(&signer, "KEY", "TEAM", NOW_MS - 3_601_000)), Err("ExpiredProviderToken")),
            (Some(token(&signer, "KEY", "TEAM", NOW_MS - 3_599_000)), Ok(())),
            (Some(good.replace("bearer", "BeArEr")), Ok(())),
        ] {
            let found = known(&signer).check(1, authorization.as_deref(), NOW_MS).map(|_| ());
            assert_eq!(found, expected, "{authorization:?}");
        }
    }

    // fixes: interop F2
    #[test]
    fn the_signature_of_a_token_may_be_in_der() {
        let (signer, other) = (Signer::new(), Signer::new());
        let (header, claims) =
            (json!({"alg": "ES256", "kid": "KEY"}), json!({"iss": "TEAM", "iat": NOW_MS / 1_000}));
        for (by, expected) in [(&signer, Ok(())), (&other, Err("InvalidProviderToken"))] {
            let authorization = format!("bearer {}", by.token_in_der(&header, &claims));
            let found = known(&signer).check(1, Some(&authorization), NOW_MS).map(|_| ());
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_token_ends_while_its_connection_lives() {
        let signer = Signer::new();
        let credentials = known(&signer);
        let good = token(&signer, "KEY", "TEAM", NOW_MS);
        assert!(credentials.check(1, Some(&good), NOW_MS).is_ok());
        let late = credentials.check(1, Some(&good), NOW_MS + 3_600_001).map(|_| ());
        assert_eq!(late, Err("ExpiredProviderToken"));
    }

    #[test]
    fn a_connection_has_one_team_and_changes_its_token_seldom() {
        let (signer, credentials) = (Signer::new(), Credentials::default());
        let show = |connection: u64, team: &str, issued_ms: u64, now_ms: u64| {
            let token = token(&signer, "K", team, issued_ms);
            credentials.check(connection, Some(&token), now_ms).map(|_| ())
        };
        let first = token(&signer, "K", "A", NOW_MS);
        assert!(credentials.check(1, Some(&first), NOW_MS).is_ok());
        assert_eq!(show(1, "B", NOW_MS, NOW_MS), Err("InvalidProviderToken"));
        assert_eq!(show(2, "B", NOW_MS, NOW_MS), Ok(()));
        let soon = NOW_MS + 1_199_000;
        assert_eq!(show(1, "A", soon, soon), Err("TooManyProviderTokenUpdates"));
        assert!(credentials.check(1, Some(&first), soon).is_ok(), "the old one stays good");
        let later = NOW_MS + 1_200_000;
        assert_eq!(show(1, "A", later, later), Ok(()));
        assert_eq!(show(1, "A", later, later + 5), Err("TooManyProviderTokenUpdates"));
        credentials.forget(1);
        assert_eq!(show(1, "B", later, later + 5), Ok(()));
    }

    #[test]
    fn a_revoked_key_is_unknown_once_others_are_known() {
        let signer = Signer::new();
        let credentials = known(&signer);
        let key = Key { team: "T".to_owned(), public: signer.public(), topics: Vec::new() };
        assert!(credentials.keys.register("OTHER", key));
        assert!(credentials.keys.revoke("KEY"));
        assert!(!credentials.keys.revoke("KEY"));
        let old = token(&signer, "KEY", "TEAM", NOW_MS);
        let found = credentials.check(1, Some(&old), NOW_MS).map(|_| ());
        assert_eq!(found, Err("InvalidProviderToken"));
    }
}
