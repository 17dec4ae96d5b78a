//! Users without a name: whoever a producer reaches by an address alone.
//!
//! Such a user is known by the keyed hash of its address, as others are by that of their id, and is made when it is first
//! written to. What must never happen: a name that a producer could give to somebody, so it begins with a control
//! character, which no id may contain; an address in full where somebody looks at what became of a message.

use crate::channel_kind::ChannelKind;

const MARK: char = '\u{1}';

/// The name of the user behind an address.
#[must_use]
pub fn name(kind: ChannelKind, identity: &str) -> String {
    format!("{MARK}{}{MARK}{identity}", kind.name())
}

/// What may be shown of the address, if this is the name of such a user.
#[must_use]
pub fn shown(name: &str) -> Option<String> {
    let (_, identity) = name.strip_prefix(MARK)?.split_once(MARK)?;
    Some(masked(identity))
}

/// Enough to recognise an address that one knows, and no more.
#[must_use]
pub fn masked(identity: &str) -> String {
    let first: String = identity.chars().take(1).collect();
    if let Some((scheme, rest)) = identity.split_once("://") {
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        return format!("{scheme}://{host}/***");
    }
    if let Some((_, domain)) = identity.rsplit_once('@') {
        return format!("{first}***@{domain}");
    }
    let count = identity.chars().count();
    let head: String = identity.chars().take(3).collect();
    let tail: String = identity.chars().skip(count.saturating_sub(2)).collect();
    if count > 7 { format!("{head}***{tail}") } else { "***".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_in_part() {
        for (kind, identity, expected) in [
            (ChannelKind::Email, "ann.lee@example.com", "a***@example.com"),
            (ChannelKind::Email, "a@b.io", "a***@b.io"),
            (ChannelKind::Sms, "+436601234567", "+43***67"),
            (ChannelKind::Webhook, "https://example.org/hooks/7?key=secret", "https://example.org/***"),
            (ChannelKind::Webhook, "https://example.org", "https://example.org/***"),
            (ChannelKind::Sms, "+4366", "***"),
        ] {
            assert_eq!(shown(&name(kind, identity)).as_deref(), Some(expected));
            assert_eq!(masked(identity), expected);
        }
    }

    #[test]
    fn nobody_else_is_nameless() {
        for id in ["ann", "ann@example.com", "", "email\u{1}ann"] {
            assert_eq!(shown(id), None, "{id}");
        }
        assert_ne!(name(ChannelKind::Email, "x"), name(ChannelKind::Sms, "x"));
    }
}
