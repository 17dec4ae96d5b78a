//! `fantail sandbox`: the emulated providers alone, for other people's software and for trying a sender.

use crate::cli::{SandboxArgs, say};
use crate::provision;
use crate::system::SystemEntropy;
use anyhow::{Context, Result};
use fantail_local::disk::{Disk, RealDisk};
use fantail_sandbox::{Options, Running, Sandbox};
use std::collections::BTreeMap;

/// What callers of the control API have to know.
const KEY_FILE: &str = "viewer.key";

pub fn run(args: &SandboxArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(args))
}

async fn serve(args: &SandboxArgs) -> Result<()> {
    let key_file = args.directory.join(KEY_FILE);
    RealDisk.create_private_dir(&args.directory).context("cannot make the directory of the sandbox")?;
    let viewer_key = provision::viewer_key(&key_file, &SystemEntropy::default())?;
    let options = Options {
        bind: args.bind,
        shared_port: args.port,
        control_port: args.control_port,
        viewer_key: Some(viewer_key),
        directory: Some(args.directory.clone()),
        own_ports: own_ports(&args.own)?,
        ..Options::default()
    };
    let running = Sandbox::start(options).await.context("cannot start the sandbox")?;
    say(text(&running, args))?;
    tokio::signal::ctrl_c().await.context("cannot wait for a signal")?;
    running.stop().await;
    Ok(())
}

/// `apns=2197`, for each emulator that is to have a port of one's choice.
fn own_ports(given: &[String]) -> Result<BTreeMap<String, u16>> {
    let port = |text: &String| {
        let (name, port) = text.split_once('=').with_context(|| format!("{text} is not like apns=2197"))?;
        Ok((name.to_owned(), port.parse().with_context(|| format!("{port} is no port"))?))
    };
    given.iter().map(port).collect()
}

fn text(running: &Running, args: &SandboxArgs) -> String {
    let places = running.places();
    let mut text = format!(
        "sandbox: nothing leaves this machine\n  {:<10}https://{} (by host name)\n  {:<10}http://{}\n  {:<10}{}\n  \
         {:<10}{}\n",
        "shared",
        places.shared,
        "control",
        places.control,
        "authority",
        args.directory.join("ca.pem").display(),
        "key",
        args.directory.join(KEY_FILE).display(),
    );
    for (name, address) in &places.own {
        text.push_str(&format!("  {name:<10}{address}\n"));
    }
    text + "ready"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_by_name() {
        let ports = own_ports(&["apns=2197".to_owned(), "smtp=2525".to_owned()]).expect("two ports");
        assert_eq!(ports, BTreeMap::from([("apns".to_owned(), 2197), ("smtp".to_owned(), 2525)]));
        for wrong in ["apns", "apns=x", "apns=70000"] {
            assert!(own_ports(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
