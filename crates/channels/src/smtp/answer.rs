//! What a reply means, by where in the conversation it came.
//!
//! | where | reply | answer |
//! |---|---|---|
//! | greeting, EHLO, STARTTLS | 4xx, 5xx | later, the relay rests |
//! | AUTH; anywhere 530, 534, 535, 538, 454 | | later, the credential rests, an operator is told |
//! | MAIL | 5xx, and 5.1.7, 5.1.8 anywhere | the sender is refused: as above |
//! | MAIL | 4xx | later, the relay rests |
//! | RCPT, DATA, dot | 421 | later, over a new connection |
//! | | 4.1.x, 4.2.x | later, this mailbox alone, not before five minutes |
//! | | other 4xx (greylists, limits) | the same, and the recipient's domain rests |
//! | | 5.1.1, 5.1.10, 5.2.1 | the address is dead |
//! | | 5.7.x | policy or reputation: the domain rests, an operator is told; never the address's fault |
//! | | 5.5.x, 5.6.x, 500 to 504, 555 | malformed |
//! | | other 5xx (552, 5.2.2, 5.3.4, a bare 550) | refused, the address stays |
//! | dot | 2xx | accepted |

use super::limits::{CREDENTIAL_REST_MS, DOMAIN_REST_MS, RELAY_REST_MS, TEXT_BYTES_MAX};
use super::reply::Reply;
use fantail_ports::channel::{Answer, Refusal, Scope};

/// Where in the conversation a reply came, or none did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    Greeting,
    Auth,
    Mail,
    Rcpt,
    Data,
    /// The final dot has left, or a part of it.
    Dot,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub answer: Answer,
    /// For so long nothing goes to the recipient's domain.
    pub domain_rests_ms: Option<u64>,
    /// Somebody has to change something.
    pub needs_operator: bool,
    /// The server is about to close the connection.
    pub closes: bool,
}

#[must_use]
pub fn answer(stage: Stage, reply: &Reply) -> Verdict {
    let verdict = |answer| Verdict {
        answer,
        domain_rests_ms: None,
        needs_operator: false,
        closes: reply.code == 421 || stage < Stage::Mail,
    };
    let later = |scope, after_ms, text: &str| {
        verdict(Answer::Later { after_ms, scope, code: reply.codes(), message: text.to_owned() })
    };
    let credential = |text: &str| Verdict {
        needs_operator: true,
        ..later(Scope::Credential, Some(CREDENTIAL_REST_MS), text)
    };
    if stage == Stage::Auth || matches!(reply.code, 454 | 530 | 534 | 535 | 538) {
        return credential("the relay does not let us in");
    }
    let sender_is_refused = reply.enhanced.is_some_and(|enhanced| {
        (enhanced.class, enhanced.subject) == (5, 1) && matches!(enhanced.detail, 7 | 8)
    });
    if sender_is_refused || (stage == Stage::Mail && reply.code >= 500 && !is_too_large(reply)) {
        return credential("the relay refuses the sender's address");
    }
    match stage {
        Stage::Greeting => later(Scope::Origin, Some(RELAY_REST_MS), "the relay does not talk to us now"),
        Stage::Mail if reply.code < 500 => later(Scope::Origin, None, "the relay takes no mail now"),
        Stage::Dot if reply.is_positive() => verdict(Answer::Accepted { provider_id: queue_id(reply) }),
        Stage::Auth | Stage::Mail | Stage::Rcpt | Stage::Data | Stage::Dot => {
            about_recipient(reply, &later, &verdict)
        }
    }
}

fn about_recipient(
    reply: &Reply,
    later: &dyn Fn(Scope, Option<u64>, &str) -> Verdict,
    verdict: &dyn Fn(Answer) -> Verdict,
) -> Verdict {
    let rejected = |refusal, text: &str| {
        verdict(Answer::Rejected { refusal, code: reply.codes(), message: text.to_owned() })
    };
    let resting = |verdict| Verdict { domain_rests_ms: Some(DOMAIN_REST_MS), ..verdict };
    let enhanced = reply.enhanced.map(|enhanced| (enhanced.subject, enhanced.detail));
    if reply.is_positive() {
        // 2xx or 3xx where none of them belongs: nothing was taken.
        return later(Scope::Message, None, "the server answered out of turn");
    }
    if reply.code < 500 {
        return match (reply.code, enhanced) {
            (421, Some((7, _))) => {
                resting(later(Scope::Message, Some(DOMAIN_REST_MS), "its server wants us to slow down"))
            }
            (421, _) => later(Scope::Message, None, "the server is closing"),
            (_, Some((1 | 2, _))) => {
                later(Scope::Endpoint, Some(DOMAIN_REST_MS), "its mailbox takes nothing now")
            }
            (_, _) => resting(later(Scope::Message, Some(DOMAIN_REST_MS), "its server takes nothing now")),
        };
    }
    match (reply.code, enhanced) {
        (_, Some((1, 1 | 10) | (2, 1))) => rejected(Refusal::DeadEndpoint, "there is no such mailbox"),
        (_, Some((7, _))) => {
            let later = later(Scope::Message, Some(DOMAIN_REST_MS), "its server refuses mail from us");
            Verdict { needs_operator: true, ..resting(later) }
        }
        (_, Some((5 | 6, _))) | (500..=504 | 555, None) => {
            rejected(Refusal::Malformed, "the server does not understand it")
        }
        (_, _) => rejected(Refusal::Message, "the server refuses it"),
    }
}

fn is_too_large(reply: &Reply) -> bool {
    let enhanced = reply.enhanced.map(|enhanced| (enhanced.subject, enhanced.detail));
    reply.code == 552 || enhanced == Some((3, 4))
}

/// What most servers say after they took a mail: `queued as 4XYZ`.
fn queue_id(reply: &Reply) -> Option<String> {
    let (_, id) = reply.lines.first()?.split_once("queued as ")?;
    let id = id.split_whitespace().next()?.trim_end_matches(['.', ';', ',']);
    let is_plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    (is_plain && !id.is_empty() && id.len() <= TEXT_BYTES_MAX).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(stage: Stage, line: &str) -> String {
        let (code, text) = line.split_once(' ').unwrap_or((line, ""));
        let reply = Reply::new(code.parse().expect("a code"), vec![text.to_owned()]);
        let Verdict { answer, domain_rests_ms, needs_operator, closes } = answer(stage, &reply);
        let mut told = match answer {
            Answer::Accepted { provider_id } => format!("accepted {}", provider_id.unwrap_or_default()),
            Answer::Rejected { refusal, code, .. } => format!("{refusal:?} {code}"),
            Answer::Later { after_ms, scope, code, .. } => {
                format!("later {scope:?} {} {code}", after_ms.unwrap_or_default() / 1_000)
            }
            Answer::NotSent { .. } | Answer::Unknown { .. } => panic!("a reply is an answer"),
        };
        for (is, word) in
            [(domain_rests_ms.is_some(), "domain rests"), (needs_operator, "operator"), (closes, "closes")]
        {
            if is {
                told = format!("{told}, {word}");
            }
        }
        told
    }

    // proves: DEL-13, EML-02, EML-07
    #[test]
    fn every_reply_has_its_answer() {
        use Stage::{Auth, Data, Dot, Greeting, Mail, Rcpt};
        for (stage, line, expected) in [
            (Dot, "250 2.0.0 Ok: queued as 4Xyz-1", "accepted 4Xyz-1"),
            (Dot, "250 ok", "accepted "),
            (Greeting, "421 too many connections", "later Origin 60 421, closes"),
            (Greeting, "554 no", "later Origin 60 554, closes"),
            (Auth, "535 5.7.8 no", "later Credential 300 535 5.7.8, operator, closes"),
            (Auth, "454 4.7.0 later", "later Credential 300 454 4.7.0, operator, closes"),
            (Auth, "500 what", "later Credential 300 500, operator, closes"),
            (Mail, "530 5.7.0 STARTTLS first", "later Credential 300 530 5.7.0, operator"),
            (Mail, "550 5.7.1 not your address", "later Credential 300 550 5.7.1, operator"),
            (Mail, "552 5.3.4 too big", "Message 552 5.3.4"),
            (Mail, "452 4.3.1 full", "later Origin 0 452 4.3.1"),
            (Mail, "421 4.3.2 bye", "later Origin 0 421 4.3.2, closes"),
            (Rcpt, "421 bye", "later Message 0 421, closes"),
            (Rcpt, "421 4.7.0 slow down", "later Message 300 421 4.7.0, domain rests, closes"),
            (Rcpt, "450 4.7.1 greylisted", "later Message 300 450 4.7.1, domain rests"),
            (Rcpt, "451 try later", "later Message 300 451, domain rests"),
            (Rcpt, "451 4.3.0 try later", "later Message 300 451 4.3.0, domain rests"),
            (Rcpt, "452 4.2.2 full", "later Endpoint 300 452 4.2.2"),
            (Rcpt, "450 4.2.0 busy", "later Endpoint 300 450 4.2.0"),
            (Dot, "451 4.7.1 greylisted", "later Message 300 451 4.7.1, domain rests"),
            (Rcpt, "550 5.1.1 no such user", "DeadEndpoint 550 5.1.1"),
            (Rcpt, "550 5.1.10 null MX", "DeadEndpoint 550 5.1.10"),
            (Rcpt, "550 5.2.1 disabled", "DeadEndpoint 550 5.2.1"),
            (Rcpt, "552 5.2.2 full", "Message 552 5.2.2"),
            (Rcpt, "550 no such user", "Message 550"),
            (Rcpt, "553 5.1.8 your domain is unknown", "later Credential 300 553 5.1.8, operator"),
            (Dot, "552 5.3.4 too big", "Message 552 5.3.4"),
            (Dot, "552 too big", "Message 552"),
            (Dot, "550 5.7.1 spam", "later Message 300 550 5.7.1, domain rests, operator"),
            (Dot, "554 5.7.9 no DMARC", "later Message 300 554 5.7.9, domain rests, operator"),
            (Rcpt, "554 5.7.1 blocked", "later Message 300 554 5.7.1, domain rests, operator"),
            (Dot, "554 failed", "Message 554"),
            (Data, "503 5.5.1 out of order", "Malformed 503 5.5.1"),
            (Dot, "554 5.6.0 not MIME", "Malformed 554 5.6.0"),
            (Rcpt, "501 syntax", "Malformed 501"),
            (Data, "250 what", "later Message 0 250"),
            (Rcpt, "530 auth first", "later Credential 300 530, operator"),
        ] {
            assert_eq!(told(stage, line), expected, "{stage:?} {line}");
        }
    }

    // proves: EML-02
    #[test]
    fn no_reply_but_three_gives_an_address_up() {
        for code in 400..600 {
            for subject in 0..8 {
                for detail in 0..12 {
                    let line = format!("{code} {}.{subject}.{detail} x", code / 100);
                    let is_dead = [Stage::Mail, Stage::Rcpt, Stage::Data, Stage::Dot]
                        .iter()
                        .any(|stage| told(*stage, &line).starts_with("Dead"));
                    let may = code >= 500 && matches!((subject, detail), (1, 1 | 10) | (2, 1));
                    assert!(!is_dead || may, "{line}");
                }
            }
        }
    }
}
