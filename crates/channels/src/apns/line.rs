//! Connections of one key to one environment, and which of them serves an app.

use super::settings::{Key, Secrets, Settings};
use super::token::Credential;
use crate::fields::SettingsError;
use fantail_outbound::pool::{Limits, Pool, Ports, Target};
use fantail_outbound::tls;
use fantail_rules::push_address::Environment;
use std::sync::Arc;

/// To Apple a connection belongs to one key, so there is a pool for each.
pub struct Line {
    pub environment: Environment,
    pub credential: Arc<Credential>,
    pub pool: Pool,
    /// What paths begin with, without a slash at its end.
    pub path: String,
    pub key: Key,
}

pub fn open(settings: &Settings, secrets: &Secrets, ports: &Ports) -> Result<Vec<Line>, SettingsError> {
    let bad_roots = |error: tls::TlsError| SettingsError::new("/caPem", error.to_string());
    let tls = tls::client(&settings.ca_pem, &[b"h2"]).map_err(bad_roots)?;
    let limits =
        Limits { warm_up: true, http2_connections_max: settings.connections_max, ..Limits::default() };
    let mut lines = Vec::new();
    for key in &settings.keys {
        let Some(signer) = secrets.signer(&key.key_id) else {
            return Err(SettingsError::new("/keys", format!("{} has no .p8 file", key.key_id)));
        };
        let credential = Arc::new(Credential::new(&key.team_id, &key.key_id, Arc::clone(signer)));
        for environment in [Environment::Production, Environment::Sandbox] {
            if !key.environments.has(environment) {
                continue;
            }
            let endpoint = settings.endpoint(environment);
            let target = Target {
                host: endpoint.host.clone(),
                port: endpoint.port,
                at: settings.connect_to.into(),
                tls: Some(Arc::clone(&tls)),
            };
            lines.push(Line {
                environment,
                credential: Arc::clone(&credential),
                pool: Pool::with_limits(target, limits, ports.clone()),
                path: endpoint.path.clone(),
                key: key.clone(),
            });
        }
    }
    Ok(lines)
}

/// The key that names the app, or one that is for all apps of its team.
pub fn find(lines: &[Line], environment: Environment, topic: &str) -> Option<usize> {
    let place = |is_right: &dyn Fn(&Key) -> bool| {
        lines.iter().position(|line| line.environment == environment && is_right(&line.key))
    };
    place(&|key| names(key, topic)).or_else(|| place(&|key| key.topics.is_empty()))
}

/// Apps have topics below their own: `com.example.app.voip`.
fn names(key: &Key, topic: &str) -> bool {
    let is_below =
        |named: &String| topic.strip_prefix(named.as_str()).is_some_and(|rest| rest.starts_with('.'));
    key.topics.iter().any(|named| named == topic || is_below(named))
}
