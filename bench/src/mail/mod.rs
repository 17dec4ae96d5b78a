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

fn signatures(limit: Duration) -> Result<Spent> {
    let signer = Signer::rs256_pem(RSA_KEY.as_bytes())?;
    let (cpu, began) = (process::own_cpu()?, Instant::now());
    let mut count = 0;
    while began.elapsed() < limit {
        ensure!(!signer.sign(b"the headers of a mail").is_empty(), "nothing was signed");
        count += 1;
    }
    Spent::since(began, cpu, count)
}
