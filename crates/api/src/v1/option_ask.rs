//! What a producer may ask for beside the content: checked here for notifications and events alike.

use crate::check::Faults;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::time;
use fantail_node::ask::{ChannelKind, ChannelSet, OptionsAsk};
use fantail_rules::ids::Millis;
use fantail_rules::limits::{COLLAPSE_KEY_BYTES_MAX, SCHEDULE_MS_MAX, TTL_S_DEFAULT, TTL_S_MAX, TTL_S_MIN};
use fantail_rules::quiet::{Days, Times, Window};
use fantail_rules::schedule::{Appointment, SendAtLocal};
use fantail_rules::wall::parse_minute;
use fantail_wire::event::Channel;
use fantail_wire::notification::{OffPeakHours, SendOptions};

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
    let appointment = appointment_of(options, at, now, faults);
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
        appointment,
        cancellation_key: options.cancellation_key.clone(),
        collapse_key: options.collapse_key.clone(),
        is_sensitive: options.sensitive,
    }
}

/// A time of the recipients' own: one of them, and none beside a time for all.
fn appointment_of(
    options: &SendOptions,
    at: Pointer<'_>,
    now: Millis,
    faults: &mut Faults,
) -> Option<Appointment> {
    let (local_at, window_at) = (at.key("sendAtLocal"), at.key("offPeak"));
    match (&options.send_at_local, &options.off_peak) {
        (None, None) => return None,
        (Some(_), _) if options.scheduled_at.is_some() => faults.add(local_at, "either this or scheduledAt"),
        (None, Some(_)) if options.scheduled_at.is_some() => {
            faults.add(window_at, "either this or scheduledAt");
        }
        (Some(_), Some(_)) => faults.add(window_at, "either this or sendAtLocal"),
        (Some(_), None) | (None, Some(_)) => {}
    }
    let Some(text) = &options.send_at_local else {
        return options.off_peak.as_ref().and_then(|hours| window_of(hours, window_at, faults));
    };
    let Some(local) = SendAtLocal::parse(text) else {
        faults.add(local_at, "must be a time like 2026-12-24T18:00 or 18:00");
        return None;
    };
    let appointment = Appointment::At(local);
    if appointment.begins(now).since(now) > SCHEDULE_MS_MAX {
        faults.add(local_at, "must be at most 366 days ahead, everywhere");
    }
    Some(appointment)
}

fn window_of(hours: &OffPeakHours, at: Pointer<'_>, faults: &mut Faults) -> Option<Appointment> {
    let mut minute = |text: &str, at: Pointer<'_>| {
        let minute = parse_minute(text);
        if minute.is_none() {
            faults.add(at, "must be a time like 22:00");
        }
        minute
    };
    let (start, end) = (minute(&hours.start, at.key("start")), minute(&hours.end, at.key("end")));
    let days = hours.days.as_ref().map_or(Some(Days::ALL), |days| {
        Days::from_bits(days.iter().fold(0, |bits, day| bits | 1 << *day as u8))
    });
    if days.is_none() {
        faults.add(at.key("days"), "must name a day; without it every day counts");
    }
    let times = Times { start_minute: start?, end_minute: end? };
    Window::new(times, days?).map(Appointment::OffPeak)
}

/// What comes at a time of each recipient's own is in no inbox: it would be there too early for most. `channels` are those
/// that were asked for, or none.
pub fn check_channels(options: &OptionsAsk, channels: &[Channel], at: Pointer<'_>, faults: &mut Faults) {
    if options.appointment.is_some() && channels.contains(&Channel::InApp) {
        faults.add(at, "sendAtLocal and offPeak do not go to inboxes: leave out inApp");
    }
}

/// The channels that are left for what comes at a time of each recipient's own.
pub fn out_of_inbox(options: &OptionsAsk, channels: ChannelSet, at: &str) -> Result<ChannelSet, Problem> {
    if options.appointment.is_none() {
        return Ok(channels);
    }
    let channels = channels.without(ChannelKind::InApp);
    if channels.is_empty() {
        let rule = "sendAtLocal and offPeak need at least one of push, email, sms and webhook";
        return Err(Problem::field(at, rule));
    }
    Ok(channels)
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
    // fixes: usability C4
    #[test]
    fn options_have_bounds() {
        let cases = [
            (json!({}), None),
            (json!({"scheduledAt": "2026-01-31T12:00:01Z", "sensitive": true}), None),
            (json!({"scheduledAt": "2020-01-31T12:00:00+02:00"}), None),
            (json!({"scheduledAt": "2027-02-01T12:00:00Z"}), None),
            (json!({"scheduledAt": "2027-02-01T12:00:00.001Z"}), Some("/scheduledAt")),
            (json!({"scheduledAt": "tomorrow"}), Some("/scheduledAt")),
            (json!({"sendAtLocal": "18:00"}), None),
            (json!({"sendAtLocal": "2026-12-24T18:00"}), None),
            (json!({"sendAtLocal": "2020-12-24T18:00"}), None),
            (json!({"sendAtLocal": "2028-12-24T18:00"}), Some("/sendAtLocal")),
            (json!({"sendAtLocal": "9999-12-30T23:59"}), Some("/sendAtLocal")),
            (json!({"sendAtLocal": "9999-12-31T00:00"}), Some("/sendAtLocal")),
            (json!({"sendAtLocal": "9999-12-31T23:59"}), Some("/sendAtLocal")),
            (json!({"sendAtLocal": "6 pm"}), Some("/sendAtLocal")),
            (json!({"sendAtLocal": "18:00", "scheduledAt": "2026-02-01T12:00:00Z"}), Some("/sendAtLocal")),
            (json!({"offPeak": {"start": "01:00", "end": "05:00"}}), None),
            (json!({"offPeak": {"start": "01:00", "end": "05:00", "days": ["sat"]}}), None),
            (json!({"offPeak": {"start": "01:00", "end": "05:00", "days": []}}), Some("/offPeak/days")),
            (json!({"offPeak": {"start": "01:00", "end": "25:00"}}), Some("/offPeak/end")),
            (
                json!({"offPeak": {"start": "01:00", "end": "05:00"}, "scheduledAt": "2026-02-01T12:00:00Z"}),
                Some("/offPeak"),
            ),
            (
                json!({"sendAtLocal": "18:00", "offPeak": {"start": "01:00", "end": "05:00"}}),
                Some("/offPeak"),
            ),
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
