//! What a rendered message costs: segments of a text message, bytes of a push against what providers take, sizes of an
//! email.

use crate::limits::PUSH_PAYLOAD_BYTES_MAX;
use crate::render::Rendered;
use fantail_rules::sms::{Encoding, segments};
use fantail_wire::template::{Channel, Preview, SmsEncoding};
use serde_json::Value;

#[must_use]
pub fn preview(channel: Channel, rendered: &Rendered) -> Preview {
    let bytes = rendered.bytes.len() as u64;
    let content: Value = serde_json::from_slice(&rendered.bytes).expect("a rendered message is JSON");
    let field = |name: &str| content.get(name).and_then(Value::as_str).unwrap_or_default();
    match channel {
        Channel::Push => {
            let payload_bytes_max = PUSH_PAYLOAD_BYTES_MAX as u64;
            Preview::Push { payload_bytes: bytes, payload_bytes_max, fits: bytes <= payload_bytes_max }
        }
        Channel::Email => Preview::Email {
            subject_bytes: field("subject").len() as u64,
            html_bytes: field("html").len() as u64,
            text_bytes: field("text").len() as u64,
        },
        Channel::Sms => {
            let counted = segments(field("body"));
            Preview::Sms {
                encoding: match counted.encoding {
                    Encoding::Gsm7 => SmsEncoding::Gsm7,
                    Encoding::Ucs2 => SmsEncoding::Ucs2,
                },
                units: counted.units as u64,
                segments: counted.segments as u64,
                units_per_segment: counted.units_per_segment as u64,
            }
        }
        Channel::InApp => Preview::InApp { bytes },
        Channel::Webhook => Preview::Webhook { bytes },
    }
}
