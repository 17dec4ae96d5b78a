//! SES with many mails in one call: what the call is, who shares one, and what becomes of each.

use super::aws::Aws;
use super::nobody::Nobody;
use super::parcel::{message, send, shipment, told};
use super::ses::{CONTENT, House, open, settings};
use super::time::Time;
use fantail_channels::receipt::Outcome;
use fantail_channels::ses::{Secrets, Ses, Settings, Sns, Told};
use fantail_conformance::channel::{Behaviour, Rig, channel_suite};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Callbacks, Channel, Message, Report, Shipment};
use fantail_ports::clock::Clock;
use fantail_rules::ids::Millis;
use fantail_rules::priority::Priority;
use fantail_sandbox::judge::Send;
use fantail_sandbox::{Options, Running, Sandbox};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use tokio::runtime::Builder;

fn bulk() -> House {
    House::with(|settings| settings["bulk"] = true.into())
}

fn sizes(house: &House) -> Vec<usize> {
    let entries = |call: &super::aws::Seen| call.body["BulkEmailEntries"].as_array().map_or(0, Vec::len);
    house.aws.bulk().iter().map(entries).collect()
}

// proves: EML-03, EML-04, EML-07
#[test]
fn a_call_is_as_it_was() {
    super::golden::check_all("ses", |case| {
        let house = House::with(|settings| {
            for (name, value) in case["settings"].as_object().expect("settings") {
                settings[name] = value.clone();
            }
        });
        let to = |value: &Value| Message {
            unsubscribe: value["unsubscribe"].as_str().map(str::to_owned),
            ..message(
                value["reference"].as_str().expect("text"),
                value["to"].as_str().expect("text").as_bytes(),
            )
        };
        let callbacks = Callbacks { base_url: "https://notify.shop.example".into(), key: [3; 16] };
        let shipment = Shipment {
            content: Arc::from(case["content"].to_string().into_bytes()),
            callbacks: Some(Arc::new(callbacks)),
            ..shipment(case["messages"].as_array().expect("messages").iter().map(to).collect())
        };
        let answers = house.runtime.block_on(send(&house.ses, &shipment));
        assert!(answers.iter().all(|answer| told(answer) == "accepted"), "{answers:?}");
        let calls = house.aws.bulk();
        assert_eq!(calls.len(), 1);
        let signed = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20231114/eu-west-1/ses/";
        assert!(calls[0].authorization.starts_with(signed), "{}", calls[0].authorization);
        calls[0].body.clone()
    });
}

// proves: DEL-13
#[test]
fn each_entry_has_its_answer_and_a_lost_call_has_none() {
    for (locals, expected) in [
        (
            &["ann", "status-MESSAGE_REJECTED", "status-TRANSIENT_FAILURE"][..],
            &["accepted", "rejected Message MESSAGE_REJECTED", "later None Message TRANSIENT_FAILURE"][..],
        ),
        (&["ann", "silent"], &["unknown reset"; 2]),
        (&["ann", "short", "bob"], &["unknown results"; 3]),
        (&["error-503-", "ann"], &["later None Message 503"; 2]),
        (&["error-400-BadRequestException", "ann"], &["rejected Malformed BadRequestException"; 2]),
        (
            &["error-403-AccessDeniedException", "ann"],
            &["later Some(300000) Credential AccessDeniedException"; 2],
        ),
    ] {
        assert_eq!(bulk().post(locals), expected, "{locals:?}");
    }
    let house = bulk();
    let quota = "status-ACCOUNT_DAILY_QUOTA_EXCEEDED";
    let rests = "later Some(3600000) Credential ACCOUNT_DAILY_QUOTA_EXCEEDED";
    assert_eq!(house.post(&["ann", quota]), ["accepted", rests]);
    assert_eq!(house.post(&["bob"]), [rests], "the account is not asked again");
    assert_eq!(sizes(&house), [2]);
}

#[test]
fn calls_have_their_limits() {
    let house = bulk();
    let locals: Vec<String> = (0..120).map(|number| format!("user{number}")).collect();
    let locals: Vec<&str> = locals.iter().map(String::as_str).collect();
    assert!(house.post(&locals).iter().all(|answer| answer == "accepted"));
    let mut calls = sizes(&house);
    calls.sort_unstable();
    assert_eq!(calls, [20, 50, 50]);

    let house = bulk();
    let page = |bytes: usize| -> Option<Arc<[u8]>> {
        let content = json!({"subject": "s", "html": "a".repeat(bytes), "text": "t"});
        Some(Arc::from(content.to_string().into_bytes()))
    };
    let text = Some(Arc::from(&br#"{"subject":"s","text":"t"}"#[..]));
    let to = |content| Message { content, ..message("r1", b"ann@a.example") };
    let contents =
        [page(240_000), page(240_000), page(240_000), page(240_000), page(240_000), page(270_000), text];
    let messages: Vec<Message> = contents.into_iter().map(to).collect();
    let answers = house.runtime.block_on(send(&house.ses, &shipment(messages)));
    assert!(answers.iter().all(|answer| told(answer) == "accepted"), "{answers:?}");
    let mut calls = sizes(&house);
    calls.sort_unstable();
    assert_eq!(calls, [1, 1, 4], "a text and a page have different templates");
    assert!(house.aws.bulk().iter().all(|call| call.body.to_string().len() <= 1_000_000));
    assert_eq!(house.aws.sent().len(), 1, "what fits into no entry goes alone");
}

/// Sends while time goes on a little, and tells how many each call had.
fn paced(lane: Priority, count: usize) -> Vec<usize> {
    let house = bulk();
    let quota = json!({"MaxSendRate": 10.0, "Max24HourSend": -1.0});
    house.aws.set_account(json!({"SendQuota": quota, "SendingEnabled": true}));
    assert_eq!(house.post(&["first"]), ["accepted"]);
    house.time.advance(10_000);
    let messages = (0..count).map(|number| message(&format!("r{number}"), b"ann@a.example")).collect();
    let deadline = house.time.monotonic().plus(60_000);
    let shipment = Shipment { content: Arc::from(CONTENT), lane, deadline, ..shipment(messages) };
    let passing = async {
        for _ in 0..200 {
            house.time.advance(10);
            tokio::task::yield_now().await;
        }
        pending::<()>().await
    };
    let answers = house.runtime.block_on(async {
        tokio::select! {
            answers = send(&house.ses, &shipment) => answers,
            () = passing => unreachable!("time passes for ever"),
        }
    });
    assert!(answers.iter().all(|answer| told(answer) == "accepted"), "{answers:?}");
    sizes(&house).split_off(1)
}

// proves: EML-05, RL-04
#[test]
fn near_turns_share_a_call_and_critical_ones_wait_for_nobody() {
    let mut calls = paced(Priority::Normal, 7);
    calls.sort_unstable();
    assert_eq!(calls, [1, 3, 3]);
    assert_eq!(paced(Priority::Critical, 4), [1; 4]);
}

// proves: EML-01
#[test]
fn a_new_sender_counts_each_mail() {
    let house = House::with(|settings| {
        settings["bulk"] = true.into();
        settings["warmUp"] = json!({"firstDay": "2023-11-14", "target": 1_000_000});
    });
    let locals = vec!["ann"; 300];
    let answers = house.post(&locals);
    let accepted = answers.iter().filter(|answer| *answer == "accepted").count();
    assert_eq!(accepted, sizes(&house).iter().sum::<usize>());
    assert!((1..300).contains(&accepted), "{accepted}");
    assert!(answers.iter().filter(|answer| *answer != "accepted").all(|answer| answer.ends_with("warm-up")));
}

/// A call whose answer gets lost is lost for all its entries, so those who lose it go by themselves here.
struct Apart {
    there: Ses,
    time: Arc<Time>,
    gone_at: u16,
}

impl Channel for Apart {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for (local, is_alone) in [("gone@", true), ("silent@", true), ("", false)] {
                let is_here = |index: &usize| {
                    let endpoint = &shipment.messages[*index].endpoint;
                    let is_odd = endpoint.starts_with(b"gone@") || endpoint.starts_with(b"silent@");
                    is_odd == is_alone && endpoint.starts_with(local.as_bytes())
                };
                let indices: Vec<usize> = (0..shipment.messages.len()).filter(is_here).collect();
                let size = if is_alone { 1 } else { indices.len().max(1) };
                for some in indices.chunks(size) {
                    let messages = some.iter().map(|index| shipment.messages[*index].clone()).collect();
                    let part = Shipment { messages, ..shipment.clone() };
                    let told = |index: usize, answer| report(some[index], answer);
                    if local == "gone@" {
                        self.gone().await.send(&part, &told).await;
                    } else {
                        self.there.send(&part, &told).await;
                    }
                }
            }
        })
    }
}

impl Apart {
    /// An account whose endpoint is not there. The question what it may fails first, and lets the host rest for a moment.
    async fn gone(&self) -> Ses {
        let mut settings = settings(self.gone_at);
        settings["bulk"] = true.into();
        let channel = open(&self.time, &settings);
        channel.send(&shipment(vec![message("r0", b"nobody")]), &|_, _| ()).await;
        self.time.advance(200);
        channel
    }
}

struct BulkRig {
    house: House,
    apart: Apart,
    _kept: Nobody,
}

impl Rig for BulkRig {
    fn channel(&self) -> &dyn Channel {
        &self.apart
    }

    fn now(&self) -> Millis {
        self.house.time.monotonic()
    }

    fn endpoint(&self, behaviour: Behaviour) -> Vec<u8> {
        let local = match behaviour {
            Behaviour::Takes => "ann",
            Behaviour::SaysLater => "status-TRANSIENT_FAILURE",
            Behaviour::Refuses => "status-MESSAGE_REJECTED",
            Behaviour::IsUnreachable => "gone",
            Behaviour::TakesAndFallsSilent => "silent",
        };
        format!("{local}@a.example").into_bytes()
    }

    fn copies(&self, reference: &str) -> usize {
        let calls = self.house.aws.bulk();
        let entries = calls.iter().filter_map(|call| call.body["BulkEmailEntries"].as_array()).flatten();
        let is_taken = |entry: &&Value| {
            let to = entry["Destination"]["ToAddresses"][0].as_str().expect("an address");
            entry["ReplacementTags"][0]["Value"] == reference && !to.starts_with("status-")
        };
        entries.filter(is_taken).count()
    }

    fn wait(&self, future: BoxFuture<'_, ()>) {
        self.house.runtime.block_on(future);
    }
}

#[test]
fn ses_in_bulk_conforms() {
    channel_suite(|| {
        let (house, kept) = (bulk(), Nobody::new());
        let mut settings = settings(house.aws.address.port());
        settings["bulk"] = true.into();
        let there = open(&house.time, &settings);
        let apart = Apart { there, time: house.time.clone(), gone_at: kept.port() };
        BulkRig { house, apart, _kept: kept }
    });
}

/// The topic that the sandbox's SES tells of what becomes of mails, with us subscribed.
async fn subscribe(sandbox: &Running, listener: &Aws, control: &super::sandboxed::Control) -> String {
    let topic = control.ask("POST", "/sns/topics", &json!({"region": "eu-west-1", "name": "mail"})).await;
    let topic = topic["id"].as_str().expect("a topic").to_owned();
    control.ask("PUT", "/ses/account", &json!({"maxSendRate": 100_000, "max24HourSend": 1_000_000})).await;
    control.ask("PUT", "/ses/events", &json!({"topic": topic})).await;
    let url = format!("http://{}/", listener.address);
    control.ask("POST", "/sns/subscriptions", &json!({"topic": topic, "url": url})).await;
    assert_eq!(sandbox.world().record().counts().arrived, 0);
    topic
}

// proves: EML-02, EML-07, TRK-03, DEL-01
#[test]
fn all_arrive_once_at_the_sandbox_and_receipts_find_them() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let sandbox = runtime.block_on(Sandbox::start(Options::default())).expect("a sandbox");
    let time = Time::at(Millis(sandbox.world().clock().now_ms()), Some(runtime.handle().clone()));
    let ports = Ports { clock: time.clone(), tasks: time.clone(), connector: Connector::of_operator() };
    let control = super::sandboxed::Control::new(&sandbox, ports.clone());
    let listener = runtime.block_on(Aws::start(runtime.handle(), None));
    let topic = runtime.block_on(subscribe(&sandbox, &listener, &control));
    let settings = Settings::read(&json!({
        "fromAddress": "news@shop.example",
        "fromName": "Shop",
        "region": "eu-west-1",
        "endpoint": format!("http://{}", sandbox.own("ses").expect("a port")),
        "connectTo": sandbox.shared().to_string(),
        "caPem": sandbox.ca_pem(),
        "eventTopics": [topic],
        "bulk": true,
    }));
    let mut settings = settings.expect("settings");
    let sns = Sns::open(&settings, ports.clone()).expect("a reader");
    settings.connect_to = None;
    let secrets = json!({"accessKeyId": "AKIDSANDBOX", "secretAccessKey": "sandbox-secret"});
    let ses = Ses::open(settings, Secrets::read(&secrets).expect("secrets"), ports).expect("a channel");

    let to = |number: usize| message(&format!("mail-{number}"), format!("user{number}@a.example").as_bytes());
    let messages: Vec<Message> = (0..120).map(to).collect();
    runtime.block_on(async {
        listener.until(1).await;
        let asked = listener.seen()[0].body.to_string();
        let Ok(Told::Confirm { url }) = sns.take(asked.as_bytes()).await else {
            panic!("no question: {asked}")
        };
        sns.confirm(&url).await.expect("confirmed");
        let shipment = Shipment { content: Arc::from(CONTENT), ..shipment(messages.clone()) };
        let answers: Vec<String> = send(&ses, &shipment).await.iter().map(told).collect();
        assert!(answers.iter().all(|answer| answer == "accepted"), "{answers:?}");
        // Of each mail that it was sent, and that it was delivered.
        listener.until(1 + 2 * messages.len()).await;
        let mut delivered = BTreeSet::new();
        for seen in &listener.seen()[1..] {
            match sns.take(seen.body.to_string().as_bytes()).await.expect("believed") {
                Told::Event { event, .. } => {
                    assert_eq!(event.outcome, Outcome::Delivered);
                    delivered.insert(event.reference);
                }
                Told::Nothing => {}
                told @ (Told::Confirm { .. } | Told::Repeat | Told::Unsubscribed { .. }) => {
                    panic!("{told:?}")
                }
            }
        }
        let sent: BTreeSet<String> = messages.iter().map(|message| message.reference.clone()).collect();
        assert_eq!(delivered, sent);
    });
    let recipient = |message: &Message| String::from_utf8(message.endpoint.clone()).expect("an address");
    let sends: Vec<Send> = messages
        .iter()
        .map(|message| Send { id: message.reference.clone(), recipient: Some(recipient(message)) })
        .collect();
    let verdict = sandbox.judge(&sends);
    assert_eq!(verdict.unique, messages.len() as u64, "{verdict:?}");
    assert!(verdict.repeated.is_empty() && verdict.missing.is_empty(), "{verdict:?}");
}
