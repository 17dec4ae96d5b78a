//! Topics, who listens to them, and the messages they get: signed, posted, tried again if nobody takes them.
//!
//! Signatures are version 2 (SHA-256). Version 1 is SHA-1, which our cryptography verifies but does not sign.

use super::NAME;
use crate::faults::receipt;
use crate::ids;
use crate::outgoing;
use crate::record::hex;
use crate::world::World;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::http::{HeaderMap, HeaderValue};
use rcgen::{CertificateParams, DnType, PKCS_RSA_SHA256};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tracing::warn;

const TOPICS_MAX: usize = 1_000;
const SUBSCRIPTIONS_MAX: usize = 100;
/// A message is posted so often until somebody takes it.
const TRIES: u32 = 3;
const AGAIN: Duration = Duration::from_millis(500);
pub const ACCOUNT: &str = "123456789012";

pub struct Topics {
    world: World,
    topics: Mutex<BTreeMap<String, Vec<Subscription>>>,
    /// Made when the first message is signed: making an RSA key takes a while.
    seal: OnceLock<Option<Seal>>,
    count: Mutex<u64>,
}

#[derive(Clone)]
struct Subscription {
    arn: String,
    url: String,
    token: String,
    is_confirmed: bool,
}

struct Seal {
    key: KeyPair,
    certificate_pem: String,
    serial: String,
}

/// What is posted about.
enum Kind {
    Notification { subject: Option<String> },
    Confirmation { token: String },
}

impl Topics {
    #[must_use]
    pub fn new(world: World) -> Arc<Self> {
        Arc::new(Self { world, topics: Mutex::default(), seal: OnceLock::new(), count: Mutex::new(0) })
    }

    pub fn create(&self, region: &str, name: &str) -> Option<String> {
        let arn = format!("arn:aws:sns:{region}:{ACCOUNT}:{name}");
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let mut topics = self.topics();
        let fits =
            !name.is_empty() && name.len() <= 256 && name.bytes().all(is_name) && topics.len() < TOPICS_MAX;
        fits.then(|| {
            topics.entry(arn.clone()).or_default();
            arn
        })
    }

    /// The ARN of the subscription; the URL is asked to confirm it.
    pub fn subscribe(self: &Arc<Self>, topic: &str, url: &str) -> Option<String> {
        let subscription = Subscription {
            arn: format!("{topic}:{}", ids::uuid()),
            url: url.to_owned(),
            token: hex(&ids::bytes::<32>()),
            is_confirmed: false,
        };
        {
            let mut topics = self.topics();
            let subscriptions = topics.get_mut(topic).filter(|all| all.len() < SUBSCRIPTIONS_MAX)?;
            subscriptions.retain(|one| one.url != url);
            subscriptions.push(subscription.clone());
        }
        let text = format!(
            "You have chosen to subscribe to the topic {topic}.\nTo confirm the subscription, visit the SubscribeURL included in this message."
        );
        let Subscription { arn, url, token, .. } = subscription;
        self.post(topic, &url, text, Kind::Confirmation { token });
        Some(arn)
    }

    pub fn confirm(&self, topic: &str, token: &str) -> Option<String> {
        let mut topics = self.topics();
        let one = topics.get_mut(topic)?.iter_mut().find(|one| one.token == token)?;
        one.is_confirmed = true;
        Some(one.arn.clone())
    }

    /// The id of the message; `None` if there is no such topic.
    pub fn publish(self: &Arc<Self>, topic: &str, message: &str, subject: Option<&str>) -> Option<String> {
        let urls: Vec<String> = {
            let topics = self.topics();
            topics.get(topic)?.iter().filter(|one| one.is_confirmed).map(|one| one.url.clone()).collect()
        };
        let mut id = ids::uuid();
        for url in urls {
            let subject = subject.map(str::to_owned);
            id = self.post(topic, &url, message.to_owned(), Kind::Notification { subject });
        }
        Some(id)
    }

    pub fn list(&self) -> Value {
        let show =
            |one: &Subscription| json!({"arn": one.arn, "url": one.url, "confirmed": one.is_confirmed});
        let topics = self.topics();
        topics
            .iter()
            .map(
                |(arn, all)| json!({"topic": arn, "subscriptions": all.iter().map(show).collect::<Vec<_>>()}),
            )
            .collect()
    }

    /// By the serial number in its name.
    pub fn certificate(&self, serial: &str) -> Option<String> {
        let seal = self.seal()?;
        (seal.serial == serial).then(|| seal.certificate_pem.clone())
    }

    fn post(self: &Arc<Self>, topic: &str, url: &str, message: String, kind: Kind) -> String {
        let id = ids::uuid();
        let count = {
            let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
            *count += 1;
            *count
        };
        let (this, topic, url, given) = (Arc::clone(self), topic.to_owned(), url.to_owned(), id.clone());
        tokio::spawn(async move {
            let how = receipt(&this.world.faults().profile(NAME), count);
            tokio::time::sleep(Duration::from_millis(how.delay_ms)).await;
            let signing = Arc::clone(&this);
            let envelope =
                tokio::task::spawn_blocking(move || signing.envelope(&topic, message, kind, given)).await;
            let Ok(Some((headers, body))) = envelope else { return warn!("a message could not be signed") };
            for _ in 0..how.copies {
                this.try_to_post(&url, &headers, &body).await;
            }
        });
        id
    }

    async fn try_to_post(&self, url: &str, headers: &HeaderMap, body: &Bytes) {
        for _ in 0..TRIES {
            match outgoing::post(&self.world, url, headers.clone(), body.clone()).await {
                Ok(status) if status.is_success() => return,
                Ok(status) => warn!(%status, "a message of a topic was not taken"),
                Err(error) => warn!(%error, "a message of a topic was not taken"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn envelope(&self, topic: &str, message: String, kind: Kind, id: String) -> Option<(HeaderMap, Bytes)> {
        let region = topic.split(':').nth(3).unwrap_or("us-east-1");
        let host = format!("https://sns.{region}.amazonaws.com");
        let seal = self.seal()?;
        let mut value = json!({
            "MessageId": id,
            "TopicArn": topic,
            "Message": message,
            "Timestamp": rfc3339(self.world.now_ms(NAME)),
            "SignatureVersion": "2",
            "SigningCertURL": format!("{host}/SimpleNotificationService-{}.pem", seal.serial),
        });
        let name = match kind {
            Kind::Notification { subject } => {
                if let Some(subject) = subject {
                    value["Subject"] = subject.into();
                }
                value["UnsubscribeURL"] =
                    format!("{host}/?Action=Unsubscribe&SubscriptionArn={topic}").into();
                "Notification"
            }
            Kind::Confirmation { token } => {
                value["SubscribeURL"] =
                    format!("{host}/?Action=ConfirmSubscription&TopicArn={topic}&Token={token}").into();
                value["Token"] = token.into();
                "SubscriptionConfirmation"
            }
        };
        value["Type"] = name.into();
        let names =
            ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"];
        let lines =
            names.iter().filter_map(|name| Some(format!("{name}\n{}\n", value.get(*name)?.as_str()?)));
        value["Signature"] = STANDARD.encode(seal.sign(lines.collect::<String>().as_bytes())?).into();
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("text/plain; charset=UTF-8"));
        headers.insert("x-amz-sns-message-type", HeaderValue::from_static(name));
        headers.insert("x-amz-sns-topic-arn", HeaderValue::from_str(topic).ok()?);
        Some((headers, Bytes::from(value.to_string())))
    }

    fn seal(&self) -> Option<&Seal> {
        self.seal.get_or_init(Seal::new).as_ref()
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Subscription>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seal {
    fn new() -> Option<Self> {
        let key = KeyPair::generate(KeySize::Rsa2048).ok()?;
        let pkcs8 = key.as_der().ok()?;
        let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec());
        let signer = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &PKCS_RSA_SHA256).ok()?;
        let mut params = CertificateParams::new(Vec::new()).ok()?;
        params.distinguished_name.push(DnType::CommonName, "sns.amazonaws.com");
        let certificate_pem = params.self_signed(&signer).ok()?.pem();
        Some(Self { key, certificate_pem, serial: hex(&ids::bytes::<16>()) })
    }

    fn sign(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut signature = vec![0; self.key.public_modulus_len()];
        self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), bytes, &mut signature).ok()?;
        Some(signature)
    }
}

/// `2026-11-16T08:30:00.000Z`.
#[must_use]
pub fn rfc3339(at_ms: u64) -> String {
    let (days, ms) = (at_ms / 86_400_000, at_ms % 86_400_000);
    // Years begin in March here, so that the leap day is the last one.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let seconds = ms / 1_000;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        ms % 1_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_794_817_800_250), "2026-11-16T08:30:00.250Z");
        assert_eq!(rfc3339(1_709_164_800_000), "2024-02-29T00:00:00.000Z");
    }
}
