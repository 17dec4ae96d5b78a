//! Whether everybody who was to be told has one state in the end, and nobody was told twice: the server's word against the record
//! that the stub keeps of its own.

use super::Crowd;
use crate::deliveries::import::user_name;
use crate::http::{Connection, Target};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Deliveries asked for at once.
const PAGE: usize = 1_000;

pub struct Judging<'a> {
    pub target: &'a Target,
    pub id: &'a str,
    /// What the stub wrote: a line for every message, its reference first.
    pub arrivals: &'a Path,
    pub crowd: Crowd,
}

/// Recipients by their last state; messages that arrived, and those of them that had arrived before.
#[derive(Clone, Copy, Default, Debug)]
pub struct Judged {
    pub sent: u64,
    pub unconfirmed: u64,
    pub arrived: u64,
    pub copies: u64,
}

impl Judging<'_> {
    pub async fn judge(&self) -> Result<Judged> {
        let mut judged = self.told().await?;
        (judged.arrived, judged.copies) = self.arrived()?;
        Ok(judged)
    }

    /// Every recipient, one by one: whoever has a device once, and nobody else.
    async fn told(&self) -> Result<Judged> {
        let Crowd { users, told_every, .. } = self.crowd;
        let mut seen = vec![false; usize::try_from(users)?];
        let (mut judged, mut cursor) = (Judged::default(), String::new());
        let mut connection = Connection::open(self.target.address).await?;
        loop {
            let path = format!("/api/v1/notifications/{}/status?limit={PAGE}{cursor}", self.id);
            let answer = connection.exchange(&self.target.get(&path)).await?;
            answer.expect(200)?;
            let page: Value = serde_json::from_slice(answer.body)?;
            for one in page["deliveries"].as_array().context("no deliveries")? {
                let name = one["userId"].as_str().context("no name")?;
                let number: u64 = name.strip_prefix('u').and_then(|no| no.parse().ok()).context("whose?")?;
                ensure!(
                    user_name(number) == name && number.is_multiple_of(told_every),
                    "{name} cannot be told"
                );
                let place = seen.get_mut(usize::try_from(number)?).context("nobody by this name")?;
                ensure!(!std::mem::replace(place, true), "{name} is listed twice");
                match one["state"].as_str() {
                    Some("sent") => judged.sent += 1,
                    Some("unconfirmed") => judged.unconfirmed += 1,
                    _ => bail!("no state to end in: {one}"),
                }
            }
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(judged),
            }
        }
    }

    /// How many different messages arrived, and how many copies of them. References are told apart by 64 bits.
    fn arrived(&self) -> Result<(u64, u64)> {
        let mut references = Vec::new();
        for line in BufReader::new(File::open(self.arrivals)?).lines() {
            let line = line?;
            let reference = line.split(' ').next().context("a line without a reference")?;
            references.push(hashed(reference.as_bytes()));
        }
        references.sort_unstable();
        let all = references.len() as u64;
        references.dedup();
        let arrived = references.len() as u64;
        Ok((arrived, all - arrived))
    }
}

/// FNV-1a, finished so that near references fall far apart.
fn hashed(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
