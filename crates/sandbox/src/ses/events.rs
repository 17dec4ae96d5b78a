//! What SES tells about a mail later, in the shape of event publishing.

use serde_json::{Value, json};

/// What becomes of a mail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Delivered,
    Bounced { sub_type: &'static str },
    Complained,
    OutOfOffice,
}

/// Addresses of Amazon's mailbox simulator; labels behind a `+` are not looked at.
pub fn fate(address: &str) -> Fate {
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    if !domain.eq_ignore_ascii_case("simulator.amazonses.com") {
        return Fate::Delivered;
    }
    match local.split('+').next().unwrap_or_default() {
        "bounce" => Fate::Bounced { sub_type: "General" },
        "suppressionlist" => Fate::Bounced { sub_type: "Suppressed" },
        "complaint" => Fate::Complained,
        "ooto" => Fate::OutOfOffice,
        _ => Fate::Delivered,
    }
}

pub struct Sent<'a> {
    pub message_id: &'a str,
    pub source: &'a str,
    pub to: &'a str,
    pub tags: &'a Value,
    pub headers: &'a Value,
    pub time: &'a str,
}

/// All events of one mail, in their order.
pub fn events(sent: &Sent<'_>, fate: Fate) -> Vec<Value> {
    let time = sent.time;
    let mut tags = json!({"ses:source-ip": ["127.0.0.1"]});
    for tag in sent.tags.as_array().into_iter().flatten() {
        if let (Some(name), Some(value)) = (tag["Name"].as_str(), tag["Value"].as_str()) {
            tags[name] = json!([value]);
        }
    }
    let mail = json!({
        "messageId": sent.message_id, "timestamp": time, "source": sent.source, "destination": [sent.to],
        "headersTruncated": false, "headers": sent.headers, "tags": tags,
    });
    let event = |kind: &str, part: &str, value: Value| json!({"eventType": kind, "mail": mail, part: value});
    let mut all = vec![event("Send", "send", json!({}))];
    let delivery = json!({"timestamp": time, "recipients": [sent.to], "processingTimeMillis": 5});
    match fate {
        Fate::Delivered => all.push(event("Delivery", "delivery", delivery)),
        Fate::OutOfOffice => {
            all.push(event("Delivery", "delivery", delivery));
            let bounce = json!({"bounceType": "Transient", "bounceSubType": "General", "timestamp": time,
                "bouncedRecipients": [{"emailAddress": sent.to}], "feedbackId": sent.message_id});
            all.push(event("Bounce", "bounce", bounce));
        }
        Fate::Bounced { sub_type } => {
            let bounce = json!({"bounceType": "Permanent", "bounceSubType": sub_type, "timestamp": time,
                "bouncedRecipients": [{"emailAddress": sent.to, "action": "failed", "status": "5.1.1",
                    "diagnosticCode": "smtp; 550 5.1.1 user unknown"}], "feedbackId": sent.message_id});
            all.push(event("Bounce", "bounce", bounce));
        }
        Fate::Complained => {
            all.push(event("Delivery", "delivery", delivery));
            let complaint = json!({"complaintFeedbackType": "abuse", "timestamp": time,
                "complainedRecipients": [{"emailAddress": sent.to}], "feedbackId": sent.message_id});
            all.push(event("Complaint", "complaint", complaint));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_has_its_addresses() {
        for (address, expected) in [
            ("bounce@simulator.amazonses.com", Fate::Bounced { sub_type: "General" }),
            ("bounce+label@simulator.amazonses.com", Fate::Bounced { sub_type: "General" }),
            ("complaint@Simulator.amazonses.com", Fate::Complained),
            ("success@simulator.amazonses.com", Fate::Delivered),
            ("bounce@a.example", Fate::Delivered),
        ] {
            assert_eq!(fate(address), expected, "{address}");
        }
    }
}
