//! SES: what an account may, what is sent, and whom we believe when SNS tells of it.

use super::aws::Aws;
use super::nobody::Nobody;
use super::parcel::{message, send, shipment, told};
use super::time::Time;
use fantail_channels::receipt::Outcome;
use fantail_channels::ses::{Secrets, Ses, Settings, Sns, SnsError, Told};
use fantail_conformance::channel::{Behaviour, Rig, channel_suite};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Report, Shipment};
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

pub const CONTENT: &[u8] = br#"{"subject":"Hello","html":"<p>Hello</p>"}"#;
const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:mail";
/// When the messages of SNS were.
const WRITTEN: Millis = Millis(1_794_817_800_000);

pub struct House {
    pub runtime: Runtime,
    pub time: Arc<Time>,
    pub aws: Aws,
    pub ses: Ses,
}

pub fn settings(port: u16) -> Value {
    json!({
        "fromAddress": "news@shop.example",
        "region": "eu-west-1",
        "endpoint": format!("http://127.0.0.1:{port}"),
        "configurationSet": "events",
        "eventTopics": [TOPIC],
    })
}

pub fn open(time: &Arc<Time>, settings: &Value) -> Ses {
    let settings = Settings::read(settings).expect("settings");
    let secrets = Secrets::read(&json!({"accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "secret"}));
    let ports = Ports { clock: time.clone(), tasks: time.clone(), connector: Connector::of_operator() };
    Ses::open(settings, secrets.expect("secrets"), ports).expect("a channel")
}

impl House {
    fn new() -> Self {
        Self::with(|_| ())
    }

    pub fn with(change: impl FnOnce(&mut Value)) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime");
        let time = Time::new(Some(runtime.handle().clone()));
        let aws = runtime.block_on(Aws::start(runtime.handle(), None));
        let mut settings = settings(aws.address.port());
        change(&mut settings);
        let ses = open(&time, &settings);
        Self { runtime, time, aws, ses }
    }

    pub fn post(&self, locals: &[&str]) -> Vec<String> {
        let to = |local: &&str| message("r1", format!("{local}@a.example").as_bytes());
        let deadline = self.time.monotonic().plus(60_000);
        let messages = locals.iter().map(to).collect();
        let shipment = Shipment { content: Arc::from(CONTENT), deadline, ..shipment(messages) };
        self.runtime.block_on(send(&self.ses, &shipment)).iter().map(told).collect()
    }
}

// proves: EML-05, EML-07
#[test]
fn mails_go_out_whole_and_signed() {
    let house = House::new();
    assert_eq!(house.post(&["ann"]), ["accepted"]);
    let seen = house.aws.seen();
    assert_eq!(seen[0].path, "/v2/email/account", "the account is asked first");
    let sent = &seen[1];
    assert_eq!(sent.reference(), "r1");
    assert_eq!(sent.body["ConfigurationSetName"], "events");
    assert!(sent.mail().contains("\r\nMessage-ID: <r1@shop.example>\r\n"));
    assert!(
        sent.authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20231114/eu-west-1/ses/")
    );
    assert_eq!(sent.host, format!("127.0.0.1:{}", house.aws.address.port()));
}

// proves: DEL-13
#[test]
fn errors_are_answered_and_what_concerns_all_is_not_asked_again() {
    let house = House::new();
    for (local, expected) in [
        ("error-429-TooManyRequestsException", "later None Message TooManyRequestsException"),
        ("error-400-MessageRejected", "rejected Message MessageRejected"),
        ("error-400-BadRequestException", "rejected Malformed BadRequestException"),
        ("error-503-", "later None Message 503"),
        ("silent", "unknown reset"),
        ("error-403-SignatureDoesNotMatch", "later Some(300000) Credential SignatureDoesNotMatch"),
        ("ann", "later Some(300000) Credential SignatureDoesNotMatch"),
    ] {
        house.time.advance(10_000);
        assert_eq!(house.post(&[local]), [expected], "{local}");
    }
    house.time.advance(300_000);
    assert_eq!(house.post(&["ann"]), ["accepted"]);
}

// proves: EML-05, RL-04
#[test]
fn no_more_than_the_account_may() {
    let house = House::new();
    let quota = json!({"MaxSendRate": 1.0, "Max24HourSend": 12.0, "SentLast24Hours": 10.0});
    house.aws.set_account(json!({"SendQuota": quota, "SendingEnabled": true}));
    assert_eq!(house.post(&["a"]), ["accepted"]);
    house.time.advance(1_000);
    assert_eq!(house.post(&["b"]), ["accepted"]);
    house.time.advance(1_000);
    assert_eq!(house.post(&["c"]), ["later Some(3600000) Credential day"]);
    house.aws.set_account(
        json!({"SendQuota": {"MaxSendRate": 1.0, "Max24HourSend": -1.0}, "SendingEnabled": false}),
    );
    house.time.advance(15 * 60_000);
    assert_eq!(house.post(&["d"]), ["later Some(600000) Credential SendingEnabled"]);
    assert_eq!(house.aws.sent().len(), 2);
}

// proves: EML-05
#[test]
fn an_account_that_says_nothing_sends_slowly() {
    let house = House::new();
    house.aws.set_account(json!({}));
    assert_eq!(house.post(&["a"]), ["accepted"]);
    let deadline = house.time.monotonic().plus(500);
    let messages = vec![message("r1", b"b@a.example")];
    let soon = Shipment { content: Arc::from(CONTENT), deadline, ..shipment(messages) };
    let answers = house.runtime.block_on(send(&house.ses, &soon));
    assert_eq!(told(&answers[0]), "not sent NoRoom { after_ms: 0 }", "its turn comes in a second");
}

#[test]
fn a_probe_tells_each_hop() {
    let house = House::new();
    let hops = |house: &House| {
        let hops = house.runtime.block_on(house.ses.probe());
        hops.iter().map(|hop| (hop.name, hop.ok)).collect::<Vec<_>>()
    };
    assert_eq!(hops(&house), [("settings", true), ("connect", true), ("credential", true), ("answer", true)]);
    house.aws.set_account(json!({}));
    assert_eq!(hops(&house)[3], ("answer", false));
    let gone = House::with(|settings| settings["endpoint"] = "http://127.0.0.1:9".into());
    assert_eq!(hops(&gone), [("settings", true), ("connect", false)]);
}

fn secured() -> (TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed(["sns.eu-west-1.amazonaws.com".to_owned()]);
    let made = made.expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("known versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .expect("the key of the certificate");
    (TlsAcceptor::from(Arc::new(config)), made.cert.pem())
}

fn sns(time: &Arc<Time>, aws: &Aws, pem: &str, topics: &[&str]) -> Sns {
    let mut settings = settings(1);
    settings["connectTo"] = aws.address.to_string().into();
    settings["caPem"] = if pem.is_empty() { Value::Null } else { pem.into() };
    settings["eventTopics"] = json!(topics);
    let settings = Settings::read(&settings).expect("settings");
    Sns::open(
        &settings,
        Ports { clock: time.clone(), tasks: time.clone(), connector: Connector::of_operator() },
    )
    .expect("a reader")
}

// proves: EML-02, TRK-03
#[test]
fn sns_is_believed_by_topic_and_signature() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime");
    let time = Time::at(WRITTEN, Some(runtime.handle().clone()));
    let (acceptor, pem) = secured();
    let aws = runtime.block_on(Aws::start(runtime.handle(), Some(acceptor)));
    let messages: Vec<Value> =
        serde_json::from_str(include_str!("../golden/sns-messages.json")).expect("a list");
    let ours = sns(&time, &aws, &pem, &[TOPIC]);
    for message in &messages {
        let body = message.to_string();
        match runtime.block_on(ours.take(body.as_bytes())).expect("believed") {
            Told::Event { event, message_id } => {
                assert_eq!(
                    (event.reference.as_str(), event.outcome),
                    ("r1", Outcome::Bounced { hard: true })
                );
                ours.remember(message_id);
                assert_eq!(runtime.block_on(ours.take(body.as_bytes())), Ok(Told::Repeat));
            }
            Told::Confirm { url } => runtime.block_on(ours.confirm(&url)).expect("confirmed"),
            told @ (Told::Nothing | Told::Repeat | Told::Unsubscribed { .. }) => panic!("{told:?}"),
        }
    }
    let fetched = aws.seen().iter().filter(|seen| seen.path.ends_with(".pem")).count();
    assert_eq!(fetched, 1, "the certificate is remembered");
    let body = messages[0].to_string();
    let others = sns(&time, &aws, &pem, &["arn:aws:sns:eu-west-1:123456789012:other"]);
    assert_eq!(runtime.block_on(others.take(body.as_bytes())), Err(SnsError::UnknownTopic));
    let strangers = sns(&time, &aws, "", &[TOPIC]);
    let refused = runtime.block_on(strangers.take(body.as_bytes())).expect_err("nobody vouches for it");
    assert!(refused.is_temporary(), "{refused}");
    let mut forged = messages[0].clone();
    forged["Message"] = "{}".into();
    let refused = runtime.block_on(ours.take(forged.to_string().as_bytes())).expect_err("forged");
    assert!(!refused.is_temporary(), "{refused}");
    assert!(runtime.block_on(ours.confirm("https://evil.example/")).is_err());
}

/// An account whose endpoint is there, and for each message to `gone@` one whose endpoint is not.
struct Both {
    there: Ses,
    time: Arc<Time>,
    gone_at: u16,
}

impl Both {
    fn part(shipment: &Shipment, indices: &[usize]) -> Shipment {
        let messages = indices.iter().map(|index| shipment.messages[*index].clone()).collect();
        Shipment { content: Arc::from(CONTENT), messages, ..shipment.clone() }
    }
}

impl Channel for Both {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let is_gone = |index: &usize| shipment.messages[*index].endpoint.starts_with(b"gone@");
            let (gone, there): (Vec<usize>, Vec<usize>) = (0..shipment.messages.len()).partition(is_gone);
            let told = |index: usize, answer: Answer| report(there[index], answer);
            self.there.send(&Self::part(shipment, &there), &told).await;
            for index in gone {
                let channel = open(&self.time, &settings(self.gone_at));
                // The question what the account may fails first, and lets the host rest for a moment.
                let nobody = Shipment { messages: vec![message("r0", b"nobody")], ..shipment.clone() };
                channel.send(&nobody, &|_, _| ()).await;
                self.time.advance(200);
                channel.send(&Self::part(shipment, &[index]), &|_, answer| report(index, answer)).await;
            }
        })
    }
}

struct SesRig {
    house: House,
    both: Both,
    _kept: Nobody,
}

impl Rig for SesRig {
    fn channel(&self) -> &dyn Channel {
        &self.both
    }

    fn now(&self) -> Millis {
        self.house.time.monotonic()
    }

    fn endpoint(&self, behaviour: Behaviour) -> Vec<u8> {
        let local = match behaviour {
            Behaviour::Takes => "ann",
            Behaviour::SaysLater => "error-503-",
            Behaviour::Refuses => "error-400-MessageRejected",
            Behaviour::IsUnreachable => "gone",
            Behaviour::TakesAndFallsSilent => "silent",
        };
        format!("{local}@a.example").into_bytes()
    }

    fn copies(&self, reference: &str) -> usize {
        self.house.aws.sent().iter().filter(|seen| seen.reference() == reference).count()
    }

    fn wait(&self, future: BoxFuture<'_, ()>) {
        self.house.runtime.block_on(future);
    }
}

#[test]
fn ses_conforms() {
    channel_suite(|| {
        let house = House::new();
        let kept = Nobody::new();
        let there = open(&house.time, &settings(house.aws.address.port()));
        let gone_at = kept.port();
        SesRig { both: Both { there, time: house.time.clone(), gone_at }, house, _kept: kept }
    });
}
