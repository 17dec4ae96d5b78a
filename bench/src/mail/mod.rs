//! Signed mails over SMTP: what one costs us beside the one step that nothing can avoid, its RSA-2048 signature.
//!
//! Rates are per core of the client: mails divided by this program's own CPU time, since the server that takes everything
//! shares this machine's cores.

mod client;
mod server;

use crate::Bench;
use crate::process;
use crate::sending::{Spent, Taker};
use anyhow::{Result, ensure};
use fantail_outbound::jwt::Signer;
use std::time::{Duration, Instant};

pub use server::run as serve;

pub const RSA_KEY: &str = include_str!("../../../crates/channels/tests/golden/dkim-rsa.pem");
/// Of what the machine signs when it does nothing else.
const SHARE_GOAL: f64 = 0.8;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let limit = bench.scale.accept_loop;
    let bare = signatures(limit)?;
    bench.report.add(bare.row("mail", "bare: one RSA-2048 signature"));
    let directory = bench.work.join("mail");
    std::fs::create_dir_all(&directory)?;
    let server = Taker::start(&["mail-server"], &directory)?;
    let plain = client::run(server.port, false, limit).await?;
    bench.report.add(plain.row("mail", "mails, not signed"));
    let signed = client::run(server.port, true, limit).await?;
    bench.report.add(signed.beside(&bare, SHARE_GOAL, signed.row("mail", "mails, signed with DKIM")));
    Ok(())
}

/// On all cores at once, as the mails are signed: two that share one unit are slower than each alone.
fn signatures(limit: Duration) -> Result<Spent> {
    let signer = Signer::rs256_pem(RSA_KEY.as_bytes())?;
    let threads = std::thread::available_parallelism()?.get();
    let (cpu, began) = (process::own_cpu()?, Instant::now());
    let sign = || {
        let mut count = 0;
        while began.elapsed() < limit {
            count += usize::from(!signer.sign(b"the headers of a mail").is_empty());
        }
        count
    };
    let count: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(sign)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(0)).sum()
    });
    ensure!(count > 0, "nothing was signed");
    Spent::since(began, cpu, count)
}
