//! Users: put, read, delete, and many at once.

use crate::body;
use crate::call::Call;
use crate::check::Faults;
use crate::condition::expect_of;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::preferences::merge;
use crate::v1::{batch, devices};
use fantail_node::ask::templates::Expect;
use fantail_node::ask::{
    Channel, ContactAsk, ProfileAsk, PutCondition, Refusal, Upserted, UserAsk, UserView,
};
use fantail_node::named::Named;
use fantail_rules::address::{self, Address};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::{ATTRIBUTES_BYTES_MAX, BATCH_ITEMS_MAX};
use fantail_rules::zone::ZoneNo;
use fantail_wire::code::Code;
use fantail_wire::user::{User, UserChannel, UserItem, UserPut, UsersBatch, UsersPut};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The fields of a profile that are addresses.
const ADDRESSES: [(&str, ChannelKind); 2] = [("email", ChannelKind::Email), ("phone", ChannelKind::Sms)];

/// With a body the user is replaced. Without one the user is made if there is none, and left as it is otherwise.
pub async fn put(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let user = call.new_name(tenant, "user", Named::User)?.to_owned();
    let expect = expect_of(&call.headers)?;
    if call.body.is_empty() && expect == Expect::Unsaid {
        call.spend_import(tenant, 1)?;
        return make(tenant, &call, user).await;
    }
    let put: UserPut = call.json_or_default()?;
    let ask = ask_of(user.clone(), &put)?;
    call.spend_import(tenant, 1)?;
    let condition = condition_of(tenant, &call, &user, expect).await?;
    let result = call.node.put_user_if(tenant, ask, condition).await?;
    let status = match result {
        Upserted::Created => 201,
        Upserted::Updated => 200,
    };
    show_put(tenant, &call, status, user, put).await
}

/// Reads `If-Match` and `If-None-Match`.
async fn condition_of(
    tenant: TenantId,
    call: &Call,
    user: &str,
    expect: Expect,
) -> Result<PutCondition, Problem> {
    if expect == Expect::Unsaid {
        return Ok(PutCondition::Always);
    }
    let write = match call.node.user(tenant, user).await {
        Ok(view) => view.write,
        Err(Refusal::UnknownUser { .. }) => None,
        Err(refusal) => return Err(refusal.into()),
    };
    let current = write.map(version_of);
    if !expect.holds(current) {
        return Err(changed(current));
    }
    Ok(write.map_or(PutCondition::Absent, PutCondition::Unchanged))
}

fn changed(current: Option<u32>) -> Problem {
    let detail = match current {
        Some(_) => "another version of the user is in force: read it again",
        None => "there is no such user",
    };
    Problem::new(Code::VersionConflict, detail).with_version(current)
}

async fn make(tenant: TenantId, call: &Call, user: String) -> Result<Reply, Problem> {
    let put = UserPut::default();
    loop {
        match call.node.user(tenant, &user).await {
            Ok(view) => return show(200, &view),
            Err(Refusal::UnknownUser { .. }) => {}
            Err(refusal) => return Err(refusal.into()),
        }
        let ask = ask_of(user.clone(), &put)?;
        match call.node.put_user_if(tenant, ask, PutCondition::Absent).await {
            Ok(_) => return show_put(tenant, call, 201, user, put).await,
            // Another request was faster: what it wrote stays.
            Err(Refusal::UserChanged) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
}

/// A merge patch. Without a condition it is merged again if another request was faster.
pub async fn patch(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let expect = expect_of(&call.headers)?;
    let user = call.name("user")?.to_owned();
    let patch: Map<String, Value> = call.json()?;
    call.spend_import(tenant, 1)?;
    let _turn = call.app.merge_turns.take(tenant, "user", &user).await;
    loop {
        let view = call.node.user(tenant, &user).await?;
        let current = view.write.map(version_of);
        if !expect.holds(current) {
            return Err(changed(current));
        }
        let mut document = serde_json::to_value(put_of(&view)?).expect("our shapes are JSON");
        merge(&mut document, &Value::Object(patch.clone()));
        let put: UserPut = body::from_document(document)?;
        let condition = view.write.map_or(PutCondition::Absent, PutCondition::Unchanged);
        let mut ask = ask_of(user.clone(), &put)?;
        keep_addresses(&mut ask.profile, &patch);
        match call.node.put_user_if(tenant, ask, condition).await {
            Ok(_) => return show_put(tenant, &call, 200, user, put).await,
            Err(Refusal::UserChanged) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
}

/// An address that a patch does not name stays as it is: one that is dead, or belongs to another user by now, is not
/// claimed again.
fn keep_addresses(profile: &mut ProfileAsk, patch: &Map<String, Value>) {
    for (field, kind) in ADDRESSES {
        if !patch.contains_key(field) {
            profile.kept = profile.kept.with(kind);
            profile.contacts.retain(|contact| contact.kind != kind);
        }
    }
}

/// The user as a `PUT` would say it.
fn put_of(view: &UserView) -> Result<UserPut, Problem> {
    let shown = shown(view)?;
    let text = |text: Option<&str>| text.map(str::to_owned);
    let unreadable = |_| Problem::new(Code::Internal, "the attributes cannot be read");
    Ok(UserPut {
        attributes: serde_json::from_str(shown.attributes.get()).map_err(unreadable)?,
        email: text(shown.email),
        phone: text(shown.phone),
        locale: text(shown.locale),
        timezone: text(shown.timezone),
    })
}

fn ask_of(user: String, put: &UserPut) -> Result<UserAsk, Problem> {
    let (mut faults, root) = (Faults::default(), Pointer::ROOT);
    let attributes = attributes_of(&put.attributes, root.key("attributes"), &mut faults);
    let UserPut { email, phone, locale, timezone, .. } = put.clone();
    let profile = profile_of(Given { email, phone, locale, timezone }, root, &mut faults);
    faults.into_result()?;
    Ok(UserAsk { user, attributes, profile })
}

async fn show_put(
    tenant: TenantId,
    call: &Call,
    status: u16,
    user: String,
    put: UserPut,
) -> Result<Reply, Problem> {
    match call.node.user(tenant, &user).await {
        Ok(view) => show(status, &view),
        Err(Refusal::UnknownUser { .. }) => show(status, &as_written(call, user, put)?),
        Err(refusal) => Err(refusal.into()),
    }
}

/// A user who was deleted right after it was put, as it was put.
fn as_written(call: &Call, user: String, put: UserPut) -> Result<UserView, Problem> {
    let UserPut { attributes, locale, timezone, .. } = put;
    let now = call.node.wall();
    Ok(UserView {
        user,
        attributes: serde_json::to_vec(&attributes).expect("a JSON object serializes"),
        locale: locale.unwrap_or_default(),
        zone: timezone.as_deref().and_then(ZoneNo::find).unwrap_or_default(),
        channels: Vec::new(),
        created_at: now,
        updated_at: now,
        write: None,
    })
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    show(200, &call.node.user(tenant, call.name("user")?).await?)
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    call.node.delete_user(tenant, call.name("user")?).await?;
    Ok(Reply::no_content())
}

pub async fn put_many(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let asks = asks_of(call.json()?, |user| call.is_taken(tenant, Named::User(user)))?;
    call.spend_import(tenant, asks.len())?;
    let results = call.node.put_users(tenant, asks).await;
    if let Some(problem) = batch::refused_as_one(&results) {
        return Err(problem);
    }
    let mut answer = UsersPut { created: 0, updated: 0, errors: Vec::new() };
    for (index, result) in results.into_iter().enumerate() {
        match result {
            Ok(Upserted::Created) => answer.created += 1,
            Ok(Upserted::Updated) => answer.updated += 1,
            Err(refusal) => answer.errors.push(batch::item_error(index, refusal)),
        }
    }
    Ok(Reply::json(200, &answer))
}

fn asks_of(request: UsersBatch, is_taken: impl Fn(&str) -> bool) -> Result<Vec<UserAsk>, Problem> {
    let root = Pointer::ROOT;
    let list = root.key("users");
    let mut faults = Faults::default();
    if request.users.is_empty() || request.users.len() > BATCH_ITEMS_MAX {
        faults.add(list, format!("must have 1 to {BATCH_ITEMS_MAX} users"));
        faults.into_result()?;
        return Ok(Vec::new());
    }
    let mut asks = Vec::with_capacity(request.users.len());
    for (index, item) in request.users.into_iter().enumerate() {
        let at = list.index(index);
        faults.new_name(at.key("userId"), &item.user_id, || is_taken(&item.user_id));
        let attributes = attributes_of(&item.attributes, at.key("attributes"), &mut faults);
        let UserItem { user_id, email, phone, locale, timezone, .. } = item;
        let profile = profile_of(Given { email, phone, locale, timezone }, at, &mut faults);
        asks.push(UserAsk { user: user_id, attributes, profile });
    }
    faults.into_result()?;
    Ok(asks)
}

/// What a request says of a profile.
struct Given {
    email: Option<String>,
    phone: Option<String>,
    locale: Option<String>,
    timezone: Option<String>,
}

fn profile_of(given: Given, at: Pointer<'_>, faults: &mut Faults) -> ProfileAsk {
    let mut contacts = Vec::new();
    let texts = [given.email.as_deref(), given.phone.as_deref()];
    for ((field, kind), text) in ADDRESSES.into_iter().zip(texts) {
        match text.map(|text| address::read(kind, text)) {
            None => {}
            Some(Ok(Address { text, identity })) => {
                contacts.push(ContactAsk { kind, address: text, identity });
            }
            Some(Err(fault)) => faults.add(at.key(field), fault),
        }
    }
    if given.locale.as_deref().is_some_and(|locale| !address::is_locale(locale)) {
        faults.add(at.key("locale"), "must be a language tag like pt-BR");
    }
    let zone = given.timezone.as_deref().map_or(Some(ZoneNo::NONE), ZoneNo::find);
    if zone.is_none() {
        faults.add(at.key("timezone"), "must be the name of a time zone like Europe/Vienna");
    }
    let (locale, zone) = (given.locale.unwrap_or_default(), zone.unwrap_or_default());
    ProfileAsk { locale, zone, contacts, ..ProfileAsk::default() }
}

fn attributes_of(attributes: &Map<String, Value>, at: Pointer<'_>, faults: &mut Faults) -> Vec<u8> {
    let bytes = serde_json::to_vec(attributes).expect("a JSON object serializes");
    if bytes.len() > ATTRIBUTES_BYTES_MAX {
        faults.add(at, format!("must have at most {ATTRIBUTES_BYTES_MAX} bytes as JSON"));
    }
    bytes
}

fn address_of(user: &UserView, kind: ChannelKind) -> Option<&str> {
    let of_kind = user.channels.iter().filter(|channel| channel.kind == kind);
    of_kind.filter_map(|channel| channel.address.as_deref()).next()
}

fn channel_of(channel: &Channel) -> UserChannel {
    UserChannel { channel: channel.kind.name().to_owned(), status: devices::status_of(channel.status) }
}

fn show(status: u16, user: &UserView) -> Result<Reply, Problem> {
    let reply = Reply::json(status, &shown(user)?);
    Ok(match user.write {
        Some(write) => reply.with_version(version_of(write)),
        None => reply,
    })
}

/// The `ETag` of a user: each write has its own.
fn version_of(write: [u8; 12]) -> u32 {
    let [a, b, c, d, ..] = write;
    u32::from_be_bytes([a, b, c, d])
}

pub fn shown(user: &UserView) -> Result<User<'_>, Problem> {
    let stored = if user.attributes.is_empty() { b"{}" } else { user.attributes.as_slice() };
    let attributes: &RawValue = serde_json::from_slice(stored)
        .map_err(|_| Problem::new(Code::Internal, "the attributes cannot be read"))?;
    Ok(User {
        user_id: &user.user,
        attributes,
        email: address_of(user, ChannelKind::Email),
        phone: address_of(user, ChannelKind::Sms),
        locale: Some(user.locale.as_str()).filter(|locale| !locale.is_empty()),
        timezone: user.zone.name(),
        channels: user.channels.iter().map(channel_of).collect(),
        created_at: time::text(user.created_at),
        updated_at: time::text(user.updated_at),
    })
}
