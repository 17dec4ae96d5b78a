//! FCM as a function: the token says how it is answered. And a channel that is connected to it.

use super::parcel::{message, send, shipment, told};
use super::service::{Reaction, Seen, Service};
use super::time::Time;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fantail_channels::fcm::{Fcm, Secrets, Settings};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_ports::channel::Message;
use fantail_rules::ids::Millis;
use fantail_rules::push_address::{FcmKind, PushAddress, Service as PushService};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::runtime::{Builder, Runtime};

/// Made once: a key of 2,048 bits takes a while.
pub fn private_key_pem() -> &'static str {
    static PEM: OnceLock<String> = OnceLock::new();
    PEM.get_or_init(|| {
        let key = KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der = key.as_der().expect("its PKCS#8");
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der.as_ref()))
    })
}

/// How the next questions for a token are answered; without any, well.
pub type TokenAnswers = Arc<Mutex<Vec<Reaction>>>;

pub struct Desk {
    pub runtime: Runtime,
    pub time: Arc<Time>,
    pub service: Service,
    pub fcm: Arc<Fcm>,
    pub token_answers: TokenAnswers,
}

pub fn address(kind: FcmKind, project: Option<&str>, token: &str) -> Vec<u8> {
    let service = PushService::Fcm { kind, project, token };
    PushAddress { service, registered_at: Millis(1) }.write().into_bytes()
}

pub fn to(token: &str) -> Message {
    message("ref-1", &address(FcmKind::Token, None, token))
}

impl Desk {
    pub fn new() -> Self {
        Self::with(json!({"projectId": "p1"}))
    }

    pub fn with(settings: Value) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime");
        let time = Time::new(Some(runtime.handle().clone()));
        let token_answers = TokenAnswers::default();
        let answers = Arc::clone(&token_answers);
        let given = Mutex::new(0);
        let react = move |seen: &Seen| {
            if seen.path != "/token" {
                return send_reaction(seen);
            }
            if let Some(reaction) = answers.lock().expect("no panic").pop() {
                return reaction;
            }
            let mut given = given.lock().expect("no panic");
            *given += 1;
            Reaction::body(
                200,
                &json!({"access_token": format!("access-{given}"), "expires_in": 3_600}).to_string(),
            )
        };
        let service = runtime.block_on(Service::start(runtime.handle(), Arc::new(react)));
        let fcm = Arc::new(open(&service, &time, settings));
        Self { runtime, time, service, fcm, token_answers }
    }

    pub fn send(&self, messages: Vec<Message>) -> Vec<String> {
        let shipment = shipment(messages);
        self.runtime.block_on(send(&*self.fcm, &shipment)).iter().map(told).collect()
    }

    /// Requests that were no questions for a token.
    pub fn sends(&self) -> Vec<Seen> {
        self.service.seen().into_iter().filter(|seen| seen.path != "/token").collect()
    }

    pub fn questions(&self) -> Vec<Seen> {
        self.service.seen().into_iter().filter(|seen| seen.path == "/token").collect()
    }
}

pub fn open(service: &Service, time: &Arc<Time>, mut settings: Value) -> Fcm {
    let base = format!("http://{}", service.address);
    settings["endpoint"] = base.clone().into();
    let secrets = secrets(&base);
    let (settings, secrets) = (Settings::read(&settings), Secrets::read(&secrets));
    let ports = Ports { clock: time.clone(), tasks: time.clone(), connector: Connector::of_operator() };
    Fcm::open(settings.expect("good settings"), secrets.expect("good secrets"), ports).expect("a channel")
}

/// Those of an account whose tokens come from here.
pub fn secrets(base: &str) -> Value {
    json!({"serviceAccount": {
        "type": "service_account",
        "project_id": "p1",
        "private_key_id": "key-1",
        "private_key": private_key_pem(),
        "client_email": "sender@p1.iam.example",
        "token_uri": format!("{base}/token"),
    }})
}

/// The text before a `-` says what the device is like.
fn send_reaction(seen: &Seen) -> Reaction {
    let body: Value = serde_json::from_slice(&seen.body).expect("JSON");
    let message = &body["message"];
    if body["validate_only"] == true {
        return Reaction::body(200, r#"{"name":"projects/p1/messages/fake_message_id"}"#);
    }
    let token = message["token"].as_str().or(message["fid"].as_str()).expect("a token");
    let fault = |status: u16, code: &str| {
        let details =
            json!([{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}]);
        let error = json!({"code": status, "status": code, "message": "x", "details": details});
        Reaction::body(status, &json!({"error": error}).to_string())
    };
    match token.split('-').next().unwrap_or_default() {
        "ok" => Reaction::body(200, r#"{"name":"projects/p1/messages/1"}"#),
        "unregistered" => fault(404, "UNREGISTERED"),
        "mismatch" => fault(403, "SENDER_ID_MISMATCH"),
        "malformed" => fault(400, "INVALID_ARGUMENT"),
        "quota" => fault(429, "QUOTA_EXCEEDED"),
        "busy" => fault(503, "UNAVAILABLE").with("retry-after", "9"),
        "page" => Reaction::body(502, "<!DOCTYPE html><title>Error 502</title>"),
        "unauthenticated" => fault(401, "UNAUTHENTICATED"),
        // Refused as long as it is the first one.
        "stale" if seen.header("authorization") == "Bearer access-1" => fault(401, "UNAUTHENTICATED"),
        "stale" => Reaction::body(200, r#"{"name":"projects/p1/messages/2"}"#),
        "silent" => Reaction::Close,
        other => panic!("no device is called {other}"),
    }
}
