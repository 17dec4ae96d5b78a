//! Callbacks of Twilio: forms, what they say, and that nothing is believed that was not signed. Those of SNS are in `envelopes`, those
//! of mail servers in `reports`.

use fantail_channels::receipt::Outcome;
use fantail_channels::twilio::callback;
use fantail_channels::twilio::form;
use fantail_channels::twilio::settings::Secrets;
use fantail_channels::twilio::signature::{ALGORITHMS, Parameters, Signed, sign, validate};
use fantail_fuzz::{Corpus, fuzz};
use std::collections::{BTreeMap, BTreeSet};

const URL: &str = "https://notify.example.com/callbacks/twilio/texts/0w1w1h07";
const TOKEN: &str = "token-of-the-account";
/// The longest that Twilio is believed to send.
const BYTES_MAX: usize = 64 << 10;
const PARAMETERS_MAX: usize = 200;
const CODE_CHARACTERS_MAX: usize = 32;

const WORDS: &[&str] = &[
    "&",
    "=",
    "+",
    "%",
    "%00",
    "%2B",
    "%C3%BC",
    "%FF",
    "MessageStatus=delivered",
    "MessageStatus=failed",
    "&ErrorCode=30005",
    "&From=%2B436601234567",
    "&To=%2B15005550006",
    "&Body=STOP",
    "&Body=start",
    "&OptOutType=START",
    "&MessageSid=SM1",
    "key=k1,algorithm=HMAC_SHA256",
    "algorithm=HMAC_SHA1",
];

const FORMS: [&str; 3] = [
    "AccountSid=AC1&ApiVersion=2010-04-01&ErrorCode=30005&From=%2B15005550006&MessageSid=SM1&MessageStatus=undelivered&To=%2B1",
    "AccountSid=AC1&Body=Stop&From=%2B436601234567&MessageSid=SM2&NumMedia=0&SmsStatus=received&To=%2B15005550006",
    "AccountSid=AC1&Body=Ja+bitte&From=%2B436601234567&MessageSid=SM3&OptOutType=START&To=%2B15005550006",
];

fn secrets() -> Secrets {
    let webhook_keys = [("k1".to_owned(), "shared".to_owned())].into();
    Secrets { auth_token: Some(TOKEN.to_owned()), api_key: None, webhook_keys }
}

fn corpus() -> Corpus {
    Corpus::new(FORMS.iter().map(|form| form.as_bytes().to_vec()).collect(), WORDS)
}

/// What a signature is over: each value of a name once.
fn signed_part(parameters: &Parameters) -> String {
    let mut by_name: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in parameters {
        by_name.entry(name).or_default().insert(value);
    }
    let text = by_name.iter().flat_map(|(name, values)| values.iter().flat_map(move |value| [*name, *value]));
    text.collect()
}

#[test]
fn forms_of_twilio_are_read_or_refused() {
    for form in FORMS {
        let read = form::read(form.as_bytes()).expect("a form");
        let says = callback::event("r1", &read).is_some() || callback::inbound(&read).is_some();
        assert!(says, "the corpus has good forms: {form}");
    }
    fuzz("form of Twilio", &corpus(), |input| {
        let Some(read) = form::read(input) else { return };
        assert!(input.len() <= BYTES_MAX && read.len() <= PARAMETERS_MAX);
        if let Some(event) = callback::event("r1", &read) {
            assert_eq!(event.reference, "r1", "the address says which delivery it is, not the form");
            assert!(event.code.chars().count() <= CODE_CHARACTERS_MAX);
            assert!(!matches!(event.outcome, Outcome::Opened | Outcome::Clicked));
        }
        if let Some(inbound) = callback::inbound(&read) {
            assert!(read.iter().any(|(name, value)| name == "From" && *value == inbound.from));
            assert!(read.iter().any(|(name, value)| name == "To" && *value == inbound.to));
        }
    });
}

#[test]
fn nothing_is_believed_that_twilio_did_not_sign() {
    let (_, sha1) = ALGORITHMS[0];
    let originals: Vec<(String, String)> = FORMS
        .iter()
        .map(|form| {
            let parameters = form::read(form.as_bytes()).expect("a form");
            (sign(TOKEN, sha1, URL, &parameters), signed_part(&parameters))
        })
        .collect();
    fuzz("signed form of Twilio", &corpus(), |input| {
        for (signature, signed) in &originals {
            let request =
                Signed { url: URL, signature: Some(signature), settings: None, is_form: true, body: input };
            if let Ok(parameters) = validate(&request, &secrets()) {
                assert_eq!(signed_part(&parameters), *signed, "what is believed was signed");
            }
            let no_form = Signed { is_form: false, ..request };
            assert!(validate(&no_form, &secrets()).is_err(), "a form's signature speaks for no other body");
        }
    });
}

/// Headers, one a line: the signature, and which key made it.
#[test]
fn headers_of_signatures_are_read_or_refused() {
    let body = FORMS[0].as_bytes();
    let parameters = form::read(body).expect("a form");
    let by_token = sign(TOKEN, ALGORITHMS[0].1, URL, &parameters);
    let by_key = sign("shared", ALGORITHMS[1].1, URL, &parameters);
    let good = [
        (by_token.clone(), None),
        (by_token, Some("algorithm=HMAC_SHA1")),
        (by_key, Some("key=k1,algorithm=HMAC_SHA256")),
    ];
    let line = |(signature, settings): &(String, Option<&str>)| match settings {
        None => signature.clone().into_bytes(),
        Some(settings) => format!("{signature}\n{settings}").into_bytes(),
    };
    let corpus = Corpus::new(good.iter().map(line).collect(), WORDS);
    fuzz("headers of Twilio", &corpus, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        let (signature, settings) = match text.split_once('\n') {
            Some((signature, settings)) => (signature, Some(settings)),
            None => (text, None),
        };
        let request = Signed { url: URL, signature: Some(signature), settings, is_form: true, body };
        if validate(&request, &secrets()).is_ok() {
            let is_known = good.iter().any(|(good, _)| *good == signature.trim());
            assert!(is_known, "{signature} was never made");
        }
    });
}
