//! What a notification says, by channel, as one frozen piece of bytes.
//!
//! ```text
//! content = JSON object (begins with `{`): the same for every channel
//!         | 1, then for each channel: kind: u8, length: u32 little-endian, JSON object; of earlier versions
//!         | 2, …: editions, by channel, locale and variant; see `fantail_templates::Editions`
//! ```
//! Comes from: acceptance, where it is rendered once and never again. Goes to: inboxes and channels, each its own.

use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::limits::{BODY_TEXT_BYTES_MAX, TITLE_BYTES_MAX};
use fantail_templates::{EDITIONS, Edition, Editions, Reader};
use fantail_wire::event::Content;
use serde_json::{Map, Value};
use std::borrow::Cow;

const BY_CHANNEL: u8 = 1;

/// The content for a channel; where there is none of its own, what the inbox shows, or else the first. Of editions that
/// differ, the one of a reader of whom nothing is known.
#[must_use]
pub fn pick(content: &[u8], kind: ChannelKind) -> &[u8] {
    match content.first() {
        Some(&BY_CHANNEL) => by_channel(&content[1..], kind).1,
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

/// What the inbox shows: what was written for it, or else what another channel says, as a title and a text. `None` if
/// there is nothing for people to read: it was erased, or it is a webhook's.
#[must_use]
pub fn in_inbox(content: &[u8]) -> Option<Cow<'_, [u8]>> {
    match *content.first()? {
        BY_CHANNEL => {
            let (kind, bytes) = by_channel(&content[1..], ChannelKind::InApp);
            for_inbox(kind, bytes)
        }
        EDITIONS => {
            let editions = Editions::read(content)?;
            edition_in_inbox(&editions, editions.choose(&Reader::default()))
        }
        _ => Some(Cow::Borrowed(content)),
    }
}

/// What the inbox shows of one edition.
#[must_use]
pub fn edition_in_inbox<'a>(editions: &Editions<'a>, edition: &Edition<'_>) -> Option<Cow<'a, [u8]>> {
    let (kind, body) = editions.body_and_channel(edition, ChannelKind::InApp)?;
    for_inbox(kind, body.bytes)
}

fn for_inbox(kind: ChannelKind, bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    match kind {
        _ if bytes.is_empty() => None,
        ChannelKind::InApp => Some(Cow::Borrowed(bytes)),
        ChannelKind::Webhook => None,
        ChannelKind::Push | ChannelKind::Email | ChannelKind::Sms => {
            let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return None };
            let content = readable(fields)?;
            Some(Cow::Owned(
                serde_json::to_vec(&content).expect("content has string keys and finite numbers"),
            ))
        }
    }
}

/// A push, mail or text message as a title and a text. Without a title the text is the title, as far as it fits.
fn readable(mut fields: Map<String, Value>) -> Option<Content> {
    let mut text = |names: [&str; 2]| {
        names.iter().find_map(|name| match fields.remove(*name) {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        })
    };
    let (title, body) = (text(["title", "subject"]), text(["body", "text"]));
    let (mut title, mut body) = match (title, body) {
        (Some(title), body) => (title, body),
        (None, Some(body)) if body.len() <= TITLE_BYTES_MAX => (body, None),
        (None, Some(body)) => (body.clone(), Some(body)),
        (None, None) => return None,
    };
    title.truncate(title.floor_char_boundary(TITLE_BYTES_MAX));
    if let Some(body) = &mut body {
        body.truncate(body.floor_char_boundary(BODY_TEXT_BYTES_MAX));
    }
    Some(Content {
        title,
        body,
        image_url: text(["imageUrl", ""]),
        data: match fields.remove("data") {
            Some(Value::Object(data)) => Some(data),
            _ => None,
        },
        actions: fields
            .remove("actions")
            .and_then(|list| serde_json::from_value(list).ok())
            .unwrap_or_default(),
    })
}

/// The bytes for a channel, and the channel that they were written for.
fn by_channel(mut rest: &[u8], kind: ChannelKind) -> (ChannelKind, &[u8]) {
    let mut found: (ChannelKind, &[u8]) = (kind, &[]);
    while let Some((head, tail)) = rest.split_at_checked(5) {
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some((bytes, after)) = tail.split_at_checked(length) else { break };
        let Some(own) = ChannelKind::from_stored(head[0]) else { break };
        if own == kind {
            return (own, bytes);
        }
        if found.1.is_empty() || own == ChannelKind::InApp {
            found = (own, bytes);
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

    // fixes: torture 5
    #[test]
    fn inboxes_show_a_title_whatever_the_channel() {
        let long = "x".repeat(TITLE_BYTES_MAX + 1);
        let (sms, title) = (format!(r#"{{"body":"{long}"}}"#), &long[1..]);
        for (kind, bytes, expected) in [
            (ChannelKind::InApp, r#"{"title":"a"}"#, Some(r#"{"title":"a"}"#.to_owned())),
            (
                ChannelKind::Email,
                r#"{"subject":"a","html":"<p>","text":"b"}"#,
                Some(r#"{"title":"a","body":"b"}"#.into()),
            ),
            (ChannelKind::Email, r#"{"subject":"a","html":"<p>"}"#, Some(r#"{"title":"a"}"#.into())),
            (ChannelKind::Sms, r#"{"body":"a"}"#, Some(r#"{"title":"a"}"#.into())),
            (ChannelKind::Sms, &sms, Some(format!(r#"{{"title":"{title}","body":"{long}"}}"#))),
            (
                ChannelKind::Push,
                r#"{"title":"a","body":"b","data":{"k":1},"imageUrl":"https://i","subtitle":"s","sound":"x"}"#,
                Some(r#"{"title":"a","body":"b","data":{"k":1},"imageUrl":"https://i"}"#.into()),
            ),
            (ChannelKind::Push, r#"{"body":"b","data":{}}"#, Some(r#"{"title":"b","data":{}}"#.into())),
            (ChannelKind::Webhook, r#"{"contentType":"application/json","body":"{}"}"#, None),
            (ChannelKind::Sms, "{}", None),
            (ChannelKind::Sms, "", None),
        ] {
            let shown = for_inbox(kind, bytes.as_bytes())
                .map(|shown| String::from_utf8(shown.into_owned()).expect("text"));
            assert_eq!(shown, expected, "{kind:?} {bytes}");
            let length = u32::try_from(bytes.len()).expect("short").to_le_bytes();
            let packed = [&[BY_CHANNEL, kind as u8][..], &length, bytes.as_bytes()].concat();
            assert_eq!(in_inbox(&packed), for_inbox(kind, bytes.as_bytes()), "{kind:?} {bytes}");
        }
        assert_eq!(in_inbox(b"{}"), Some(Cow::Borrowed(&b"{}"[..])));
        assert_eq!(in_inbox(b""), None);
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
