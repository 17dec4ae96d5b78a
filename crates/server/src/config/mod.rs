//! Configuration in layers: flag over environment over file over default. Each value remembers where it came from, so
//! that a wrong one can be found. Unknown keys in a file and dangerous pairs are refused before anything starts.

mod addresses;
mod backup;
mod bootstrap;
mod delivery;
mod environment;
mod file;
mod http;
mod keyring;
mod listeners;
mod log;
mod outbound;
mod public_url;
mod quotas;
mod secret_files;
mod setting;
mod settings;
mod testing;

pub use bootstrap::Bootstrap;
pub use delivery::Delivery;
pub use environment::unknown_variables;
pub use http::Http;
pub use listeners::ListenerSettings;
pub use secret_files::{of_command, secrets_help};
pub use setting::Setting;
pub use settings::SETTINGS;
pub use testing::{SWITCH, read_switch};

use crate::backups::BackupSettings;
use crate::otlp;
use crate::server_key::ServerKeySource;
use fantail_api::address_limits::AddressSettings;
use fantail_channels::webhook;
use fantail_node::producers;
use fantail_outbound::policy::Policy;
use fantail_rules::limits::PRODUCER_RATE_MAX;
use fantail_rules::pacing::Rate;
use fantail_rules::quota::Amounts;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Appends look at the free space before they write, and a write may begin a segment: 64 MiB of the journal and as much of the
/// audit log at the same moment, beside 64 MiB that the tables may log and a table of 8 MiB. With a smaller reserve the disk
/// fills up to its last byte, the tables fail, and the process ends.
const FREE_MIB_MIN: u64 = 256;

/// What was given on the command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub file: Option<PathBuf>,
    pub values: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub data: PathBuf,
    /// The first serves the API; none twice.
    pub listeners: Vec<ListenerSettings>,
    /// Names by which administration on this machine may be called, beside those of this machine.
    pub admin_hosts: Vec<String>,
    pub bootstrap: Bootstrap,
    /// What an address may ask for without a key.
    pub addresses: AddressSettings,
    /// Whether test doubles exist in this process.
    pub testing: bool,
    /// Empty: the address that is listened on.
    pub public_url: String,
    pub tls: Option<Tls>,
    pub admin_key: Option<Secret>,
    pub log: Log,
    pub http: Http,
    pub shards: u16,
    pub room: Room,
    pub memory: Memory,
    pub delivery: Delivery,
    /// Where connections may go that tenants can cause.
    pub outbound: Policy,
    pub producers: producers::Defaults,
    /// How much tenants may have that have no quota of their own; 0: no limit.
    pub quotas: Amounts,
    pub backup: BackupSettings,
    /// Where the list of erasures is, if not in the data directory.
    pub erasure_list: Option<PathBuf>,
    /// After how long links for recipients end that say nothing else; 0: when their user goes.
    pub link_ms: u64,
    pub checkpoint_every: Duration,
    /// Where the key comes from that seals all other keys.
    pub server_key: ServerKeySource,
    /// Time for a command that prints it.
    pub key_command_time: Duration,
    /// Signs checkpoints of the audit log.
    pub signing_key: Option<Secret>,
    /// The files that secrets were read from.
    pub secret_files: Vec<PathBuf>,
    /// Where traces go.
    pub collector: Option<otlp::Settings>,
}

/// What may be kept in memory to be faster.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub cache_bytes: u64,
    pub column_bytes: usize,
    pub key_bytes: usize,
    pub window_events: usize,
    pub transpose_bytes: usize,
    pub hot_bytes: usize,
}

/// When the disk counts as full.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub free_bytes_min: u64,
    pub free_percent_min: u64,
}

#[derive(Clone, Debug)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Copy, Debug)]
pub struct Log {
    pub format: LogFormat,
    pub level: tracing::Level,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    Compact,
    Json,
}

/// Text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("cannot read {}: {reason}", file.display())]
    Unreadable { file: PathBuf, reason: String },
    /// Not what stands there: it may be a secret.
    #[error("{} is not TOML: line {line}, column {column}", file.display())]
    NotToml { file: PathBuf, line: usize, column: usize },
    #[error("{} has an unknown key: {key}; see `fantail config doc`", file.display())]
    UnknownKey { file: PathBuf, key: String },
    #[error("{key} in {} must be text, a whole number or, where a setting says so, a list of texts", file.display())]
    WrongKind { file: PathBuf, key: String },
    #[error("{key} ({source_name}) is invalid: {reason}")]
    Invalid { key: &'static str, source_name: String, reason: String },
    #[error("{names}: both say it, so leave one of them out")]
    TwoSources { names: String },
    /// Not what the file holds.
    #[error("{key} ({source_name}): {reason}")]
    Secret { key: String, source_name: String, reason: String },
    #[error("{names} in the environment: no such setting; see `fantail config doc`")]
    UnknownVariables { names: String },
    #[error("{SWITCH} must be 1 or 0")]
    Switch,
    #[error("{key} ({source_name}) is for tests only and needs {SWITCH}=1")]
    TestSetting { key: &'static str, source_name: String },
    #[error("{SWITCH}=1 is for tests only and needs a loopback address, not {listen}")]
    TestingInPublic { listen: SocketAddr },
    #[error(
        "{address} is beyond this machine and would speak plain HTTP, so keys would travel in the clear: set tls.cert and tls.key, or \
         http.plain_allowed = true behind a proxy that ends TLS"
    )]
    PlainBeyondThisMachine { address: SocketAddr },
    #[error("{reason}")]
    DangerousPair { reason: &'static str },
}

/// All values as text, with their sources.
#[derive(Clone, Debug)]
pub struct Layers {
    values: BTreeMap<&'static str, (String, String)>,
    secret_files: Vec<PathBuf>,
    testing: bool,
}

impl Layers {
    /// Reads file, environment and flags.
    pub fn read(flags: &Flags, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let file = match flags.file.clone().or_else(|| environment("FANTAIL_CONFIG").map(PathBuf::from)) {
            Some(path) => file::read(&path)?,
            None => BTreeMap::new(),
        };
        let given = |key: &str, variable: &str| {
            let of_environment =
                environment(variable).map(|value| (value, format!("environment {variable}")));
            let of_file = || file.get(key).map(|(value, path)| (value.clone(), format!("file {path}")));
            of_environment.or_else(of_file)
        };
        let (mut layers, mut secret_files) = (BTreeMap::new(), Vec::new());
        for setting in SETTINGS {
            let flag = flags.values.iter().find(|(key, _)| *key == setting.key);
            let flag =
                flag.map(|(key, value)| (value.clone(), format!("flag --{}", key.replace(['.', '_'], "-"))));
            let mut value = flag.or_else(|| given(setting.key, &setting.environment()));
            if setting.secret {
                let twin = given(&setting.file_key(), &setting.file_environment());
                let secret = secret_files::value(setting, value, twin)?;
                let (secret, read_from) = secret.unzip();
                value = secret;
                secret_files.extend(read_from.flatten());
            }
            let default = || (setting.default.to_owned(), "default".to_owned());
            layers.insert(setting.key, value.unwrap_or_else(default));
        }
        Ok(Self { values: layers, secret_files, testing: read_switch(environment)? })
    }

    /// Value and source of a setting.
    #[must_use]
    pub fn get(&self, key: &'static str) -> (&str, &str) {
        let (value, source) = self.values.get(key).expect("every setting of the table is in the layers");
        (value, source)
    }

    pub fn config(&self) -> Result<Config, ConfigError> {
        let tls = self.tls()?;
        let config = Config {
            data: PathBuf::from(self.some_text("data")?),
            listeners: self.listeners(tls.as_ref())?,
            admin_hosts: self.admin_hosts()?,
            bootstrap: self.bootstrap()?,
            addresses: self.addresses()?,
            public_url: public_url::read(self.get("http.public_url").0)
                .map_err(|rule| self.invalid("http.public_url", rule))?,
            testing: self.testing,
            tls,
            admin_key: self.admin_key()?,
            log: Log { format: self.log_format()?, level: self.log_level()? },
            http: self.http()?,
            shards: self.number("storage.shards", 1, 1_024)?,
            room: Room {
                free_bytes_min: self.number::<u64>("storage.free_mib_min", FREE_MIB_MIN, 1 << 30)? << 20,
                free_percent_min: self.number("storage.free_percent_min", 0, 90)?,
            },
            memory: Memory {
                cache_bytes: self.number::<u64>("storage.cache_mib", 1, 1 << 20)? << 20,
                column_bytes: self.number::<usize>("storage.columns_mib", 0, 1 << 20)? << 20,
                key_bytes: self.number::<usize>("storage.keys_mib", 1, 1 << 20)? << 20,
                window_events: self.number("inbox.window_events", 1, 1 << 20)?,
                transpose_bytes: self.number::<usize>("inbox.transpose_mib", 1, 1 << 20)? << 20,
                hot_bytes: self.number::<usize>("inbox.hot_mib", 0, 1 << 20)? << 20,
            },
            delivery: self.delivery()?,
            outbound: self.outbound()?,
            producers: producers::Defaults {
                tenant: self.rate("producer.tenant_per_second", "producer.tenant_burst")?,
                key: self.rate("producer.key_per_second", "producer.key_burst")?,
            },
            quotas: self.quotas()?,
            backup: self.backup()?,
            erasure_list: self.file("erasures.list"),
            link_ms: self.number::<u64>("links.days", 0, 36_500)? * 86_400_000,
            checkpoint_every: Duration::from_secs(self.number("audit.checkpoint_s", 1, 86_400)?),
            server_key: self.server_key()?,
            key_command_time: self.key_command_time()?,
            signing_key: self.signing_key()?,
            secret_files: self.secret_files(),
            collector: self.collector()?,
        };
        self.check_testing(&config.listeners)?;
        Ok(config)
    }

    fn delivery(&self) -> Result<Delivery, ConfigError> {
        let webhook = webhook::Settings {
            total_timeout_ms: self.number::<u64>("webhook.timeout_s", 1, 60)? * 1_000,
            ..webhook::Settings::default()
        };
        let (stub_arrivals, stub_faults) =
            (self.file("delivery.stub_arrivals"), self.file("delivery.stub_faults"));
        let point = |key| Some(self.get(key).0).filter(|point| !point.is_empty()).map(str::to_owned);
        let webhook_patience_ms = self.number::<u64>("webhook.disable_after_s", 1, 30 * 86_400)? * 1_000;
        let queue_max = self.number("delivery.queue_max", 1, 1_000_000_000)?;
        let guard_ms = self.number::<u64>("retention.guard_days", 30, 3_650)? * 86_400_000;
        Ok(Delivery {
            stub_arrivals,
            stub_faults,
            stub_standby: self.flag("delivery.stub_standby")?,
            sandbox: self.flag("delivery.sandbox")?,
            sandbox_port: self.number("delivery.sandbox_port", 0, 65_535)?,
            queue_max,
            guard_ms,
            die_at: point("delivery.die_at"),
            panic_at: point("delivery.panic_at"),
            drain_ms: self.number::<u64>("delivery.drain_s", 0, 3_600)? * 1_000,
            webhook,
            webhook_patience_ms,
        })
    }

    /// A file; empty: none.
    fn file(&self, key: &'static str) -> Option<PathBuf> {
        Some(self.get(key).0).filter(|file| !file.is_empty()).map(PathBuf::from)
    }

    fn collector(&self) -> Result<Option<otlp::Settings>, ConfigError> {
        let (endpoint, headers) = (self.get("otlp.endpoint").0, self.get("otlp.headers").0);
        let headers = headers
            .parse()
            .map_err(|wrong: otlp::HeadersError| self.invalid("otlp.headers", &wrong.to_string()))?;
        if endpoint.is_empty() {
            return Ok(None);
        }
        let endpoint = endpoint
            .parse()
            .map_err(|wrong: otlp::EndpointError| self.invalid("otlp.endpoint", &wrong.to_string()))?;
        let roots = self.file("otlp.roots");
        Ok(Some(otlp::Settings { endpoint, headers, roots }))
    }

    fn rate(&self, rate: &'static str, burst: &'static str) -> Result<Option<Rate>, ConfigError> {
        let per_second = self.number(rate, 0, PRODUCER_RATE_MAX)?;
        let burst = match self.number(burst, 0, PRODUCER_RATE_MAX)? {
            0 => per_second,
            burst => burst,
        };
        Ok((per_second > 0).then_some(Rate { per_second, burst }))
    }

    fn flag(&self, key: &'static str) -> Result<bool, ConfigError> {
        match self.get(key).0 {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.invalid(key, "must be true or false")),
        }
    }

    fn tls(&self) -> Result<Option<Tls>, ConfigError> {
        match (self.get("tls.cert").0, self.get("tls.key").0) {
            ("", "") => Ok(None),
            ("", _) | (_, "") => Err(ConfigError::DangerousPair {
                reason: "tls.cert and tls.key belong together: with one of them the listener would speak plain HTTP",
            }),
            (cert, key) => Ok(Some(Tls { cert: cert.into(), key: key.into() })),
        }
    }

    fn some_text(&self, key: &'static str) -> Result<&str, ConfigError> {
        match self.get(key).0 {
            "" => Err(self.invalid(key, "must not be empty")),
            text => Ok(text),
        }
    }

    fn number<T>(&self, key: &'static str, least: T, most: T) -> Result<T, ConfigError>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        match self.get(key).0.parse::<T>() {
            Ok(number) if number >= least && number <= most => Ok(number),
            Ok(_) | Err(_) => Err(self.invalid(key, &format!("must be a number from {least} to {most}"))),
        }
    }

    fn parse<T: FromStr>(&self, key: &'static str, rule: &str) -> Result<T, ConfigError> {
        self.get(key).0.parse().map_err(|_| self.invalid(key, rule))
    }

    fn invalid(&self, key: &'static str, reason: &str) -> ConfigError {
        let source_name = self.get(key).1.to_owned();
        ConfigError::Invalid { key, source_name, reason: reason.to_owned() }
    }
}

/// Reads the configuration of this process.
pub fn load(flags: &Flags) -> Result<Config, ConfigError> {
    Layers::read(flags, &process_environment)?.config()
}

/// An empty variable counts as absent, as compose files write them.
#[must_use]
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
