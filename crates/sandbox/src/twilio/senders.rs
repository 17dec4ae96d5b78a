//! Queues in front of senders: each sends so many segments in a second, and holds ten hours of them at most.

use super::form::Form;
use std::collections::BTreeMap;

/// Above, a sender's queue is full.
const QUEUE_MS_MAX: u64 = 10 * 3_600 * 1_000;
const SENDERS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug)]
pub struct Sender {
    pub per_second: f64,
    pub queue_ms_max: u64,
    busy_until_ms: u64,
}

#[derive(Debug, Default)]
pub struct Senders(BTreeMap<String, Sender>);

impl Senders {
    /// From when on a message of so many segments is on its way; `None` if the queue is full.
    pub fn queue(&mut self, sender: &str, segments: usize, now_ms: u64) -> Option<u64> {
        if self.0.len() >= SENDERS_MAX && !self.0.contains_key(sender) {
            self.0.retain(|_, sender| sender.busy_until_ms > now_ms);
        }
        let queue = self.0.entry(sender.to_owned()).or_insert_with(|| Sender::usual(sender));
        let starts_ms = queue.busy_until_ms.max(now_ms);
        if starts_ms - now_ms >= queue.queue_ms_max {
            return None;
        }
        queue.busy_until_ms = starts_ms + (segments as f64 * 1_000.0 / queue.per_second) as u64;
        Some(starts_ms)
    }

    pub fn set(&mut self, name: &str, per_second: Option<f64>, queue_ms_max: Option<u64>) {
        let sender = self.0.entry(name.to_owned()).or_insert_with(|| Sender::usual(name));
        sender.per_second = per_second.unwrap_or(sender.per_second).clamp(0.001, 1e6);
        sender.queue_ms_max = queue_ms_max.unwrap_or(sender.queue_ms_max);
    }
}

impl Sender {
    fn usual(name: &str) -> Self {
        let is_toll_free = ["800", "833", "844", "855", "866", "877", "888"]
            .iter()
            .any(|code| name.starts_with(&format!("+1{code}")));
        let per_second = match name {
            _ if is_toll_free => 3.0,
            _ if name.starts_with('+') => 1.0,
            _ if name.bytes().all(|byte| byte.is_ascii_digit()) => 100.0,
            _ => 10.0,
        };
        Self { per_second, queue_ms_max: QUEUE_MS_MAX, busy_until_ms: 0 }
    }
}

/// Who a message is from: a number, a code or a name, or a messaging service.
#[must_use]
pub fn sender_of(form: &Form) -> Option<&str> {
    form.get("MessagingServiceSid").or_else(|| form.get("From"))
}

/// Counted here on its own, by cutting the text.
#[must_use]
pub fn segments(body: &str) -> usize {
    const ONE: &str = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà";
    const TWO: &str = "\u{c}^{}\\[~]|€";
    let is_gsm = body.chars().all(|letter| ONE.contains(letter) || TWO.contains(letter));
    let (single, each) = if is_gsm { (160, 153) } else { (70, 67) };
    let size = |letter: char| if is_gsm { 1 + usize::from(TWO.contains(letter)) } else { letter.len_utf16() };
    let sizes: Vec<usize> = body.chars().map(size).collect();
    if sizes.iter().sum::<usize>() <= single {
        return 1;
    }
    let mut rooms = vec![each];
    for size in sizes {
        match rooms.last_mut() {
            Some(room) if *room >= size => *room -= size,
            _ => rooms.push(each - size),
        }
    }
    rooms.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_take_their_turn_and_queues_have_an_end() {
        let mut senders = Senders::default();
        assert_eq!(senders.queue("+12025550100", 2, 1_000), Some(1_000));
        assert_eq!(senders.queue("+12025550100", 1, 1_000), Some(3_000));
        assert_eq!(senders.queue("12345", 1, 1_000), Some(1_000));
        assert_eq!(senders.queue("12345", 1, 1_000), Some(1_010));
        senders.set("+12025550100", Some(0.5), Some(3_000));
        assert_eq!(senders.queue("+12025550100", 1, 1_001), Some(4_000));
        assert_eq!(senders.queue("+12025550100", 1, 1_001), None);
        assert_eq!(senders.queue("+12025550100", 1, 6_000), Some(6_000));
    }

    #[test]
    fn texts_are_cut() {
        for (text, expected) in [
            (String::new(), 1),
            ("a".repeat(160), 1),
            ("a".repeat(161), 2),
            ("€".repeat(81), 2),
            ("😀".repeat(35), 1),
            ("😀".repeat(36), 2),
            (format!("{}😀{}", "я".repeat(66), "я".repeat(10)), 2),
        ] {
            assert_eq!(segments(&text), expected, "{text}");
        }
    }
}
