//! Who sends (RFC 8292): `Authorization: vapid t=…, k=…`.

use crate::jwt::{Algorithm, Token};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const LIFE_MS_MAX: u64 = 86_400_000;

/// What a push service wants to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strictness {
    /// `sub` is optional.
    Standard,
    /// `sub` must be an address somebody could write to.
    Apple,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VapidError {
    #[error("there is no VAPID token")]
    Missing,
    #[error("the token or its key cannot be read")]
    Form,
    #[error("the signature is not of the key")]
    Signature,
    #[error("aud is not the origin of the endpoint")]
    Audience,
    #[error("exp is in the past, or more than a day ahead")]
    Expiry,
    #[error("sub is no address of a person")]
    Subject,
    #[error("the subscription belongs to another key")]
    OtherKey,
}

pub struct Terms<'a> {
    pub origin: &'a str,
    /// The key that the subscription was made with.
    pub bound_to: Option<&'a [u8]>,
    pub strictness: Strictness,
    pub now_ms: u64,
}

pub fn check(authorization: Option<&str>, terms: &Terms<'_>) -> Result<(), VapidError> {
    let Some(given) = authorization else {
        let is_needed = terms.bound_to.is_some() || terms.strictness == Strictness::Apple;
        return if is_needed { Err(VapidError::Missing) } else { Ok(()) };
    };
    let (token, key) = parse(given).ok_or(VapidError::Missing)?;
    let key = URL_SAFE_NO_PAD.decode(key).map_err(|_| VapidError::Form)?;
    let token = Token::read(token, Algorithm::Es256).map_err(|_| VapidError::Form)?;
    token.verify(Algorithm::Es256, &key).map_err(|_| VapidError::Signature)?;
    if token.text("aud") != Some(terms.origin) {
        return Err(VapidError::Audience);
    }
    let expires_ms = token.seconds("exp").ok_or(VapidError::Expiry)?.saturating_mul(1_000);
    if expires_ms <= terms.now_ms || expires_ms > terms.now_ms + LIFE_MS_MAX {
        return Err(VapidError::Expiry);
    }
    match (terms.strictness, token.text("sub")) {
        (Strictness::Standard, None) => {}
        (Strictness::Apple, None) => return Err(VapidError::Subject),
        (strictness, Some(subject)) => check_subject(subject, strictness)?,
    }
    match terms.bound_to {
        Some(bound_to) if bound_to != key => Err(VapidError::OtherKey),
        Some(_) | None => Ok(()),
    }
}

/// `vapid t=TOKEN, k=KEY`, in any order.
fn parse(authorization: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("vapid") {
        return None;
    }
    let part = |name: &str| {
        let mut parts = rest.split(',').map(str::trim);
        parts.find_map(|part| part.strip_prefix(name)).map(|value| value.trim_matches('"'))
    };
    Some((part("t=")?, part("k=")?))
}

/// `Standard` wants the form of a URL and no more: Mozilla takes `mailto:` alone.
fn check_subject(subject: &str, strictness: Strictness) -> Result<(), VapidError> {
    let domain = match subject.strip_prefix("mailto:") {
        Some(mailbox) => Some(mailbox.split_once('@').map_or("", |(_, domain)| domain)),
        None => subject.strip_prefix("https://").map(|rest| rest.split('/').next().unwrap_or_default()),
    };
    let is_plausible = |domain: &str| {
        domain.contains('.') && !domain.ends_with(".local") && !domain.contains(char::is_whitespace)
    };
    match (domain, strictness) {
        (None, _) => Err(VapidError::Subject),
        (Some(domain), Strictness::Apple) if !is_plausible(domain) => Err(VapidError::Subject),
        (Some(_), Strictness::Standard | Strictness::Apple) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jwt::tests::Signer;
    use serde_json::{Value, json};

    const NOW_MS: u64 = 1_800_000_000_000;
    const ORIGIN: &str = "https://push.example";

    fn header(signer: &Signer, claims: &Value) -> String {
        let key = URL_SAFE_NO_PAD.encode(signer.public());
        format!("vapid t={}, k={key}", signer.token(&json!({"alg": "ES256", "typ": "JWT"}), claims))
    }

    fn judge(
        authorization: Option<&str>,
        bound_to: Option<&[u8]>,
        strictness: Strictness,
    ) -> Result<(), VapidError> {
        check(authorization, &Terms { origin: ORIGIN, bound_to, strictness, now_ms: NOW_MS })
    }

    // fixes: interop small
    #[test]
    fn tokens_are_judged_claim_by_claim() {
        let (signer, other) = (Signer::new(), Signer::new());
        let now = NOW_MS / 1_000;
        let claims = |aud: &str, exp: u64, sub: Value| json!({"aud": aud, "exp": exp, "sub": sub});
        let mail = || json!("mailto:ops@example.org");
        let (standard, apple) = (Strictness::Standard, Strictness::Apple);
        for (claims, strictness, expected) in [
            (claims(ORIGIN, now + 100, mail()), apple, Ok(())),
            (claims(ORIGIN, now + 100, Value::Null), standard, Ok(())),
            (claims(ORIGIN, now + 100, Value::Null), apple, Err(VapidError::Subject)),
            (claims(ORIGIN, now + 100, json!("mailto:me@localhost")), apple, Err(VapidError::Subject)),
            (claims(ORIGIN, now + 100, json!("mailto:me@localhost")), standard, Ok(())),
            (claims(ORIGIN, now + 100, json!("mailto:")), standard, Ok(())),
            (claims(ORIGIN, now + 100, json!("mailto:")), apple, Err(VapidError::Subject)),
            (claims(ORIGIN, now + 100, json!("ops@example.org")), standard, Err(VapidError::Subject)),
            (claims(ORIGIN, now + 100, json!("https://example.org/contact")), apple, Ok(())),
            (claims("https://other.example", now + 100, mail()), standard, Err(VapidError::Audience)),
            (claims("https://push.example/", now + 100, mail()), standard, Err(VapidError::Audience)),
            (claims(ORIGIN, now, mail()), standard, Err(VapidError::Expiry)),
            (claims(ORIGIN, now + 86_400, mail()), standard, Ok(())),
            (claims(ORIGIN, now + 86_401, mail()), standard, Err(VapidError::Expiry)),
        ] {
            let given = header(&signer, &claims);
            assert_eq!(judge(Some(&given), None, strictness), expected, "{claims}");
        }
        let given = header(&signer, &claims(ORIGIN, now + 100, mail()));
        assert_eq!(judge(Some(&given), Some(&signer.public()), standard), Ok(()));
        assert_eq!(judge(Some(&given), Some(&other.public()), standard), Err(VapidError::OtherKey));
        let foreign = format!(
            "{}, k={}",
            given.split(", k=").next().expect("a token"),
            URL_SAFE_NO_PAD.encode(other.public())
        );
        assert_eq!(judge(Some(&foreign), None, standard), Err(VapidError::Signature));
    }

    #[test]
    fn a_token_is_needed_where_a_key_is_bound() {
        assert_eq!(judge(None, None, Strictness::Standard), Ok(()));
        assert_eq!(judge(None, None, Strictness::Apple), Err(VapidError::Missing));
        assert_eq!(judge(None, Some(&[4]), Strictness::Standard), Err(VapidError::Missing));
        assert_eq!(judge(Some("WebPush abc"), None, Strictness::Standard), Err(VapidError::Missing));
        assert_eq!(judge(Some("vapid t=a.b.c, k=AAAA"), None, Strictness::Standard), Err(VapidError::Form));
        assert_eq!(parse("Vapid k=K,t=T"), Some(("T", "K")));
    }
}
