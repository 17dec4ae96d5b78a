//! Accounts and who may use them. One that nobody registered may be used with any password, which is then its token: so
//! that a client needs no preparation. A registered one is checked.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;

const ACCOUNTS_MAX: usize = 1_000;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    pub auth_token: String,
    /// Secrets of API keys by SID.
    pub api_keys: BTreeMap<String, String>,
    /// Signs callbacks with SHA-256 instead of the token: id and secret.
    pub shared_key: Option<(String, String)>,
    pub is_registered: bool,
    pub is_suspended: bool,
}

#[derive(Debug, Default)]
pub struct Accounts(BTreeMap<String, Account>);

impl Accounts {
    /// The account that the call is for, if the credential is good for it.
    pub fn check(&mut self, sid: &str, authorization: Option<&str>) -> Option<Account> {
        let (user, password) = basic(authorization?)?;
        let is_sid =
            sid.len() == 34 && sid.starts_with("AC") && sid[2..].bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_sid || password.is_empty() {
            return None;
        }
        let fresh = Account { auth_token: password.clone(), ..Account::default() };
        let account = match self.0.get(sid) {
            Some(known) if known.is_registered => known,
            _ if self.0.len() >= ACCOUNTS_MAX && !self.0.contains_key(sid) => return None,
            _ if user != sid => self.0.entry(sid.to_owned()).or_default(),
            _ => {
                self.0.insert(sid.to_owned(), fresh);
                self.0.get(sid)?
            }
        };
        let fits = match account.is_registered {
            true if user == sid => password == account.auth_token,
            true => account.api_keys.get(&user).is_some_and(|secret| *secret == password),
            false => user == sid || user.starts_with("SK"),
        };
        fits.then(|| account.clone())
    }

    #[must_use]
    pub fn get(&self, sid: &str) -> Option<&Account> {
        self.0.get(sid)
    }

    /// `false` if there are too many.
    pub fn register(&mut self, sid: &str, account: Account) -> bool {
        let there_is_room = self.0.len() < ACCOUNTS_MAX || self.0.contains_key(sid);
        if there_is_room {
            self.0.insert(sid.to_owned(), Account { is_registered: true, ..account });
        }
        there_is_room
    }
}

fn basic(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    scheme.eq_ignore_ascii_case("basic").then(|| (user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SID: &str = "AC00000000000000000000000000000001";

    fn check(accounts: &mut Accounts, user: &str, password: &str) -> Option<String> {
        let header = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        accounts.check(SID, Some(&header)).map(|account| account.auth_token)
    }

    #[test]
    fn a_registered_account_is_checked_and_others_take_any_password() {
        let mut accounts = Accounts::default();
        assert_eq!(check(&mut accounts, SID, "any").as_deref(), Some("any"));
        assert_eq!(check(&mut accounts, SID, ""), None);
        assert_eq!(check(&mut accounts, "AC2", "any"), None);
        assert_eq!(check(&mut accounts, "SK1", "any").as_deref(), Some("any"));
        let api_keys = [("SK1".to_owned(), "secret".to_owned())].into();
        assert!(
            accounts.register(SID, Account { auth_token: "token".into(), api_keys, ..Account::default() })
        );
        assert_eq!(check(&mut accounts, SID, "any"), None);
        assert_eq!(check(&mut accounts, SID, "token").as_deref(), Some("token"));
        assert_eq!(check(&mut accounts, "SK1", "secret").as_deref(), Some("token"));
        assert_eq!(check(&mut accounts, "SK1", "token"), None);
        assert_eq!(accounts.check(SID, None), None);
        assert_eq!(accounts.check(SID, Some("Bearer x")), None);
    }
}
