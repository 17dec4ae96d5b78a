//! Previews: a message as it would be sent, and what it would cost. Nothing is stored and nothing is sent, so also a
//! template that is switched off can be seen.

use crate::aside;
use crate::call::Call;
use crate::check::Faults;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::v1::templates::body_of;
use fantail_node::ask::templates::PreparedTemplate;
use fantail_node::ask::{Refusal, TenantView};
use fantail_rules::address::is_locale;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::zone::ZoneNo;
use fantail_templates::{Compiled, NotificationFacts, RenderAsk, TenantFacts, preview, variant_seed};
use fantail_wire::code::Code;
use fantail_wire::template_resource::{DraftPreviewAsk, TemplatePreview, TemplatePreviewAsk};
use serde_json::Value;
use serde_json::value::RawValue;

/// `notification.id` of a message that is none.
const NO_NOTIFICATION: &str = "preview";
const ZONE: &str = "UTC";

pub async fn of_template(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let scene = Scene::of(tenant, &call, body_of(&call)?)?;
    let (node, id) = (call.node.clone(), call.name("template")?.to_owned());
    aside::run(&call.app, tenant, aside::Work::Look, move || {
        let (compiled, version) = node.compiled_for_preview(tenant, &id, scene.ask.version)?;
        scene.show(&compiled, Some(version))
    })
    .await?
}

pub async fn of_draft(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let DraftPreviewAsk { definition, channel, locale, variables, user_facts, variant } = body_of(&call)?;
    let version = None;
    let ask = TemplatePreviewAsk { channel, locale, variables, user_facts, variant, version };
    let scene = Scene::of(tenant, &call, ask)?;
    aside::run(&call.app, tenant, aside::Work::Look, move || {
        let prepared = PreparedTemplate::compile(&definition).map_err(Problem::from);
        let shown = prepared.and_then(|prepared| scene.show(prepared.compiled(), None));
        shown.map_err(in_definition)
    })
    .await?
}

/// The definition is a part of the body here, so pointers into it begin there.
fn in_definition(mut problem: Problem) -> Problem {
    if matches!(problem.code, Code::InvalidTemplate | Code::RenderFailed) {
        problem.errors.iter_mut().for_each(|error| error.pointer.insert_str(0, "/definition"));
    }
    problem
}

/// Everything that a message is rendered from besides its template.
struct Scene {
    ask: TemplatePreviewAsk,
    tenant: TenantView,
    now: Millis,
}

/// What a preview says about its reader is what a user could have.
fn check_reader(ask: &TemplatePreviewAsk) -> Result<(), Problem> {
    let (mut faults, root) = (Faults::default(), Pointer::ROOT);
    let facts = root.key("userFacts");
    let user = ask.user_facts.as_ref();
    let locales = [
        (root.key("locale"), ask.locale.as_deref()),
        (facts.key("locale"), user.and_then(|user| user.locale.as_deref())),
    ];
    for (at, locale) in locales {
        if locale.is_some_and(|locale| !is_locale(locale)) {
            faults.add(at, "must be a language tag like pt-BR");
        }
    }
    if let Some(user) = user {
        faults.name(facts.key("id"), &user.id);
        if user.zone.as_deref().is_some_and(|zone| ZoneNo::find(zone).is_none()) {
            faults.add(facts.key("zone"), "must be the name of a time zone like Europe/Vienna");
        }
    }
    faults.into_result()
}

impl Scene {
    fn of(tenant: TenantId, call: &Call, ask: TemplatePreviewAsk) -> Result<Self, Problem> {
        check_reader(&ask)?;
        let tenant = call.node.tenant(tenant).ok_or(Refusal::UnknownTenant)?;
        Ok(Self { ask, tenant, now: call.node.wall() })
    }

    fn show(&self, compiled: &Compiled, version: Option<u32>) -> Result<Reply, Problem> {
        let variables = compiled.variables(&Value::Object(self.ask.variables.clone()))?;
        let variant = self.variant_in(compiled)?;
        let user = self.ask.user_facts.as_ref();
        let own_locale = user.and_then(|user| user.locale.as_deref());
        let locale = self.ask.locale.as_deref().or(own_locale).unwrap_or(compiled.default_locale());
        let attributes = user.map(|user| Value::Object(user.attributes.clone()));
        let user = user.zip(attributes.as_ref()).map(|(user, attributes)| fantail_templates::UserFacts {
            id: &user.id,
            locale: own_locale.unwrap_or(locale),
            zone: user.zone.as_deref().unwrap_or(ZONE),
            attributes,
        });
        let rendered = compiled.render(&RenderAsk {
            channel: self.ask.channel,
            locale,
            variant,
            variables: &variables,
            user,
            notification: NotificationFacts { id: NO_NOTIFICATION },
            tenant: TenantFacts { id: &self.tenant.slug, name: &self.tenant.name },
            now: self.now,
        })?;
        let content: &RawValue = serde_json::from_slice(&rendered.bytes)
            .map_err(|_| Problem::new(Code::Internal, "a rendered message is not JSON"))?;
        let variant = variant.and_then(|variant| compiled.variant_name(variant));
        let answer = TemplatePreview {
            version,
            locale: rendered.locale.to_string(),
            variant: variant.map(str::to_owned),
            content,
            cost: preview(self.ask.channel, &rendered),
        };
        Ok(Reply::json(200, &answer))
    }

    /// The one that is named, or the user's own.
    fn variant_in(&self, compiled: &Compiled) -> Result<Option<usize>, Problem> {
        match (&self.ask.variant, &self.ask.user_facts) {
            (Some(name), _) => {
                let found = (0..compiled.variants()).find(|no| compiled.variant_name(*no) == Some(name));
                let missing = || Problem::field("/variant", "the template has no such variant");
                found.map(Some).ok_or_else(missing)
            }
            (None, Some(user)) => Ok(compiled.choose_variant(variant_seed(compiled.id(), &user.id))),
            (None, None) => Ok(None),
        }
    }
}
