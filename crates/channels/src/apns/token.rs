//! Provider tokens: one for each (team, key) in the whole process, made anew seldom.
//!
//! Apple refuses a token after 60 minutes, and one that was made less than 20 minutes after the one before. So it is made
//! anew after 45, sooner only when Apple calls it expired, and never below the floor. Making one happens under a lock:
//! whoever finds a fresh one uses it.
//!
//! What must never happen: a token per connection, per app or per request.

use fantail_outbound::jwt::Signer;
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use hyper::header::HeaderValue;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

const REFRESH_MS: u64 = 45 * 60_000;
const FLOOR_MS: u64 = 20 * 60_000;
const LIFE_MS: u64 = 60 * 60_000;
/// More keys than any house has; those that nobody holds make room.
const KEYS_MAX: usize = 10_000;

/// A key that makes tokens for one team.
pub struct Credential {
    team: String,
    kid: String,
    signer: Arc<Signer>,
    minted: Arc<Minted>,
}

/// The `authorization` header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bearer(pub HeaderValue);

#[derive(Default)]
struct Minted {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Token>,
    /// What `current` replaced: good again if Apple does not want to hear of the new one yet.
    before: Option<Token>,
    /// Also of a token that was taken back.
    last_minted_at: Option<Millis>,
}

#[derive(Clone)]
struct Token {
    bearer: Bearer,
    minted_at: Millis,
}

/// Team, key id and public key: a corrected key is another one.
type Name = (String, String, Vec<u8>);
static PROCESS: LazyLock<Mutex<BTreeMap<Name, Arc<Minted>>>> = LazyLock::new(Mutex::default);

impl Credential {
    pub fn new(team: &str, kid: &str, signer: Arc<Signer>) -> Self {
        let name = (team.to_owned(), kid.to_owned(), signer.public().to_vec());
        let mut process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if process.len() >= KEYS_MAX {
            process.retain(|_, minted| Arc::strong_count(minted) > 1);
        }
        let minted = Arc::clone(process.entry(name).or_default());
        Self { team: team.to_owned(), kid: kid.to_owned(), signer, minted }
    }

    /// The one that is in use; the first one, or a new one when it is time.
    pub fn current(&self, clock: &dyn Clock) -> Bearer {
        let now = clock.monotonic();
        let mut state = self.lock();
        if let Some(token) = state.current.as_ref().filter(|token| now < token.minted_at.plus(REFRESH_MS)) {
            return token.bearer.clone();
        }
        match state.current.clone() {
            // A new one was taken back, and it is too early for the next.
            Some(token) if state.floor_ms(now) > 0 => token.bearer,
            Some(_) | None => self.mint(&mut state, now, clock),
        }
    }

    /// Apple calls this one expired. Whether there is another one, or how long there cannot be.
    pub fn expired(&self, refused: &Bearer, clock: &dyn Clock) -> Result<(), u64> {
        let now = clock.monotonic();
        let mut state = self.lock();
        if state.current.as_ref().is_some_and(|token| token.bearer != *refused) {
            return Ok(());
        }
        match state.floor_ms(now) {
            0 => {
                self.mint(&mut state, now, clock);
                Ok(())
            }
            wait_ms => Err(wait_ms),
        }
    }

    /// Apple has heard of too many. The old one is used again, if it still lives; otherwise how long to wait.
    pub fn too_many(&self, refused: &Bearer, clock: &dyn Clock) -> Result<(), u64> {
        let now = clock.monotonic();
        let mut state = self.lock();
        if state.current.as_ref().is_some_and(|token| token.bearer != *refused) {
            return Ok(());
        }
        match state.before.take_if(|token| now < token.minted_at.plus(LIFE_MS)) {
            Some(old) => {
                state.current = Some(old);
                Ok(())
            }
            None => Err(state.floor_ms(now).max(1)),
        }
    }

    fn mint(&self, state: &mut State, now: Millis, clock: &dyn Clock) -> Bearer {
        let claims = json!({"iss": self.team, "iat": clock.wall().0 / 1_000});
        let text = format!("bearer {}", self.signer.token(Some(&self.kid), &claims));
        let mut value = HeaderValue::from_str(&text).expect("base64url and points are letters of a header");
        value.set_sensitive(true);
        let bearer = Bearer(value);
        state.before = state.current.replace(Token { bearer: bearer.clone(), minted_at: now });
        state.last_minted_at = Some(now);
        bearer
    }

    /// Every critical section leaves the state whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.minted.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How long until another one may be made.
    fn floor_ms(&self, now: Millis) -> u64 {
        self.last_minted_at.map_or(0, |at| at.plus(FLOOR_MS).0.saturating_sub(now.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use fantail_memory::clock::ManualClock;
    use serde_json::Value;

    const MINUTE: u64 = 60_000;

    struct House {
        clock: ManualClock,
        credential: Credential,
    }

    fn house() -> House {
        let pem = rcgen::KeyPair::generate().expect("a key").serialize_pem();
        let signer = Arc::new(Signer::es256_pem(pem.as_bytes()).expect("a key"));
        let clock = ManualClock::new(Millis(1_700_000_000_000));
        House { clock, credential: Credential::new("TEAM", "KEY1", signer) }
    }

    fn claims(bearer: &Bearer) -> Value {
        let text = bearer.0.to_str().expect("ASCII");
        let part = text.split('.').nth(1).expect("three parts");
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64url")).expect("JSON")
    }

    // proves: PSH-02
    #[test]
    fn a_token_is_made_once_and_anew_after_45_minutes() {
        let House { clock, credential } = house();
        let first = credential.current(&clock);
        assert_eq!(claims(&first), json!({"iss": "TEAM", "iat": 1_700_000_000}));
        let again = Credential::new("TEAM", "KEY1", Arc::clone(&credential.signer));
        assert_eq!(again.current(&clock), first, "one for the whole process");
        let other_team = Credential::new("TEAM2", "KEY1", Arc::clone(&credential.signer));
        assert_ne!(other_team.current(&clock), first);
        clock.advance(45 * MINUTE - 1);
        assert_eq!(credential.current(&clock), first);
        clock.advance(1);
        let second = credential.current(&clock);
        assert_ne!(second, first);
        assert_eq!(again.current(&clock), second);
        assert_eq!(claims(&second)["iat"], 1_700_000_000 + 45 * 60);
        assert_eq!(format!("{first:?}"), "Bearer(Sensitive)");
    }

    // proves: PSH-02
    #[test]
    fn an_expired_token_is_replaced_but_not_before_the_floor() {
        let House { clock, credential } = house();
        let first = credential.current(&clock);
        clock.advance(19 * MINUTE);
        assert_eq!(credential.expired(&first, &clock), Err(MINUTE));
        assert_eq!(credential.current(&clock), first);
        clock.advance(MINUTE);
        assert_eq!(credential.expired(&first, &clock), Ok(()));
        let second = credential.current(&clock);
        assert_ne!(second, first);
        assert_eq!(credential.expired(&first, &clock), Ok(()), "somebody else was faster");
        assert_eq!(credential.current(&clock), second);
    }

    // proves: PSH-02
    #[test]
    fn too_many_updates_bring_the_old_token_back() {
        let House { clock, credential } = house();
        let first = credential.current(&clock);
        assert_eq!(credential.too_many(&first, &clock), Err(20 * MINUTE), "there is no older one");
        clock.advance(45 * MINUTE);
        let second = credential.current(&clock);
        assert_eq!(credential.too_many(&second, &clock), Ok(()));
        assert_eq!(credential.current(&clock), first, "old enough to be replaced, but it is too early");
        assert_eq!(credential.too_many(&second, &clock), Ok(()), "said by several requests");
        clock.advance(20 * MINUTE);
        let third = credential.current(&clock);
        assert!(third != first && third != second);
    }
}
