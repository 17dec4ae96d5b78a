//! Reports as servers write them, and any other bytes.

use super::*;
use proptest::prelude::*;

/// A report with this status about the delivery `0w1w1h07`.
fn bounce(fields: &str) -> String {
    let original = "From: news@shop.example\r\nMessage-ID: <0w1w1h07@shop.example>\r\nSubject: x\r\n";
    format!(
        "From: MAILER-DAEMON@mx.example\r\nTo: somebody@shop.example\r\nDate: Mon, 16 Nov 2026 08:30:00 +0000\r\n\
         MIME-Version: 1.0\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=\"b\"\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nAction: failed. Status: 5.1.1 is only prose.\r\n\
         --b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\n{fields}\r\n\
         --b\r\nContent-Type: text/rfc822-headers\r\n\r\n{original}\r\n--b--\r\n"
    )
}

fn told(mail: &str) -> String {
    match read(mail.as_bytes(), None) {
        Ok(events) => {
            let words = events.iter().map(|event| format!("{:?} {}", event.outcome, event.code));
            words.collect::<Vec<_>>().join(", ")
        }
        Err(error) => error.to_string(),
    }
}

// proves: EML-02, TRK-03
#[test]
fn every_status_has_its_outcome() {
    let hard = |code: &str| format!("Bounced {{ hard: true }} {code}");
    let soft = |code: &str| format!("Bounced {{ hard: false }} {code}");
    for (action, status, diagnostic, expected) in [
        ("failed", "5.1.1", "", hard("5.1.1")),
        ("failed", "5.1.10", "", hard("5.1.10")),
        ("Failed", "5.2.1 (disabled)", "", hard("5.2.1")),
        ("failed", "5.2.2", "", soft("5.2.2")),
        ("failed", "5.7.1", "", soft("5.7.1")),
        ("failed", "4.4.7", "", soft("4.4.7")),
        ("failed", "5.0.0", "smtp; 550 5.1.1 no such user", hard("5.1.1")),
        ("failed", "5.0.0", "smtp;550-5.7.26 no", soft("5.7.26")),
        ("failed", "5.0.0", "x-unix; 550 5.1.1 no", soft("5.0.0")),
        ("failed", "5.4.4", "smtp; 550 5.1.1 no such user", soft("5.4.4")),
        ("failed", "nonsense", "", soft("failed")),
        ("delayed", "4.4.1", "", "Delayed 4.4.1".to_owned()),
        ("delivered", "2.0.0", "", "Delivered 2.0.0".to_owned()),
        ("relayed", "2.0.0", "", String::new()),
        ("expanded", "2.0.0", "", String::new()),
        ("dissolved", "5.0.0", "", String::new()),
    ] {
        let fields = format!(
            "Final-Recipient: rfc822; ann@a.example\r\nAction: {action}\r\nStatus: {status}\r\nDiagnostic-Code: {diagnostic}\r\n"
        );
        assert_eq!(told(&bounce(&fields)), expected, "{action} {status} {diagnostic}");
    }
}

#[test]
fn prose_says_nothing() {
    assert_eq!(told(&bounce("")), "");
    assert_eq!(told(&bounce("Action: failed\r\nStatus: 5.1.1\r\n")), "", "about nobody");
    assert_eq!(told("From: a@b.example\r\n\r\nyour mail bounced: 550 5.1.1\r\n"), "this mail is no report");
}

// proves: TRK-02
#[test]
fn the_reference_is_found_in_each_of_its_places() {
    let fields = "Final-Recipient: rfc822; ann@a.example\r\nAction: failed\r\nStatus: 5.1.1\r\n";
    let mail = bounce(fields);
    let of = |mail: &str, sent_to| read(mail.as_bytes(), sent_to).map(|events| events[0].reference.clone());
    assert_eq!(of(&mail, Some("bounce+verp1@shop.example")).as_deref(), Ok("verp1"));
    assert_eq!(of(&mail, Some("bounce@shop.example")).as_deref(), Ok("0w1w1h07"));
    let told_by_to = mail.replace("To: somebody@", "To: <bounce+verp2@");
    let told_by_to = told_by_to.replace("verp2@shop.example", "verp2@shop.example>");
    assert_eq!(of(&told_by_to, None).as_deref(), Ok("verp2"));
    let whole = mail.replace("Content-Type: text/rfc822-headers", "Content-Type: message/rfc822");
    assert_eq!(of(&whole, None).as_deref(), Ok("0w1w1h07"));
    let nowhere = mail.replace("Message-ID", "X-Other");
    assert_eq!(of(&nowhere, None), Err(ReportError::NoReference));
    let event = &read(mail.as_bytes(), None).expect("a report")[0];
    assert_eq!(event.at, Some(Millis(1_794_817_800_000)));
}

fn feedback(kind: &str) -> String {
    format!(
        "From: fbl@mailbox.example\r\nTo: abuse@shop.example\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=feedback-report; boundary=\"b\"\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nA complaint.\r\n\
         --b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: {kind}\r\nUser-Agent: X/1\r\n\
         Version: 1\r\nOriginal-Mail-From: <bounce+0w1w1h08@shop.example>\r\n\r\n\
         --b\r\nContent-Type: message/rfc822\r\n\r\nFrom: news@shop.example\r\nSubject: x\r\n\r\nx\r\n--b--\r\n"
    )
}

// proves: EML-02
#[test]
fn complaints_are_heard() {
    assert_eq!(told(&feedback("abuse")), "Complained abuse");
    assert_eq!(told(&feedback("fraud")), "Complained fraud");
    assert_eq!(told(&feedback("not-spam")), "");
    assert_eq!(told(&feedback("auth-failure")), "");
    let events = read(feedback("abuse").as_bytes(), None).expect("a report");
    assert_eq!(events[0].reference, "0w1w1h08");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
        prop_assert!(read(&bytes, None).is_err() || bytes.len() > 20);
    }

    #[test]
    fn broken_reports_do_no_harm(place in 0usize..900, length in 0usize..40, with in "[ -~\r\n]{0,12}") {
        let fields = "Final-Recipient: rfc822; ann@a.example\r\nAction: failed\r\nStatus: 5.1.1\r\n";
        for whole in [bounce(fields), feedback("abuse")] {
            let place = place.min(whole.len());
            let end = (place + length).min(whole.len());
            let broken = format!("{}{with}{}", &whole[..place], &whole[end..]);
            for event in read(broken.as_bytes(), None).unwrap_or_default() {
                prop_assert!(event.reference.len() <= TEXT_BYTES_MAX && event.reference.is_ascii());
            }
        }
    }
}
