//! Templates, and the compiled ones that acceptance renders with.
//!
//! Comes from: the template API, and whoever renders. Does: asks the root, reads its tables, and keeps what it compiled
//! by the hash of the definition, so that it is never stale. Goes to: `machine::root::template`.
//! Not here: rendering, which needs no node.

use crate::ask::Refusal;
use crate::ask::templates::{
    Expect, PreparedTemplate, TemplateAsk, TemplatePage, TemplatePatch, TemplateView, VersionView,
};
use crate::core::{Core, answer, internal};
use crate::node::Node;
use crate::quotas;
use fantail_machine::records::template::{About, DefinitionBytes};
use fantail_machine::root::template::{Answer, Ask, Change};
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::tables::template::{self, TemplateRow, VersionRow};
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::actor::Actor;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{PartitionId, TenantId};
use fantail_templates::Compiled;
use fantail_wire::template::{Channel, Definition, Problem, ProblemCode};
use std::sync::Arc;

/// What an ask costs in the queue besides its definition.
const ASK_BYTES: usize = 1_024;

impl Node {
    /// Creates a template, or adds a version and puts it in force. `true` if it was created.
    pub async fn put_template(
        &self,
        tenant: TenantId,
        ask: TemplateAsk,
    ) -> Result<(TemplateView, bool), Refusal> {
        let TemplateAsk { prepared, expect, author, note } = ask;
        let PreparedTemplate { name, canonical, compiled } = prepared;
        let (id, category) = (compiled.id().to_owned(), compiled.category().to_owned());
        let (hash, bytes) = (canonical.hash, canonical.bytes.len());
        let about = About { author, category, name, note, hash };
        let _claim = quotas::claim(&self.core, tenant, quotas::adds(None, bytes as u64))?;
        let change = Change::Put { about: about.clone(), definition: DefinitionBytes(canonical.bytes) };
        let done = self.ask_root(tenant, &id, expect, change, bytes).await?;
        self.core.known.keep_template(tenant, hash, compiled, bytes);
        let Answer::Done { row, created } = done else { return Err(other()) };
        let shown = match self.shown(tenant, &id, &row, row.version) {
            // Deleted right after it was put: shown as it was put.
            Err(Refusal::UnknownTemplateVersion { .. }) => {
                template_view(&id, &row, version_view(row.version, VersionRow { about, at: row.updated }))
            }
            shown => shown?,
        };
        Ok((shown, created))
    }

    /// Puts an older version in force, or switches the template on or off.
    pub async fn patch_template(
        &self,
        tenant: TenantId,
        id: &str,
        patch: TemplatePatch,
    ) -> Result<TemplateView, Refusal> {
        let TemplatePatch { expect, version, active } = patch;
        let done = self.ask_root(tenant, id, expect, Change::Set { version, active }, 0).await?;
        let Answer::Done { row, .. } = done else { return Err(other()) };
        self.shown(tenant, id, &row, row.version)
    }

    /// Deletes a template with all its versions.
    pub async fn delete_template(&self, tenant: TenantId, id: &str, expect: Expect) -> Result<(), Refusal> {
        self.ask_root(tenant, id, expect, Change::Delete, 0).await.map(|_| ())
    }

    /// A template and its definition, as JSON; the version in force if none is named.
    pub fn template(
        &self,
        tenant: TenantId,
        id: &str,
        version: Option<u32>,
    ) -> Result<(TemplateView, Vec<u8>), Refusal> {
        let view = self.template_view(tenant, id, version)?;
        let definition = self.definition(tenant, id, view.shown.version)?;
        Ok((view, definition.0))
    }

    /// A template without its definition.
    pub fn template_view(
        &self,
        tenant: TenantId,
        id: &str,
        version: Option<u32>,
    ) -> Result<TemplateView, Refusal> {
        let row = self.read_root(|tables| template::find(tables, tenant, id))?;
        let row = row.ok_or_else(|| unknown(id))?;
        self.shown(tenant, id, &row, version.unwrap_or(row.version))
    }

    /// One state of a template with one of its versions.
    fn shown(
        &self,
        tenant: TenantId,
        id: &str,
        row: &TemplateRow,
        version: u32,
    ) -> Result<TemplateView, Refusal> {
        let found = self.read_root(|tables| template::version(tables, tenant, id, version))?;
        let unknown = || Refusal::UnknownTemplateVersion { template: id.to_owned(), version };
        let found = found.ok_or_else(unknown)?;
        Ok(template_view(id, row, version_view(version, found)))
    }

    /// Templates by id, after this one.
    pub fn templates(
        &self,
        tenant: TenantId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<TemplatePage, Refusal> {
        let (templates, more) = self.read_root(|tables| {
            let mut rows = template::page(tables, tenant, after, limit + 1)?;
            let more = rows.len() > limit;
            rows.truncate(limit);
            let mut views = Vec::with_capacity(rows.len());
            for (id, row) in rows {
                let shown = template::version(tables, tenant, &id, row.version)?;
                views.extend(shown.map(|shown| template_view(&id, &row, version_view(row.version, shown))));
            }
            Ok((views, more))
        })?;
        let next = templates.last().filter(|_| more).map(|last: &TemplateView| last.id.clone());
        Ok(TemplatePage { templates, next })
    }

    /// The versions that are kept, newest first.
    pub fn template_versions(&self, tenant: TenantId, id: &str) -> Result<Vec<VersionView>, Refusal> {
        let rows = self.read_root(|tables| template::versions(tables, tenant, id))?;
        if rows.is_empty() {
            return Err(unknown(id));
        }
        Ok(rows.into_iter().rev().map(|(version, row)| version_view(version, row)).collect())
    }

    /// What to render a notification with, and its version: the one that is named, or else the one in force. A
    /// template that is switched off is refused. What was not used for long is compiled, which takes milliseconds.
    pub fn compiled(
        &self,
        tenant: TenantId,
        id: &str,
        version: Option<u32>,
    ) -> Result<(Arc<Compiled>, u32), Refusal> {
        let view = self.template_view(tenant, id, version)?;
        if !view.active {
            return Err(Refusal::TemplateInactive { template: id.to_owned() });
        }
        self.compiled_of(tenant, &view)
    }

    /// As [`compiled`](Self::compiled), but also of a template that is switched off: nothing is sent.
    pub fn compiled_for_preview(
        &self,
        tenant: TenantId,
        id: &str,
        version: Option<u32>,
    ) -> Result<(Arc<Compiled>, u32), Refusal> {
        let view = self.template_view(tenant, id, version)?;
        self.compiled_of(tenant, &view)
    }

    fn compiled_of(&self, tenant: TenantId, view: &TemplateView) -> Result<(Arc<Compiled>, u32), Refusal> {
        let VersionView { version, hash, .. } = view.shown;
        if let Some(compiled) = self.core.known.template(tenant, hash) {
            return Ok((compiled, version));
        }
        let stored = self.definition(tenant, &view.id, version)?;
        let definition: Definition = serde_json::from_slice(&stored.0).map_err(|error| unreadable(&error))?;
        let compiled = PreparedTemplate::compile_stored(&definition)?.compiled;
        self.core.known.keep_template(tenant, hash, Arc::clone(&compiled), stored.0.len());
        Ok((compiled, version))
    }

    fn definition(&self, tenant: TenantId, id: &str, version: u32) -> Result<DefinitionBytes, Refusal> {
        let found = self.read_root(|tables| template::definition(tables, tenant, id, version))?;
        // It was there a moment ago: deleted, or made room for a newer one.
        found.ok_or_else(|| unknown(id))
    }

    fn read_root<T>(&self, read: impl FnOnce(&dyn Tables) -> Result<T, TablesError>) -> Result<T, Refusal> {
        self.core.read(PartitionId::Root, |view| read(view.tables()))
    }

    async fn ask_root(
        &self,
        tenant: TenantId,
        id: &str,
        expect: Expect,
        change: Change,
        bytes: usize,
    ) -> Result<Answer, Refusal> {
        ask(&self.core, &self.by, Ask { tenant, id: id.to_owned(), expect, change }, bytes).await
    }
}

/// The root answers when the change is durable and can be read.
async fn ask(core: &Core, by: &Actor, ask: Ask, bytes: usize) -> Result<Answer, Refusal> {
    let (tenant, id) = (ask.tenant, ask.id.clone());
    let version = if let Change::Set { version, .. } = ask.change { version } else { None };
    let pushed = core.root.push(tenant, by, vec![RootAsk::Template(Box::new(ask))], ASK_BYTES + bytes);
    let RootAnswer::Template(answer) = answer(pushed).await? else { return Err(other()) };
    match answer {
        done @ (Answer::Done { .. } | Answer::Gone) => Ok(done),
        Answer::Unknown => Err(unknown(&id)),
        Answer::UnknownVersion => {
            Err(Refusal::UnknownTemplateVersion { template: id, version: version.unwrap_or_default() })
        }
        Answer::Conflict { current } => Err(Refusal::TemplateConflict { current }),
        Answer::UnknownTenant => Err(Refusal::UnknownTenant),
        Answer::TooMany { limit } => Err(Refusal::TooMany { limit }),
    }
}

/// What a template of the house's own naming is rendered with, if the tenant has one that is switched on and compiles.
pub fn in_force(core: &Arc<Core>, tenant: TenantId, id: &str) -> Option<Arc<Compiled>> {
    let node = Node { core: Arc::clone(core), by: Actor::System };
    node.compiled(tenant, id, None).ok().map(|(compiled, _)| compiled)
}

pub fn channel_of(kind: ChannelKind) -> Channel {
    match kind {
        ChannelKind::InApp => Channel::InApp,
        ChannelKind::Push => Channel::Push,
        ChannelKind::Email => Channel::Email,
        ChannelKind::Sms => Channel::Sms,
        ChannelKind::Webhook => Channel::Webhook,
    }
}

fn template_view(id: &str, row: &TemplateRow, shown: VersionView) -> TemplateView {
    TemplateView {
        id: id.to_owned(),
        version: row.version,
        newest: row.newest,
        active: row.active,
        created_at: row.created,
        updated_at: row.updated,
        shown,
    }
}

fn version_view(version: u32, row: VersionRow) -> VersionView {
    let VersionRow { about: About { author, category, name, note, hash }, at } = row;
    VersionView { version, author, category, name, note, hash, created_at: at }
}

fn unknown(id: &str) -> Refusal {
    Refusal::UnknownTemplate { template: id.to_owned() }
}

/// A definition of an earlier build that this one does not understand.
fn unreadable(error: &serde_json::Error) -> Refusal {
    let problem =
        Problem { pointer: String::new(), code: ProblemCode::InvalidJson, detail: error.to_string() };
    Refusal::InvalidTemplate { problems: vec![problem] }
}

fn other() -> Refusal {
    internal("the root answered something else")
}
