//! A TCP proxy that breaks its connections: resets them before or after a request was passed on, or leaves them half-open,
//! neither passing anything on nor closing. Until it is healed.

use crate::crash::draw;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

const BUFFER_BYTES: usize = 16 << 10;
/// Bytes from the client until a connection breaks, at most: a handshake and some requests.
const BYTES_MAX: u64 = 8 << 10;

/// What becomes of a connection, once so many bytes came from the client.
#[derive(Clone, Copy)]
enum Fate {
    Whole,
    /// Reset, and what came last is not passed on.
    ResetBefore(u64),
    /// What came last is passed on, and the connection is reset instead of passing the answer back.
    ResetAfter(u64),
    /// What came last is passed on, and then nothing more in either direction.
    HalfOpen(u64),
}

impl Fate {
    fn draw(state: &mut u64) -> Self {
        let bytes = draw(state, BYTES_MAX);
        match draw(state, 8) {
            0 => Self::Whole,
            1..=3 => Self::ResetBefore(bytes),
            4..=6 => Self::ResetAfter(bytes),
            _ => Self::HalfOpen(bytes),
        }
    }
}

pub struct ResettingProxy {
    pub address: SocketAddr,
    broken: Arc<AtomicU64>,
    is_healed: watch::Sender<bool>,
    _runtime: Runtime,
}

impl ResettingProxy {
    pub fn new(target: SocketAddr, seed: u64) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let (is_healed, healed) = watch::channel(false);
        let broken = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&broken);
        runtime.spawn(async move {
            let mut state = seed;
            loop {
                let (client, _) = listener.accept().await.expect("it listens");
                let fate = if *healed.borrow() { Fate::Whole } else { Fate::draw(&mut state) };
                tokio::spawn(carry(client, target, fate, healed.clone(), Arc::clone(&counted)));
            }
        });
        Self { address, broken, is_healed, _runtime: runtime }
    }

    /// From now on everything is passed on. What is half-open is reset.
    pub fn heal(&self) {
        self.is_healed.send_replace(true);
    }

    /// Connections that were broken.
    pub fn broken(&self) -> u64 {
        self.broken.load(Ordering::Relaxed)
    }
}

async fn carry(
    mut client: TcpStream,
    target: SocketAddr,
    mut fate: Fate,
    mut healed: watch::Receiver<bool>,
    broken: Arc<AtomicU64>,
) {
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    let (mut up, mut down) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let mut passed = 0;
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(count @ 1..) = read else { return };
                passed += count as u64;
                if matches!(fate, Fate::ResetBefore(bytes) if passed > bytes) {
                    break;
                }
                if server.write_all(&up[..count]).await.is_err() {
                    return;
                }
                match fate {
                    Fate::ResetAfter(bytes) if passed > bytes => {
                        // An answer, or the end of the connection: the client sees neither.
                        drop(server.read(&mut down).await);
                        break;
                    }
                    Fate::HalfOpen(bytes) if passed > bytes => {
                        broken.fetch_add(1, Ordering::Relaxed);
                        drop(healed.wait_for(|is_healed| *is_healed).await);
                        return reset(&[client, server]);
                    }
                    Fate::Whole | Fate::ResetBefore(_) | Fate::ResetAfter(_) | Fate::HalfOpen(_) => {}
                }
            }
            read = server.read(&mut down) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&down[..count]).await.is_err() {
                    return;
                }
            }
            changed = healed.changed() => {
                if changed.is_err() {
                    return;
                }
                fate = Fate::Whole;
            }
        }
    }
    broken.fetch_add(1, Ordering::Relaxed);
    reset(&[client, server]);
}

/// Closes both ends with a reset.
fn reset(streams: &[TcpStream]) {
    for stream in streams {
        stream.set_zero_linger().expect("an open socket");
    }
}
