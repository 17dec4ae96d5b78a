//! A server under test: started, asked, stopped, and gone with its data when the test ends.

use fantail_server::client::Client;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of one test, removed at its end.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let no = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fantail-it-{}-{no}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary directory");
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the temporary directory is there");
    }
}

/// The binary, without the settings of whoever runs the tests.
pub fn fantail() -> Command {
    without_settings(Command::new(env!("CARGO_BIN_EXE_fantail")))
}

fn without_settings(mut command: Command) -> Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FANTAIL_")) {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end and gives what it printed; panics if it fails.
pub fn run(args: &[&str]) -> String {
    let output = fantail().args(args).output().expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "fantail {args:?} failed: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: String,
    pub banner: Vec<String>,
    pub data: PathBuf,
    log: PathBuf,
    /// Kept open: a server whose stdout is gone is not what we test.
    _stdout: BufReader<ChildStdout>,
    directory: Option<Directory>,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(&[], &[])
    }

    pub fn start_with(args: &[&str], environment: &[(&str, &str)]) -> Self {
        let directory = Directory::new();
        let mut server = Self::start_in(&directory.path("data"), args, environment);
        server.directory = Some(directory);
        server
    }

    /// Starts a server that may open so many files and no more.
    pub fn start_with_descriptors(limit: u32) -> Self {
        let directory = Directory::new();
        let mut command = without_settings(Command::new("sh"));
        let limited = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_fantail")]);
        let started = Self::spawn(command, &directory.path("data"), &[], &[]);
        let mut server = started.unwrap_or_else(|banner| panic!("the server did not start: {banner:?}"));
        server.directory = Some(directory);
        server
    }

    /// Starts on a data directory that the caller keeps.
    pub fn start_in(data: &Path, args: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::try_start_in(data, args, environment).unwrap_or_else(|banner| {
            let log = fs::read_to_string(data.with_extension("log")).unwrap_or_default();
            panic!("the server did not start: {banner:?}\n{log}");
        })
    }

    /// As `start_in`, or what it said before it died.
    pub fn try_start_in(
        data: &Path,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, Vec<String>> {
        Self::spawn(fantail(), data, args, environment)
    }

    fn spawn(
        mut command: Command,
        data: &Path,
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, Vec<String>> {
        let log = data.with_extension("log");
        let file = fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log file");
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data).args(args);
        // Test doubles are on unless a test says otherwise.
        command.env("FANTAIL_TESTING", "1");
        // So that one key does everything a test is about.
        command.env("FANTAIL_BOOTSTRAP", "full");
        command.envs(environment.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let banner = read_banner(&mut stdout);
        let Some(address) = banner.iter().find_map(|line| address_in(line)) else {
            child.wait().expect("it ends");
            return Err(banner);
        };
        Ok(Self { child, address, banner, data: data.to_owned(), log, _stdout: stdout, directory: None })
    }

    /// A client with the key of the tenant `default`.
    pub fn client(&self) -> Client {
        self.anonymous().with_key(&self.key("default.key"))
    }

    /// A client with the server's admin key.
    pub fn admin(&self) -> Client {
        self.anonymous().with_key(&self.key("admin.key"))
    }

    pub fn anonymous(&self) -> Client {
        Client::to(&self.address)
    }

    /// A client of one of the listeners: `public`, `api` or `admin`; of the API if that has none of its own.
    pub fn at(&self, listener: &str) -> Client {
        Client::to(self.address_of(listener))
    }

    /// Where one of the listeners is.
    pub fn address_of(&self, listener: &str) -> &str {
        let line = self.banner.iter().find(|line| line.trim_start().starts_with(&format!("{listener} ")));
        let url =
            line.and_then(|line| line.split_whitespace().nth(1)).filter(|word| word.starts_with("http"));
        let address = url.map(|url| url.trim_start_matches("http://").split(['/', ',']).next().unwrap_or(""));
        address.unwrap_or(&self.address)
    }

    pub fn with_key(&self, key: &str) -> Client {
        self.anonymous().with_key(key)
    }

    pub fn key(&self, file: &str) -> String {
        let text = fs::read_to_string(self.data.join(file)).expect("a key file");
        text.trim().to_owned()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("a log file")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs");
        assert!(sent.success(), "the signal was sent");
    }

    /// Asks it to stop and waits until it has; gives back the directory, if it owned one.
    pub fn stop(mut self) -> Option<Directory> {
        self.signal("TERM");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "a clean stop: {status}\n{}", self.log());
        self.directory.take()
    }

    /// Ends it without any warning, as a crash does; gives back the directory, if it owned one.
    pub fn kill(mut self) -> Option<Directory> {
        self.child.kill().expect("it is running");
        self.child.wait().expect("it ends");
        self.directory.take()
    }

    /// Waits for its end after a signal that the test sent.
    pub fn wait(&mut self) -> bool {
        self.child.wait().expect("it ends").success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is fine.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn read_banner(stdout: &mut BufReader<ChildStdout>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = stdout.read_line(&mut line).expect("stdout can be read");
        if read == 0 {
            return Vec::new();
        }
        let line = line.trim_end().to_owned();
        let ready = line == "ready";
        lines.push(line);
        if ready {
            return lines;
        }
    }
}

fn address_in(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix("api")?.trim_start();
    let rest = rest.strip_prefix("http://").or_else(|| rest.strip_prefix("https://"))?;
    rest.strip_suffix("/api/v1").map(str::to_owned)
}
