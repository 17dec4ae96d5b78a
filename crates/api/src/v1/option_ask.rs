//! What a producer may ask for beside the content: checked here for notifications and events alike.

use crate::check::Faults;
use crate::pointer::Pointer;
use crate::time;
use fantail_node::ask::OptionsAsk;
use fantail_rules::ids::Millis;
use fantail_rules::limits::{COLLAPSE_KEY_BYTES_MAX, SCHEDULE_MS_MAX, TTL_S_DEFAULT, TTL_S_MAX, TTL_S_MIN};
use fantail_wire::notification::SendOptions;

/// What was asked for beside the content.
pub fn options_of(options: &SendOptions, at: Pointer<'_>, now: Millis, faults: &mut Faults) -> OptionsAsk {
    let due = options.scheduled_at.as_deref().and_then(|text| match time::parse(text) {
        Some(due) if due.since(now) > SCHEDULE_MS_MAX => {
            faults.add(at.key("scheduledAt"), "must be at most 366 days ahead");
            None
        }
        Some(due) => Some(due),
        None => {
            faults.add(at.key("scheduledAt"), "must be a time like 2026-01-31T12:00:00Z");
            None
        }
    });
    if let Some(key) = &options.cancellation_key {
        faults.name(at.key("cancellationKey"), key);
    }
    if let Some(key) = &options.collapse_key {
        let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain || !(1..=COLLAPSE_KEY_BYTES_MAX).contains(&key.len()) {
            let rule = format!("must have 1 to {COLLAPSE_KEY_BYTES_MAX} visible ASCII characters");
            faults.add(at.key("collapseKey"), rule);
        }
    }
    OptionsAsk {
        due,
        cancellation_key: options.cancellation_key.clone(),
        collapse_key: options.collapse_key.clone(),
        is_sensitive: options.sensitive,
    }
}

/// Seconds to milliseconds.
pub fn ttl_of(ttl: Option<u64>, at: Pointer<'_>, faults: &mut Faults) -> u64 {
    let seconds = ttl.unwrap_or(TTL_S_DEFAULT);
    if !(TTL_S_MIN..=TTL_S_MAX).contains(&seconds) {
        faults.add(at, format!("must be {TTL_S_MIN} to {TTL_S_MAX} seconds"));
    }
    seconds.min(TTL_S_MAX) * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: Millis = Millis(1_769_860_800_000);

    // proves: SCH-01, DEL-19
    #[test]
    fn options_have_bounds() {
        let cases = [
            (json!({}), None),
            (json!({"scheduledAt": "2026-01-31T12:00:01Z", "sensitive": true}), None),
            (json!({"scheduledAt": "2020-01-31T12:00:00+02:00"}), None),
            (json!({"scheduledAt": "2027-02-01T12:00:00Z"}), None),
            (json!({"scheduledAt": "2027-02-01T12:00:00.001Z"}), Some("/scheduledAt")),
            (json!({"scheduledAt": "tomorrow"}), Some("/scheduledAt")),
            (json!({"cancellationKey": "order 42"}), None),
            (json!({"cancellationKey": ""}), Some("/cancellationKey")),
            (json!({"cancellationKey": "x".repeat(257)}), Some("/cancellationKey")),
            (json!({"collapseKey": "x".repeat(64)}), None),
            (json!({"collapseKey": "x".repeat(65)}), Some("/collapseKey")),
            (json!({"collapseKey": ""}), Some("/collapseKey")),
            (json!({"collapseKey": "a b"}), Some("/collapseKey")),
            (json!({"collapseKey": "\u{e4}"}), Some("/collapseKey")),
        ];
        for (body, pointer) in cases {
            let options: SendOptions = serde_json::from_value(body.clone()).expect("options");
            let mut faults = Faults::default();
            options_of(&options, Pointer::ROOT, NOW, &mut faults);
            let found = faults.into_result().err().map(|problem| problem.errors[0].pointer.clone());
            assert_eq!(found.as_deref(), pointer, "{body}");
        }
    }
}
