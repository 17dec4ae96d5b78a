//! What SNS wraps around a message, and the signature on it.
//!
//! What must never happen: a URL of a message that is called although it is not one of SNS itself, in the region of the message's
//! own topic; or a field that is believed before the signature over it was checked.

use super::certificate::CertificateTerms;
use super::events::time;
use super::limits::{ENVELOPE_BYTES_MAX, MESSAGE_AGE_MS_MAX};
use crate::webhook::url::Url;
use aws_lc_rs::signature::{
    RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256, RsaParameters,
    UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fantail_rules::ids::Millis;
use serde_json::Value;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::server::ParsedCertificate;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    pub kind: Kind,
    pub message_id: String,
    pub topic: String,
    pub message: String,
    subject: Option<String>,
    timestamp: String,
    version: Version,
    signature: Vec<u8>,
    pub certificate_url: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Notification,
    /// Somebody subscribed us: this URL says that we want it.
    Subscription {
        token: String,
        url: String,
    },
    /// We were unsubscribed: the same URL takes it back.
    Unsubscription {
        token: String,
        url: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Sha1,
    Sha256,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EnvelopeError {
    #[error("this is no message of SNS")]
    NotAnEnvelope,
    #[error("{field} is not a URL of SNS in the region of the topic")]
    ForeignUrl { field: &'static str },
    #[error("the certificate cannot be read")]
    BadCertificate,
    #[error("the certificate is of somebody else, or not of this time")]
    ForeignCertificate,
    #[error("the signature is not that of the certificate")]
    Forged,
    #[error("the message is of another time")]
    TooOld,
}

impl Envelope {
    /// Every URL in it is one of SNS in the region of its topic; nothing else is known yet.
    pub fn read(body: &[u8]) -> Result<Self, EnvelopeError> {
        let wrong = EnvelopeError::NotAnEnvelope;
        if body.len() > ENVELOPE_BYTES_MAX {
            return Err(wrong);
        }
        let value: Value = serde_json::from_slice(body).map_err(|_| wrong.clone())?;
        let optional = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let text = |name: &str| optional(name).ok_or(EnvelopeError::NotAnEnvelope);
        let topic = text("TopicArn")?;
        let host = SnsHost::of_topic(&topic).ok_or(EnvelopeError::NotAnEnvelope)?;
        let confirmation = || -> Result<(String, String), EnvelopeError> {
            let url = text("SubscribeURL")?;
            match host.has(&url) {
                true => Ok((text("Token")?, url)),
                false => Err(EnvelopeError::ForeignUrl { field: "SubscribeURL" }),
            }
        };
        let kind = match text("Type")?.as_str() {
            "Notification" => Kind::Notification,
            "SubscriptionConfirmation" => {
                let (token, url) = confirmation()?;
                Kind::Subscription { token, url }
            }
            "UnsubscribeConfirmation" => {
                let (token, url) = confirmation()?;
                Kind::Unsubscription { token, url }
            }
            _ => return Err(wrong),
        };
        let version = match text("SignatureVersion")?.as_str() {
            "1" => Version::Sha1,
            "2" => Version::Sha256,
            _ => return Err(wrong),
        };
        let certificate_url = text("SigningCertURL")?;
        if !host.has(&certificate_url) || !is_certificate_of_sns(&certificate_url) {
            return Err(EnvelopeError::ForeignUrl { field: "SigningCertURL" });
        }
        Ok(Self {
            kind,
            message_id: text("MessageId")?,
            topic,
            message: text("Message")?,
            subject: optional("Subject"),
            timestamp: text("Timestamp")?,
            version,
            signature: STANDARD.decode(text("Signature")?).map_err(|_| EnvelopeError::NotAnEnvelope)?,
            certificate_url,
        })
    }

    /// Whether the owner of this certificate wrote it, not long ago, and is SNS in the region of the topic.
    pub fn verify(&self, certificate_pem: &[u8], now: Millis) -> Result<(), EnvelopeError> {
        let bad = |_| EnvelopeError::BadCertificate;
        let certificate = CertificateDer::from_pem_slice(certificate_pem).map_err(bad)?;
        let terms = CertificateTerms::read(&certificate).ok_or(EnvelopeError::BadCertificate)?;
        let host = SnsHost::of_topic(&self.topic).ok_or(EnvelopeError::NotAnEnvelope)?;
        if !terms.is_good_at(now) || !terms.names.iter().any(|name| host.signs_as(name)) {
            return Err(EnvelopeError::ForeignCertificate);
        }
        let parsed = ParsedCertificate::try_from(&certificate).map_err(|_| EnvelopeError::BadCertificate)?;
        let key = parsed.subject_public_key_info();
        let algorithm: &'static RsaParameters = match self.version {
            Version::Sha1 => &RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
            Version::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
        };
        let verified =
            UnparsedPublicKey::new(algorithm, key.as_ref()).verify(self.signed().as_bytes(), &self.signature);
        verified.map_err(|_| EnvelopeError::Forged)?;
        let written = time(&self.timestamp).ok_or(EnvelopeError::NotAnEnvelope)?;
        let is_recent = written.0.abs_diff(now.0) <= MESSAGE_AGE_MS_MAX;
        if is_recent { Ok(()) } else { Err(EnvelopeError::TooOld) }
    }

    /// What the signature is over: names and values, each on its own line, in the order of the names.
    fn signed(&self) -> String {
        let mut lines = vec![("Message", &self.message), ("MessageId", &self.message_id)];
        let kind = match &self.kind {
            Kind::Notification => {
                lines.extend(self.subject.as_ref().map(|subject| ("Subject", subject)));
                lines.push(("Timestamp", &self.timestamp));
                "Notification"
            }
            Kind::Subscription { token, url } => {
                lines.extend([("SubscribeURL", url), ("Timestamp", &self.timestamp), ("Token", token)]);
                "SubscriptionConfirmation"
            }
            Kind::Unsubscription { token, url } => {
                lines.extend([("SubscribeURL", url), ("Timestamp", &self.timestamp), ("Token", token)]);
                "UnsubscribeConfirmation"
            }
        };
        lines.push(("TopicArn", &self.topic));
        let lines: String = lines.iter().map(|(name, value)| format!("{name}\n{value}\n")).collect();
        format!("{lines}Type\n{kind}\n")
    }
}

/// Where SNS is, in the region of a topic. The region is never taken from a URL: `s3-us-west-2` looks like one, and
/// `sns.s3-us-west-2.amazonaws.com` is a bucket of whoever has it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SnsHost {
    region: String,
    /// Of all hosts in this part of Amazon.
    suffix: &'static str,
}

impl SnsHost {
    /// Of `arn:PARTITION:sns:REGION:ACCOUNT:NAME`.
    #[must_use]
    pub fn of_topic(arn: &str) -> Option<Self> {
        let mut parts = arn.split(':');
        let suffix = match (parts.next()?, parts.next()?, parts.next()?) {
            ("arn", "aws" | "aws-us-gov", "sns") => "amazonaws.com",
            ("arn", "aws-cn", "sns") => "amazonaws.com.cn",
            _ => return None,
        };
        let region = parts.next()?;
        let (account, name) = (parts.next()?, parts.next()?);
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_topic = region.bytes().all(is_plain)
            && (3..=REGION_BYTES_MAX).contains(&region.len())
            && !account.is_empty()
            && account.bytes().all(|byte| byte.is_ascii_digit())
            && !name.is_empty()
            && parts.next().is_none();
        is_topic.then(|| Self { region: region.to_owned(), suffix })
    }

    /// Whether a URL can be called and leads there.
    #[must_use]
    pub fn has(&self, url: &str) -> bool {
        url_of_sns(url).is_some_and(|(host, _)| host == format!("sns.{}.{}", self.region, self.suffix))
    }

    /// Whether SNS signs messages of this region with a certificate for this name.
    fn signs_as(&self, name: &str) -> bool {
        let Self { region, suffix } = self;
        // Both regions of the government share one.
        let of_government = region.starts_with("us-gov-") && name == "sns-us-gov-west-1.amazonaws.com";
        of_government
            || name == format!("sns.{suffix}")
            || ["sns.", "sns-", "sns-signing."]
                .iter()
                .any(|front| name == format!("{front}{region}.{suffix}"))
    }
}

/// The longest that there is has 14.
const REGION_BYTES_MAX: usize = 32;

/// `https://sns.REGION.amazonaws.com/…`, or `.com.cn`; the host, and path and query. [`SnsHost`] says whether it is the right one.
#[must_use]
pub fn url_of_sns(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("https://")?;
    let (host, path) = rest.split_at(rest.find('/')?);
    let region = host.strip_prefix("sns.")?;
    let region = region.strip_suffix(".cn").unwrap_or(region).strip_suffix(".amazonaws.com")?;
    let is_region = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_callable = !path.contains('#') && Url::parse(url).is_ok();
    (region.len() >= 3 && region.bytes().all(is_region) && is_callable).then_some((host, path))
}

/// Whether the path is one of SNS's certificates, so that nobody makes us ask for anything else there.
fn is_certificate_of_sns(url: &str) -> bool {
    let name = url_of_sns(url).and_then(|(_, path)| path.strip_prefix("/SimpleNotificationService-"));
    let serial = name.and_then(|name| name.strip_suffix(".pem"));
    serial.is_some_and(|serial| !serial.is_empty() && serial.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// When the messages in the tests were written.
    const NOW: Millis = Millis(1_794_817_800_000);
    const CERTIFICATE: &[u8] = include_bytes!("../../tests/golden/sns-certificate.pem");

    /// The bucket named `sns` at S3 belongs to a stranger.
    // fixes: security L4
    #[test]
    fn only_the_host_in_the_region_of_the_topic_is_sns() {
        let topic = |partition: &str, region: &str| format!("arn:{partition}:sns:{region}:123456789012:mail");
        for (partition, region, url, is_there) in [
            ("aws", "eu-west-1", "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-a.pem", true),
            (
                "aws-us-gov",
                "us-gov-east-1",
                "https://sns.us-gov-east-1.amazonaws.com/SimpleNotificationService-a.pem",
                true,
            ),
            (
                "aws-cn",
                "cn-north-1",
                "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-a.pem",
                true,
            ),
            (
                "aws",
                "eu-west-1",
                "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-a.pem",
                false,
            ),
            (
                "aws",
                "us-west-2",
                "https://sns.s3-us-west-2.amazonaws.com/SimpleNotificationService-a.pem",
                false,
            ),
            (
                "aws",
                "us-west-2",
                "https://sns.s3-accelerate.amazonaws.com/SimpleNotificationService-a.pem",
                false,
            ),
            (
                "aws",
                "cn-north-1",
                "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-a.pem",
                false,
            ),
        ] {
            let arn = topic(partition, region);
            let host = SnsHost::of_topic(&arn).expect("a topic");
            assert_eq!(host.has(url), is_there, "{arn} {url}");
            let read = envelope(|value| {
                value["TopicArn"] = arn.clone().into();
                value["SigningCertURL"] = url.into();
            });
            assert_eq!(read.is_ok(), is_there, "{arn} {url}");
        }
        for no_topic in [
            "",
            "arn:aws:sns:eu-west-1:1",
            "arn:aws:sns::1:mail",
            "arn:aws:sns:eu.west:1:mail",
            "arn:aws:sqs:eu-west-1:1:mail",
            "arn:aws:sns:eu-west-1:x:mail",
            "arn:aws:sns:eu-west-1:1:mail:more",
            "arn:other:sns:eu-west-1:1:mail",
        ] {
            assert_eq!(SnsHost::of_topic(no_topic), None, "{no_topic}");
        }
    }

    // fixes: security L4
    #[test]
    fn certificates_are_of_sns_and_of_this_time() {
        let check = |region: &str, name: &str, expected: bool| {
            let arn = format!("arn:aws:sns:{region}:123456789012:mail");
            let host = SnsHost::of_topic(&arn).expect("a topic");
            assert_eq!(host.signs_as(name), expected, "{region} {name}");
        };
        check("eu-west-1", "sns.amazonaws.com", true);
        check("eu-west-1", "sns.eu-west-1.amazonaws.com", true);
        check("af-south-1", "sns-signing.af-south-1.amazonaws.com", true);
        check("us-gov-east-1", "sns-us-gov-west-1.amazonaws.com", true);
        check("eu-west-1", "sns-us-gov-west-1.amazonaws.com", false);
        check("eu-west-1", "sns-signing.af-south-1.amazonaws.com", false);
        check("eu-west-1", "sns.s3-us-west-2.amazonaws.com", false);
        check("eu-west-1", "*.amazonaws.com", false);
        check("eu-west-1", "sns.amazonaws.com.evil.example", false);
        check("eu-west-1", "", false);
        let messages = include_bytes!("../../tests/golden/sns-messages.json");
        let messages: Vec<Value> = serde_json::from_slice(messages).expect("a list");
        let read = Envelope::read(messages[0].to_string().as_bytes()).expect("an envelope");
        let (day_ms, year_ms) = (MESSAGE_AGE_MS_MAX, 366 * 24 * 3_600_000);
        for (now, expected) in [
            (NOW, Ok(())),
            (Millis(NOW.0 + day_ms), Ok(())),
            (Millis(NOW.0 - day_ms), Ok(())),
            (Millis(NOW.0 + day_ms + 1), Err(EnvelopeError::TooOld)),
            (Millis(NOW.0 - day_ms - 1), Err(EnvelopeError::TooOld)),
            (Millis(NOW.0 - year_ms), Err(EnvelopeError::ForeignCertificate)),
            (Millis(NOW.0 + 20 * year_ms), Err(EnvelopeError::ForeignCertificate)),
        ] {
            assert_eq!(read.verify(CERTIFICATE, now), expected, "{now:?}");
        }
    }

    #[test]
    fn only_urls_of_sns_are_called() {
        for url in [
            "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-a.pem",
            "https://sns.us-gov-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=x",
            "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-a.pem",
        ] {
            assert!(url_of_sns(url).is_some(), "{url}");
        }
        for url in [
            "http://sns.eu-west-1.amazonaws.com/SimpleNotificationService-a.pem",
            "https://sns.eu-west-1.amazonaws.com.evil.example/SimpleNotificationService-a.pem",
            "https://sns.eu-west-1.amazonaws.com:444/SimpleNotificationService-a.pem",
            "https://sns.eu-west-1.amazonaws.com@evil.example/SimpleNotificationService-a.pem",
            "https://evil.example/sns.eu-west-1.amazonaws.com/SimpleNotificationService-a.pem",
            "https://sns.a.b.amazonaws.com/SimpleNotificationService-a.pem",
            "https://sns..amazonaws.com/SimpleNotificationService-a.pem",
            "https://sns.EU-WEST-1.amazonaws.com/SimpleNotificationService-a.pem",
            "https://sns.eu-west-1.amazonaws.com",
            "https://sns.eu-west-1.amazonaws.com/a b",
            "https://sns.eu-west-1.amazonaws.com/a<b",
            "https://sns.--west-1.amazonaws.com/SimpleNotificationService-a.pem",
            "https://sns.eu-west-1.amazonaws.com\\@evil.example/",
            "",
        ] {
            assert!(url_of_sns(url).is_none(), "{url}");
        }
    }

    fn envelope(change: impl FnOnce(&mut Value)) -> Result<Envelope, EnvelopeError> {
        let mut value = json!({
            "Type": "Notification",
            "MessageId": "m1",
            "TopicArn": "arn:aws:sns:eu-west-1:123456789012:mail",
            "Message": "{}",
            "Timestamp": "2026-11-16T08:30:00.000Z",
            "SignatureVersion": "2",
            "Signature": "AAAA",
            "SigningCertURL": "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-a.pem",
        });
        change(&mut value);
        Envelope::read(value.to_string().as_bytes())
    }

    #[test]
    fn what_is_signed_is_in_order() {
        let read = envelope(|value| value["Subject"] = "s".into()).expect("an envelope");
        assert_eq!(
            read.signed(),
            "Message\n{}\nMessageId\nm1\nSubject\ns\nTimestamp\n2026-11-16T08:30:00.000Z\n\
             TopicArn\narn:aws:sns:eu-west-1:123456789012:mail\nType\nNotification\n"
        );
        assert_eq!(read.verify(b"no certificate", NOW), Err(EnvelopeError::BadCertificate));
    }

    /// Signed by `cryptography` of Python, in both versions.
    #[test]
    fn signatures_of_both_versions_are_checked() {
        let messages = include_bytes!("../../tests/golden/sns-messages.json");
        let certificate = include_bytes!("../../tests/golden/sns-certificate.pem");
        let messages: Vec<Value> = serde_json::from_slice(messages).expect("a list");
        assert_eq!(messages.len(), 4);
        for message in messages {
            let read = |value: &Value| Envelope::read(value.to_string().as_bytes()).expect("an envelope");
            assert_eq!(read(&message).verify(certificate, NOW), Ok(()), "{message}");
            for field in ["Message", "MessageId", "Timestamp", "TopicArn", "Token", "Subject"] {
                let mut forged = message.clone();
                if forged.get(field).is_some() {
                    // As good as the one that was signed, but for the signature.
                    forged[field] = match field {
                        "TopicArn" => "arn:aws:sns:eu-west-1:123456789012:another".into(),
                        _ => "another".into(),
                    };
                    assert_eq!(read(&forged).verify(certificate, NOW), Err(EnvelopeError::Forged), "{field}");
                }
            }
            let mut forged = message.clone();
            let other = if message["SignatureVersion"] == "1" { "2" } else { "1" };
            forged["SignatureVersion"] = other.into();
            assert_eq!(read(&forged).verify(certificate, NOW), Err(EnvelopeError::Forged), "version {other}");
        }
    }

    #[test]
    fn foreign_urls_are_refused() {
        for path in ["a.pem", "x?.pem", "SimpleNotificationService-.pem", "SimpleNotificationService-a/b.pem"]
        {
            let url = format!("https://sns.eu-west-1.amazonaws.com/{path}");
            assert!(!is_certificate_of_sns(&url), "{url}");
        }
        let refused = envelope(|value| {
            value["SigningCertURL"] = "https://evil.example/SimpleNotificationService-a.pem".into()
        });
        assert_eq!(refused, Err(EnvelopeError::ForeignUrl { field: "SigningCertURL" }));
        let refused = envelope(|value| {
            value["Type"] = "SubscriptionConfirmation".into();
            value["Token"] = "t".into();
            value["SubscribeURL"] = "https://evil.example/".into();
        });
        assert_eq!(refused, Err(EnvelopeError::ForeignUrl { field: "SubscribeURL" }));
        for field in
            ["Type", "MessageId", "TopicArn", "Message", "Signature", "SignatureVersion", "Timestamp"]
        {
            assert_eq!(
                envelope(|value| value[field] = Value::Null),
                Err(EnvelopeError::NotAnEnvelope),
                "{field}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(bytes in any::<Vec<u8>>()) {
            prop_assert!(Envelope::read(&bytes).is_err());
        }

        #[test]
        fn any_url_is_judged(url in "https://sns[ -~]{0,40}") {
            if let Some((host, path)) = url_of_sns(&url) {
                prop_assert!(host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn"));
                prop_assert!(path.starts_with('/') && !host.contains(['@', ':', '/']));
            }
        }
    }
}
