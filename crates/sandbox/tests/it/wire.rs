//! Frame by frame, as they stand on the wire: what a client library would hide. Requests are written by hand too, so that
//! they can be what no library would send.

use crate::client::{ProviderKey, control, start, tls};
use fantail_sandbox::Running;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
const REFUSED_STREAM: u32 = 7;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

struct Wire(TlsStream<TcpStream>);

impl Wire {
    /// Without ALPN, and with settings of its own.
    async fn open(running: &Running) -> Self {
        let mut wire = Self(tls(running, running.shared(), "api.push.apple.com", &[]).await);
        wire.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent");
        wire.write(SETTINGS, 0, 0, &[]).await;
        wire
    }

    async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.0.write_all(&[&head, payload].concat()).await.expect("sent");
    }

    async fn read(&mut self) -> Frame {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.expect("a frame");
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.0.read_exact(&mut payload).await.expect("a payload");
        Frame { kind, flags, stream: u32::from_be_bytes(stream), payload }
    }

    /// The next of these kinds; acknowledgements and window updates are passed over.
    async fn next(&mut self, kinds: &[u8]) -> Frame {
        loop {
            let frame = self.read().await;
            if kinds.contains(&frame.kind) && !(frame.kind == SETTINGS && frame.flags == ACK) {
                return frame;
            }
        }
    }

    /// HEADERS and DATA of a push, with `host` instead of `:authority`.
    async fn push(&mut self, stream: u32, token: &str, device: &str) {
        let authorization = format!("bearer {token}");
        let path = format!("/3/device/{device}");
        let block: Vec<u8> = [
            (":method", "POST"),
            (":scheme", "https"),
            (":path", &path),
            ("host", "api.push.apple.com"),
            ("apns-topic", "com.example.app"),
            ("authorization", &authorization),
        ]
        .iter()
        .flat_map(|(name, value)| field(name, value))
        .collect();
        self.write(HEADERS, END_HEADERS, stream, &block).await;
        self.write(DATA, END_STREAM, stream, b"{\"aps\":{}}").await;
    }
}

/// A header that is written out: not indexed, not compressed.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| {
        let length = text.len();
        let mut bytes = match u8::try_from(length) {
            Ok(short) if short < 127 => vec![short],
            _ => {
                let rest = length - 127;
                let low = u8::try_from(rest % 128).expect("seven bits");
                let high = u8::try_from(rest / 128).expect("short");
                if high == 0 { vec![127, low] } else { vec![127, low | 128, high] }
            }
        };
        bytes.extend(text.as_bytes());
        bytes
    };
    [vec![0], text(name), text(value)].concat()
}

/// The number of streams that a SETTINGS frame announces.
fn streams(frame: &Frame) -> Option<u32> {
    let entries = frame.payload.chunks_exact(6);
    entries
        .filter(|entry| entry[..2] == [0, 3])
        .map(|entry| u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]))
        .next()
}

fn device(first: &str) -> String {
    format!("{first:0<64}")
}

#[tokio::test]
async fn settings_rise_before_the_first_success_and_errors_are_one_frame() {
    let running = start().await;
    let token = ProviderKey::new().token("TEAM", running.world().clock().now_ms());
    let mut wire = Wire::open(&running).await;
    let first = wire.next(&[SETTINGS]).await;
    assert_eq!(streams(&first), Some(1));
    wire.write(SETTINGS, ACK, 0, &[]).await;
    wire.push(1, &token, &device("aa")).await;
    let kinds = [SETTINGS, HEADERS, DATA, RST_STREAM, GOAWAY];
    let raised = wire.next(&kinds).await;
    assert_eq!((raised.kind, streams(&raised)), (SETTINGS, Some(1_000)));
    wire.write(SETTINGS, ACK, 0, &[]).await;
    let success = wire.next(&kinds).await;
    assert_eq!((success.kind, success.stream, success.flags & END_STREAM), (HEADERS, 1, END_STREAM));
    wire.push(3, &token, &device("bad00400")).await;
    let head = wire.next(&kinds).await;
    assert_eq!((head.kind, head.stream, head.flags & END_STREAM), (HEADERS, 3, 0));
    let body = wire.next(&kinds).await;
    assert_eq!((body.kind, body.stream, body.flags & END_STREAM), (DATA, 3, END_STREAM));
    assert_eq!(body.payload, b"{\"reason\":\"BadDeviceToken\"}");
    control(&running, "POST", "/goaway/apns", &json!({})).await;
    let away = wire.next(&kinds).await;
    assert_eq!((away.kind, away.stream, &away.payload[..8]), (GOAWAY, 0, &[0, 0, 0, 3, 0, 0, 0, 0][..]));
    let reason: Value = serde_json::from_slice(&away.payload[8..]).expect("JSON");
    assert_eq!(reason["reason"], "Shutdown");
}

#[tokio::test]
async fn a_second_stream_is_refused_until_a_token_was_good() {
    let running = start().await;
    let token = ProviderKey::new().token("TEAM", running.world().clock().now_ms());
    let mut wire = Wire::open(&running).await;
    wire.next(&[SETTINGS]).await;
    wire.write(SETTINGS, ACK, 0, &[]).await;
    // The first has no end yet, so it stays open; and it shows no token.
    let path = field(":path", &format!("/3/device/{}", device("aa")));
    let block = [field(":method", "POST"), field(":scheme", "https"), path].concat();
    wire.write(HEADERS, END_HEADERS, 1, &block).await;
    wire.push(3, &token, &device("aa")).await;
    let refused = wire.next(&[HEADERS, RST_STREAM]).await;
    assert_eq!(
        (refused.kind, refused.stream, &refused.payload[..]),
        (RST_STREAM, 3, &REFUSED_STREAM.to_be_bytes()[..])
    );
    wire.write(DATA, END_STREAM, 1, b"{}").await;
    let answer = wire.next(&[HEADERS, RST_STREAM]).await;
    assert_eq!((answer.kind, answer.stream), (HEADERS, 1));
    wire.push(5, &token, &device("aa")).await;
    let success = wire.next(&[HEADERS, RST_STREAM]).await;
    assert_eq!((success.kind, success.stream, success.flags & END_STREAM), (HEADERS, 5, END_STREAM));
}
