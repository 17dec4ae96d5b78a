//! Examples about recurring schedules.

use super::Example;
use super::examples::{examples, map, text};
use fantail_wire::notification::NotificationSend;
use fantail_wire::schedule::{Schedule, SchedulePatch, SchedulePut, ScheduleRun, ScheduleSummary, Schedules};
use serde_json::json;

const TIME: &str = "2026-01-31T12:00:00.000Z";
const RUN: &str = "2026-02-02T07:30:00.000Z";
const END: &str = "2099-12-31T12:00:00.000Z";
const EVENT: &str = "01KG94J5R0000000000000000B";
const CRON: &str = "30 8 * * mon-fri";
const ZONE: &str = "Europe/Vienna";

fn definition() -> SchedulePut {
    SchedulePut {
        cron: text(CRON),
        timezone: Some(text(ZONE)),
        starts_at: Some(text(TIME)),
        ends_at: Some(text(END)),
        paused: false,
        notification: Some(NotificationSend { notification_id: None, ..NotificationSend::example() }),
        bulk: None,
    }
}

fn last_run() -> ScheduleRun {
    ScheduleRun { at: text(TIME), event_id: Some(text(EVENT)), refused: Some(text("TEMPLATE_INACTIVE")) }
}

examples! {
    SchedulePut => definition();
    SchedulePatch => SchedulePatch {
        cron: Some(text(CRON)),
        timezone: Some(text(ZONE)),
        starts_at: Some(text(TIME)),
        ends_at: Some(text(END)),
        paused: Some(true),
        notification: Some(map(json!({"priority": "high"}))),
        bulk: None,
    };
    Schedule => Schedule {
        schedule_id: text("morning"),
        version: 1,
        definition: definition(),
        next_runs: vec![text(RUN)],
        runs_as: Some(text("0123456789AB")),
        last_run: Some(last_run()),
        created_at: text(TIME),
        updated_at: text(TIME),
    };
    Schedules => Schedules {
        schedules: vec![ScheduleSummary {
            schedule_id: text("morning"),
            version: 1,
            cron: text(CRON),
            timezone: text(ZONE),
            paused: false,
            runs_as: Some(text("0123456789AB")),
            next_run: Some(text(RUN)),
            last_run: Some(last_run()),
        }],
        next_cursor: Some(text("AQIk3w8AAAAAAAAABw")),
    };
}
