//! What a notification says, by channel, as one frozen piece of bytes.
//!
//! ```text
//! content = JSON object (begins with `{`): the same for every channel
//!         | 1, then for each channel: kind: u8, length: u32 little-endian, JSON object; of earlier versions
//!         | 2, …: editions, by channel, locale and variant; see `fantail_templates::Editions`
//! ```
//! Comes from: acceptance, where it is rendered once and never again. Goes to: inboxes and channels, each its own.

use fantail_rules::channel_kind::ChannelKind;
use fantail_templates::{EDITIONS, Editions, Reader};

const BY_CHANNEL: u8 = 1;

/// The content for a channel; where there is none of its own, what the inbox shows, or else the first. Of editions that
/// differ, the one of a reader of whom nothing is known.
#[must_use]
pub fn pick(content: &[u8], kind: ChannelKind) -> &[u8] {
    match content.first() {
        Some(&BY_CHANNEL) => by_channel(&content[1..], kind),
        Some(&EDITIONS) => {
            let Some(editions) = Editions::read(content) else { return &[] };
            editions.body(editions.choose(&Reader::default()), kind).map_or(&[], |body| body.bytes)
        }
        Some(_) | None => content,
    }
}

/// Editions that readers get different ones of.
#[must_use]
pub fn editions(content: &[u8]) -> Option<Editions<'_>> {
    Editions::read(content).filter(Editions::differ)
}

fn by_channel(mut rest: &[u8], kind: ChannelKind) -> &[u8] {
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
    fn what_earlier_versions_packed_is_read() {
        let (push, inbox, email) =
            (b"\x01\x07\0\0\0{\"p\":1}", b"\0\x07\0\0\0{\"i\":1}", b"\x02\x07\0\0\0{\"e\":1}");
        let packed = [&[BY_CHANNEL][..], push, inbox, email].concat();
        for (kind, expected) in [
            (ChannelKind::Push, "{\"p\":1}"),
            (ChannelKind::InApp, "{\"i\":1}"),
            (ChannelKind::Email, "{\"e\":1}"),
            (ChannelKind::Sms, "{\"i\":1}"),
        ] {
            assert_eq!(pick(&packed, kind), expected.as_bytes());
            assert_eq!(pick(b"{}", kind), b"{}");
        }
        assert_eq!(pick(&packed[..13], ChannelKind::Sms), b"{\"p\":1}");
        for cut in 0..packed.len() {
            assert!(pick(&packed[..cut], ChannelKind::Email).len() <= 7, "whole or another or nothing");
        }
    }
}
