//! The sandbox in this process: emulated providers for tenants that have none of their own, and their accounts there.
//!
//! Comes from: `serve`, unless the settings say otherwise. Goes to: the registry of accounts, which asks for these when a tenant
//! without any sends its first message; keys are made then, not at every start.

use anyhow::{Context, Result};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use fantail_channels::webpush::generate_vapid;
use fantail_outbound::policy::{Allow, Policy};
use fantail_ports::accounts::{Account, Credentials};
use fantail_rules::ids::TenantId;
use fantail_rules::provider_kind::ProviderKind;
use fantail_sandbox::{Options, Running, Sandbox};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Of no tenant.
const NOBODY: TenantId = TenantId(0);

pub struct House {
    running: Running,
}

impl House {
    /// `viewer_key`: what callers of its own API have to know. It shows the messages of all tenants without accounts.
    pub async fn open(control_port: u16, viewer_key: String) -> Result<Self> {
        let options = Options {
            control_port,
            viewer_key: Some(viewer_key),
            takes_unknown_subscriptions: true,
            ..Options::default()
        };
        let running = Sandbox::start(options).await.context("cannot start the sandbox")?;
        Ok(Self { running })
    }

    /// Where its own API listens.
    #[must_use]
    pub fn control(&self) -> SocketAddr {
        self.running.control()
    }

    /// Its own accounts connect to its emulators and to nothing else, whatever the operator's policy says about tenants.
    pub fn policy(&self) -> Result<Policy> {
        let ports = ProviderKind::ALL.into_iter().filter_map(|kind| self.running.own(emulator(kind)));
        let entry = |at: SocketAddr| at.to_string().parse().context("an emulator has no address");
        let allow: Vec<Allow> = ports.map(entry).collect::<Result<_>>()?;
        Ok(Policy::default().allowing(allow))
    }

    /// One account for each kind of provider.
    #[must_use]
    pub fn accounts(&self) -> Vec<Account> {
        ProviderKind::ALL.into_iter().filter_map(|kind| self.account(kind)).collect()
    }

    fn account(&self, kind: ProviderKind) -> Option<Account> {
        let emulator = emulator(kind);
        let at = self.running.own(emulator)?;
        let (settings, secrets) = terms(kind, at, &self.running.ca_pem())?;
        Some(Account {
            tenant: NOBODY,
            id: format!("sandbox-{}", emulator),
            version: 1,
            kind,
            settings: settings.to_string(),
            secrets: Credentials::new(secrets.to_string().into_bytes()),
            order: 0,
            weight: 1,
            per_second: None,
            concurrency: None,
            enabled: true,
        })
    }
}

fn emulator(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::WebPush => "webpush",
        ProviderKind::Apns
        | ProviderKind::Fcm
        | ProviderKind::Ses
        | ProviderKind::Smtp
        | ProviderKind::Twilio => kind.name(),
    }
}

/// What an account with an emulator says; of mail there is one, and it speaks SMTP.
fn terms(kind: ProviderKind, at: SocketAddr, ca_pem: &str) -> Option<(Value, Value)> {
    Some(match kind {
        ProviderKind::Apns => (
            json!({"teamId": "SANDBOX001", "keyId": "SANDBOXKEY", "topic": "com.example.sandbox",
                   "connectTo": at, "caPem": ca_pem}),
            json!({"p8": p256_pem()?}),
        ),
        ProviderKind::Fcm => (
            json!({"projectId": "sandbox", "connectTo": at, "caPem": ca_pem}),
            json!({"serviceAccount": {"type": "service_account", "project_id": "sandbox",
                   "client_email": "fantail@sandbox.iam.gserviceaccount.com", "private_key": rsa_pem()?,
                   "token_uri": "https://oauth2.googleapis.com/token"}}),
        ),
        ProviderKind::WebPush => (
            json!({"subject": "mailto:sandbox@example.com", "connectTo": at, "caPem": ca_pem}),
            generate_vapid(),
        ),
        ProviderKind::Smtp => (
            json!({"fromAddress": "sandbox@example.com", "host": "localhost", "security": "none", "connectTo": at}),
            json!({}),
        ),
        ProviderKind::Twilio => (
            json!({"accountSid": format!("AC{}", "0".repeat(32)), "connectTo": at, "caPem": ca_pem,
                   "senders": [{"from": "+15005550006", "kind": "longCode", "perSecond": 100}]}),
            // Whoever knew it could call back in the name of the sandbox.
            json!({"authToken": random_text()?}),
        ),
        ProviderKind::Ses => return None,
    })
}

fn random_text() -> Option<String> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn p256_pem() -> Option<String> {
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).ok()?;
    Some(pem(key.to_pkcs8v1().ok()?.as_ref()))
}

fn rsa_pem() -> Option<String> {
    let key = KeyPair::generate(KeySize::Rsa2048).ok()?;
    let der: Pkcs8V1Der<'_> = key.as_der().ok()?;
    Some(pem(der.as_ref()))
}

fn pem(der: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}
