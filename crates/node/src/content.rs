//! What a notification says, by channel, as one frozen piece of bytes.
//!
//! ```text
//! content = JSON object (begins with `{`): the same for every channel
//!         | 1, then for each channel: kind: u8, length: u32 little-endian, JSON object
//! ```
//! Comes from: acceptance, where it is rendered once and never again. Goes to: inboxes and channels, each its own.

use fantail_rules::channel_kind::ChannelKind;

const BY_CHANNEL: u8 = 1;

/// Packs the contents of some channels.
#[must_use]
pub fn pack(contents: &[(ChannelKind, Vec<u8>)]) -> Vec<u8> {
    let mut packed = vec![BY_CHANNEL];
    for (kind, bytes) in contents {
        packed.push(*kind as u8);
        packed.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        packed.extend_from_slice(bytes);
    }
    packed
}

/// The content for a channel; where there is none of its own, what the inbox shows, or else the first.
#[must_use]
pub fn pick(content: &[u8], kind: ChannelKind) -> &[u8] {
    let Some((&BY_CHANNEL, mut rest)) = content.split_first() else { return content };
    let mut found: &[u8] = &[];
    while let Some((head, tail)) = rest.split_at_checked(5) {
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some((bytes, after)) = tail.split_at_checked(length) else { break };
        if head[0] == kind as u8 {
            return bytes;
        }
        if found.is_empty() || head[0] == ChannelKind::InApp as u8 {
            found = bytes;
        }
        rest = after;
    }
    found
}

/// What a channel carries of something sensitive: that there is something. Its reader has the rest from the inbox.
#[must_use]
pub fn generic(kind: ChannelKind) -> &'static [u8] {
    match kind {
        ChannelKind::Push | ChannelKind::InApp | ChannelKind::Webhook => {
            br#"{"title":"You have a new notification","body":"Open the app to read it."}"#
        }
        ChannelKind::Email => br#"{"subject":"You have a new notification","text":"Sign in to read it."}"#,
        ChannelKind::Sms => br#"{"body":"You have a new notification. Sign in to read it."}"#,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: PSH-08
    #[test]
    fn generic_content_is_json_for_every_channel() {
        for kind in ChannelKind::ALL {
            let content: serde_json::Value = serde_json::from_slice(generic(kind)).expect("JSON");
            assert!(content.as_object().is_some_and(|fields| !fields.is_empty()), "{kind:?}");
        }
    }

    #[test]
    fn every_channel_gets_its_own_or_the_inbox_content() {
        let contents = vec![
            (ChannelKind::Push, b"{\"p\":1}".to_vec()),
            (ChannelKind::InApp, b"{\"i\":1}".to_vec()),
            (ChannelKind::Email, b"{\"e\":1}".to_vec()),
        ];
        let packed = pack(&contents);
        for (kind, expected) in [
            (ChannelKind::Push, "{\"p\":1}"),
            (ChannelKind::InApp, "{\"i\":1}"),
            (ChannelKind::Email, "{\"e\":1}"),
            (ChannelKind::Sms, "{\"i\":1}"),
        ] {
            assert_eq!(pick(&packed, kind), expected.as_bytes());
            assert_eq!(pick(b"{}", kind), b"{}");
        }
        assert_eq!(pick(&pack(&contents[..1]), ChannelKind::Sms), b"{\"p\":1}");
        for cut in 0..packed.len() {
            let _whole_or_nothing = pick(&packed[..cut], ChannelKind::Email);
        }
    }
}
