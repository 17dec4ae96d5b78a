//! Redis: one command (or two) per entry, all entries of an event pipelined. A private server on a Unix socket, new
//! for every turn.

use super::{Peer, Ready, Turn, Work};
use crate::process;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const ADVICE: &str = "Redis is not installed: `make bench-peers`, or `apt-get install redis-server`";
const START_MAX: Duration = Duration::from_secs(10);
/// Entries of one user that a capped list keeps.
const KEPT: u64 = 800;

#[derive(Clone, Copy, Debug)]
enum Shape {
    Zadd,
    LpushLtrim,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Zadd => "ZADD",
            Self::LpushLtrim => "LPUSH + LTRIM",
        }
    }

    fn put(self, out: &mut String, user: u64, event: u64) {
        let key = format!("inbox:{user}");
        let event = event.to_string();
        match self {
            Self::Zadd => command(out, &["ZADD", &key, &event, &event]),
            Self::LpushLtrim => {
                command(out, &["LPUSH", &key, &event]);
                command(out, &["LTRIM", &key, "0", &(KEPT - 1).to_string()]);
            }
        }
    }

    fn commands(self) -> usize {
        match self {
            Self::Zadd => 1,
            Self::LpushLtrim => 2,
        }
    }
}

pub fn is_installed() -> bool {
    Command::new("redis-server")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

pub fn peers(work: &Work) -> Vec<Peer> {
    if !is_installed() {
        return vec![Peer::Missing { name: "Redis".into(), advice: ADVICE.into() }];
    }
    let mut peers = Vec::new();
    for (fsync, durability, goal) in [
        ("everysec", "AOF fsynced every second", Some(50.0)),
        ("always", "AOF fsynced before the answer", None),
    ] {
        for shape in [Shape::Zadd, Shape::LpushLtrim] {
            let work = *work;
            let turn = move |directory: &Path| turn(&work, directory, fsync, shape);
            let name = format!("Redis {}, AOF {fsync} (bytes in memory)", shape.name());
            peers.push(Peer::Ready(Ready { name, durability, goal, turn: Box::new(turn) }));
        }
    }
    peers
}

fn turn(work: &Work, directory: &Path, fsync: &str, shape: Shape) -> Result<Turn> {
    let lists = work.lists();
    let server = Server::start(directory, fsync)?;
    let mut client = Client::connect(&server.socket)?;
    let empty = client.number_in_info("used_memory:")?;
    let before = process::family_cpu(server.child.id())?;
    let (mut elapsed, mut rows) = (Duration::ZERO, 0);
    for event in 0..work.events {
        let users = &lists[event as usize % lists.len()];
        let mut commands = String::with_capacity(users.len() * 96);
        users.iter().for_each(|user| shape.put(&mut commands, *user, event));
        let began = Instant::now();
        client.exchange(commands.as_bytes(), users.len() * shape.commands())?;
        elapsed += began.elapsed();
        rows += users.len() as u64;
        if elapsed >= work.limit() {
            break;
        }
    }
    let cpu = process::family_cpu(server.child.id())?.saturating_sub(before);
    let bytes = client.number_in_info("used_memory:")? - empty;
    Ok(Turn {
        rows: rows as f64,
        seconds: elapsed.as_secs_f64(),
        cpu_seconds: cpu.as_secs_f64(),
        bytes: Some(bytes),
    })
}

/// A private server; gone when dropped.
pub struct Server {
    pub child: Child,
    pub socket: PathBuf,
    pub port: u16,
    place: PathBuf,
}

impl Server {
    /// `fsync` as Redis has it: `always`, `everysec`.
    pub fn start(directory: &Path, fsync: &str) -> Result<Self> {
        // Short: the path of a Unix socket has about 100 bytes.
        let place = std::env::temp_dir().join(format!("fantail-redis-{}", std::process::id()));
        std::fs::create_dir_all(&place)?;
        let (socket, port) = (place.join("socket"), free_port()?);
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--unixsocket"]).arg(&socket);
        command.arg("--dir").arg(directory).args(["--save", "", "--appendonly", "yes"]);
        // Rewrites of the log would only slow it down.
        command.args(["--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0"]);
        let child = command.stdout(Stdio::null()).stdin(Stdio::null()).spawn()?;
        let server = Self { child, socket, port, place };
        let began = Instant::now();
        while UnixStream::connect(&server.socket).is_err() {
            ensure!(began.elapsed() < START_MAX, "redis-server does not start");
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data is thrown away, so it need not be asked.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
        if let Err(error) = std::fs::remove_dir_all(&self.place) {
            eprintln!("bench: {} is left behind: {error}", self.place.display());
        }
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub fn command(out: &mut String, words: &[&str]) {
    write!(out, "*{}\r\n", words.len()).expect("writing to a String cannot fail");
    for word in words {
        write!(out, "${}\r\n{word}\r\n", word.len()).expect("writing to a String cannot fail");
    }
}

/// As much of the protocol as is needed here.
pub struct Client {
    stream: UnixStream,
    replies: BufReader<UnixStream>,
}

impl Client {
    pub fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        Ok(Self { replies: BufReader::with_capacity(256 << 10, stream.try_clone()?), stream })
    }

    /// Sends commands and reads as many one-line replies.
    pub fn exchange(&mut self, commands: &[u8], replies: usize) -> Result<()> {
        self.stream.write_all(commands)?;
        let mut line = Vec::with_capacity(64);
        for _ in 0..replies {
            line.clear();
            self.replies.read_until(b'\n', &mut line)?;
            match line.first() {
                Some(b':' | b'+') => {}
                _ => bail!("Redis answered {:?}", String::from_utf8_lossy(&line)),
            }
        }
        Ok(())
    }

    pub fn number_in_info(&mut self, name: &str) -> Result<f64> {
        let mut ask = String::new();
        command(&mut ask, &["INFO", "memory"]);
        self.stream.write_all(ask.as_bytes())?;
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        let length: usize = line.trim().strip_prefix('$').context("no text in the reply")?.parse()?;
        let mut text = vec![0; length + 2];
        self.replies.read_exact(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let value = text.lines().find_map(|line| line.strip_prefix(name)).context("not in INFO")?;
        Ok(value.trim().parse()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_and_measured() {
        let mut out = String::new();
        Shape::Zadd.put(&mut out, 7, 12);
        assert_eq!(out, "*4\r\n$4\r\nZADD\r\n$7\r\ninbox:7\r\n$2\r\n12\r\n$2\r\n12\r\n");
        out.clear();
        Shape::LpushLtrim.put(&mut out, 7, 12);
        assert_eq!(out.matches('*').count(), Shape::LpushLtrim.commands());
    }
}
