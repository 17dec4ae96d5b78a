//! `fantail dev seed`: a social graph for trying out and measuring. Few actors have most of the followers (an actor's
//! share falls with its rank), and the same seed makes the same graph on every machine: integers only.

use crate::caller::client_of;
use crate::cli::{SeedArgs, say};
use crate::client::Response;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

const BATCH: u64 = 10_000;

pub fn run(args: &SeedArgs) -> Result<()> {
    ensure!(args.users >= 2, "a graph needs at least two users");
    let mut client = client_of(&args.server)?;
    let mut created = 0;
    for from in (0..args.users).step_by(BATCH as usize) {
        let until = args.users.min(from + BATCH);
        let users: Vec<Value> = (from..until).map(|no| json!({"userId": user_name(no)})).collect();
        created += done(client.post("/api/v1/users/batch", &json!({"users": users}))?, "created")?;
    }
    let mut graph = Graph::new(args.users, args.seed);
    let (mut left, mut changed) = (args.follows, 0);
    while left > 0 {
        let count = left.min(BATCH);
        let edges = graph.by_ref().take(usize::try_from(count)?);
        let follows: Vec<Value> =
            edges.map(|edge| json!({"user": user_name(edge.user), "actor": user_name(edge.actor)})).collect();
        changed += done(client.post("/api/v1/follows/batch", &json!({"follows": follows}))?, "changed")?;
        left -= count;
    }
    say(format_args!("{created} users created, {changed} follows added; {} has most followers", user_name(0)))
}

fn done(response: Response, field: &str) -> Result<u64> {
    ensure!(response.status == 200, "the server answered {}: {}", response.status, response.text());
    let answer = response.json();
    ensure!(answer["errors"].is_null(), "some items were refused: {}", answer["errors"]);
    answer[field].as_u64().context("the answer lacks its count")
}

#[must_use]
pub fn user_name(no: u64) -> String {
    format!("user-{no}")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    pub user: u64,
    pub actor: u64,
}

/// An endless stream of edges; repeats occur and change nothing.
pub struct Graph {
    users: u64,
    state: u64,
}

impl Graph {
    #[must_use]
    pub fn new(users: u64, seed: u64) -> Self {
        assert!(users >= 2, "an edge needs two users");
        Self { users, state: seed }
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A rank whose probability falls as one over the rank: first its number of bits, then the bits.
    fn draw_rank(&mut self) -> u64 {
        let levels = u64::from(self.users.ilog2()) + 1;
        loop {
            let low = 1u64 << (self.draw() % levels);
            let rank = low + self.draw() % low;
            if rank <= self.users {
                return rank - 1;
            }
        }
    }
}

impl Iterator for Graph {
    type Item = Edge;

    fn next(&mut self) -> Option<Edge> {
        loop {
            let edge = Edge { actor: self.draw_rank(), user: self.draw() % self.users };
            if edge.actor != edge.user {
                return Some(edge);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_graph() {
        let graph = |seed| Graph::new(1_000, seed).take(1_000).collect::<Vec<_>>();
        assert_eq!(graph(7), graph(7));
        assert_ne!(graph(7), graph(8));
        let first = Graph::new(1_000, 1).next().expect("endless");
        assert_eq!(first, Graph::new(1_000, 1).next().expect("endless"));
    }

    #[test]
    fn few_actors_have_most_followers() {
        let edges: Vec<Edge> = Graph::new(1_000, 3).take(20_000).collect();
        assert!(edges.iter().all(|edge| edge.user < 1_000 && edge.actor < 1_000 && edge.user != edge.actor));
        let share = |until: u64| edges.iter().filter(|edge| edge.actor < until).count();
        assert!(share(1) > 1_500, "the first has about a tenth");
        assert!(share(10) > 5_000, "the first ten have about a third");
        assert!(share(1_000) - share(500) < 4_000, "the lower half has about a tenth");
    }
}
