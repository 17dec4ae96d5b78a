//! Where a push goes: which service carries it, and what that service needs to know.
//!
//! Comes from: registrations of devices, and recipients that are named by a token. Decides: what is needed for which service,
//! and by what a token is told from others. Goes to: `rules::push_address`, as a line that is sealed.

use crate::check::Faults;
use crate::pointer::Pointer;
use fantail_rules::address;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::Millis;
use fantail_rules::push_address::{self, FcmKind, PushAddress, Service};
use fantail_wire::device::{Platform, PushEnvironment, PushService, Subscription, TokenKind};

/// Bundle and project ids are shorter.
pub const APP_ID_BYTES_MAX: usize = 155;
/// An uncompressed point of P-256, and 16 bytes, in base64url without padding.
pub const P256DH_LETTERS: usize = 87;
pub const AUTH_LETTERS: usize = 22;

/// What somebody says about a push endpoint.
pub struct Given<'a> {
    pub platform: Option<Platform>,
    pub token: Option<&'a str>,
    pub service: Option<PushService>,
    pub environment: Option<PushEnvironment>,
    pub token_kind: Option<TokenKind>,
    pub app_id: Option<&'a str>,
    pub subscription: Option<&'a Subscription>,
    pub registered_at: Millis,
}

/// What is sealed, and what it is known by.
#[derive(Default)]
pub struct Target {
    pub address: Vec<u8>,
    pub identity: String,
}

/// Faults of the token itself come back; those of what stands beside it are added.
pub fn target(given: &Given<'_>, at: Pointer<'_>, faults: &mut Faults) -> Result<Target, &'static str> {
    let usual = match given.platform {
        Some(Platform::Ios) => PushService::Apns,
        // Without a platform anything is a token: what is missing is told.
        Some(Platform::Android) | None => PushService::Fcm,
        Some(Platform::Web) => PushService::WebPush,
    };
    let service = given.service.unwrap_or(usual);
    check_fields(given, service, at, faults);
    if service == PushService::WebPush {
        return browser(given, at, faults);
    }
    let token = address::read(ChannelKind::Push, given.token.ok_or("is needed for this kind")?)?;
    let service = match service {
        PushService::Apns => {
            if token.text.len() % 2 != 0 || !token.text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err("must be the token of the device in hexadecimal digits");
            }
            let environment = match given.environment.unwrap_or_default() {
                PushEnvironment::Production => push_address::Environment::Production,
                PushEnvironment::Sandbox => push_address::Environment::Sandbox,
            };
            Service::Apns { environment, topic: given.app_id, token: &token.text }
        }
        PushService::Fcm | PushService::WebPush => {
            let kind = match given.token_kind.unwrap_or_default() {
                TokenKind::Token => FcmKind::Token,
                TokenKind::Fid => FcmKind::Fid,
            };
            Service::Fcm { kind, project: given.app_id, token: &token.text }
        }
    };
    let line = PushAddress { service, registered_at: given.registered_at }.write();
    Ok(Target { address: line.into_bytes(), identity: token.identity })
}

fn browser(given: &Given<'_>, at: Pointer<'_>, faults: &mut Faults) -> Result<Target, &'static str> {
    if given.token.is_some() {
        return Err("a browser has a subscription instead");
    }
    let Some(Subscription { endpoint, keys }) = given.subscription else {
        faults.add(at.key("subscription"), "is needed for a browser");
        return Ok(Target::default());
    };
    let place = at.key("subscription");
    let is_key = |text: &str, letters: usize| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        text.len() == letters && text.bytes().all(is_plain)
    };
    let keys_at = place.key("keys");
    for (name, key, letters) in [("p256dh", &keys.p256dh, P256DH_LETTERS), ("auth", &keys.auth, AUTH_LETTERS)]
    {
        if !is_key(key.trim_end_matches('='), letters) {
            faults.add(keys_at.key(name), format!("must be {letters} letters of base64url"));
        }
    }
    let url = match address::read(ChannelKind::Webhook, endpoint) {
        Ok(url) if url.text.starts_with("https://") => url,
        Ok(_) | Err(_) => {
            faults.add(place.key("endpoint"), "must be an https URL");
            return Ok(Target::default());
        }
    };
    let (p256dh, auth) = (keys.p256dh.trim_end_matches('='), keys.auth.trim_end_matches('='));
    let service = Service::WebPush { url: &url.text, p256dh, auth };
    let line = PushAddress { service, registered_at: given.registered_at }.write();
    Ok(Target { address: line.into_bytes(), identity: url.identity })
}

fn check_fields(given: &Given<'_>, service: PushService, at: Pointer<'_>, faults: &mut Faults) {
    let others = "does not go with this service";
    if given.environment.is_some() && service != PushService::Apns {
        faults.add(at.key("environment"), others);
    }
    if given.token_kind.is_some() && service != PushService::Fcm {
        faults.add(at.key("tokenKind"), others);
    }
    if given.subscription.is_some() && service != PushService::WebPush {
        faults.add(at.key("subscription"), others);
    }
    if let Some(app_id) = given.app_id {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        if app_id.is_empty()
            || app_id.len() > APP_ID_BYTES_MAX
            || !app_id.bytes().all(is_plain)
            || app_id == "-"
        {
            faults.add(at.key("appId"), "must be the id of a bundle or project");
        } else if service == PushService::WebPush {
            faults.add(at.key("appId"), others);
        }
    }
}
