//! How far a bulk send is, for people: one line, or a bar that is drawn again and again in its place.

use anyhow::Result;
use fantail_wire::bulk::{Bulk, BulkStatus};
use std::io::Write;
use std::time::Instant;

const BAR_CELLS: u64 = 30;
/// Back to the beginning of the line, and away with what stood there.
const CLEAR: &str = "\r\x1b[2K";

/// Everything about it in a line.
#[must_use]
pub fn line_of(bulk: &Bulk) -> String {
    let Bulk { event_id, segment, users, looked_at, members, .. } = bulk;
    let name = bulk.notification_id.as_deref().unwrap_or("-");
    let mut line = format!("{event_id} {name} {segment}: {}", standing(bulk));
    line.push_str(&format!(", {looked_at} of {users} users, {members} members"));
    if bulk.entries > 0 {
        line.push_str(&format!(", {} in inboxes", bulk.entries));
    }
    for (reason, count) in &bulk.skipped {
        line.push_str(&format!(", {count} skipped ({reason})"));
    }
    for channel in &bulk.channels {
        let states = channel.counts.iter().map(|(state, count)| format!("{count} {state}"));
        let states: Vec<String> = states.collect();
        if !states.is_empty() {
            line.push_str(&format!("; {}: {}", channel.channel.text(), states.join(", ")));
        }
    }
    line
}

fn standing(bulk: &Bulk) -> String {
    let word = match bulk.status {
        BulkStatus::Scheduled => "scheduled",
        BulkStatus::Running => "running",
        BulkStatus::Paused => "paused",
        BulkStatus::Sending => "sending",
        BulkStatus::Done => "done",
        BulkStatus::Cancelled => "cancelled",
    };
    match (&bulk.waits_for, &bulk.scheduled_at) {
        (Some(what), _) => format!("{word} (waits for {what})"),
        (None, Some(at)) if bulk.status == BulkStatus::Scheduled => format!("{word} for {at}"),
        (None, _) => word.to_owned(),
    }
}

/// A terminal.
#[derive(Default)]
pub struct Screen {
    /// When it was first looked at, and how far it was.
    first: Option<(Instant, u64)>,
}

impl Screen {
    /// Draws over what it drew before; the last time it leaves the whole line.
    pub fn draw(&mut self, bulk: &Bulk, is_last: bool) -> Result<()> {
        let (since, before) = *self.first.get_or_insert_with(|| (Instant::now(), bulk.looked_at));
        let millis = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let speed = (bulk.looked_at - before.min(bulk.looked_at)).saturating_mul(1_000) / millis.max(1);
        let mut out = std::io::stdout().lock();
        if is_last {
            writeln!(out, "{CLEAR}{}", line_of(bulk))?;
        } else {
            write!(out, "{CLEAR}{}", bar_of(bulk, speed))?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Short enough for a terminal. `speed`: users in a second.
fn bar_of(bulk: &Bulk, speed: u64) -> String {
    let Bulk { users, looked_at, members, .. } = bulk;
    let (full, percent) = match (bulk.status, *users) {
        (BulkStatus::Sending | BulkStatus::Done, _) => (BAR_CELLS, 100),
        (_, 0) => (0, 0),
        (_, users) => (looked_at * BAR_CELLS / users, looked_at * 100 / users),
    };
    let cells = usize::try_from(full.min(BAR_CELLS)).unwrap_or_default();
    let bar = format!("{}{}", "#".repeat(cells), "-".repeat(BAR_CELLS as usize - cells));
    let left = match (bulk.status, users.saturating_sub(*looked_at).checked_div(speed)) {
        (BulkStatus::Running, Some(seconds)) => format!(", {} left", time_of(seconds)),
        _ => String::new(),
    };
    format!("[{bar}] {percent:>3}% {}, {members} members, {speed}/s{left}", standing(bulk))
}

fn time_of(seconds: u64) -> String {
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_wire::event::Channel;
    use fantail_wire::notification::ChannelStatus;

    fn bulk(status: BulkStatus, looked_at: u64) -> Bulk {
        let counts = [("sent".to_owned(), 7), ("unconfirmed".to_owned(), 1)].into_iter().collect();
        Bulk {
            event_id: "01KG".to_owned(),
            notification_id: Some("sale".to_owned()),
            segment: "vips".to_owned(),
            status,
            waits_for: None,
            created_at: String::new(),
            scheduled_at: Some("2026-06-10T21:00:00.000Z".to_owned()),
            users: 40,
            looked_at,
            members: 8,
            entries: 3,
            skipped: [("no_consent".to_owned(), 2)].into_iter().collect(),
            channels: vec![ChannelStatus { channel: Channel::Push, counts, unreached: 0, done: false }],
        }
    }

    #[test]
    fn a_line_says_everything() {
        let line = line_of(&bulk(BulkStatus::Running, 10));
        let expected = "01KG sale vips: running, 10 of 40 users, 8 members, 3 in inboxes, 2 skipped (no_consent); push: 7 sent, 1 unconfirmed";
        assert_eq!(line, expected);
        let scheduled = line_of(&bulk(BulkStatus::Scheduled, 0));
        assert!(scheduled.contains("scheduled for 2026-06-10T21:00:00.000Z"), "{scheduled}");
        let waits = Bulk { waits_for: Some("rate".to_owned()), ..bulk(BulkStatus::Running, 10) };
        assert!(line_of(&waits).contains("running (waits for rate)"));
    }

    #[test]
    fn a_bar_is_as_full_as_it_is_far() {
        for (status, looked_at, speed, expected) in [
            (BulkStatus::Running, 0, 0, "[------------------------------]   0% running, 8 members, 0/s"),
            (
                BulkStatus::Running,
                20,
                2,
                "[###############---------------]  50% running, 8 members, 2/s, 10 s left",
            ),
            (BulkStatus::Sending, 40, 3, "[##############################] 100% sending, 8 members, 3/s"),
        ] {
            assert_eq!(bar_of(&bulk(status, looked_at), speed), expected);
        }
        assert_eq!(
            (time_of(59), time_of(61), time_of(7_260)),
            ("59 s".into(), "1 min 1 s".into(), "2 h 1 min".into())
        );
        let none = Bulk { users: 0, looked_at: 0, ..bulk(BulkStatus::Running, 0) };
        assert!(bar_of(&none, 0).contains("  0%"));
    }
}
