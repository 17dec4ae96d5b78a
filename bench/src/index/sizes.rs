//! How much of everything the index scenarios do: at full scale what the goals speak of, and little enough to see
//! that all of it works.

use clap::Args;
use std::time::Duration;

/// Changes to the scale.
#[derive(Args, Clone, Debug, Default)]
pub struct IndexOptions {
    /// Run only this part of the index scenario; may be repeated
    #[arg(long = "part", value_name = "NAME", value_enum)]
    pub parts: Vec<super::Part>,
    /// Users of the uniform and the power-law graph
    #[arg(long, value_name = "N")]
    pub index_users: Option<u64>,
    /// Entries of the uniform fan-out, which recovery and reads go on from
    #[arg(long, value_name = "N")]
    pub index_entries: Option<u64>,
    /// Distinct lists of the uniform fan-out
    #[arg(long, value_name = "N")]
    pub index_lists: Option<u64>,
    /// Entries of the power-law fan-out
    #[arg(long, value_name = "N")]
    pub power_law_entries: Option<u64>,
    /// Entries of each fan-out to explicit users
    #[arg(long, value_name = "N")]
    pub explicit_entries: Option<u64>,
    /// Members of the largest list; smaller ones have a tenth and a hundredth
    #[arg(long, value_name = "N")]
    pub list_members: Option<u64>,
    /// Events that wait in the window while reads are measured
    #[arg(long, value_name = "N")]
    pub window_events: Option<u64>,
    /// Rows of each peer and round; ours writes as many
    #[arg(long, value_name = "N")]
    pub peer_rows: Option<u64>,
    /// Rounds in which all peers take turns
    #[arg(long, value_name = "N")]
    pub peer_rounds: Option<usize>,
    /// Measure only peers whose name contains this; may be repeated
    #[arg(long = "peer", value_name = "NAME")]
    pub peers: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Sizes {
    pub users: u64,
    pub lists: u64,
    pub list_size: u64,
    pub entries: u64,
    /// Lists that only readers are on, so that these can follow 400 on average and some 5,000.
    pub side_lists: u64,
    pub readers: u64,
    pub read_loop: Duration,
    /// Events that may wait while fan-out is measured, and that do wait while reads are.
    pub window_events: u64,
    pub power_law_lists: u64,
    pub power_law_mean: u64,
    pub power_law_entries: u64,
    pub explicit_entries: u64,
    pub follows: u64,
    /// Members of the large lists.
    pub large: [u64; 3],
    /// Each fan-out posts for so long at most.
    pub limit: Duration,
    pub peer_rows: u64,
    pub peer_rounds: usize,
    /// Each turn of a peer takes so long at most, and counts the rows it has by then.
    pub peer_limit: Duration,
}

impl Sizes {
    pub fn change(&mut self, options: &IndexOptions) {
        let sizes = self;
        sizes.users = options.index_users.unwrap_or(sizes.users);
        sizes.entries = options.index_entries.unwrap_or(sizes.entries);
        sizes.lists = options.index_lists.unwrap_or(sizes.lists).max(1);
        sizes.power_law_entries = options.power_law_entries.unwrap_or(sizes.power_law_entries);
        sizes.explicit_entries = options.explicit_entries.unwrap_or(sizes.explicit_entries);
        if let Some(members) = options.list_members {
            sizes.large = [members / 100, members / 10, members].map(|members| members.max(1_000));
        }
        sizes.window_events = options.window_events.unwrap_or(sizes.window_events);
        sizes.peer_rows = options.peer_rows.unwrap_or(sizes.peer_rows);
        sizes.peer_rounds = options.peer_rounds.unwrap_or(sizes.peer_rounds).max(1);
    }

    pub fn full() -> Self {
        Self {
            users: 10_000_000,
            lists: 1_000,
            list_size: 10_000,
            entries: 580_000_000,
            side_lists: 9_000,
            readers: 2_000,
            read_loop: Duration::from_secs(10),
            window_events: 4_096,
            power_law_lists: 250_000,
            power_law_mean: 200,
            power_law_entries: 400_000_000,
            explicit_entries: 5_000_000,
            follows: 10_000_000,
            large: [1_000_000, 10_000_000, 100_000_000],
            limit: Duration::from_secs(300),
            peer_rows: 20_000_000,
            peer_rounds: 3,
            peer_limit: Duration::from_secs(30),
        }
    }

    pub fn quick() -> Self {
        Self {
            users: 200_000,
            lists: 60,
            list_size: 2_000,
            entries: 2_000_000,
            side_lists: 5_940,
            readers: 100,
            read_loop: Duration::from_millis(1_000),
            window_events: 1_024,
            power_law_lists: 3_000,
            power_law_mean: 100,
            power_law_entries: 1_000_000,
            explicit_entries: 200_000,
            follows: 200_000,
            large: [10_000, 100_000, 1_000_000],
            limit: Duration::from_secs(10),
            peer_rows: 300_000,
            peer_rounds: 2,
            peer_limit: Duration::from_secs(2),
        }
    }
}
