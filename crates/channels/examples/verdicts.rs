//! What our code says about what others made, for `interop`: one question in JSON per line, one answer per line.
//!
//! ```text
//! {"ask": "segments", "text"}                                  → {"encoding", "units", "segments"}
//! {"ask": "callback", "url", "signature", "settings", "body", "isForm", "secrets"}       → {"trusted", "reason"}
//! {"ask": "sign", "secrets", "id", "timestamp", "body"}        → {"signature"}
//! {"ask": "verify", "secret", "headers", "body", "now"}        → {"trusted"}
//! {"ask": "public", "secret"}                                  → {"public"}
//! ```

use anyhow::{Context, Result, bail};
use fantail_channels::twilio::Secrets;
use fantail_channels::twilio::signature::{Signed, validate};
use fantail_channels::webhook::signature::sign;
use fantail_channels::webhook::{Public, Secret, verify, verify_public};
use fantail_rules::ids::Millis;
use fantail_rules::sms::{Encoding, segments};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::io::{BufRead, Write, stdin, stdout};

fn main() -> Result<()> {
    for line in stdin().lock().lines() {
        let ask: Value = serde_json::from_str(&line?).context("a question is JSON")?;
        writeln!(stdout(), "{}", answer(&ask)?)?;
    }
    Ok(())
}

fn answer(ask: &Value) -> Result<Value> {
    match text(ask, "ask")? {
        "segments" => {
            let found = segments(text(ask, "text")?);
            let encoding = match found.encoding {
                Encoding::Gsm7 => "GSM-7",
                Encoding::Ucs2 => "UCS-2",
            };
            Ok(json!({"encoding": encoding, "units": found.units, "segments": found.segments}))
        }
        "callback" => {
            let secrets = Secrets::read(&ask["secrets"])?;
            let request = Signed {
                url: text(ask, "url")?,
                signature: ask["signature"].as_str(),
                settings: ask["settings"].as_str(),
                is_form: ask["isForm"] != json!(false),
                body: text(ask, "body")?.as_bytes(),
            };
            Ok(match validate(&request, &secrets) {
                Ok(_) => json!({"trusted": true}),
                Err(error) => json!({"trusted": false, "reason": error.to_string()}),
            })
        }
        "sign" => {
            let secrets: Vec<Secret> = ask["secrets"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|secret| Ok(Secret::parse(secret.as_str().unwrap_or_default())?))
                .collect::<Result<_>>()?;
            let timestamp = ask["timestamp"].as_u64().context("timestamp")?;
            let signature = sign(&secrets, text(ask, "id")?, timestamp, text(ask, "body")?.as_bytes());
            Ok(json!({"signature": signature}))
        }
        "verify" => {
            let now = Millis(ask["now"].as_u64().context("now")? * 1_000);
            let (headers, body) = (headers(&ask["headers"])?, text(ask, "body")?.as_bytes());
            let secret = text(ask, "secret")?;
            let verdict = match Public::parse(secret) {
                Ok(public) => verify_public(public, &headers, body, now),
                Err(_) => verify(&Secret::parse(secret)?, &headers, body, now),
            };
            Ok(json!({"trusted": verdict.is_ok()}))
        }
        "public" => {
            let public = Secret::parse(text(ask, "secret")?)?.public().context("a private key")?;
            Ok(json!({"public": public.to_string()}))
        }
        other => bail!("nobody knows `{other}`"),
    }
}

fn text<'a>(ask: &'a Value, name: &'static str) -> Result<&'a str> {
    ask[name].as_str().context(name)
}

fn headers(given: &Value) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in given.as_object().context("headers")? {
        let value = HeaderValue::from_str(value.as_str().unwrap_or_default())?;
        headers.insert(HeaderName::from_bytes(name.as_bytes())?, value);
    }
    Ok(headers)
}
