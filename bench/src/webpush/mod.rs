//! Web Push: what a message costs beside the one step that nothing can avoid, the agreement of two keys on P-256 (and making
//! one of them, which each message needs anew), and beside npm `web-push`.
//!
//! Everything is per core: calls divided by this program's own CPU time. `sent` is the channel as the dispatcher drives it, in
//! shipments of a thousand over TLS and HTTP/2 to a server that takes everything, each message to a browser of its own.

mod client;

use crate::Bench;
use crate::process;
use crate::report::Row;
use crate::sending::scripts::{Task, node};
use crate::sending::{PARCEL, Spent, Taker, missing};
use anyhow::{Result, ensure};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use fantail_channels::webpush::encrypt::Fresh;
use fantail_channels::webpush::target::Browser;
use std::hint::black_box;
use std::time::{Duration, Instant};

const WEB_PUSH: &str = include_str!("web_push.js");
/// Of the bare bound.
const SHARE_GOAL: f64 = 0.8;
/// What a message of a template has.
const PLAINTEXT: &[u8] = br#"{"body":"2 parcels for you","data":{"orderId":"A-42"},"tag":"order-42","title":"Order A-42 is on its way","reference":"00000000000000000000000000000000000042"}"#;
/// Calls between two looks at the clock.
const PORTION: usize = 256;
/// Key pairs made at a time: CPU time is told in hundredths of a second, and these take a hundred of them.
const AHEAD: usize = 20_000;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let limit = bench.scale.accept_loop / 2;
    let browsers: Vec<Browser> = (0..PARCEL).map(|_| browser()).collect::<Result<_>>()?;
    let bound = repeat(limit, |no| {
        let private = PrivateKey::generate(&ECDH_P256)?;
        agreed(&private, &browsers[no % PARCEL])
    })?;
    bench.report.add(bound.row("webpush", "bare: one key pair made, and one agreement"));
    let own = PrivateKey::generate(&ECDH_P256)?;
    let agreements = repeat(limit, |no| agreed(&own, &browsers[no % PARCEL]))?;
    bench.report.add(agreements.row("webpush", "bare: one agreement"));
    let encrypt = |fresh: Fresh, no: usize| {
        let body = fresh.encrypt(&browsers[no % PARCEL], PLAINTEXT, 0)?;
        ensure!(black_box(body).len() > PLAINTEXT.len(), "nothing was encrypted");
        Ok(())
    };
    let at_once = repeat(limit, |no| encrypt(Fresh::generate(), no))?;
    bench.report.add(judged("encrypted, the key pair made for each", &at_once, &bound));
    let ahead = ahead(limit, encrypt)?;
    bench.report.add(judged("encrypted, key pairs made ahead", &ahead, &bound));
    let directory = bench.work.join("webpush");
    std::fs::create_dir_all(&directory)?;
    let server = Taker::start(&["apns-server"], &directory)?;
    let sent = client::run(&directory, server.port, &browsers, limit).await?;
    bench.report.add(judged("sent over TLS and HTTP/2, all of it", &sent, &bound));
    let name = "beside: npm web-push, request made and signed";
    let task = Task { directory: &directory, port: server.port, limit };
    match node("web-push", WEB_PUSH, task)? {
        Some(spent) => bench.report.add(spent.row("webpush", name)),
        None => bench.report.add(missing("webpush", name, "it is not installed: `make bench-peers`")),
    }
    Ok(())
}

fn browser() -> Result<Browser> {
    let public = PrivateKey::generate(&ECDH_P256)?.compute_public_key()?;
    Ok(Browser { public: public.as_ref().try_into()?, auth: [7; 16] })
}

fn agreed(private: &PrivateKey, browser: &Browser) -> Result<()> {
    let peer = UnparsedPublicKey::new(&ECDH_P256, &browser.public[..]);
    agree(private, peer, anyhow::anyhow!("no point"), |secret| {
        black_box(secret);
        Ok(())
    })
}

fn repeat(limit: Duration, mut call: impl FnMut(usize) -> Result<()>) -> Result<Spent> {
    let (cpu, began) = (process::own_cpu()?, Instant::now());
    let mut calls = 0;
    while began.elapsed() < limit {
        for no in calls..calls + PORTION {
            call(no)?;
        }
        calls += PORTION;
    }
    Spent::since(began, cpu, calls)
}

/// Only what is left on the way of a message counts; the key pairs are made between.
fn ahead(limit: Duration, mut encrypt: impl FnMut(Fresh, usize) -> Result<()>) -> Result<Spent> {
    let began = Instant::now();
    let (mut calls, mut cpu) = (0, Duration::ZERO);
    while began.elapsed() < limit {
        let keys: Vec<Fresh> = (0..AHEAD).map(|_| Fresh::generate()).collect();
        let before = process::own_cpu()?;
        for (no, fresh) in keys.into_iter().enumerate() {
            encrypt(fresh, no)?;
        }
        cpu += process::own_cpu()?.saturating_sub(before);
        calls += AHEAD;
    }
    let cpu_seconds = cpu.as_secs_f64();
    Ok(Spent { pushes: calls as f64, seconds: cpu_seconds, cpu_seconds })
}

fn judged(name: &str, spent: &Spent, bound: &Spent) -> Row {
    spent.beside(bound, SHARE_GOAL, spent.row("webpush", name))
}
