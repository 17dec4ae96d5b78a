//! Who asked for something: the answer that every record carries and that the audit log repeats.
//!
//! What must never happen: a secret, or a person. A key is named by its public id.

use std::sync::Arc;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Actor {
    /// Nobody: what the server does on its own.
    #[default]
    System,
    /// Whoever holds the server's admin key.
    Admin,
    /// Whoever holds the API key with this id.
    Key(Arc<str>),
    /// Whoever follows a link that was made for a recipient: the recipient, or whom it was passed on to.
    Recipient,
    /// A provider that called back: `provider:` and the id of the tenant's account. Made by [`Actor::provider`].
    Provider(Arc<str>),
}

impl Actor {
    /// The provider behind an account.
    #[must_use]
    pub fn provider(account: &str) -> Self {
        Self::Provider(format!("provider:{account}").into())
    }

    /// The id of the API key, if it is one.
    #[must_use]
    pub fn key_id(&self) -> Option<&str> {
        match self {
            Self::Key(id) => Some(id),
            Self::System | Self::Admin | Self::Recipient | Self::Provider(_) => None,
        }
    }

    /// As the audit log shows it. Ids of keys have twelve digits and capitals, unlike the words.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::System => "system",
            Self::Admin => "admin",
            Self::Key(id) => id,
            Self::Recipient => "recipient",
            Self::Provider(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: AUD-03
    #[test]
    fn everybody_has_a_name() {
        for (actor, name) in [
            (Actor::default(), "system"),
            (Actor::Admin, "admin"),
            (Actor::Key("0123456789AB".into()), "0123456789AB"),
            (Actor::Recipient, "recipient"),
            (Actor::provider("texts"), "provider:texts"),
        ] {
            assert_eq!(actor.name(), name);
        }
    }
}
