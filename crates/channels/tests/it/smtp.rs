//! SMTP against a server that does as it is told: what is answered at each step, and what is never sent twice.

use super::mail::account;
use super::nobody::Nobody;
use super::parcel::{message, send, shipment, told};
use super::relay::{Manners, Relay, Taken};
use super::time::Time;
use fantail_channels::smtp::{Secrets, Settings, Smtp};
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

const CONTENT: &[u8] =
    br#"{"subject":"Hello","html":"<p>Hello <a href='https://shop.example/'>you</a></p>"}"#;

struct House {
    runtime: Runtime,
    time: Arc<Time>,
    relay: Relay,
    smtp: Smtp,
}

fn pipelining() -> Manners {
    Manners { pipelining: true, ..Manners::default() }
}

fn open(time: &Arc<Time>, port: u16, change: impl FnOnce(&mut Value, &mut Value)) -> Smtp {
    let (mut settings, mut secrets) = (account().0, json!({}));
    settings["port"] = port.into();
    settings["connectTo"] = format!("127.0.0.1:{port}").into();
    settings["dkim"] = Value::Null;
    change(&mut settings, &mut secrets);
    let settings = Settings::read(&settings).expect("settings");
    let secrets = Secrets::read(&secrets).expect("secrets");
    Smtp::open(
        settings,
        secrets,
        Ports { clock: time.clone(), tasks: time.clone(), connector: Connector::of_operator() },
    )
    .expect("a channel")
}

impl House {
    fn new(manners: Manners) -> Self {
        Self::with(manners, |_, _| ())
    }

    fn with(manners: Manners, change: impl FnOnce(&mut Value, &mut Value)) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("a runtime");
        let time = Time::new(Some(runtime.handle().clone()));
        let relay = runtime.block_on(Relay::start(runtime.handle(), manners));
        let smtp = open(&time, relay.address.port(), change);
        Self { runtime, time, relay, smtp }
    }

    fn post(&self, locals: &[&str]) -> Vec<String> {
        let to =
            |local: &&str| message("r1", format!("{local}@{}.example", local.replace('.', "-")).as_bytes());
        let messages = locals.iter().map(to).collect();
        let deadline = self.time.monotonic().plus(60_000);
        let shipment = Shipment { content: Arc::from(CONTENT), deadline, ..shipment(messages) };
        let answers = self.runtime.block_on(send(&self.smtp, &shipment));
        answers.iter().map(told).collect()
    }
}

// proves: EML-07, DEL-13
#[test]
fn replies_of_every_step_are_answered() {
    for manners in [Manners::default(), pipelining()] {
        let house = House::new(manners);
        for (local, expected) in [
            ("ann", "accepted"),
            ("rcpt-550-5.1.1", "rejected DeadEndpoint 550 5.1.1"),
            ("rcpt-452-4.2.2", "later Some(300000) Endpoint 452 4.2.2"),
            ("dot-552-5.3.4", "rejected Message 552 5.3.4"),
            ("dot-554-5.7.1", "later Some(300000) Message 554 5.7.1"),
            ("rcpt-421-4.3.2", "later None Message 421 4.3.2"),
            ("close-rcpt", "not sent Unprocessed"),
            ("close-dot", "unknown reset"),
            ("bob", "accepted"),
        ] {
            assert_eq!(house.post(&[local]), [expected], "{local}");
        }
        let taken = house.relay.taken();
        let to: Vec<&str> =
            taken.iter().map(|taken| taken.to.split('@').next().unwrap_or_default()).collect();
        assert_eq!(to, ["ann", "close-dot", "bob"]);
        assert_eq!(taken[0].from, "bounce+r1@shop.example");
        assert!(taken[0].mail.contains("\r\nMessage-ID: <r1@shop.example>\r\n"));
    }
}

#[test]
fn one_connection_serves_many_and_a_refusal_does_not_end_it() {
    let house = House::with(pipelining(), |settings, _| settings["connectionsMax"] = 1.into());
    let answers = house.post(&["a", "rcpt-550-5.1.1", "b", "dot-552-5.3.4", "c"]);
    assert_eq!(answers.iter().filter(|answer| *answer == "accepted").count(), 3);
    assert_eq!(house.relay.connections(), 1);
    assert_eq!(house.smtp.idle_connections(), 1);
    assert!(house.relay.commands().contains(&"RSET".to_owned()));
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let house = House::new(Manners { closes_after_mail: true, ..pipelining() });
    for round in 1..=3 {
        assert_eq!(house.post(&["ann"]), ["accepted"]);
        house.runtime.block_on(house.relay.closed(round));
    }
    assert_eq!((house.relay.connections(), house.relay.taken().len()), (3, 3));
}

#[test]
fn connections_do_not_wait_for_long() {
    let house = House::new(pipelining());
    house.post(&["ann"]);
    assert_eq!(house.smtp.idle_connections(), 1);
    house.time.advance(8_000);
    house.runtime.block_on(house.relay.closed(1));
    assert_eq!(house.smtp.idle_connections(), 0);
}

// proves: EML-02, DEL-13
#[test]
fn a_domain_that_wants_a_rest_is_left_alone_and_no_other() {
    let house = House::new(pipelining());
    let at = |local: &str, domain: &str| message("r1", format!("{local}@{domain}").as_bytes());
    let post = |messages| {
        let deadline = house.time.monotonic().plus(60_000);
        let shipment = Shipment { content: Arc::from(CONTENT), deadline, ..shipment(messages) };
        let answers = house.runtime.block_on(send(&house.smtp, &shipment));
        answers.iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(post(vec![at("rcpt-450-4.7.1", "grey.example")]), ["later Some(300000) Message 450 4.7.1"]);
    let answers = post(vec![at("ann", "grey.example"), at("ann", "other.example")]);
    assert_eq!(answers, ["not sent Resting { after_ms: 300000 }", "accepted"]);
    house.time.advance(300_000);
    assert_eq!(post(vec![at("ann", "grey.example")]), ["accepted"]);
}

#[test]
fn a_mail_without_an_answer_may_have_been_taken() {
    let house = House::new(pipelining());
    let messages = vec![message("r1", b"silent-dot@a.example")];
    let shipment = Shipment { content: Arc::from(CONTENT), ..shipment(messages) };
    let answers = house.runtime.block_on(async {
        let sending = send(&house.smtp, &shipment);
        tokio::pin!(sending);
        loop {
            tokio::select! {
                biased;
                answers = &mut sending => break answers,
                () = tokio::task::yield_now() => {
                    if !house.relay.taken().is_empty() {
                        house.time.advance(300_000);
                    }
                }
            }
        }
    });
    assert_eq!(told(&answers[0]), "unknown timeout");
}

#[test]
fn a_login_that_was_refused_is_not_tried_again_and_again() {
    let wrong = |_: &mut Value, secrets: &mut Value| {
        *secrets = json!({"username": "me", "password": "guess"});
    };
    let house = House::with(Manners { auth: Some("PLAIN LOGIN"), ..pipelining() }, |settings, secrets| {
        settings["connectionsMax"] = 1.into();
        wrong(settings, secrets);
    });
    let answers = house.post(&["a", "b", "c"]);
    assert_eq!(answers, ["later Some(300000) Credential 535 5.7.8"; 3]);
    assert_eq!(house.relay.connections(), 1);
    let hops = house.runtime.block_on(house.smtp.probe());
    let hops: Vec<(&str, bool)> = hops.iter().map(|hop| (hop.name, hop.ok)).collect();
    assert_eq!(hops, [("settings", true), ("connect", true), ("credential", false)]);
}

#[test]
fn logins_of_both_kinds_are_known() {
    let right = |_: &mut Value, secrets: &mut Value| {
        *secrets = json!({"username": "me", "password": "open sesame"});
    };
    for (kinds, expected) in
        [("PLAIN", "accepted"), ("LOGIN", "accepted"), ("CRAM-MD5", "later Some(300000) Credential no-auth")]
    {
        let house = House::with(Manners { auth: Some(kinds), ..pipelining() }, right);
        assert_eq!(house.post(&["ann"]), [expected], "{kinds}");
    }
}

fn secured() -> (TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("known versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .expect("the key of the certificate");
    (TlsAcceptor::from(Arc::new(config)), made.cert.pem())
}

// proves: EML-07
#[test]
fn tls_from_the_beginning_or_later_and_never_without() {
    let (acceptor, pem) = secured();
    let trusting = |security: &'static str| {
        let pem = pem.clone();
        move |settings: &mut Value, secrets: &mut Value| {
            settings["security"] = security.into();
            settings["caPem"] = pem.into();
            *secrets = json!({"username": "me", "password": "open sesame"});
        }
    };
    let auth = Some("PLAIN");
    let starttls = Manners { starttls: Some(acceptor.clone()), auth, ..pipelining() };
    let house = House::with(starttls.clone(), trusting("starttls"));
    assert_eq!(house.post(&["ann"]), ["accepted"]);
    assert_eq!(house.relay.commands()[..4], ["EHLO", "STARTTLS", "EHLO", "AUTH"]);
    let house = House::with(Manners { tls: Some(acceptor), auth, ..pipelining() }, trusting("tls"));
    assert_eq!(house.post(&["ann"]), ["accepted"]);
    let house = House::with(Manners { auth, ..pipelining() }, trusting("starttls"));
    assert_eq!(house.post(&["ann"]), ["later Some(300000) Credential no-starttls"]);
    assert_eq!(house.relay.commands(), ["EHLO"], "no password in the clear");
    let house = House::with(starttls, |settings, _| settings["security"] = "starttls".into());
    assert_eq!(house.post(&["ann"]), ["not sent NoConnection"], "nobody vouches for it");
}

#[test]
fn a_relay_that_does_not_talk_to_us_is_left_alone() {
    let house = House::new(Manners { greeting: Some("554 no"), ..pipelining() });
    assert_eq!(house.post(&["a"]), ["later Some(60000) Origin 554"]);
    assert_eq!(house.post(&["b"]), ["later Some(60000) Origin 554"]);
    assert_eq!(house.relay.connections(), 1);
    house.time.advance(60_000);
    house.post(&["c"]);
    assert_eq!(house.relay.connections(), 2);
}

// proves: EML-01
#[test]
fn a_new_sender_sends_what_the_day_allows() {
    let house = House::with(pipelining(), |settings, _| {
        settings["connectionsMax"] = 1.into();
        settings["warmUp"] = json!({"firstDay": "2023-11-14", "target": 3});
    });
    let mut answers = house.post(&["a", "rcpt-550-5.1.1", "b", "c", "d"]);
    answers.retain(|answer| !answer.starts_with("rejected"));
    answers.sort();
    assert_eq!(answers, ["accepted", "accepted", "accepted", "later Some(6400000) Credential warm-up"]);
}

// proves: EML-04
#[test]
fn tracked_links_and_signatures_arrive() {
    let house = House::with(pipelining(), |settings, secrets| {
        (*settings, *secrets) = {
            let (mut whole, keys) = account();
            whole["port"] = settings["port"].clone();
            whole["connectTo"] = settings["connectTo"].clone();
            (whole, keys)
        };
    });
    let callbacks = fantail_ports::channel::Callbacks { base_url: "https://n.example".into(), key: [1; 16] };
    let shipment = Shipment {
        content: Arc::from(CONTENT),
        callbacks: Some(Arc::new(callbacks)),
        ..shipment((0..20).map(|no| message(&format!("r{no}"), b"ann@a.example")).collect())
    };
    let answers = house.runtime.block_on(send(&house.smtp, &shipment));
    assert!(answers.iter().all(|answer| told(answer) == "accepted"));
    let mut taken = house.relay.taken();
    taken.sort_by_key(|taken: &Taken| taken.reference().to_owned());
    taken.dedup_by_key(|taken| taken.reference().to_owned());
    assert_eq!(taken.len(), 20);
    for mail in taken {
        let whole = mail.mail.replace("=\r\n", "");
        assert!(whole.contains(&format!("https://n.example/t/c/{}/", mail.reference())));
        assert!(whole.contains(&format!("https://n.example/t/o/{}.gif", mail.reference())));
        assert_eq!(whole.matches("DKIM-Signature:").count(), 2);
    }
}

/// Two accounts behind one channel: one whose relay is there and one whose relay is not.
struct Both {
    there: Smtp,
    gone: Smtp,
}

impl Channel for Both {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for (channel, is_gone) in [(&self.there, false), (&self.gone, true)] {
                let chosen: Vec<usize> = (0..shipment.messages.len())
                    .filter(|index| shipment.messages[*index].endpoint.starts_with(b"gone@") == is_gone)
                    .collect();
                let messages = chosen.iter().map(|index| shipment.messages[*index].clone()).collect();
                let part = Shipment { content: Arc::from(CONTENT), messages, ..shipment.clone() };
                let report = |index: usize, answer: Answer| report(chosen[index], answer);
                channel.send(&part, &report).await;
            }
        })
    }
}

struct SmtpRig {
    house: House,
    both: Both,
    _kept: Nobody,
}

impl Rig for SmtpRig {
    fn channel(&self) -> &dyn Channel {
        &self.both
    }

    fn now(&self) -> Millis {
        self.house.time.monotonic()
    }

    fn endpoint(&self, behaviour: Behaviour) -> Vec<u8> {
        let address = match behaviour {
            Behaviour::Takes => "ann@a.example",
            Behaviour::SaysLater => "rcpt-452-4.2.2@b.example",
            Behaviour::Refuses => "rcpt-550-5.1.1@c.example",
            Behaviour::IsUnreachable => "gone@d.example",
            Behaviour::TakesAndFallsSilent => "close-dot@e.example",
        };
        address.as_bytes().to_vec()
    }

    fn copies(&self, reference: &str) -> usize {
        self.house.relay.taken().iter().filter(|taken| taken.reference() == reference).count()
    }

    fn wait(&self, future: BoxFuture<'_, ()>) {
        self.house.runtime.block_on(future);
    }
}

#[test]
fn smtp_conforms() {
    channel_suite(|| {
        let house = House::new(pipelining());
        let kept = Nobody::new();
        let there = open(&house.time, house.relay.address.port(), |_, _| ());
        let gone = open(&house.time, kept.port(), |_, _| ());
        SmtpRig { both: Both { there, gone }, house, _kept: kept }
    });
}
