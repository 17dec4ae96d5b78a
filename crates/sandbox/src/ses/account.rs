//! What an account may, what it has sent, and whom it may not write to.

use crate::emulator::Reply;
use hyper::http::StatusCode;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const SUPPRESSED_MAX: usize = 100_000;
const DAY_MS: u64 = 86_400_000;

pub struct Account {
    /// Per second; SES counts recipients.
    rate_max: u64,
    day_max: u64,
    sending: bool,
    /// Addresses and domains that mails may be from; everything if there is no list.
    pub verified: Option<BTreeSet<String>>,
    pub suppressed: BTreeMap<String, Suppressed>,
    pub topic: Option<String>,
    /// What was sent in each second of the last day.
    sent: VecDeque<(u64, u64)>,
    sent_today: u64,
}

pub struct Suppressed {
    pub reason: String,
    pub at_ms: u64,
}

impl Default for Account {
    /// More than tests send; set it lower to see throttling.
    fn default() -> Self {
        Self {
            rate_max: 10_000,
            day_max: 50_000_000,
            sending: true,
            verified: None,
            suppressed: BTreeMap::new(),
            topic: None,
            sent: VecDeque::new(),
            sent_today: 0,
        }
    }
}

/// Why nothing may be sent now: the name of an error, and its text.
pub type Refusal = (&'static str, &'static str);

impl Account {
    pub fn set(&mut self, body: &Value) -> Result<(), &'static str> {
        let number = |name: &str, otherwise: u64| body.get(name).map_or(Some(otherwise), Value::as_u64);
        let rate_max = number("maxSendRate", self.rate_max).filter(|rate| *rate > 0);
        let day_max = number("max24HourSend", self.day_max);
        let sending = body.get("sendingEnabled").map_or(Some(self.sending), Value::as_bool);
        let (Some(rate_max), Some(day_max), Some(sending)) = (rate_max, day_max, sending) else {
            return Err("maxSendRate and max24HourSend are numbers, sendingEnabled is true or false");
        };
        (self.rate_max, self.day_max, self.sending) = (rate_max, day_max, sending);
        Ok(())
    }

    pub fn show(&mut self, now_ms: u64) -> Reply {
        self.forget(now_ms);
        Reply::json(
            StatusCode::OK,
            &json!({
                "DedicatedIpAutoWarmupEnabled": false,
                "EnforcementStatus": "HEALTHY",
                "ProductionAccessEnabled": true,
                "SendingEnabled": self.sending,
                "SendQuota": {
                    "Max24HourSend": self.day_max as f64,
                    "MaxSendRate": self.rate_max as f64,
                    "SentLast24Hours": self.sent_today as f64,
                },
            }),
        )
    }

    /// Counts recipients, or says why not.
    pub fn take(&mut self, recipients: u64, now_ms: u64) -> Result<(), Refusal> {
        self.forget(now_ms);
        if !self.sending {
            return Err(("SendingPausedException", "Sending is paused for this account."));
        }
        if self.sent_today + recipients > self.day_max {
            return Err(("TooManyRequestsException", "Daily message quota exceeded."));
        }
        let second = now_ms / 1_000;
        let in_second = self.sent.back().filter(|(at, _)| *at == second).map_or(0, |(_, count)| *count);
        if in_second + recipients > self.rate_max {
            return Err(("TooManyRequestsException", "Maximum sending rate exceeded."));
        }
        match self.sent.back_mut() {
            Some((at, count)) if *at == second => *count += recipients,
            Some(_) | None => self.sent.push_back((second, recipients)),
        }
        self.sent_today += recipients;
        Ok(())
    }

    /// Whether mails may be from this address.
    pub fn is_verified(&self, from: &str) -> bool {
        let from = from.to_ascii_lowercase();
        let domain = from.rsplit_once('@').map_or("", |(_, domain)| domain);
        self.verified.as_ref().is_none_or(|names| names.contains(&from) || names.contains(domain))
    }

    pub fn suppress(&mut self, address: &str, reason: &str, at_ms: u64) {
        if self.suppressed.len() < SUPPRESSED_MAX {
            self.suppressed.insert(address.to_owned(), Suppressed { reason: reason.to_owned(), at_ms });
        }
    }

    fn forget(&mut self, now_ms: u64) {
        while let Some((second, count)) = self.sent.front().copied()
            && second * 1_000 + DAY_MS < now_ms
        {
            self.sent.pop_front();
            self.sent_today -= count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_days_have_their_quota() {
        let mut account = Account::default();
        account.set(&json!({"maxSendRate": 2, "max24HourSend": 5})).expect("numbers");
        let now = 1_794_817_800_000;
        assert_eq!(account.take(2, now), Ok(()));
        assert_eq!(account.take(1, now + 999).expect_err("full").1, "Maximum sending rate exceeded.");
        assert_eq!(account.take(2, now + 1_000), Ok(()));
        assert_eq!(account.take(2, now + 2_000).expect_err("full").1, "Daily message quota exceeded.");
        assert_eq!(account.take(2, now + DAY_MS + 3_000), Ok(()));
        account.set(&json!({"sendingEnabled": false})).expect("a flag");
        assert_eq!(account.take(1, now + DAY_MS + 9_000).expect_err("paused").0, "SendingPausedException");
        assert!(account.set(&json!({"maxSendRate": "many"})).is_err());
    }

    #[test]
    fn senders_are_verified_by_address_or_domain() {
        let mut account = Account::default();
        assert!(account.is_verified("a@b.example"));
        account.verified = Some(BTreeSet::from(["b.example".to_owned(), "x@y.example".to_owned()]));
        for (from, expected) in [("a@B.example", true), ("x@y.example", true), ("z@y.example", false)] {
            assert_eq!(account.is_verified(from), expected, "{from}");
        }
    }
}
