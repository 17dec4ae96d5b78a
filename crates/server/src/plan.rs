//! `fantail plan`: what a post costs, written out or as a pointer, for authors of every size.

use crate::cli::{PlanArgs, say};
use anyhow::Result;
use fantail_rules::cost::{Habits, MEASURED, bill, threshold};
use fantail_rules::limits::TIER_UP_MIN;

const FOLLOWERS: [u64; 5] = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

pub fn run(args: &PlanArgs) -> Result<()> {
    say(report(args))
}

fn report(args: &PlanArgs) -> String {
    let PlanArgs { posts_per_day: posts, reads_per_day: reads, post_budget_us } = *args;
    let habits = Habits { posts, reads };
    let mut text = format!(
        "An author posts {posts} times a day, a follower reads {reads} times a day. Processor time is of one core.\n\n\
         {:>11}  {:>12}  {:>12}  {:>14}  {:>16}\n",
        "followers", "one post", "bytes", "written, a day", "as pointer, a day"
    );
    for followers in FOLLOWERS {
        let bill = bill(MEASURED, followers, habits);
        text.push_str(&format!(
            "{:>11}  {:>12}  {:>12}  {:>14}  {:>16}\n",
            grouped(followers),
            time(bill.write_us),
            size(bill.write_bytes),
            time(bill.writes_day_us),
            time(bill.reads_day_us),
        ));
    }
    let posts_per_read = MEASURED.pointer_read_ns / MEASURED.entry_write_ns;
    let recommended = threshold(MEASURED, post_budget_us).max(u64::from(TIER_UP_MIN));
    text.push_str(&format!(
        "\n\
         Written: every follower gets an entry ({} ns, {:.1} bytes with merging); readers pay nothing.\n\
         As pointer: one write of about 2 KB, whatever the followers; each read of each follower takes {} ns longer.\n\
         All in all pointers are cheaper for who posts more than {posts_per_read} times per read of a follower; below that \
         they only keep\na single post from taking long.\n\n\
         With {} for one post: celebrityThreshold {}. Set it with PATCH /api/v1/tenants/{{slug}}.",
        MEASURED.entry_write_ns,
        MEASURED.entry_bytes_x100 as f64 / 100.0,
        MEASURED.pointer_read_ns,
        time(post_budget_us),
        grouped(recommended),
    ));
    text
}

fn time(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{} µs", grouped(micros)),
        10_000..10_000_000 => format!("{} ms", grouped(micros / 1_000)),
        _ => format!("{} s", grouped(micros / 1_000_000)),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{} B", grouped(bytes)),
        10_000..10_000_000 => format!("{} KB", grouped(bytes / 1_000)),
        _ => format!("{} MB", grouped(bytes / 1_000_000)),
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_budget_gives_the_default_threshold() {
        let args = PlanArgs {
            posts_per_day: 5,
            reads_per_day: 20,
            post_budget_us: fantail_rules::cost::POST_BUDGET_US,
        };
        let text = report(&args);
        assert!(text.contains("celebrityThreshold 10,000."), "{text}");
        assert_eq!(
            text.lines().filter(|line| line.contains("000,000  ") || line.contains("00,000  ")).count(),
            4
        );
    }

    #[test]
    fn numbers_are_grouped_and_get_units() {
        assert_eq!(
            (grouped(0), grouped(999), grouped(1_000_000)),
            ("0".into(), "999".into(), "1,000,000".into())
        );
        assert_eq!(
            (time(300), time(3_000_000), time(90_000_000)),
            ("300 µs".into(), "3,000 ms".into(), "90 s".into())
        );
        assert_eq!(
            (size(34), size(34_000), size(340_000_000)),
            ("34 B".into(), "34 KB".into(), "340 MB".into())
        );
    }
}
