//! FCM against a desk on this machine: what is sent, what each end is called, tokens, projects, quotas.

use super::fcm_desk::{Desk, address, open, private_key_pem, to};
use super::parcel::{message, send, shipment, told};
use super::service::Reaction;
use super::time::WALL;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fantail_channels::probe::Hop;
use fantail_conformance::channel::{Behaviour, Rig, channel_suite};
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Channel, Message, Report, Shipment};
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use fantail_rules::priority::Priority;
use fantail_rules::push_address::FcmKind;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

#[test]
fn every_end_of_an_attempt_has_its_name() {
    for (token, expected) in [
        ("ok", "accepted"),
        ("unregistered", "rejected DeadEndpoint UNREGISTERED"),
        ("mismatch", "rejected DeadEndpoint SENDER_ID_MISMATCH"),
        ("malformed", "rejected Malformed INVALID_ARGUMENT"),
        ("quota", "later Some(60000) Origin QUOTA_EXCEEDED"),
        ("busy", "later Some(9000) Message UNAVAILABLE"),
        ("page", "later None Message 502"),
        ("unauthenticated", "later Some(60000) Credential UNAUTHENTICATED"),
        ("stale", "accepted"),
        ("silent", "unknown reset"),
    ] {
        assert_eq!(Desk::new().send(vec![to(token)]), [expected], "{token}");
    }
}

// proves: PSH-02
#[test]
fn the_assertion_is_signed_and_one_token_serves_everybody() {
    let desk = Desk::new();
    let answers = desk.send((0..50).map(|number| to(&format!("ok-{number}"))).collect());
    assert!(answers.iter().all(|answer| answer == "accepted"), "{answers:?}");
    let [question] = &desk.questions()[..] else { panic!("one question for fifty messages") };
    let form = String::from_utf8(question.body.to_vec()).expect("text");
    let assertion = form
        .strip_prefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=")
        .expect("a form");
    let (signed, signature) = assertion.rsplit_once('.').expect("three parts");
    let read = |part: &str| URL_SAFE_NO_PAD.decode(part).expect("base64url");
    let key = PrivatePkcs8KeyDer::from_pem_slice(private_key_pem().as_bytes()).expect("a key");
    let key = KeyPair::from_pkcs8(key.secret_pkcs8_der()).expect("a key");
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
    public.verify(signed.as_bytes(), &read(signature)).expect("our signature");
    let claims: Value =
        serde_json::from_slice(&read(signed.split_once('.').expect("two parts").1)).expect("JSON");
    let issued_s = WALL.0 / 1_000;
    assert_eq!(
        claims,
        json!({
            "iss": "sender@p1.iam.example",
            "scope": "https://www.googleapis.com/auth/firebase.messaging",
            "aud": format!("http://{}/token", desk.service.address),
            "iat": issued_s,
            "exp": issued_s + 3_600,
        })
    );
    assert!(desk.sends().iter().all(|seen| seen.header("authorization") == "Bearer access-1"));
    assert!(desk.sends().iter().all(|seen| seen.path == "/v1/projects/p1/messages:send"));
}

// proves: PSH-02
#[test]
fn tokens_are_renewed_before_they_expire() {
    let desk = Desk::new();
    assert_eq!(desk.send(vec![to("ok")]), ["accepted"]);
    desk.time.advance(2_879_999);
    let mut late = shipment(vec![to("ok")]);
    let mut send_at = |ms| {
        late.deadline = desk.time.monotonic().plus(ms);
        desk.runtime.block_on(send(&*desk.fcm, &late)).iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(send_at(1_000), ["accepted"]);
    assert_eq!(desk.questions().len(), 1, "not yet");
    desk.time.advance(1);
    assert_eq!(send_at(1_000), ["accepted"], "with the old one, while another is asked for");
    desk.runtime.block_on(desk.service.wait_for(5));
    assert_eq!(desk.questions().len(), 2);
}

#[test]
fn a_failed_question_is_not_asked_by_everybody() {
    let desk = Desk::new();
    let refused = Reaction::body(400, r#"{"error":"invalid_grant","error_description":"hidden"}"#);
    desk.token_answers.lock().expect("no panic").push(refused);
    let answers = desk.send((0..30).map(|_| to("ok")).collect());
    assert!(
        answers.iter().all(|answer| answer == "later Some(60000) Credential invalid_grant"),
        "{answers:?}"
    );
    assert_eq!(desk.questions().len(), 1);
    assert_eq!(desk.send(vec![to("ok")]), ["not sent Resting { after_ms: 60000 }"]);
    assert_eq!(desk.questions().len(), 1, "nobody asks while it rests");
    assert_eq!(desk.sends().len(), 0);
}

#[test]
fn a_stale_token_is_renewed_once_for_all() {
    let desk = Desk::new();
    let answers = desk.send((0..30).map(|_| to("stale")).collect());
    assert!(answers.iter().all(|answer| answer == "accepted"), "{answers:?}");
    assert!(desk.questions().len() <= 2, "{}", desk.questions().len());
}

// proves: DEL-13, DEV-04
#[test]
fn one_bad_account_does_not_delete_the_user_base() {
    let desk = Desk::new();
    let mut messages: Vec<Message> = (0..95).map(|_| to("ok")).collect();
    messages.extend((0..5).map(|_| to("mismatch")));
    let answers = desk.send(messages.clone());
    assert_eq!(
        answers.iter().filter(|answer| *answer == "rejected DeadEndpoint SENDER_ID_MISMATCH").count(),
        5
    );
    messages.extend((0..5).map(|_| to("mismatch")));
    messages.push(to("unregistered"));
    let answers = desk.send(messages);
    assert_eq!(answers.iter().filter(|answer| *answer == "rejected Message SENDER_ID_MISMATCH").count(), 10);
    assert_eq!(
        answers.last().map(String::as_str),
        Some("rejected DeadEndpoint UNREGISTERED"),
        "that is certain"
    );
}

// proves: PSH-03
#[test]
fn a_project_without_quota_rests_for_a_minute() {
    let desk = Desk::new();
    assert_eq!(desk.send(vec![to("quota")]), ["later Some(60000) Origin QUOTA_EXCEEDED"]);
    assert_eq!(desk.send(vec![to("ok")]), ["not sent Resting { after_ms: 60000 }"]);
    desk.time.advance(59_999);
    assert_eq!(desk.send(vec![to("ok")]), ["not sent Resting { after_ms: 1 }"]);
    assert_eq!(desk.sends().len(), 1);
}

// proves: PSH-03, PSH-10
#[test]
fn the_quota_holds_and_can_be_changed() {
    let desk = Desk::with(json!({"projectId": "p1", "quotaPerMinute": 1_200}));
    let at_once = |count: usize| {
        let mut now = shipment((0..count).map(|_| to("ok")).collect());
        now.deadline = desk.time.monotonic().plus(1);
        desk.runtime.block_on(send(&*desk.fcm, &now)).iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(at_once(1), ["accepted"]);
    let answers = at_once(10);
    assert_eq!(
        answers.iter().filter(|answer| *answer == "accepted").count(),
        1,
        "a tenth of a second's worth: {answers:?}"
    );
    assert!(answers.iter().skip(1).all(|answer| answer.starts_with("not sent NoRoom")), "{answers:?}");
    assert!(desk.fcm.set_quota("p1", 30_000) && !desk.fcm.set_quota("p2", 1));
    desk.time.advance(9);
    let answers = at_once(20);
    let accepted = answers.iter().filter(|answer| *answer == "accepted").count();
    assert_eq!(accepted, 4, "of 499 a second, nine milliseconds: {answers:?}");
}

// proves: PSH-04
#[test]
fn users_stay_with_their_project_and_tokens_with_theirs() {
    let desk = Desk::with(json!({"projects": [{"projectId": "p1", "weight": 2}, {"projectId": "p2"}]}));
    let of = |recipient| Message {
        recipient,
        ..message(&format!("r{recipient}"), &address(FcmKind::Fid, None, "ok"))
    };
    for _ in 0..2 {
        assert!(desk.send((0..200).map(of).collect()).iter().all(|answer| answer == "accepted"));
    }
    let place = |reference: &str, round: usize| {
        let fits = |seen: &&super::service::Seen| String::from_utf8_lossy(&seen.body).contains(reference);
        desk.sends()[round * 200..].iter().find(fits).map(|seen| seen.path.clone())
    };
    let places: Vec<_> = (0..200).map(|recipient| place(&format!("\"r{recipient}\""), 0)).collect();
    assert!((0..200).all(|recipient| place(&format!("\"r{recipient}\""), 1) == places[recipient]), "sticky");
    let firsts =
        places.iter().filter(|place| place.as_deref() == Some("/v1/projects/p1/messages:send")).count();
    assert!((100..170).contains(&firsts), "{firsts}");
    let named = message("ref-1", &address(FcmKind::Token, Some("p2"), "ok"));
    assert_eq!(desk.send(vec![named]), ["accepted"]);
    assert_eq!(desk.sends()[400].path, "/v1/projects/p2/messages:send");
    let unknown = message("ref-1", &address(FcmKind::Token, Some("p3"), "ok"));
    assert_eq!(desk.send(vec![unknown]), ["rejected Message unknown-project"]);
    // One project that rests takes nothing from the other.
    let quota = message("ref-1", &address(FcmKind::Token, Some("p1"), "quota"));
    assert_eq!(desk.send(vec![quota]), ["later Some(60000) Origin QUOTA_EXCEEDED"]);
    for (project, expected) in [("p1", "not sent Resting { after_ms: 60000 }"), ("p2", "accepted")] {
        let one = message("ref-1", &address(FcmKind::Token, Some(project), "ok"));
        assert_eq!(desk.send(vec![one]), [expected]);
    }
    assert!(desk.fcm.paces_hosts());
}

// proves: PSH-06, PSH-07, PSH-11
#[test]
fn payloads_are_those_of_the_golden_files() {
    super::golden::check_all("fcm", |case| {
        let desk = Desk::with(json!({"projectId": "p1", "androidChannelId": "default"}));
        let kind = if case["kind"] == "fid" { FcmKind::Fid } else { FcmKind::Token };
        let mut one = shipment(vec![message("ref-1", &address(kind, None, "ok-golden"))]);
        one.content = case["content"].to_string().into_bytes().into();
        one.lane = Priority::ALL.into_iter().find(|lane| case["lane"] == lane.name()).expect("a lane");
        one.expires_at = WALL.plus(case["ttlMs"].as_u64().expect("a time"));
        one.collapse_key = case["collapseKey"].as_str().map(str::to_owned);
        let answers = desk.runtime.block_on(send(&*desk.fcm, &one));
        assert_eq!(told(&answers[0]), "accepted");
        let mut payload: Value = serde_json::from_slice(&desk.sends()[0].body).expect("JSON");
        payload["message"][kind.name()] = "device-1".into();
        payload
    });
}

#[test]
fn a_probe_tells_each_hop() {
    let desk = Desk::new();
    let names = |hops: &[Hop]| hops.iter().map(|hop| format!("{} {}", hop.name, hop.ok)).collect::<Vec<_>>();
    let hops = desk.runtime.block_on(desk.fcm.probe());
    assert_eq!(names(&hops), ["settings true", "credential true", "answer true"]);
    let desk = Desk::new();
    desk.token_answers.lock().expect("no panic").push(Reaction::body(401, r#"{"error":"invalid_client"}"#));
    let hops = desk.runtime.block_on(desk.fcm.probe());
    assert_eq!(names(&hops), ["settings true", "credential false"]);
}

/// One desk, and a channel whose desk is closed.
struct FcmRig {
    desk: Desk,
    both: Both,
}

struct Both {
    open: Arc<dyn Channel>,
    closed: Arc<dyn Channel>,
}

impl Channel for Both {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        let is_closed = |at: &usize| shipment.messages[*at].endpoint.ends_with(b"unreachable");
        let (closed, open): (Vec<usize>, Vec<usize>) = (0..shipment.messages.len()).partition(is_closed);
        Box::pin(async move {
            for (places, channel) in [(open, &self.open), (closed, &self.closed)] {
                let messages = places.iter().map(|place| shipment.messages[*place].clone()).collect();
                let told = |at: usize, answer| report(places[at], answer);
                channel.send(&Shipment { messages, ..shipment.clone() }, &told).await;
            }
        })
    }
}

impl Rig for FcmRig {
    fn channel(&self) -> &dyn Channel {
        &self.both
    }

    fn now(&self) -> Millis {
        self.desk.time.monotonic()
    }

    fn endpoint(&self, behaviour: Behaviour) -> Vec<u8> {
        let token = match behaviour {
            Behaviour::Takes => "ok",
            Behaviour::SaysLater => "busy",
            Behaviour::Refuses => "unregistered",
            Behaviour::IsUnreachable => "ok-unreachable",
            Behaviour::TakesAndFallsSilent => "silent",
        };
        address(FcmKind::Token, None, token)
    }

    fn copies(&self, reference: &str) -> usize {
        let is_taken =
            |body: &Value| ["ok", "silent"].contains(&body["message"]["token"].as_str().unwrap_or_default());
        let bodies =
            self.desk.sends().into_iter().map(|seen| serde_json::from_slice(&seen.body).expect("JSON"));
        bodies
            .filter(|body: &Value| {
                body["message"]["data"]["fantail.reference"] == reference && is_taken(body)
            })
            .count()
    }

    fn wait(&self, future: BoxFuture<'_, ()>) {
        self.desk.runtime.block_on(future);
    }
}

#[test]
fn fcm_conforms() {
    channel_suite(|| {
        let desk = Desk::new();
        // A port that nobody listens on.
        let closed = open(&desk.service, &desk.time, json!({"projectId": "p1", "connectTo": "127.0.0.2:9"}));
        let both = Both { open: desk.fcm.clone(), closed: Arc::new(closed) };
        FcmRig { desk, both }
    });
}
