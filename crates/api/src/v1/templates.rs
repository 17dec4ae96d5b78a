//! Templates: written as versions, listed, compared, put in force, switched off, deleted.
//!
//! A new version replaces the one that its author has seen: `If-Match` names it, and whoever is late hears which one is
//! in force now. The `ETag` of a template is the version that is shown.

use crate::aside;
use crate::call::Call;
use crate::check;
use crate::condition::expect_of;
use crate::cursor::{self, Owner};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::edges;
use fantail_node::ask::templates::{PreparedTemplate, TemplateAsk, TemplatePatch, TemplateView, VersionView};
use fantail_node::named::Named;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::TEMPLATE_NOTE_BYTES_MAX;
use fantail_templates::limits::DEFINITION_BYTES_MAX;
use fantail_wire::code::Code;
use fantail_wire::template::Definition;
use fantail_wire::template_resource::{
    Template, TemplateActivate, TemplateDiff, TemplateSummary, TemplateSwitch, TemplateVersion,
    TemplateVersions, Templates,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// A definition as an author formats it, or one with what to show it with.
const BODY_BYTES_MAX: usize = 2 * DEFINITION_BYTES_MAX + (64 << 10);

pub async fn put(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    call.spend_import(tenant, 1)?;
    let (expect, note) = (expect_of(&call.headers)?, note_of(&call)?);
    let definition: Definition = body_of(&call)?;
    if definition.id != call.new_name(tenant, "template", Named::Template)? {
        return Err(Problem::field("/id", "must be the name in the path"));
    }
    let prepared =
        aside::run(&call.app, tenant, aside::Work::Look, move || PreparedTemplate::compile(&definition))
            .await??;
    let ask = TemplateAsk { prepared, expect, author: call.caller.actor().name().to_owned(), note };
    let (template, created) = call.node.put_template(tenant, ask).await?;
    Ok(summary_reply(if created { 201 } else { 200 }, template))
}

pub async fn list(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let owner = Owner { tenant, name: "templates" };
    let place = edges::place_of(&call, owner)?;
    let page = call.node.templates(tenant, place.as_deref(), call.list_limit()?)?;
    let next_cursor = page.next.as_deref().map(|place| cursor::of_names(owner, place));
    let templates = page.templates.into_iter().map(summary).collect();
    Ok(Reply::json(200, &Templates { templates, next_cursor }))
}

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let version = version_in(&call, "version")?;
    let (template, definition) = call.node.template(tenant, call.name("template")?, version)?;
    let definition: &RawValue = serde_json::from_slice(&definition)
        .map_err(|_| Problem::new(Code::Internal, "the definition cannot be read"))?;
    let VersionView { version, author, note, hash, created_at, .. } = template.shown;
    let shown = Template {
        id: template.id,
        version,
        active_version: template.version,
        newest_version: template.newest,
        active: template.active,
        author,
        note,
        hash: hex(&hash),
        created_at: time::text(created_at),
        updated_at: time::text(template.updated_at),
        definition,
    };
    Ok(Reply::json(200, &shown).with_version(version))
}

pub async fn versions(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let versions = call.node.template_versions(tenant, call.name("template")?)?;
    Ok(Reply::json(200, &TemplateVersions { versions: versions.into_iter().map(version_shown).collect() }))
}

/// Without `to` the version in force, without `from` the one before it that is kept.
pub async fn diff(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let (from, to) = (version_in(&call, "from")?, version_in(&call, "to")?);
    let id = call.name("template")?;
    let (template, new) = call.node.template(tenant, id, to)?;
    let to = template.shown.version;
    let from = match from {
        Some(from) => from,
        None => {
            let versions = call.node.template_versions(tenant, id)?;
            versions.into_iter().map(|row| row.version).find(|version| *version < to).unwrap_or(to)
        }
    };
    let (_, old) = call.node.template(tenant, id, Some(from))?;
    let changes = aside::run(&call.app, tenant, aside::Work::Look, move || {
        let read = |bytes: &[u8]| serde_json::from_slice::<Definition>(bytes);
        Ok::<_, serde_json::Error>(fantail_templates::diff(&read(&old)?, &read(&new)?))
    });
    let unreadable = |_| Problem::new(Code::Internal, "a definition cannot be read");
    let changes = changes.await?.map_err(unreadable)?;
    Ok(Reply::json(200, &TemplateDiff { from, to, changes }))
}

/// Puts a version in force, an older one too, and the template in use.
pub async fn activate(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let TemplateActivate { version } = body_of(&call)?;
    patch(tenant, &call, Some(version), true).await
}

/// Switches the template on or off.
pub async fn switch(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let TemplateSwitch { active } = body_of(&call)?;
    patch(tenant, &call, None, active).await
}

async fn patch(tenant: TenantId, call: &Call, version: Option<u32>, active: bool) -> Result<Reply, Problem> {
    let patch = TemplatePatch { expect: expect_of(&call.headers)?, version, active: Some(active) };
    let template = call.node.patch_template(tenant, call.name("template")?, patch).await?;
    Ok(summary_reply(200, template))
}

pub async fn delete(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    call.node.delete_template(tenant, call.name("template")?, expect_of(&call.headers)?).await?;
    Ok(Reply::no_content())
}

/// Bodies of templates are smaller than others may be.
pub(super) fn body_of<T: DeserializeOwned>(call: &Call) -> Result<T, Problem> {
    if call.body.len() > BODY_BYTES_MAX {
        return Err(Problem::new(Code::BodyTooLarge, format!("it has at most {BODY_BYTES_MAX} bytes here")));
    }
    call.json()
}

fn note_of(call: &Call) -> Result<Option<String>, Problem> {
    let Some(note) = call.query.get("note") else { return Ok(None) };
    match check::text_fault(note, TEMPLATE_NOTE_BYTES_MAX) {
        None => Ok(Some(note.to_owned())),
        Some(fault) => Err(Problem::field("/note", fault)),
    }
}

fn version_in(call: &Call, name: &str) -> Result<Option<u32>, Problem> {
    let Some(text) = call.query.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Problem::field(format!("/{name}"), "must be the number of a version"))
}

fn summary_reply(status: u16, template: TemplateView) -> Reply {
    let version = template.version;
    Reply::json(status, &summary(template)).with_version(version)
}

fn summary(template: TemplateView) -> TemplateSummary {
    TemplateSummary {
        id: template.id,
        name: template.shown.name,
        category: template.shown.category,
        active_version: template.version,
        newest_version: template.newest,
        active: template.active,
        created_at: time::text(template.created_at),
        updated_at: time::text(template.updated_at),
    }
}

fn version_shown(version: VersionView) -> TemplateVersion {
    TemplateVersion {
        version: version.version,
        author: version.author,
        note: version.note,
        hash: hex(&version.hash),
        created_at: time::text(version.created_at),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |text, byte| text + &format!("{byte:02x}"))
}
