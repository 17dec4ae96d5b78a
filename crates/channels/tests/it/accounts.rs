//! Accounts of tenants: whom a message goes through, what changes while a server runs, and what one account may do to another.

use super::parcel::{message, send, shipment, told};
use super::time::Time;
use fantail_channels::accounts::client::{Client, Usual};
use fantail_channels::accounts::{CallbackProof, Opener, Registry, SandboxAccounts};
use fantail_channels::fields::SettingsError;
use fantail_channels::probe::Hop;
use fantail_channels::stub::{Faults, Settings, Stub};
use fantail_conformance::block_on;
use fantail_ports::BoxFuture;
use fantail_ports::accounts::{Account, Accounts, Credentials};
use fantail_ports::channel::{Answer, Channel, Message, Proof, Report, Shipment};
use fantail_ports::clock::Clock;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::TenantId;
use fantail_rules::pacing::{Concurrency, Rate};
use fantail_rules::provider_kind::ProviderKind;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const TENANT: TenantId = TenantId(1);
const DOWN: Faults = Faults { down: true, slow_ms: 0, fail_percent: 0, malformed_percent: 0 };
const PLENTY: Usual = Usual {
    rate: Rate { per_second: 100_000, burst: 100_000 },
    concurrency: Concurrency { start: 1_000, ceiling: 1_000 },
};

/// Sends as a stub does, whatever the endpoint is: what stands behind the last space is the wish.
struct Fake {
    stub: Arc<Stub>,
    /// A push of another app is none of its business.
    app: Option<String>,
}

impl Channel for Fake {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        let wish = |message: &Message| {
            let wish = message.endpoint.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            Message { endpoint: wish.to_vec(), ..message.clone() }
        };
        let messages = shipment.messages.iter().map(wish).collect();
        let shipment = Shipment { messages, ..shipment.clone() };
        Box::pin(async move { self.stub.send(&shipment, report).await })
    }
}

impl Client for Fake {
    fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        Box::pin(async { vec![Hop::passed("answer", "well")] })
    }

    fn usual(&self) -> Usual {
        PLENTY
    }

    fn serves(&self, endpoint: &[u8]) -> bool {
        let endpoint = String::from_utf8_lossy(endpoint);
        self.app.as_ref().is_none_or(|app| endpoint.contains(&format!(" {app} ")))
    }
}

struct House {
    time: Arc<Time>,
    /// What stands behind each account, by its name, newest last.
    stubs: Stubs,
    registry: Arc<Registry>,
}

type Stubs = Arc<Mutex<BTreeMap<String, Vec<Arc<Stub>>>>>;

/// Settings are the name of an app, or `unusable`.
fn opener(stubs: &Stubs, time: &Arc<Time>) -> Box<Opener> {
    let (clock, made) = (time.clone(), stubs.clone());
    Box::new(move |account| {
        if account.settings == "unusable" {
            return Err(SettingsError::new("/credentials/key", "is missing"));
        }
        let stub = Stub::open(&Settings::recording(), clock.clone(), clock.clone());
        let stub = Arc::new(stub.expect("a stub"));
        made.lock().expect("no panic").entry(account.id.clone()).or_default().push(stub.clone());
        let app = (!account.settings.is_empty()).then(|| account.settings.clone());
        Ok(Arc::new(Fake { stub, app }))
    })
}

impl House {
    fn new() -> Self {
        let time = Time::new(None);
        let stubs: Stubs = Arc::default();
        let registry = Registry::new(time.clone(), time.clone(), opener(&stubs, &time));
        Self { time, stubs, registry }
    }

    /// How often an account was opened.
    fn opened(&self, name: &str) -> usize {
        self.stubs.lock().expect("no panic").get(name).map_or(0, Vec::len)
    }

    fn of(accounts: Vec<Account>) -> Self {
        let house = Self::new();
        house.registry.replace(TENANT, accounts);
        house
    }

    /// Tenants without accounts get one of this kind.
    fn serve_others(&self, kind: ProviderKind) {
        let make = Box::new(move || vec![account("sandbox", kind, 0)]);
        self.registry.serve_others(SandboxAccounts { make, opener: opener(&self.stubs, &self.time) });
    }

    fn stub(&self, name: &str) -> Arc<Stub> {
        self.stubs.lock().expect("no panic")[name].last().expect("one was opened").clone()
    }

    fn post(&self, kind: ChannelKind, endpoints: &[&str]) -> Vec<Answer> {
        let messages = endpoints.iter().map(|endpoint| message(endpoint, endpoint.as_bytes())).collect();
        let deadline = self.time.monotonic().plus(10_000);
        block_on(send(&*self.registry.channel(kind), &Shipment { deadline, ..shipment(messages) }))
    }

    fn told(&self, kind: ChannelKind, endpoint: &str) -> String {
        match &self.post(kind, &[endpoint])[..] {
            [Answer::Accepted { provider_id }] => provider_id.clone().unwrap_or_default(),
            [other] => told(other),
            other => panic!("{other:?}"),
        }
    }
}

fn account(id: &str, kind: ProviderKind, order: u16) -> Account {
    Account {
        tenant: TENANT,
        id: id.to_owned(),
        version: 1,
        kind,
        settings: String::new(),
        secrets: Credentials::new(Vec::new()),
        order,
        weight: 1,
        per_second: None,
        concurrency: None,
        enabled: true,
    }
}

/// What a tenant without accounts sends stays in the house; one account is enough for nothing to stay there any more.
// proves: TEN-05
#[test]
fn only_tenants_without_accounts_share_one() {
    let house = House::new();
    house.serve_others(ProviderKind::Smtp);
    assert_eq!(house.told(ChannelKind::Email, "stub:ok/a"), "sandbox");
    let off = Account { enabled: false, ..account("texts", ProviderKind::Twilio, 0) };
    house.registry.replace(TENANT, vec![off]);
    assert_eq!(house.told(ChannelKind::Email, "stub:ok/b"), "rejected Message no_provider");
    assert_eq!(house.told(ChannelKind::Sms, "stub:ok/c"), "rejected Message no_provider", "it is off");
    house.registry.replace(TENANT, Vec::new());
    assert_eq!(house.told(ChannelKind::Email, "stub:ok/d"), "sandbox");
}

// fixes: security M2, proved M2
#[test]
fn the_sandbox_is_heard_from_this_machine_only() {
    let house = House::new();
    house.serve_others(ProviderKind::Twilio);
    let called = |id: &str, is_local| {
        house.registry.called(TENANT, id, is_local).map(|called| (called.proof, called.channel()))
    };
    assert_eq!(called("sandbox", true), None, "nothing was sent there yet, and a stranger opens nothing");
    assert_eq!(house.told(ChannelKind::Sms, "stub:ok/a"), "sandbox");
    assert_eq!(called("sandbox", true), Some((CallbackProof::TwilioSignature, ChannelKind::Sms)));
    assert_eq!(called("sandbox", false), None);
    let own = [("texts", ProviderKind::Twilio), ("mail", ProviderKind::Smtp), ("ses", ProviderKind::Ses)];
    let mut all: Vec<Account> = own.iter().map(|(id, kind)| account(id, *kind, 0)).collect();
    all.push(account("ios", ProviderKind::Apns, 0));
    house.registry.replace(TENANT, all);
    for is_local in [true, false] {
        assert_eq!(called("sandbox", is_local), None, "the tenant has accounts");
        assert_eq!(called("texts", is_local), Some((CallbackProof::TwilioSignature, ChannelKind::Sms)));
        assert_eq!(called("ses", is_local), Some((CallbackProof::SnsSignature, ChannelKind::Email)));
        assert_eq!(called("mail", is_local), Some((CallbackProof::Secret, ChannelKind::Email)));
        assert_eq!(called("ios", is_local), None, "Apple calls nobody");
    }
}

/// Whoever deletes the last account by mistake hears of it: nothing is "sent" to a sandbox then.
// fixes: security M4, proved M4
#[test]
fn a_tenant_that_once_had_an_account_never_goes_to_the_sandbox_again() {
    let house = House::new();
    house.serve_others(ProviderKind::Smtp);
    assert!(house.registry.is_sandboxed(TENANT));
    house.registry.leave_sandbox(vec![TENANT]);
    house.registry.replace(TENANT, vec![account("mail", ProviderKind::Smtp, 0)]);
    assert_eq!(house.told(ChannelKind::Email, "stub:ok/a"), "mail");
    house.registry.replace(TENANT, Vec::new());
    assert_eq!(house.told(ChannelKind::Email, "stub:ok/b"), "rejected Message no_provider");
    assert!(!house.registry.is_sandboxed(TENANT));
    assert!(house.registry.is_sandboxed(TenantId(TENANT.0 + 1)));
}

// proves: DEL-17
#[test]
fn mail_goes_to_the_next_account_if_the_first_did_not_take_it() {
    let accounts = vec![account("second", ProviderKind::Smtp, 2), account("first", ProviderKind::Ses, 1)];
    let house = House::of(accounts);
    assert_eq!(house.told(ChannelKind::Email, "stub:ok/a"), "first");
    house.stub("first").set_faults(DOWN);
    assert_eq!(house.told(ChannelKind::Email, "stub:ok/b"), "second");
    assert_eq!(house.stub("first").copies("stub:ok/b"), 0);
    house.stub("first").set_faults(Faults::default());
    assert_eq!(house.told(ChannelKind::Email, "stub:ok/c"), "second", "it rests, as its answer asked for");
    house.time.advance(10 * 60 * 1_000);
    assert_eq!(house.told(ChannelKind::Email, "stub:ok/d"), "first");
    assert_eq!(house.told(ChannelKind::Email, "stub:timeout"), "unknown timeout");
    assert_eq!(
        house.stub("second").copies("stub:timeout"),
        0,
        "who may have it is the only one who was asked"
    );
}

/// A token of one app is dead to every other: whoever asked the wrong account would lose its user.
// proves: PSH-04, DEV-02
#[test]
fn a_push_goes_through_the_account_of_its_app_and_no_other() {
    let app =
        |name: &str, order| Account { settings: name.into(), ..account(name, ProviderKind::Apns, order) };
    let house = House::of(vec![app("one", 1), app("two", 2), account("google", ProviderKind::Fcm, 1)]);
    let push = |app: &str| format!("apns production 5 {app} stub:ok/{app}");
    assert_eq!(house.told(ChannelKind::Push, &push("one")), "one");
    assert_eq!(house.told(ChannelKind::Push, &push("two")), "two");
    assert_eq!(house.told(ChannelKind::Push, &push("three")), "rejected Message no_provider");
    assert_eq!(house.told(ChannelKind::Push, "fcm token 5 - stub:ok/f"), "google");
    assert_eq!(house.told(ChannelKind::Push, "web 5 key auth stub:ok/w"), "rejected Message no_provider");
    assert_eq!(house.told(ChannelKind::Push, "token"), "rejected Malformed endpoint");
    house.stub("one").set_faults(DOWN);
    assert_eq!(house.told(ChannelKind::Push, &push("one")), "later None Origin 503", "nobody else is asked");
    assert_eq!(house.told(ChannelKind::Push, &push("two")), "two", "and the others do not notice");
}

// proves: RL-04, DEL-04
// fixes: interop F1
#[test]
fn an_account_without_room_puts_off_and_keeps_nobody_waiting() {
    let slow = Account { per_second: Some(10), ..account("slow", ProviderKind::Twilio, 1) };
    let house = House::of(vec![slow]);
    let endpoints: Vec<String> = (0..100).map(|no| format!("stub:ok/{no}")).collect();
    let messages = endpoints.iter().map(|endpoint| message(endpoint, endpoint.as_bytes())).collect();
    let deadline = house.time.monotonic().plus(2_000);
    let parcel = Shipment { deadline, ..shipment(messages) };
    let channel = house.registry.channel(ChannelKind::Sms);
    let answers = block_on(async {
        let moving = async {
            for _ in 0..2_000 {
                tokio::task::yield_now().await;
                house.time.advance(1);
            }
        };
        futures_util::future::join(send(&*channel, &parcel), moving).await.0
    });
    let sent = answers.iter().filter(|answer| matches!(answer, Answer::Accepted { .. })).count();
    assert!(
        (24..=26).contains(&sent),
        "ten at once, and one each tenth of a second until it is too late: {sent}"
    );
    let waits: Vec<u64> = answers
        .iter()
        .filter_map(|answer| match answer {
            Answer::NotSent { proof: Proof::NoRoom { after_ms }, .. } => Some(*after_ms),
            _ => None,
        })
        .collect();
    assert_eq!(waits.len() + sent, 100);
    assert!(
        waits.windows(2).all(|pair| pair[0] <= pair[1] && pair[1] <= pair[0] + 100),
        "one each tenth: {waits:?}"
    );
    assert!((6_000..=7_000).contains(waits.last().expect("some")), "{waits:?}");
}

// proves: TEN-05
#[test]
fn accounts_change_while_a_server_runs_and_those_that_did_not_stay() {
    let (mail, texts) = (account("mail", ProviderKind::Smtp, 1), account("texts", ProviderKind::Twilio, 1));
    let house = House::of(vec![mail.clone(), texts.clone()]);
    assert_eq!(house.told(ChannelKind::Sms, "stub:ok/a"), "texts");
    let rotated = Account { version: 2, secrets: Credentials::new(b"new".to_vec()), ..mail };
    house.registry.replace(TENANT, vec![rotated.clone(), texts.clone()]);
    assert_eq!((house.opened("mail"), house.opened("texts")), (2, 1));
    assert_eq!(house.told(ChannelKind::Email, "stub:ok/b"), "mail");
    let broken = Account { version: 3, settings: "unusable".into(), ..rotated };
    assert_eq!(house.registry.check(&broken), Err(SettingsError::new("/credentials/key", "is missing")));
    let hops = block_on(house.registry.probe(&broken));
    assert_eq!(hops, [Hop::failed("settings", "/credentials/key: is missing")]);
    house.registry.replace(TENANT, vec![broken.clone(), texts]);
    let answer = house.told(ChannelKind::Email, "stub:ok/c");
    assert_eq!(answer, "later Some(60000) Credential account_unusable");
    assert!(!format!("{broken:?}").contains("new"), "credentials are not shown");
    let standings = house.registry.standings();
    let usable: Vec<_> = standings.iter().map(|one| (&one.id[..], one.standing.is_usable)).collect();
    assert_eq!(usable, [("mail", false), ("texts", true)]);
}

/// Each has its own connections and pace; what one tenant changes costs the others nothing.
// fixes: security L12
#[test]
fn a_change_of_one_tenant_opens_no_account_of_another() {
    const OTHER: TenantId = TenantId(2);
    let house = House::of(vec![account("mine", ProviderKind::Smtp, 1)]);
    let theirs = Account { tenant: OTHER, ..account("theirs", ProviderKind::Smtp, 1) };
    house.registry.replace(OTHER, vec![theirs.clone()]);
    for version in 2..5 {
        let changed = Account { version, ..account("mine", ProviderKind::Smtp, 1) };
        house.registry.replace(TENANT, vec![changed]);
    }
    assert_eq!((house.opened("mine"), house.opened("theirs")), (4, 1));
    let of = |tenant| house.registry.standings_of(tenant).into_iter().map(|one| one.id).collect::<Vec<_>>();
    assert_eq!((of(TENANT), of(OTHER)), (vec!["mine".to_owned()], vec!["theirs".to_owned()]));
    house.registry.replace(OTHER, Vec::new());
    assert_eq!((of(TENANT).len(), of(OTHER).len()), (1, 0));
}

/// Copies of an account share its credentials, so that there is one place to overwrite.
// fixes: security L12
#[test]
fn credentials_are_not_copied_and_not_shown() {
    let credentials = Credentials::new(b"hunter2".to_vec());
    let account = Account { secrets: credentials.clone(), ..account("mail", ProviderKind::Smtp, 1) };
    assert_eq!(account.clone().secrets.bytes().as_ptr(), credentials.bytes().as_ptr());
    assert!(!format!("{account:?} {credentials:?}").contains("hunter2"));
}
