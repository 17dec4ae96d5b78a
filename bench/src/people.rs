//! Users and follows, imported through the batch API as a tenant would do it.

use crate::event::{contains, spread};
use crate::http::{Connection, Target};
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Digits of a user's or an actor's number: names have one length.
pub const DIGITS: usize = 7;
/// What the API takes at once.
const ITEMS_PER_BATCH: usize = 10_000;
/// Batches under way at a time.
const CONNECTIONS: usize = 4;
/// A busy server is asked again after this, and this many times.
const PAUSE: Duration = Duration::from_millis(50);
const ATTEMPTS_MAX: usize = 600;

pub fn user(number: u64) -> String {
    format!("u{number:07}")
}

pub fn actor(number: u64) -> String {
    format!("a{number:07}")
}

/// How many, and how long it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Imported {
    pub count: u64,
    pub elapsed: Duration,
}

impl Imported {
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Follow {
    pub user: u64,
    pub actor: u64,
}

pub async fn import_users(target: &Target, count: u64) -> Result<Imported> {
    let numbers: Vec<u64> = (0..count).collect();
    import(target, "/api/v1/users/batch", "users", numbers, |text, number| {
        write!(text, r#"{{"userId":"u{number:07}"}}"#)
    })
    .await
    .context("cannot import users")
}

pub async fn import_follows(target: &Target, follows: Vec<Follow>) -> Result<Imported> {
    import(target, "/api/v1/follows/batch", "follows", follows, |text, follow| {
        write!(text, r#"{{"user":"u{:07}","actor":"a{:07}"}}"#, follow.user, follow.actor)
    })
    .await
    .context("cannot import follows")
}

/// `count` different users out of `users`, at random but the same in every run.
pub fn choose_followers(actor: u64, users: u64, count: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..users).collect();
    for at in 0..count.min(users) {
        let other = at + spread(actor << 32 | at) % (users - at);
        all.swap(at as usize, other as usize);
    }
    all.truncate(count as usize);
    all
}

type Put<T> = fn(&mut String, &T) -> std::fmt::Result;

/// Sends all items in batches over a few connections; every item must be taken.
async fn import<T: Send + Sync + 'static>(
    target: &Target,
    path: &'static str,
    list: &'static str,
    items: Vec<T>,
    put: Put<T>,
) -> Result<Imported> {
    let (items, taken) = (Arc::new(items), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..CONNECTIONS {
        let (items, taken, target) = (Arc::clone(&items), Arc::clone(&taken), target.clone());
        workers.push(tokio::spawn(async move {
            let mut connection = Connection::open(target.address).await?;
            loop {
                let batch = taken.fetch_add(1, Ordering::Relaxed) as usize;
                let Some(items) = items.chunks(ITEMS_PER_BATCH).nth(batch) else { return anyhow::Ok(()) };
                let request = target.send("POST", path, batch_json(list, items, put)?.as_bytes());
                send_until_taken(&mut connection, &request).await?;
            }
        }));
    }
    for worker in workers {
        worker.await??;
    }
    Ok(Imported { count: items.len() as u64, elapsed: began.elapsed() })
}

fn batch_json<T>(list: &str, items: &[T], put: Put<T>) -> Result<String> {
    let mut text = format!(r#"{{"{list}":["#);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        put(&mut text, item)?;
    }
    text.push_str("]}");
    Ok(text)
}

/// Items of a batch may be refused one by one when a queue is full; a repeat changes nothing that was done.
async fn send_until_taken(connection: &mut Connection, request: &[u8]) -> Result<()> {
    let mut last = String::new();
    for _ in 0..ATTEMPTS_MAX {
        let answer = connection.exchange(request).await?;
        let is_whole = !contains(answer.body, b"\"errors\"");
        if answer.status == 200 && is_whole {
            return Ok(());
        }
        last = String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
        ensure!(matches!(answer.status, 200 | 503), "answer {}: {last}", answer.status);
        tokio::time::sleep(PAUSE).await;
    }
    anyhow::bail!("a batch was refused {ATTEMPTS_MAX} times: {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_are_different_users() {
        for (users, count) in [(100, 100), (100, 10), (10_000, 500)] {
            let mut chosen = choose_followers(3, users, count);
            assert_eq!(chosen, choose_followers(3, users, count));
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len() as u64, count);
            assert!(chosen.iter().all(|user| *user < users));
        }
        assert_ne!(choose_followers(1, 100, 10), choose_followers(2, 100, 10));
    }

    #[test]
    fn names_have_one_length() {
        assert_eq!(user(9_999_999).len(), 1 + DIGITS);
        assert_eq!(actor(0).len(), 1 + DIGITS);
    }
}
