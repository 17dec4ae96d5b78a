//! Devices of users: register, list, forget.

use crate::call::Call;
use crate::check::{Faults, name_fault, secret_fault};
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::consents;
use crate::v1::push_target::{self, Given};
use fantail_channels::webhook::url::Url;
use fantail_node::ask::{DeviceAsk, DeviceView};
use fantail_node::named::Named;
use fantail_outbound::policy::{Destination, Policy};
use fantail_rules::address;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::{self, Status};
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::limits::APP_VERSION_BYTES_MAX;
use fantail_wire::code::Code;
use fantail_wire::device::{
    Device, DeviceKind, DeviceRegister, DeviceRegistered, Devices, EndpointStatus, Platform,
};
use fantail_wire::tenant::Scope;
use serde_json::{Map, Value, json};

pub async fn register(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let request: DeviceRegister = call.json()?;
    require_scope(&call, &request)?;
    let is_taken = |named: Named<'_>| call.is_taken(tenant, named);
    let actor = call.caller.actor();
    let context = RegistrationContext {
        caller: actor.name(),
        now: call.app.clock.wall(),
        outbound: &call.app.settings.outbound,
    };
    let ask = ask_of(request, &context, &is_taken)?;
    call.spend_import(tenant, 1)?;
    let device_id = ask.device.clone();
    let registered = call.node.register_device(tenant, ask).await?;
    let answer = DeviceRegistered { device_id, status: status_of(registered.status) };
    Ok(Reply::json(if registered.created { 201 } else { 200 }, &answer))
}

/// A key that can only register devices says nothing in a user's name and has nothing sent to a server.
fn require_scope(call: &Call, request: &DeviceRegister) -> Result<(), Problem> {
    let what = match request {
        DeviceRegister { kind: DeviceKind::Webhook, .. } => "a webhook",
        DeviceRegister { consent: Some(_), .. } => "a consent",
        DeviceRegister { kind: DeviceKind::Push, consent: None, .. } => return Ok(()),
    };
    if call.caller.has(Scope::UsersWrite) {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, format!("{what} needs a key that has the scope users:write, too")))
}

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let user = call.query.get("userId").unwrap_or_default();
    if let Some(fault) = name_fault(user) {
        return Err(Problem::field("/userId", fault));
    }
    let devices = call.node.devices(tenant, user).await?;
    Ok(Reply::json(200, &Devices { devices: devices.into_iter().map(shown).collect() }))
}

pub async fn unregister(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    call.node.unregister_device(tenant, call.name("user")?, call.name("device")?).await?;
    Ok(Reply::no_content())
}

/// The context that a registration is checked against.
struct RegistrationContext<'a> {
    caller: &'a str,
    now: Millis,
    outbound: &'a Policy,
}

fn ask_of(
    request: DeviceRegister,
    context: &RegistrationContext<'_>,
    is_taken: &dyn Fn(Named<'_>) -> bool,
) -> Result<DeviceAsk, Problem> {
    let root = Pointer::ROOT;
    let mut faults = Faults::default();
    faults.name(root.key("userId"), &request.user_id);
    let named = Named::Device { user: &request.user_id, device: &request.device_id };
    faults.new_name(root.key("deviceId"), &request.device_id, || is_taken(named));
    if let Some(version) = &request.app_version {
        faults.text(root.key("appVersion"), version, APP_VERSION_BYTES_MAX);
    }
    let target = target_of(&request, context, &mut faults);
    let consent = request
        .consent
        .clone()
        .map(|put| consents::ask_of(put, root.key("consent"), context.caller, &mut faults));
    if consent.is_some() && request.kind != DeviceKind::Push {
        faults.add(root.key("consent"), "does not go with this kind");
    }
    faults.into_result()?;
    let Target { kind, platform, address, identity } = target;
    let mut meta = Map::new();
    if let Some(version) = request.app_version {
        meta.insert("appVersion".to_owned(), Value::String(version));
    }
    let meta = if meta.is_empty() {
        Vec::new()
    } else {
        serde_json::to_vec(&meta).expect("a JSON object serializes")
    };
    let (user, device) = (request.user_id, request.device_id);
    Ok(DeviceAsk { user, device, kind, platform, address, identity, meta, consent })
}

/// Where something is sent, as its channel needs it.
struct Target {
    kind: ChannelKind,
    platform: endpoint::Platform,
    address: Vec<u8>,
    identity: String,
}

fn target_of(request: &DeviceRegister, context: &RegistrationContext<'_>, faults: &mut Faults) -> Target {
    match request.kind {
        DeviceKind::Push => push_of(request, context.now, faults),
        DeviceKind::Webhook => webhook_of(request, context.outbound, faults),
    }
}

fn push_of(request: &DeviceRegister, now: Millis, faults: &mut Faults) -> Target {
    let root = Pointer::ROOT;
    let others = [
        ("url", &request.url),
        ("secret", &request.secret),
        ("previousSecret", &request.previous_secret),
        ("previousUntil", &request.previous_until),
    ];
    for (field, given) in others {
        refuse_other(faults, field, given.as_deref());
    }
    let given = Given {
        platform: request.platform,
        token: request.token.as_deref(),
        service: request.service,
        environment: request.environment,
        token_kind: request.token_kind,
        app_id: request.app_id.as_deref(),
        subscription: request.subscription.as_ref(),
        registered_at: now,
    };
    let target = push_target::target(&given, root, faults).unwrap_or_else(|fault| {
        faults.add(root.key("token"), fault);
        Default::default()
    });
    if request.platform.is_none() {
        faults.add(root.key("platform"), "is needed for push");
    }
    let push_target::Target { address, identity } = target;
    let platform = request.platform.map_or_else(Default::default, stored_platform);
    Target { kind: ChannelKind::Push, platform, address, identity }
}

fn webhook_of(request: &DeviceRegister, outbound: &Policy, faults: &mut Faults) -> Target {
    let root = Pointer::ROOT;
    let read = match &request.url {
        None => Err("is needed for this kind"),
        Some(url) => address::read(ChannelKind::Webhook, url),
    };
    if let Ok(read) = &read {
        faults.add_some(root.key("url"), unreachable(&read.text, outbound));
    }
    let (text, identity) = match read {
        Ok(read) => (read.text, read.identity),
        Err(fault) => {
            faults.add(root.key("url"), fault);
            Default::default()
        }
    };
    refuse_other(faults, "token", request.token.as_deref());
    let others = [
        ("platform", request.platform.is_some()),
        ("service", request.service.is_some()),
        ("environment", request.environment.is_some()),
        ("tokenKind", request.token_kind.is_some()),
        ("appId", request.app_id.is_some()),
        ("subscription", request.subscription.is_some()),
    ];
    for (field, _) in others.into_iter().filter(|(_, is_given)| *is_given) {
        faults.add(root.key(field), "does not go with this kind");
    }
    // Unsigned calls are none that a receiver of Standard Webhooks takes, so nothing could ever be sent.
    match &request.secret {
        None => faults.add(root.key("secret"), "is needed for this kind: whsec_ and base64"),
        Some(secret) => faults.add_some(root.key("secret"), secret_fault(secret)),
    }
    let mut address = json!({"url": text, "secret": request.secret});
    let until = request.previous_until.as_deref().map(time::parse);
    match (&request.previous_secret, until) {
        (None, None) => {}
        (Some(previous), Some(Some(until))) => {
            faults.add_some(root.key("previousSecret"), secret_fault(previous));
            address["previousSecret"] = json!(previous);
            address["previousUntil"] = json!(until.0 / 1_000);
        }
        (_, Some(None)) => faults.add(root.key("previousUntil"), "must be a time like 2026-01-31T12:00:00Z"),
        (Some(_), None) => faults.add(root.key("previousUntil"), "is needed with previousSecret"),
        (None, Some(Some(_))) => faults.add(root.key("previousSecret"), "is needed with previousUntil"),
    }
    let address = address.to_string().into_bytes();
    Target { kind: ChannelKind::Webhook, platform: endpoint::Platform::None, address, identity }
}

/// Why a webhook there could never be connected to, whatever its name resolves to.
fn unreachable(url: &str, outbound: &Policy) -> Option<String> {
    match Url::parse(url) {
        Ok(url) => {
            outbound.judge(&Destination::web(&url.origin)).err().map(|forbidden| forbidden.to_string())
        }
        Err(error) => Some(error.to_string()),
    }
}

fn refuse_other(faults: &mut Faults, field: &str, given: Option<&str>) {
    if given.is_some() {
        faults.add(Pointer::ROOT.key(field), "does not go with this kind");
    }
}

/// As endpoints are stored.
pub fn stored_platform(platform: Platform) -> endpoint::Platform {
    match platform {
        Platform::Ios => endpoint::Platform::Ios,
        Platform::Android => endpoint::Platform::Android,
        Platform::Web => endpoint::Platform::Web,
    }
}

pub fn status_of(status: Status) -> EndpointStatus {
    match status {
        Status::Pending => EndpointStatus::Pending,
        Status::Active => EndpointStatus::Active,
        Status::Stale => EndpointStatus::Stale,
        Status::Expired => EndpointStatus::Expired,
        Status::Dead => EndpointStatus::Dead,
        Status::Released => EndpointStatus::Released,
        Status::Suppressed => EndpointStatus::Suppressed,
    }
}

pub fn shown(device: DeviceView) -> Device {
    let meta: Map<String, Value> = serde_json::from_slice(&device.meta).unwrap_or_default();
    Device {
        device_id: device.device,
        kind: if device.kind == ChannelKind::Webhook { DeviceKind::Webhook } else { DeviceKind::Push },
        platform: match device.platform {
            endpoint::Platform::None => None,
            endpoint::Platform::Ios => Some(Platform::Ios),
            endpoint::Platform::Android => Some(Platform::Android),
            endpoint::Platform::Web => Some(Platform::Web),
        },
        app_version: meta.get("appVersion").and_then(Value::as_str).map(str::to_owned),
        status: status_of(device.status),
        registered_at: time::text(device.registered_at),
        last_seen_at: time::text(device.last_seen_at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: Value, faults: &[&str]) {
        let request: DeviceRegister = serde_json::from_value(body.clone()).expect("the shape fits");
        let outbound = Policy::default();
        let context = RegistrationContext { caller: "key", now: Millis(5), outbound: &outbound };
        let found = match ask_of(request, &context, &|_| false) {
            Ok(_) => Vec::new(),
            Err(problem) => problem.errors.into_iter().map(|error| error.pointer).collect(),
        };
        assert_eq!(found, faults, "{body}");
    }

    /// A registration of ann's phone with these fields.
    fn with(more: &Value) -> Value {
        let mut body = json!({"userId": "ann", "deviceId": "phone"});
        let more = more.as_object().cloned().unwrap_or_default();
        body.as_object_mut().expect("an object").extend(more);
        body
    }

    // proves: DEV-01
    #[test]
    fn registrations_of_webhooks_are_checked_as_a_whole() {
        let hook =
            |secret: Value| with(&json!({"kind": "webhook", "url": "https://a.b/c", "secret": secret}));
        check(hook(json!("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")), &[]);
        check(hook(Value::Null), &["/secret"]);
        // fixes: usability B6
        for url in [
            "http://a.b/c",
            "https://localhost/x",
            "https://[::1]/",
            "https://169.254.169.254/x",
            "https://a.b:22/",
        ] {
            let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
            check(with(&json!({"kind": "webhook", "url": url, "secret": secret})), &["/url"]);
        }
        let rotated = |until: Value| {
            let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
            with(
                &json!({"kind": "webhook", "url": "https://a.b/c", "secret": secret, "previousSecret": secret,
                        "previousUntil": until}),
            )
        };
        check(rotated(json!("2026-11-16T08:00:00Z")), &[]);
        check(rotated(json!("soon")), &["/previousUntil"]);
        check(rotated(Value::Null), &["/previousUntil"]);
        for bad in ["", "secret", "whsec_", "whsec_x", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
            check(hook(json!(bad)), &["/secret"]);
        }
    }

    // proves: DEV-01
    #[test]
    fn registrations_are_checked_as_a_whole() {
        check(with(&json!({"platform": "ios", "token": "ab12", "appVersion": "1.2"})), &[]);
        check(with(&json!({})), &["/token", "/platform"]);
        check(with(&json!({"platform": "android", "token": "a b"})), &["/token"]);
        check(
            with(&json!({"platform": "ios", "token": "80abF5", "environment": "sandbox", "appId": "a.b"})),
            &[],
        );
        check(with(&json!({"platform": "ios", "token": "fcm-token"})), &["/token"]);
        check(
            with(&json!({"platform": "ios", "token": "fcm-token", "service": "fcm", "tokenKind": "fid"})),
            &[],
        );
        check(
            with(&json!({"platform": "android", "token": "t", "environment": "sandbox"})),
            &["/environment"],
        );
        check(with(&json!({"platform": "android", "token": "t", "appId": "a b"})), &["/appId"]);
        let browser = |endpoint: &str, auth: &str| {
            let keys = json!({"p256dh": "B".repeat(87), "auth": auth});
            with(&json!({"platform": "web", "subscription": {"endpoint": endpoint, "keys": keys}}))
        };
        check(browser("https://push.example/1", &"a".repeat(22)), &[]);
        check(
            browser("http://push.example/1", "short"),
            &["/subscription/keys/auth", "/subscription/endpoint"],
        );
        check(with(&json!({"platform": "web"})), &["/subscription"]);
        check(with(&json!({"platform": "web", "token": "t"})), &["/token"]);
        check(with(&json!({"platform": "android", "token": "t", "url": "https://a.b"})), &["/url"]);
        check(
            with(&json!({"kind": "webhook", "platform": "web", "token": "t"})),
            &["/url", "/token", "/platform", "/secret"],
        );
        check(
            json!({"userId": "", "deviceId": "", "platform": "ios", "token": "ab"}),
            &["/userId", "/deviceId"],
        );
        check(
            with(&json!({"platform": "ios", "token": "ab", "appVersion": "x".repeat(65)})),
            &["/appVersion"],
        );
    }
}
