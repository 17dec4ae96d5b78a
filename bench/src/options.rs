//! The command line, and the two scales it chooses from: the full run whose numbers count, and `--quick`, which
//! shows within a few minutes that everything works.

use crate::index::{IndexOptions, Sizes};
use crate::instructions::Micro;
use crate::scenarios::Scenario;
use crate::scenarios::bulk::Crowd;
use crate::scenarios::fairness::Attack;
use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Parser, Debug)]
#[command(name = "fantail-bench", about = "Measure fantail beside the raw disk and other stores")]
pub struct Options {
    /// Everything smaller and shorter: a few minutes; its numbers are no claims
    #[arg(long)]
    pub quick: bool,
    /// Run only this scenario, after fsync; may be repeated
    #[arg(long, value_name = "NAME", value_enum)]
    pub only: Vec<Scenario>,
    /// Where the JSON and the table go
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    pub out: PathBuf,
    /// The server to measure; built with cargo and found beside this program if left out
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Where the data of the run goes: the disk that is measured. Beside this program if left out
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Seconds of each closed and open loop of single events, and of each loop of reads
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,
    /// Seconds of the batch load
    #[arg(long, value_name = "N")]
    pub batch_seconds: Option<u64>,
    /// Inbox entries of each fan-out
    #[arg(long, value_name = "N")]
    pub entries: Option<u64>,
    /// Rows that PostgreSQL writes beside it; 0 leaves PostgreSQL out
    #[arg(long, value_name = "N")]
    pub postgres_rows: Option<u64>,
    /// Followers of the celebrity
    #[arg(long, value_name = "N")]
    pub celebrity_followers: Option<u64>,
    /// Events in the journal before the kill -9
    #[arg(long, value_name = "N")]
    pub recovery_events: Option<u64>,
    /// Users of the delivery scenario
    #[arg(long, value_name = "N")]
    pub delivery_users: Option<u64>,
    /// Users of the bulk scenario
    #[arg(long, value_name = "N")]
    pub bulk_users: Option<u64>,
    /// Every so many-th of them has a device
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub bulk_told_every: Option<u64>,
    /// How often the second bulk send is killed; 0 leaves it out
    #[arg(long, value_name = "N")]
    pub bulk_kills: Option<u64>,
    /// Sends that the sweep removes; may be repeated, from the smallest size to the largest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub swept_sends: Vec<u64>,
    /// Only this attack of the fairness scenario; may be repeated
    #[arg(long, value_name = "NAME", value_enum)]
    pub attack: Vec<Attack>,
    #[command(flatten)]
    pub index: IndexOptions,
    #[command(subcommand)]
    pub hidden: Option<Hidden>,
}

/// What this program does for itself, in a process of its own.
#[derive(Subcommand, Clone, Debug)]
pub enum Hidden {
    #[command(hide = true)]
    Worker { job: String },
    /// Count instructions, and compare them with their bounds
    #[command(hide = true)]
    Instructions,
    #[command(hide = true)]
    Micro { name: Micro, units: u64 },
    /// Takes every push, until it is killed
    #[command(hide = true)]
    ApnsServer {
        directory: PathBuf,
        #[arg(long)]
        echoes: bool,
    },
    /// Takes every mail, until it is killed
    #[command(hide = true)]
    MailServer { directory: PathBuf },
}

/// How much of everything.
#[derive(Clone, Debug)]
pub struct Scale {
    pub quick: bool,
    pub fsync_loop: Duration,
    /// Timers that wait.
    pub timers: u64,
    /// Deliveries of other users that wait.
    pub waiting: u64,
    /// The raw disk is looked at for so long before and after a load whose goal speaks of fsync.
    pub probe: Duration,
    pub accept_loop: Duration,
    pub batch_loop: Duration,
    pub read_loop: Duration,
    /// Users that direct events go to.
    pub recipients: u64,
    /// Few users, who get several entries per window, and many users, who get few: a user's entries
    /// of one window lie together, so the first shape flatters the index and the second does not.
    pub fanout: [Shape; 2],
    /// The fan-out reports what it has done by then.
    pub fanout_limit: Duration,
    pub postgres_rows: u64,
    pub read_users: u64,
    pub celebrity_followers: u64,
    pub celebrity_posts: u64,
    pub recovery_events: u64,
    pub starts: usize,
    pub idle: Duration,
    /// After this long a scenario is given up; all parts of the index together get longer.
    pub scenario_limit: Duration,
    pub index_limit: Duration,
    pub delivery_users: u64,
    /// Sends that are kept before the guard sweep, of each size.
    pub swept_sends: Vec<u64>,
    /// Of the fairness scenario.
    pub attacks: Vec<Attack>,
    pub bulk: Crowd,
    pub index: Sizes,
}

/// A social graph to fan out over.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub name: &'static str,
    pub users: u64,
    pub actors: u64,
    pub followers: u64,
    /// How many inbox entries are written.
    pub entries: u64,
}

impl Options {
    /// fsync is always among them: no durable number is shown without the disk it was measured on.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let wanted = |scenario: &Scenario| {
            self.only.is_empty() || *scenario == Scenario::Fsync || self.only.contains(scenario)
        };
        Scenario::ALL.iter().copied().filter(wanted).collect()
    }

    pub fn scale(&self) -> Scale {
        let mut scale = if self.quick { quick() } else { full() };
        scale.delivery_users = self.delivery_users.unwrap_or(scale.delivery_users);
        scale.bulk.users = self.bulk_users.unwrap_or(scale.bulk.users);
        scale.bulk.told_every = self.bulk_told_every.unwrap_or(scale.bulk.told_every);
        scale.bulk.kills = self.bulk_kills.unwrap_or(scale.bulk.kills);
        if !self.swept_sends.is_empty() {
            scale.swept_sends.clone_from(&self.swept_sends);
        }
        if !self.attack.is_empty() {
            scale.attacks.clone_from(&self.attack);
        }
        if let Some(seconds) = self.seconds {
            scale.accept_loop = Duration::from_secs(seconds.max(1));
            scale.read_loop = scale.accept_loop;
        }
        if let Some(seconds) = self.batch_seconds {
            scale.batch_loop = Duration::from_secs(seconds.max(1));
        }
        for shape in &mut scale.fanout {
            shape.entries = self.entries.unwrap_or(shape.entries);
        }
        scale.index.change(&self.index);
        scale.postgres_rows = self.postgres_rows.unwrap_or(scale.postgres_rows);
        scale.celebrity_followers = self.celebrity_followers.unwrap_or(scale.celebrity_followers);
        scale.recovery_events = self.recovery_events.unwrap_or(scale.recovery_events);
        scale
    }
}

fn full() -> Scale {
    Scale {
        quick: false,
        fsync_loop: Duration::from_secs(5),
        timers: 10_000_000,
        waiting: 1_000_000,
        probe: Duration::from_secs(3),
        accept_loop: Duration::from_secs(10),
        batch_loop: Duration::from_secs(30),
        read_loop: Duration::from_secs(5),
        recipients: 10_000,
        fanout: [
            Shape { name: "dense", users: 100_000, actors: 40, followers: 10_000, entries: 200_000_000 },
            Shape { name: "sparse", users: 1_000_000, actors: 500, followers: 10_000, entries: 200_000_000 },
        ],
        fanout_limit: Duration::from_secs(300),
        postgres_rows: 2_000_000,
        read_users: 10_000,
        celebrity_followers: 1_000_000,
        celebrity_posts: 200,
        recovery_events: 200_000,
        starts: 5,
        idle: Duration::from_secs(10),
        scenario_limit: Duration::from_secs(900),
        index_limit: Duration::from_secs(3 * 3_600),
        delivery_users: 10_000_000,
        swept_sends: vec![5_000_000, 20_000_000],
        attacks: Attack::value_variants().to_vec(),
        bulk: Crowd { users: 5_000_000, told_every: 1, kills: 10 },
        index: Sizes::full(),
    }
}

fn quick() -> Scale {
    Scale {
        quick: true,
        fsync_loop: Duration::from_secs(1),
        timers: 200_000,
        waiting: 100_000,
        probe: Duration::from_millis(500),
        accept_loop: Duration::from_secs(1),
        batch_loop: Duration::from_secs(3),
        read_loop: Duration::from_secs(1),
        recipients: 1_000,
        fanout: [
            Shape { name: "dense", users: 20_000, actors: 8, followers: 1_000, entries: 8_000_000 },
            Shape { name: "sparse", users: 50_000, actors: 40, followers: 500, entries: 4_000_000 },
        ],
        fanout_limit: Duration::from_secs(15),
        postgres_rows: 100_000,
        read_users: 1_000,
        celebrity_followers: 20_000,
        celebrity_posts: 50,
        recovery_events: 20_000,
        starts: 3,
        idle: Duration::from_secs(3),
        scenario_limit: Duration::from_secs(60),
        index_limit: Duration::from_secs(600),
        delivery_users: 100_000,
        swept_sends: vec![50_000, 200_000],
        attacks: Attack::value_variants().to_vec(),
        bulk: Crowd { users: 50_000, told_every: 1, kills: 10 },
        index: Sizes::quick(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn fsync_is_always_measured_first() {
        let options = Options::parse_from(["bench", "--quick", "--only", "reads"]);
        assert_eq!(options.scenarios(), [Scenario::Fsync, Scenario::Reads]);
        assert_eq!(Options::parse_from(["bench"]).scenarios(), Scenario::ALL);
    }

    #[test]
    fn sizes_and_attacks_can_be_named_one_by_one() {
        let words = ["bench", "--swept-sends", "1000", "--swept-sends", "4000", "--attack", "flood"];
        let scale = Options::parse_from(words).scale();
        assert_eq!(scale.swept_sends, [1_000, 4_000]);
        assert_eq!(scale.attacks, [Attack::Flood]);
        let scale = Options::parse_from(["bench"]).scale();
        assert_eq!(scale.swept_sends, [5_000_000, 20_000_000]);
        assert_eq!(scale.attacks, Attack::value_variants());
    }
}
