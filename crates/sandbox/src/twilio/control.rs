//! Commands: accounts and their secrets, the speed of senders, who said STOP, and messages that people write.
//!
//! ```text
//! PUT    /twilio/accounts/{sid}    {"authToken", "apiKeys": {sid: secret}, "sharedKey": {"id", "secret"}, "suspended"}
//! PUT    /twilio/senders/{sender}  {"perSecond", "queueSeconds", "inboundUrl"}
//! GET    /twilio/stopped           [{"sender", "number"}]
//! POST   /twilio/inbound           {"from", "to", "body", "account", "url"}    STOP, START and anything else
//! ```

use super::accounts::Account;
use super::form::Form;
use super::{STOPPED_MAX, Twilio, callbacks};
use crate::emulator::{ControlCall, ControlReply};
use crate::ids;
use crate::record::hex;
use hyper::http::StatusCode;
use serde_json::{Value, json};

const STOP_WORDS: &[&str] = &["STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "REVOKE", "OPTOUT"];
const START_WORDS: &[&str] = &["START", "YES", "UNSTOP"];

impl Twilio {
    pub(super) async fn command(&self, ask: &ControlCall) -> Option<ControlReply> {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        match (ask.method.as_str(), path.as_slice()) {
            ("PUT", ["accounts", sid]) => Some(self.register(sid, &ask.body)),
            ("PUT", ["senders", sender]) => Some(self.set_sender(sender, &ask.body)),
            ("GET", ["stopped"]) => {
                let pairs = |(sender, number): &(String, String)| json!({"sender": sender, "number": number});
                Some(ControlReply::ok(self.state().stopped.iter().map(pairs).collect()))
            }
            ("POST", ["inbound"]) => Some(self.inbound(&ask.body).await),
            _ => None,
        }
    }

    fn register(&self, sid: &str, body: &Value) -> ControlReply {
        let Some(auth_token) = body["authToken"].as_str().filter(|token| !token.is_empty()) else {
            return ControlReply::bad("authToken is missing");
        };
        let keys = body["apiKeys"].as_object().into_iter().flatten();
        let api_keys =
            keys.filter_map(|(id, secret)| Some((id.clone(), secret.as_str()?.to_owned()))).collect();
        let shared = &body["sharedKey"];
        let shared_key = shared["id"].as_str().zip(shared["secret"].as_str());
        let account = Account {
            auth_token: auth_token.to_owned(),
            api_keys,
            shared_key: shared_key.map(|(id, secret)| (id.to_owned(), secret.to_owned())),
            is_registered: true,
            is_suspended: body["suspended"] == json!(true),
        };
        if self.state().accounts.register(sid, account) {
            ControlReply::ok(json!({"sid": sid}))
        } else {
            ControlReply::bad("there are too many accounts")
        }
    }

    fn set_sender(&self, sender: &str, body: &Value) -> ControlReply {
        let queue_ms_max = body["queueSeconds"].as_u64().map(|seconds| seconds.saturating_mul(1_000));
        let mut state = self.state();
        state.senders.set(sender, body["perSecond"].as_f64(), queue_ms_max);
        if let Some(url) = body["inboundUrl"].as_str() {
            state.inbound_urls.insert(sender.to_owned(), url.to_owned());
        }
        ControlReply::ok(json!({"sender": sender}))
    }

    /// Somebody writes to one of our numbers. Twilio keeps the list of those who said STOP by itself.
    async fn inbound(&self, body: &Value) -> ControlReply {
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let (from, to, said) = (text("from"), text("to"), text("body"));
        if from.is_empty() || to.is_empty() {
            return ControlReply::bad("from and to are needed");
        }
        let word = said.trim().to_uppercase();
        let pair = (to.to_owned(), from.to_owned());
        let (account, url) = {
            let mut state = self.state();
            if STOP_WORDS.contains(&word.as_str()) && state.stopped.len() < STOPPED_MAX {
                state.stopped.insert(pair);
            } else if START_WORDS.contains(&word.as_str()) {
                state.stopped.remove(&pair);
            }
            let url = body["url"].as_str().map(str::to_owned).or_else(|| state.inbound_urls.get(to).cloned());
            (state.accounts.get(text("account")).cloned(), url)
        };
        let Some((account, url)) = account.zip(url) else {
            return ControlReply::ok(json!({"told": null}));
        };
        let sid = format!("SM{}", hex(&ids::bytes::<16>()));
        let mut form = Form::default();
        for (name, value) in [
            ("AccountSid", text("account")),
            ("ApiVersion", "2010-04-01"),
            ("Body", said),
            ("From", from),
            ("MessageSid", &sid),
            ("NumMedia", "0"),
            ("NumSegments", "1"),
            ("SmsMessageSid", &sid),
            ("SmsSid", &sid),
            ("SmsStatus", "received"),
            ("To", to),
        ] {
            form.push(name, value);
        }
        let status = callbacks::send(&self.world, &account, &url, &form).await;
        let told = status.as_ref().map(StatusCode::as_u16);
        ControlReply::ok(json!({"sid": sid, "told": told}))
    }
}
