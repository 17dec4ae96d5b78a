//! Reports that mail servers send as MIME mails, and the events of Amazon inside their envelopes (`envelopes`).

use fantail_channels::ses::events;
use fantail_channels::smtp::report;
use fantail_fuzz::{Corpus, fuzz};
use serde_json::json;

const MIME_WORDS: &[&str] = &[
    "\r\n",
    "\r\n\r\n",
    "--b",
    "--b--",
    "Content-Type: message/delivery-status",
    "Content-Type: message/feedback-report",
    "Content-Type: multipart/mixed; boundary=b",
    "Content-Transfer-Encoding: base64",
    "Action: failed",
    "Status: 5.1.1",
    "Final-Recipient: rfc822; a@b",
    "Diagnostic-Code: smtp; 550",
    "=?utf-8?B?eA==?=",
    "boundary=\"",
    ";",
    "\0",
    "\u{fffd}",
];

fn mail(kind: &str, machine: &str) -> Vec<u8> {
    format!(
        "From: MAILER-DAEMON@mx.example\r\nTo: bounces+0w1w1h07@shop.example\r\nDate: Mon, 16 Nov 2026 08:30:00 +0000\r\n\
         MIME-Version: 1.0\r\nContent-Type: multipart/report; report-type={kind}; boundary=\"b\"\r\n\r\n\
         --b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nprose\r\n\
         --b\r\nContent-Type: message/{kind}\r\n\r\n{machine}\r\n\
         --b\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: <0w1w1h07@shop.example>\r\nSubject: x\r\n\r\n--b--\r\n"
    )
    .into_bytes()
}

#[test]
fn reports_are_read_or_refused() {
    let status = "Reporting-MTA: dns; mx.example\r\n\r\nFinal-Recipient: rfc822; a@b.example\r\nAction: failed\r\n\
                  Status: 5.1.1\r\nDiagnostic-Code: smtp; 550 5.1.1 no such user\r\n";
    let complaint =
        "Feedback-Type: abuse\r\nUser-Agent: x/1\r\nVersion: 1\r\nOriginal-Rcpt-To: <a@b.example>\r\n";
    let corpus =
        Corpus::new(vec![mail("delivery-status", status), mail("feedback-report", complaint)], MIME_WORDS);
    for input in &corpus.inputs {
        assert!(
            report::read(input, None).is_ok_and(|events| events.len() == 1),
            "the corpus has good reports"
        );
    }
    fuzz("report of a mail server", &corpus, |input| {
        for sent_to in [None, Some("bounces+0w1w1h07@shop.example")] {
            for event in report::read(input, sent_to).unwrap_or_default() {
                assert!(!event.reference.is_empty(), "an event is about a delivery");
            }
        }
    });
}

#[test]
fn events_of_amazon_are_read_or_refused() {
    let mail = json!({"tags": {"fantail-reference": ["r1"]}, "headers": [{"name": "Message-ID", "value": "<r2@shop.example>"}]});
    let event = |kind: &str, part: &str| {
        let details = json!({"timestamp": "2026-11-16T08:30:00.250Z", "bounceType": "Permanent", "bounceSubType": "General",
                             "bouncedRecipients": [{"emailAddress": "a@b.example", "status": "5.1.1"}]});
        json!({"eventType": kind, part: details, "mail": mail}).to_string().into_bytes()
    };
    let inputs =
        vec![event("Bounce", "bounce"), event("Delivery", "delivery"), event("Complaint", "complaint")];
    let words = [
        "null",
        "[]",
        "{}",
        "\"eventType\":",
        "\"mail\":",
        "\"tags\":",
        "1e999",
        "-0",
        "\\u0000",
        "\"Bounce\"",
    ];
    fuzz("event of Amazon", &Corpus::new(inputs, &words), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        if let Ok(Some(event)) = events::read(text) {
            assert!(!event.reference.is_empty(), "an event is about a delivery");
        }
    });
}
