//! Who asked for something: the answer that every record carries and that the audit log repeats.
//!
//! What must never happen: a secret, or a person. A key is named by its public id.

use std::borrow::Cow;
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
    /// A provider that called back, through the tenant's account with this id.
    Provider(Arc<str>),
}

impl Actor {
    /// As the audit log shows it. Ids of keys have twelve digits and capitals, unlike the words.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self {
            Self::System => "system".into(),
            Self::Admin => "admin".into(),
            Self::Key(id) => id.as_ref().into(),
            Self::Recipient => "recipient".into(),
            Self::Provider(account) => format!("provider:{account}").into(),
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
            (Actor::Provider("texts".into()), "provider:texts"),
        ] {
            assert_eq!(actor.name(), name);
        }
    }
}
