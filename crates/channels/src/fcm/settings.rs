//! What an operator chooses about FCM: the projects, their weights and quotas; and as secrets the service accounts.
//!
//! ```json
//! {"projects": [{"projectId": "app-1", "weight": 3, "quotaPerMinute": 600000}, {"projectId": "app-2"}],
//!  "androidChannelId": "news"}
//! {"serviceAccount": {"client_email": "…", "private_key": "…", "token_uri": "…"}}
//! ```
//! What must never happen: a private key in a log, or a project without a credential that is found out by a message.

use crate::fields::{Base, Fields, PEM_BYTES_MAX, SettingsError};
use crate::targets::AccountTarget;
use fantail_outbound::jwt::Signer;
use serde_json::Value;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Messages that Google lets a project send in a minute unless it was told otherwise.
pub const QUOTA_PER_MINUTE_DEFAULT: u32 = 600_000;
/// Below this the bucket could not hold it exactly; above, Google gives none.
const QUOTA_PER_MINUTE: std::ops::RangeInclusive<u64> = 120..=60_000_000;
const PROJECTS_MAX: usize = 16;
const WEIGHT_MAX: u64 = 1_000;
const NAME_BYTES_MAX: usize = 256;
const KEY_BYTES_MAX: usize = 16_384;
const API: &str = "https://fcm.googleapis.com";
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Empty: those that the service accounts name.
    pub projects: Vec<ProjectSettings>,
    pub endpoint: Base,
    /// Instead of the `token_uri` of the service accounts.
    pub token_endpoint: Option<Base>,
    /// Connect here for both, whatever the names say: emulators.
    pub connect_to: Option<SocketAddr>,
    /// The same for the token alone.
    pub token_connect_to: Option<SocketAddr>,
    /// Certificates in PEM, trusted beside the public ones.
    pub ca_pem: Vec<u8>,
    /// For messages that name none.
    pub android_channel_id: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProjectSettings {
    pub project_id: String,
    /// Its share of the users whose addresses name no project.
    pub weight: u32,
    pub quota_per_minute: u32,
}

impl Settings {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let mut projects = Vec::new();
        let quota =
            fields.number("quotaPerMinute", QUOTA_PER_MINUTE)?.map_or(QUOTA_PER_MINUTE_DEFAULT, narrow);
        if let Some(project_id) = fields.text("projectId", NAME_BYTES_MAX)? {
            check_project(project_id).map_err(|reason| fields.wrong("projectId", reason))?;
            let project_id = project_id.to_owned();
            projects.push(ProjectSettings { project_id, weight: 1, quota_per_minute: quota });
        }
        if let Some(items) = fields.list("projects", PROJECTS_MAX)? {
            if !projects.is_empty() {
                return Err(fields.wrong("projects", "cannot stand beside projectId"));
            }
            for (number, item) in items.iter().enumerate() {
                let place = format!("{}/{number}", fields.pointer("projects"));
                let project = read_project(place.clone(), item, quota)?;
                if projects.iter().any(|other| other.project_id == project.project_id) {
                    return Err(SettingsError::new(place, "names a project twice"));
                }
                projects.push(project);
            }
        }
        let settings = Self {
            projects,
            endpoint: match fields.base("endpoint")? {
                Some(endpoint) => endpoint,
                None => Base::parse(API).map_err(|reason| fields.wrong("endpoint", reason))?,
            },
            token_endpoint: fields.base("tokenEndpoint")?,
            connect_to: fields.socket("connectTo")?,
            token_connect_to: fields.socket("tokenConnectTo")?,
            ca_pem: fields.text("caPem", PEM_BYTES_MAX)?.unwrap_or_default().as_bytes().to_vec(),
            android_channel_id: fields.text("androidChannelId", NAME_BYTES_MAX)?.map(str::to_owned),
        };
        fields.end()?;
        Ok(settings)
    }

    /// Where connections, assertions and tokens go.
    #[must_use]
    pub fn targets(&self, secrets: &Secrets) -> Vec<AccountTarget> {
        // Every field is named, so that a new one is either listed below or leads nowhere.
        let Self {
            endpoint,
            token_endpoint,
            connect_to,
            token_connect_to,
            ca_pem,
            projects: _,
            android_channel_id: _,
        } = self;
        let Secrets { accounts } = secrets;
        let token_at = token_connect_to.or(*connect_to);
        let mut targets = vec![
            AccountTarget::base("/settings/endpoint", endpoint, *connect_to),
            AccountTarget::connect_to("/settings/connectTo", *connect_to, !endpoint.is_tls),
            AccountTarget::connect_to("/settings/tokenConnectTo", *token_connect_to, false),
            AccountTarget::value("/settings/caPem", String::from_utf8_lossy(ca_pem)),
        ];
        match token_endpoint {
            Some(base) => targets.push(AccountTarget::base("/settings/tokenEndpoint", base, token_at)),
            None => {
                targets.push(AccountTarget::value("/settings/tokenEndpoint", ""));
                let of_account = |account: &Arc<ServiceAccount>| {
                    let pointer = "/credentials/serviceAccount/token_uri";
                    AccountTarget::base(pointer, &account.token_uri, token_at)
                };
                targets.extend(accounts.iter().map(of_account));
            }
        }
        targets
    }
}

fn read_project(place: String, value: &Value, quota: u32) -> Result<ProjectSettings, SettingsError> {
    let mut fields = Fields::at(place, value)?;
    let project_id = fields.required_text("projectId", NAME_BYTES_MAX)?;
    check_project(project_id).map_err(|reason| fields.wrong("projectId", reason))?;
    let project = ProjectSettings {
        project_id: project_id.to_owned(),
        weight: fields.number("weight", 1..=WEIGHT_MAX)?.map_or(1, narrow),
        quota_per_minute: fields.number("quotaPerMinute", QUOTA_PER_MINUTE)?.map_or(quota, narrow),
    };
    fields.end()?;
    Ok(project)
}

/// It becomes part of a path.
fn check_project(project_id: &str) -> Result<(), &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if project_id.bytes().all(is_plain) { Ok(()) } else { Err("is no id of a project") }
}

/// All ranges above end below.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Service accounts.
#[derive(Clone, Debug)]
pub struct Secrets {
    pub accounts: Vec<Arc<ServiceAccount>>,
}

/// As the JSON that Google gives for download says it. Never shown.
pub struct ServiceAccount {
    pub project_id: Option<String>,
    pub client_email: String,
    pub private_key_id: Option<String>,
    pub token_uri: Base,
    /// The audience of its assertions: the URI as it was written.
    pub audience: String,
    pub signer: Signer,
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ServiceAccount({})", self.project_id.as_deref().unwrap_or("of no project"))
    }
}

impl Secrets {
    pub fn read(value: &Value) -> Result<Self, SettingsError> {
        let mut fields = Fields::of(value)?;
        let mut accounts = Vec::new();
        if let Some(account) = fields.value("serviceAccount") {
            accounts.push(Arc::new(read_account(fields.pointer("serviceAccount"), account)?));
        }
        for (number, account) in
            fields.list("serviceAccounts", PROJECTS_MAX)?.into_iter().flatten().enumerate()
        {
            let place = format!("{}/{number}", fields.pointer("serviceAccounts"));
            accounts.push(Arc::new(read_account(place, account)?));
        }
        if accounts.is_empty() {
            return Err(fields.wrong("serviceAccount", "is missing"));
        }
        fields.end()?;
        Ok(Self { accounts })
    }

    /// Whose credential a project is sent with: its own, or the only one there is.
    #[must_use]
    pub fn account(&self, project_id: &str) -> Option<&Arc<ServiceAccount>> {
        let own = self.accounts.iter().find(|account| account.project_id.as_deref() == Some(project_id));
        own.or(match &self.accounts[..] {
            [only] => Some(only),
            _ => None,
        })
    }
}

/// An object, or the same as text: the downloaded file as it is. Fields that are not needed here are passed over.
fn read_account(place: String, value: &Value) -> Result<ServiceAccount, SettingsError> {
    let parsed;
    let value = match value.as_str() {
        Some(text) => {
            parsed = serde_json::from_str(text)
                .map_err(|_| SettingsError::new(place.clone(), "is text, but no JSON"))?;
            &parsed
        }
        None => value,
    };
    let mut fields = Fields::at(place, value)?;
    let uri = fields.text("token_uri", NAME_BYTES_MAX)?.unwrap_or(TOKEN_URI);
    let key = fields.required_text("private_key", KEY_BYTES_MAX)?;
    Ok(ServiceAccount {
        project_id: fields.text("project_id", NAME_BYTES_MAX)?.map(str::to_owned),
        client_email: fields.required_text("client_email", NAME_BYTES_MAX)?.to_owned(),
        private_key_id: fields.text("private_key_id", NAME_BYTES_MAX)?.map(str::to_owned),
        token_uri: Base::parse(uri).map_err(|reason| fields.wrong("token_uri", reason))?,
        audience: uri.to_owned(),
        signer: Signer::rs256_pem(key.as_bytes())
            .map_err(|error| fields.wrong("private_key", error.to_string()))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: &Value, expected: &str) {
        let error = Settings::read(value).map(|_| ()).expect_err("a mistake");
        assert_eq!(error.to_string(), expected, "{value}");
    }

    #[test]
    fn projects_are_read() {
        let settings = Settings::read(&json!({"projectId": "p1"})).expect("good settings");
        let project = |id: &str, weight, quota_per_minute| ProjectSettings {
            project_id: id.to_owned(),
            weight,
            quota_per_minute,
        };
        assert_eq!(settings.projects, [project("p1", 1, 600_000)]);
        assert_eq!(settings.endpoint.host, "fcm.googleapis.com");
        let several = json!({
            "projects": [{"projectId": "p1", "weight": 3}, {"projectId": "p2", "quotaPerMinute": 750_000}],
            "quotaPerMinute": 1_200,
        });
        let settings = Settings::read(&several).expect("good settings");
        assert_eq!(settings.projects, [project("p1", 3, 1_200), project("p2", 1, 750_000)]);
    }

    #[test]
    fn mistakes_are_placed() {
        check(&json!({"project": "p"}), "/project: is not a known field");
        check(&json!({"projectId": "a/b"}), "/projectId: is no id of a project");
        check(&json!({"projectId": "a", "projects": []}), "/projects: cannot stand beside projectId");
        check(&json!({"projects": [{"weight": 1}]}), "/projects/0/projectId: is missing");
        check(
            &json!({"projects": [{"projectId": "a"}, {"projectId": "a"}]}),
            "/projects/1: names a project twice",
        );
        check(
            &json!({"projects": [{"projectId": "a", "weight": 0}]}),
            "/projects/0/weight: must be a whole number from 1 to 1000",
        );
        check(
            &json!({"endpoint": "http://example.org"}),
            "/endpoint: must be https unless it is on this machine",
        );
    }

    #[test]
    fn a_bad_account_is_refused_and_never_shown() {
        for (value, expected) in [
            (json!({}), "/serviceAccount: is missing"),
            (json!({"serviceAccount": "x"}), "/serviceAccount: is text, but no JSON"),
            (json!({"serviceAccount": {"client_email": "a"}}), "/serviceAccount/private_key: is missing"),
            (
                json!({"serviceAccounts": [{"client_email": "a", "private_key": "hidden"}]}),
                "/serviceAccounts/0/private_key: the key is not a private key in PEM",
            ),
        ] {
            let error = Secrets::read(&value).map(|_| ()).expect_err("a mistake");
            assert_eq!(error.to_string(), expected);
        }
    }
}
