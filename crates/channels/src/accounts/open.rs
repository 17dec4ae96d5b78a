//! From an account to the client that speaks its provider's protocol: one arm for each kind, and what each is like.

use super::client::{Client, Deaf, Heard, Incoming, Usual, Wish};
use super::{CallbackProof, Opener};
use crate::apns::{self, Apns};
use crate::fcm::{self, Fcm};
use crate::fields::SettingsError;
use crate::probe::Hop;
use crate::remembered::Remembered;
use crate::ses::envelope::Envelope;
use crate::ses::{self, Ses, Sns, SnsError, Told};
use crate::smtp::{self, Smtp};
use crate::targets::{self, AccountTarget};
use crate::twilio::callback::{self, Keyword};
use crate::twilio::limits::REMEMBERED_MAX as INBOUND_REMEMBERED_MAX;
use crate::twilio::signature::{self, Signed};
use crate::twilio::{self, Twilio};
use crate::webpush::{self, WebPush};
use fantail_outbound::pool::Ports;
use fantail_ports::BoxFuture;
use fantail_ports::accounts::Account;
use fantail_ports::channel::{Channel, Report, Shipment};
use fantail_rules::pacing::{Concurrency, Rate};
use fantail_rules::provider_kind::ProviderKind;
use serde_json::Value;
use std::hint::black_box;
use std::sync::Arc;
use tracing::warn;

/// Makes clients with these ports. Nothing is connected to before something is sent. Errors point into the account: below
/// `/settings` or `/credentials`.
#[must_use]
pub fn opener(ports: Ports) -> Box<Opener> {
    Box::new(move |account| {
        let connector = ports.connector.of_tenant(account.tenant);
        open(Terms::read(account)?, Ports { connector, ..ports.clone() })
    })
}

/// Where the connections and the credentials of an account go, as its settings say it.
pub fn targets(account: &Account) -> Result<Vec<AccountTarget>, SettingsError> {
    Ok(Terms::read(account)?.targets())
}

/// Settings and credentials, as the provider's own code reads them.
enum Terms {
    Apns(apns::Settings, apns::Secrets),
    Fcm(fcm::Settings, fcm::Secrets),
    WebPush(webpush::Settings, webpush::Secrets),
    Ses(ses::Settings, ses::Secrets),
    Smtp(smtp::Settings, smtp::Secrets),
    Twilio(twilio::Settings, twilio::Secrets),
}

const SETTINGS: &str = "/settings";
const CREDENTIALS: &str = "/credentials";

impl Terms {
    fn read(account: &Account) -> Result<Self, SettingsError> {
        let of = |pointer: &'static str| move |error: SettingsError| error.below(pointer);
        let (own, secret) = (of(SETTINGS), of(CREDENTIALS));
        let mut settings: Value = serde_json::from_str(&account.settings)
            .map_err(|_| SettingsError::new(SETTINGS, "settings are no JSON"))?;
        let secrets: Value = serde_json::from_slice(account.secrets.bytes())
            .map_err(|_| SettingsError::new(CREDENTIALS, "credentials do not open"))?;
        Ok(match account.kind {
            ProviderKind::Apns => Self::Apns(
                apns::Settings::read(&settings).map_err(own)?,
                apns::Secrets::read(&secrets).map_err(secret)?,
            ),
            ProviderKind::Fcm => Self::Fcm(
                fcm::Settings::read(&settings).map_err(own)?,
                fcm::Secrets::read(&secrets).map_err(secret)?,
            ),
            ProviderKind::WebPush => Self::WebPush(
                webpush::Settings::read(&settings).map_err(own)?,
                webpush::Secrets::read(&secrets).map_err(secret)?,
            ),
            ProviderKind::Ses => Self::Ses(
                ses::Settings::read(&settings).map_err(own)?,
                ses::Secrets::read(&secrets).map_err(secret)?,
            ),
            ProviderKind::Smtp => Self::Smtp(
                smtp::Settings::read(&settings).map_err(own)?,
                smtp::Secrets::read(&secrets).map_err(secret)?,
            ),
            ProviderKind::Twilio => {
                // Callbacks come in under the account's name here.
                if let Some(fields) = settings.as_object_mut() {
                    fields.insert("account".to_owned(), account.id.clone().into());
                }
                Self::Twilio(
                    twilio::Settings::read(&settings).map_err(own)?,
                    twilio::Secrets::read(&secrets).map_err(secret)?,
                )
            }
        })
    }

    fn targets(&self) -> Vec<AccountTarget> {
        match self {
            Self::Apns(settings, _) => settings.targets(),
            Self::Fcm(settings, secrets) => settings.targets(secrets),
            Self::WebPush(settings, _) => settings.targets(),
            Self::Ses(settings, _) => settings.targets(),
            Self::Smtp(settings, _) => settings.targets(),
            Self::Twilio(settings, _) => settings.targets(),
        }
    }
}

fn open(terms: Terms, ports: Ports) -> Result<Arc<dyn Client>, SettingsError> {
    targets::judge(&terms.targets(), ports.connector.policy())?;
    client(terms, ports).map_err(|error| error.below(SETTINGS))
}

fn client(terms: Terms, ports: Ports) -> Result<Arc<dyn Client>, SettingsError> {
    Ok(match terms {
        Terms::Apns(settings, secrets) => Arc::new(Apns::open(settings, secrets, ports)?),
        Terms::Fcm(settings, secrets) => Arc::new(Fcm::open(settings, secrets, ports)?),
        Terms::WebPush(settings, secrets) => Arc::new(WebPush::open(settings, secrets, ports)?),
        Terms::Ses(settings, secrets) => {
            let events = Sns::open(&settings, ports.clone())?;
            Arc::new(Mailings { client: Ses::open(settings, secrets, ports)?, events })
        }
        Terms::Smtp(settings, secrets) => Arc::new(Smtp::open(settings, secrets, ports)?),
        Terms::Twilio(settings, secrets) => {
            let client = Twilio::open(settings, secrets.clone(), ports)?;
            Arc::new(Texts { client, secrets, inbound: Remembered::new(INBOUND_REMEMBERED_MAX) })
        }
    })
}

/// Many small requests on few connections.
const fn push(per_second: u32) -> Usual {
    Usual {
        rate: Rate { per_second, burst: per_second / 4 },
        concurrency: Concurrency { start: 2_000, ceiling: 8_000 },
    }
}

/// What each provider says later comes by the minute, not by the second: it is asked for little at a time.
/// There are as many places as the client has: more messages would wait there and miss their time.
fn slower(per_second: u32, places: usize) -> Usual {
    let places = u32::try_from(places).unwrap_or(u32::MAX);
    Usual {
        rate: Rate { per_second, burst: per_second },
        concurrency: Concurrency { start: places, ceiling: places },
    }
}

impl Client for Apns {
    fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        Apns::probe(self)
    }

    /// Apple names no rate.
    fn usual(&self) -> Usual {
        push(200_000)
    }

    fn serves(&self, endpoint: &[u8]) -> bool {
        Apns::serves(self, endpoint)
    }
}

impl Client for Fcm {
    fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        Fcm::probe(self)
    }

    /// Each project has its quota in the client; this is above all of them.
    fn usual(&self) -> Usual {
        push(200_000)
    }
}

impl Client for WebPush {
    fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        WebPush::probe(self)
    }

    fn usual(&self) -> Usual {
        push(50_000)
    }

    fn public_key(&self) -> Option<&str> {
        Some(WebPush::public_key(self))
    }
}

impl Client for Smtp {
    fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        Box::pin(Smtp::probe(self))
    }

    /// A relay of one's own has no limit but what its connections bear.
    fn usual(&self) -> Usual {
        slower(10_000, self.connections_max())
    }

    /// A report of a mail server, as it came in. Its caller has shown that it may speak for the mail server.
    fn hear<'a>(&'a self, call: &'a Incoming) -> BoxFuture<'a, Result<Heard, Deaf>> {
        Box::pin(async move {
            let sent_to = call.header("x-envelope-to").or_else(|| call.header("x-original-to"));
            let events = smtp::report::read(&call.body, sent_to);
            let events = events.map_err(|error| Deaf::Malformed(error.to_string()))?;
            Ok(Heard { events, ..Heard::default() })
        })
    }
}

/// Mail through SES, and the events that SNS brings about it.
struct Mailings {
    client: Ses,
    events: Sns,
}

impl Channel for Mailings {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        self.client.send(shipment, report)
    }
}

impl Client for Mailings {
    fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        Box::pin(self.client.probe())
    }

    /// The account's own quota is in the client, as SES tells it.
    fn usual(&self) -> Usual {
        slower(10_000, self.client.places())
    }

    fn hear<'a>(&'a self, call: &'a Incoming) -> BoxFuture<'a, Result<Heard, Deaf>> {
        Box::pin(async move {
            match self.events.take(&call.body).await.map_err(deaf)? {
                Told::Event { event, message_id } => {
                    Ok(Heard { events: vec![event], message_id: Some(message_id), ..Heard::default() })
                }
                Told::Confirm { url } => {
                    self.events.confirm(&url).await.map_err(deaf)?;
                    Ok(Heard::default())
                }
                Told::Nothing | Told::Repeat => Ok(Heard::default()),
                Told::Unsubscribed { topic } => {
                    warn!(topic, "SNS tells nothing more about this topic");
                    Ok(Heard::default())
                }
            }
        })
    }

    fn written(&self, message_id: String) {
        self.events.remember(message_id);
    }
}

fn deaf(error: SnsError) -> Deaf {
    match error {
        error if error.is_temporary() => Deaf::NotNow(error.to_string()),
        SnsError::Event(error) => Deaf::Malformed(error.to_string()),
        _ => Deaf::NotProven,
    }
}

/// Text messages, and what proves that a callback about them is Twilio's.
struct Texts {
    client: Twilio,
    secrets: twilio::Secrets,
    /// Messages of recipients that are durable. Twilio signs no time, so that a copy of one is good for ever.
    inbound: Remembered,
}

impl Channel for Texts {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        self.client.send(shipment, report)
    }
}

impl Client for Texts {
    fn probe(&self) -> BoxFuture<'_, Vec<Hop>> {
        self.client.probe()
    }

    /// Each sender has its own pace in the client.
    fn usual(&self) -> Usual {
        slower(self.client.per_second().max(1_000), self.client.places())
    }

    fn hear<'a>(&'a self, call: &'a Incoming) -> BoxFuture<'a, Result<Heard, Deaf>> {
        Box::pin(async move {
            let parameters = signature::validate(&signed(call), &self.secrets);
            let parameters = parameters.map_err(|_| Deaf::NotProven)?;
            // The last part of a status callback's path; what recipients write comes without one.
            let path = call.url.split('?').next().unwrap_or_default();
            let reference = path.rsplit('/').next().unwrap_or_default();
            let events = callback::event(reference, &parameters).into_iter().collect();
            let inbound = callback::inbound(&parameters);
            let is_repeat = |id: &String| self.inbound.contains(id);
            let inbound = inbound.filter(|inbound| !inbound.message_id.as_ref().is_some_and(is_repeat));
            let (wish, message_id) = inbound.and_then(wish).unzip();
            Ok(Heard { events, wishes: wish.into_iter().collect(), message_id: message_id.flatten() })
        })
    }

    fn written(&self, message_id: String) {
        self.inbound.insert(message_id);
    }
}

/// A call of Twilio.
fn signed(call: &Incoming) -> Signed<'_> {
    let is_form = call.header("content-type").is_some_and(|kind| {
        kind.trim_start().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded")
    });
    Signed {
        url: &call.url,
        signature: call.header(signature::SIGNATURE),
        settings: call.header(signature::SIGNATURE_SETTINGS),
        is_form,
        body: &call.body,
    }
}

/// The work that an account has with a call whose signature is wrong, for a call that no account checks: how long the answer
/// takes does not tell which accounts there are.
pub fn check_in_vain(call: &Incoming, proof: CallbackProof) {
    match proof {
        CallbackProof::TwilioSignature => drop(black_box(signature::refuse_as_slowly(&signed(call)))),
        CallbackProof::SnsSignature => drop(black_box(Envelope::read(&call.body))),
        CallbackProof::Secret => {}
    }
}

fn wish(inbound: callback::Inbound) -> Option<(Wish, Option<String>)> {
    let is_stop = match inbound.keyword {
        Keyword::Stop => true,
        Keyword::Start => false,
        Keyword::Help | Keyword::Other => return None,
    };
    Some((Wish { from: inbound.from, is_stop }, inbound.message_id))
}
