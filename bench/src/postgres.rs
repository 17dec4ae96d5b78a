//! The peer of the fan-out: the same entries as plain rows, `INSERT … SELECT` of an event's followers, one
//! transaction per event with fsync, by as many clients as there are cores. A private cluster on a Unix socket,
//! removed at the end; PostgreSQL refuses to run as root, so its own user runs it then.

use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

pub const ADVICE: &str =
    "PostgreSQL is not installed: `apt-get install postgresql` (or your system's package) adds this row";
/// Memory and WAL as an operator would give them for this load; durability stays as it comes: fully on.
const SETTINGS: &[&str] =
    &["listen_addresses=", "shared_buffers=1GB", "max_wal_size=8GB", "fsync=on", "synchronous_commit=on"];

/// The same shape as the fan-out beside it. At most half of the users follow one actor.
pub struct Size {
    pub users: u64,
    pub actors: u64,
    pub followers: u64,
    pub rows: u64,
}

pub enum Outcome {
    /// What to do about it.
    Missing(&'static str),
    Measured(Measured),
}

pub struct Measured {
    pub version: String,
    pub clients: u64,
    pub rows: f64,
    pub rows_per_second: f64,
    pub bytes_per_row: f64,
}

pub fn measure(work: &Path, size: &Size) -> Result<Outcome> {
    let Some(programs) = find_programs() else { return Ok(Outcome::Missing(ADVICE)) };
    let cluster = Cluster::start(programs, work)?;
    let clients = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let events = (size.rows / size.followers).max(clients);
    // Not more lists than are used: they are not what is measured.
    let actors = size.actors.min(events);
    cluster.sql_at_once(&[schema(size, actors)]).context("cannot make the tables")?;
    let scripts: Vec<String> = (0..clients).map(|client| inserts(client, clients, events, actors)).collect();
    let began = Instant::now();
    cluster.sql_at_once(&scripts)?;
    let elapsed = began.elapsed();
    let rows: f64 = cluster.sql("select count(*) from inbox")?.trim().parse()?;
    let expected = (events * size.followers) as f64;
    ensure!(rows == expected, "PostgreSQL has {rows} rows instead of {expected}");
    let bytes: f64 = cluster.sql("select pg_total_relation_size('inbox')")?.trim().parse()?;
    Ok(Outcome::Measured(Measured {
        version: cluster.version()?,
        clients,
        rows,
        rows_per_second: rows / elapsed.as_secs_f64(),
        bytes_per_row: bytes / rows,
    }))
}

/// Random followers: twice as many draws as are wanted, then the different ones, as many as are wanted.
fn schema(size: &Size, actors: u64) -> String {
    let Size { users, followers, .. } = size;
    format!(
        "create table follows (actor bigint, user_id bigint, primary key (actor, user_id));
         insert into follows select actor, user_id from generate_series(0, {actors} - 1) actor cross join lateral
           (select distinct floor(random() * {users})::bigint user_id from generate_series(1, 2 * {followers})
            where actor >= 0 limit {followers}) chosen;
         create table inbox (
           user_id bigint not null, event_id bigint not null, created_at timestamptz not null default now(),
           seen boolean not null default false, read boolean not null default false,
           primary key (user_id, event_id));
         vacuum analyze follows;
         checkpoint;"
    )
}

/// Each statement is a transaction of its own.
fn inserts(client: u64, clients: u64, events: u64, actors: u64) -> String {
    let mut text = String::new();
    for event in (client..events).step_by(clients as usize) {
        let actor = event % actors;
        writeln!(
            text,
            "insert into inbox (user_id, event_id) select user_id, {event} from follows where actor = {actor};"
        )
        .expect("writing to a String cannot fail");
    }
    text
}

/// The directory of `initdb`, `pg_ctl` and `psql`.
pub fn find_programs() -> Option<PathBuf> {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&in_path).collect();
    // Debian keeps them out of the path, by version; the newest comes last.
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        let mut versions: Vec<PathBuf> = versions.flatten().map(|entry| entry.path().join("bin")).collect();
        versions.sort();
        places.extend(versions.into_iter().rev());
    }
    places.into_iter().find(|place| ["initdb", "pg_ctl", "psql"].iter().all(|name| place.join(name).exists()))
}

pub struct Cluster {
    programs: PathBuf,
    directory: PathBuf,
    /// Short: the path of a Unix socket has about 100 bytes.
    socket: PathBuf,
    is_root: bool,
}

impl Cluster {
    pub fn start(programs: PathBuf, work: &Path) -> Result<Self> {
        let socket = std::env::temp_dir().join(format!("fantail-pg-{}", std::process::id()));
        let is_root = rustix::process::geteuid().is_root();
        let cluster = Self { programs, directory: work.join("postgres"), socket, is_root };
        for directory in [&cluster.directory, &cluster.socket] {
            fs::create_dir_all(directory)?;
            // Only so that the other user can make its own directory inside.
            fs::set_permissions(directory, fs::Permissions::from_mode(0o777))?;
        }
        let data = cluster.data();
        cluster.run("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"])?;
        let mut options = format!("-c unix_socket_directories={}", cluster.socket.display());
        for setting in SETTINGS {
            write!(options, " -c {setting}")?;
        }
        let log = format!("{}/log", cluster.directory.display());
        cluster.run("pg_ctl", &["-D", &data, "-l", &log, "-w", "-o", &options, "start"])?;
        Ok(cluster)
    }

    fn data(&self) -> String {
        format!("{}/data", self.directory.display())
    }

    /// The process that started all others of the cluster.
    pub fn pid(&self) -> Result<u32> {
        let file = format!("{}/postmaster.pid", self.data());
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        text.lines().next().context("no process in it")?.parse().context("no process in it")
    }

    fn version(&self) -> Result<String> {
        Ok(format!("PostgreSQL {}", self.sql("show server_version")?.trim()))
    }

    pub fn sql(&self, text: &str) -> Result<String> {
        let output = self.psql().arg("-c").arg(text).output()?;
        succeeded("psql", &output)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// One client per script, all at the same time.
    pub fn sql_at_once(&self, scripts: &[String]) -> Result<()> {
        let mut clients = Vec::new();
        for (at, script) in scripts.iter().enumerate() {
            let file = self.socket.join(format!("client-{at}.sql"));
            fs::write(&file, script)?;
            let client =
                self.psql().arg("-f").arg(&file).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
            clients.push(client);
        }
        for client in clients {
            succeeded("psql", &client.wait_with_output()?)?;
        }
        Ok(())
    }

    fn psql(&self) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "postgres",
            "-d",
            "postgres",
            "-h",
        ]);
        command.arg(&self.socket);
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let output = self.as_its_user(program).args(arguments).stdin(Stdio::null()).output()?;
        succeeded(program, &output)
    }

    fn as_its_user(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        if !self.is_root {
            return Command::new(program);
        }
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program).current_dir("/");
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.data();
        if let Err(error) = self.run("pg_ctl", &["-D", &data, "-m", "immediate", "-w", "stop"]) {
            eprintln!("bench: PostgreSQL was not stopped: {error:#}");
        }
        for directory in [&self.directory, &self.socket] {
            if let Err(error) = fs::remove_dir_all(directory) {
                eprintln!("bench: {} is left behind: {error}", directory.display());
            }
        }
    }
}

fn succeeded(program: &str, output: &Output) -> Result<()> {
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed: {}", errors.trim());
    Ok(())
}
