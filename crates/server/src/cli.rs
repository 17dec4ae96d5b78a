//! What can be asked of the binary.

use crate::backup::{self, BackupArgs};
use crate::bulk_command::{self, BulkCommand};
use crate::config::Flags;
use crate::restore_command::{self, RestoreArgs};
use crate::{
    audit_command, check_command, clock_command, config_command, explain, journal_command, plan,
    resume_command, sandbox_command, scan_command, seed, serve,
};
use clap::{Args, Parser, Subcommand};
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser, Debug)]
#[command(name = "fantail", version, about = "Self-hosted, multi-tenant notification platform")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve the API. Needs no configuration: data in ./fantail-data, http://127.0.0.1:7070
    Serve(ServeCommand),
    /// Explain, check or show the configuration
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Look into the journal of a data directory
    Journal {
        #[command(subcommand)]
        command: JournalCommand,
    },
    /// Verify the audit log of a data directory, or export a checkpoint of it
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Recount all deliveries of a data directory whose server is stopped, and name every tally that differs
    Check(CheckArgs),
    /// Confirm the machine's clock, after the server found it too far ahead
    Clock {
        #[command(subcommand)]
        command: ClockCommand,
    },
    /// Look for texts in every file of a data directory: whether somebody who was erased can still be found
    Scan(ScanArgs),
    /// Copy all data of a running server into a new directory
    Backup(BackupArgs),
    /// Make a data directory from a backup. It is paused: a server on it sends nothing before `fantail resume`
    Restore(RestoreArgs),
    /// Send again, after the data directory was restored from a backup
    Resume(ServerArgs),
    /// Tell what became of a notification or an event for one user, and why
    Explain(ExplainArgs),
    /// Send to everybody whom a segment chooses: create, list, watch, pause, resume, cancel, rate
    Bulk {
        #[command(subcommand)]
        command: BulkCommand,
    },
    /// Show what a post costs by number of followers, and which celebrity threshold fits
    Plan(PlanArgs),
    /// Emulate the providers on this machine: APNs, FCM, Web Push, SES, SMTP, Twilio; see docs/sandbox.md
    Sandbox(SandboxArgs),
    /// For development
    Dev {
        #[command(subcommand)]
        command: DevCommand,
    },
    /// Print the version
    Version,
}

#[derive(Args, Clone, Debug, Default)]
pub struct ServeCommand {
    #[command(flatten)]
    pub args: ServeArgs,
    /// For tests only: the time is what is written to this socket. Needs FANTAIL_TESTING=1, and the start time in FANTAIL_TEST_CLOCK
    #[arg(long, value_name = "SOCKET")]
    pub clock: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub struct SandboxArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// Port of all emulators, by host name; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Port of the control and viewer API, always on 127.0.0.1; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub control_port: u16,
    /// Port of one emulator, like apns=2197; may be given several times
    #[arg(long, value_name = "NAME=PORT")]
    pub own: Vec<String>,
    /// Where ca.pem is written, which clients have to trust, and viewer.key, which the control and viewer API wants
    #[arg(long, value_name = "DIR", default_value = "./fantail-sandbox")]
    pub directory: PathBuf,
}

/// Settings that have a flag. The rest is set by environment or file, see `fantail config doc`.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Address to listen on; port 0 chooses a free one
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Certificate chain (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<String>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<String>,
    /// compact or json
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl ServeArgs {
    #[must_use]
    pub fn flags(&self) -> Flags {
        let pairs = [
            ("data", &self.data),
            ("listen", &self.listen),
            ("tls.cert", &self.tls_cert),
            ("tls.key", &self.tls_key),
            ("log.format", &self.log_format),
            ("log.level", &self.log_level),
        ];
        let given = pairs.into_iter().filter_map(|(key, value)| Some((key, value.clone()?)));
        Flags { file: self.config.clone(), values: given.collect() }
    }
}

#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Print every setting with its default and its meaning, as a file to start from
    Doc,
    /// Check the configuration and say what is wrong
    Check(ServeArgs),
    /// Print the effective configuration and where each value comes from; secrets are hidden
    Show(ServeArgs),
}

#[derive(Subcommand, Debug)]
pub enum JournalCommand {
    /// Print the records, one line each
    Dump(JournalArgs),
    /// Check every record and the chain over them
    Verify(JournalArgs),
}

#[derive(Args, Debug)]
pub struct JournalArgs {
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = "./fantail-data")]
    pub data: PathBuf,
}

#[derive(Subcommand, Debug)]
pub enum AuditCommand {
    /// Check every entry, chain and checkpoint, and name what was altered, removed, reordered or cut off
    Verify(AuditVerifyArgs),
    /// Write the newest checkpoint to a file, or the whole log to storage that changes nothing any more
    Export(AuditExportArgs),
}

#[derive(Args, Debug)]
pub struct AuditVerifyArgs {
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = "./fantail-data")]
    pub data: PathBuf,
    /// A checkpoint that was exported earlier, which the log must still contain; may be given several times
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Vec<PathBuf>,
    /// Public keys of the signers, a line of hex each; without it those beside the log are believed
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct AuditExportArgs {
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = "./fantail-data")]
    pub data: PathBuf,
    /// Where the newest checkpoint goes: a file that does not exist; or `s3://bucket/prefix` for the whole log
    #[arg(long, value_name = "FILE|s3://BUCKET/PREFIX")]
    pub to: String,
    /// Nobody may change or delete what is put before so many days have passed (Object Lock, COMPLIANCE)
    #[arg(long, value_name = "DAYS")]
    pub retain_days: Option<u64>,
    /// Region of the bucket; otherwise AWS_REGION
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// Storage that is not AWS, like https://storage.example.com:9000
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// Certificates in PEM that are trusted beside the public ones
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub enum ClockCommand {
    /// Tell a running server that the machine's clock is right: what waited for that is released, expired and deleted now
    Accept(ServerArgs),
}

#[derive(Args, Debug)]
pub struct ScanArgs {
    /// Data directory, or a backup
    #[arg(long, value_name = "DIR", default_value = "./fantail-data")]
    pub data: PathBuf,
    /// File with a text in each line: so that they are not in the list of processes
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Texts to look for, of at least four bytes
    #[arg(value_name = "TEXT")]
    pub texts: Vec<String>,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = "./fantail-data")]
    pub data: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Where the running server is and which key it takes.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// URL of the running server, as its banner prints it, or an address and a port
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7070")]
    pub server: String,
    /// Certificates in PEM that vouch for an https server, beside those of the web
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Send the key over plain http to another machine, where anybody in between can read it
    #[arg(long)]
    pub plain: bool,
    /// Data directory of the running server; its keys are read from there
    #[arg(long, value_name = "DIR", default_value = "./fantail-data")]
    pub data: PathBuf,
}

#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// Its id, ours or yours
    pub notification: String,
    /// The recipient
    pub user: String,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Args, Debug)]
pub struct PlanArgs {
    /// Posts of one author in a day
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub posts_per_day: u64,
    /// Inbox reads of one follower in a day
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub reads_per_day: u64,
    /// Processor time that one post may take, in microseconds
    #[arg(long, value_name = "N", default_value_t = fantail_rules::cost::POST_BUDGET_US)]
    pub post_budget_us: u64,
}

#[derive(Subcommand, Debug)]
enum DevCommand {
    /// Fill a running server with a reproducible social graph
    Seed(SeedArgs),
}

#[derive(Args, Debug)]
pub struct SeedArgs {
    /// How many users
    #[arg(long, default_value_t = 1_000)]
    pub users: u64,
    /// How many follows; few actors have most of the followers
    #[arg(long, default_value_t = 10_000)]
    pub follows: u64,
    /// The same seed makes the same graph
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[must_use]
pub fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(command) => serve::run(&command),
        Command::Config { command } => config_command::run(command),
        Command::Journal { command } => journal_command::run(command),
        Command::Audit { command } => audit_command::run(&command),
        Command::Check(args) => check_command::run(&args),
        Command::Clock { command } => clock_command::run(&command),
        Command::Scan(args) => scan_command::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore_command::run(&args),
        Command::Resume(server) => resume_command::run(&server),
        Command::Explain(args) => explain::run(&args),
        Command::Bulk { command } => bulk_command::run(&command),
        Command::Plan(args) => plan::run(&args),
        Command::Sandbox(args) => sandbox_command::run(&args),
        Command::Dev { command: DevCommand::Seed(args) } => seed::run(&args),
        Command::Version => say(concat!("fantail ", env!("CARGO_PKG_VERSION"))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing more can be done if even the error cannot be written.
            writeln!(std::io::stderr(), "fantail: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

/// Prints a line for the user. A closed pipe is the reader's choice, but then the command has failed.
pub fn say(line: impl std::fmt::Display) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// Writes a line to the standard error, beside what a command answers.
pub fn remark(line: impl std::fmt::Display) {
    writeln!(std::io::stderr(), "fantail: {line}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_given_flags_override() {
        let args = ServeArgs { listen: Some("127.0.0.1:1".into()), ..ServeArgs::default() };
        assert_eq!(args.flags().values, [("listen", "127.0.0.1:1".to_owned())]);
    }
}
