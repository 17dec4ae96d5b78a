//! Envelopes of SNS: a URL that is accepted is one of SNS itself, and a signature that holds is over what was signed.

use fantail_channels::ses::envelope::{Envelope, EnvelopeError, Kind, url_of_sns};
use fantail_channels::webhook::url::{Host, Scheme, Url};
use fantail_fuzz::{Corpus, fuzz};
use fantail_rules::ids::Millis;
use serde_json::{Value, json};

/// Signed by another implementation: notifications and confirmations in both versions of the signature.
const SIGNED: &[u8] = include_bytes!("../../../channels/tests/golden/sns-messages.json");
const CERTIFICATE: &[u8] = include_bytes!("../../../channels/tests/golden/sns-certificate.pem");
/// When these were written.
const NOW: Millis = Millis(1_794_817_800_000);
/// The longest that SNS sends.
const BYTES_MAX: usize = 256 << 10;

const WORDS: &[&str] = &[
    "null",
    "\"Type\":",
    "\"Notification\"",
    "\"SubscriptionConfirmation\"",
    "\"UnsubscribeConfirmation\"",
    "\"SignatureVersion\":\"1\",",
    "\"SignatureVersion\":\"2\",",
    "\"SigningCertURL\":",
    "\"SubscribeURL\":",
    "\"Subject\":\"\",",
    "\"Token\":",
    "\"https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-a.pem\"",
    "\"https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-a.pem\"",
    "https://sns.",
    "s3-us-west-2",
    "arn:aws:sns:",
    "arn:aws-cn:sns:",
    ".amazonaws.com",
    ".amazonaws.com.cn",
    ".amazonaws.com.evil.example",
    "http://",
    "evil.example",
    "@",
    ":444",
    "\\\\",
    "\\u0000",
    "\\n",
    "/..",
    "#",
    "?",
    ".pem",
    "==",
];

fn signed() -> Vec<Value> {
    serde_json::from_slice(SIGNED).expect("a list of messages")
}

/// Those that are signed, and confirmations of both kinds and versions whose signature is made up.
fn corpus() -> Corpus {
    let mut inputs: Vec<Value> = signed();
    for kind in ["SubscriptionConfirmation", "UnsubscribeConfirmation", "Notification"] {
        for version in ["1", "2"] {
            inputs.push(json!({
                "Type": kind, "MessageId": "m", "TopicArn": "arn:aws-cn:sns:cn-north-1:123456789012:mail", "Message": "{}",
                "Subject": "s", "Timestamp": "2026-11-16T08:30:00.000Z", "SignatureVersion": version, "Signature": "AAAA",
                "SigningCertURL": "https://sns.cn-north-1.amazonaws.com.cn/SimpleNotificationService-7.pem", "Token": "t",
                "SubscribeURL": "https://sns.cn-north-1.amazonaws.com.cn/?Action=ConfirmSubscription&Token=t",
            }));
        }
    }
    Corpus::new(inputs.iter().map(|input| input.to_string().into_bytes()).collect(), WORDS)
}

/// Judged by another reader of URLs: https, to a host of Amazon, at the port of https.
fn check_url(text: &str, topic: &str) {
    let url = Url::parse(text).unwrap_or_else(|error| panic!("{text} is called: {error}"));
    let Host::Name(host) = &url.origin.host else { panic!("{text} is an address") };
    assert_eq!((url.origin.scheme, url.origin.port), (Scheme::Https, 443), "{text}");
    let region = host.strip_prefix("sns.").expect("a host of SNS");
    let region = region.strip_suffix(".amazonaws.com").or(region.strip_suffix(".amazonaws.com.cn"));
    assert_eq!(region, topic.split(':').nth(3), "{text} is in the region of {topic}");
    assert!(region.is_some_and(|region| !region.is_empty() && !region.contains('.')), "{text}");
    assert_eq!(url_of_sns(text).map(|(host, _)| host), Some(&**host), "{text}");
}

#[test]
fn envelopes_of_sns_are_read_or_refused() {
    let corpus = corpus();
    for input in &corpus.inputs {
        assert!(Envelope::read(input).is_ok(), "the corpus has good envelopes");
    }
    let originals: Vec<Envelope> = signed()
        .iter()
        .map(|message| Envelope::read(message.to_string().as_bytes()).expect("an envelope"))
        .collect();
    fuzz("envelope of SNS", &corpus, |input| {
        let envelope = match Envelope::read(input) {
            Ok(envelope) => envelope,
            Err(EnvelopeError::NotAnEnvelope | EnvelopeError::ForeignUrl { .. }) => return,
            Err(other) => panic!("reading says nothing of certificates: {other}"),
        };
        assert!(input.len() <= BYTES_MAX);
        check_url(&envelope.certificate_url, &envelope.topic);
        assert!(envelope.certificate_url.ends_with(".pem"));
        match &envelope.kind {
            Kind::Subscription { url, .. } | Kind::Unsubscription { url, .. } => {
                check_url(url, &envelope.topic);
            }
            Kind::Notification => {}
        }
        // The address of the certificate is the only part that is not signed.
        if envelope.verify(CERTIFICATE, NOW).is_ok() {
            let unsigned = |original: &Envelope| {
                let mut copy = original.clone();
                copy.certificate_url.clone_from(&envelope.certificate_url);
                copy
            };
            assert!(originals.iter().map(unsigned).any(|original| original == envelope), "{envelope:?}");
        }
    });
}

#[test]
fn certificates_are_read_or_refused() {
    let envelope = Envelope::read(signed()[0].to_string().as_bytes()).expect("an envelope");
    let words = ["-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----", "\n", "=", "MII"];
    fuzz("certificate of SNS", &Corpus::new(vec![CERTIFICATE.to_vec()], &words), |input| {
        match envelope.verify(input, NOW) {
            Ok(())
            | Err(
                EnvelopeError::BadCertificate | EnvelopeError::ForeignCertificate | EnvelopeError::Forged,
            ) => {}
            Err(other) => panic!("{other}"),
        }
    });
}
