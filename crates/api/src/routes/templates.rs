//! Routes of templates.

use super::PAGE;
use crate::openapi::Shape;
use crate::route::Handle::Scoped;
use crate::route::Method::{Delete, Get, Patch, Post, Put};
use crate::route::Route;
use crate::v1::{previews, templates};
use fantail_wire::code::Code;
use fantail_wire::template::Definition;
use fantail_wire::template_resource::{
    DraftPreviewAsk, Template, TemplateActivate, TemplateDiff, TemplatePreview, TemplatePreviewAsk,
    TemplateSummary, TemplateSwitch, TemplateVersions, Templates,
};
use fantail_wire::tenant::Scope::{TemplatesRead, TemplatesWrite};

const PUT_REFUSED: &[Code] = &[
    Code::InvalidTemplate,
    Code::VersionConflict,
    Code::LimitReached,
    Code::RateLimited,
    Code::QuotaExceeded,
];
const UNKNOWN: &[Code] = &[Code::TemplateNotFound];
const UNKNOWN_OR_CHANGED: &[Code] = &[Code::TemplateNotFound, Code::VersionConflict];

pub const ROUTES: &[Route] = &[
    Route::new(
        "putTemplate",
        Put,
        "/api/v1/templates/{template}",
        "Create a template, or add a version and put it in force",
        Scoped(TemplatesWrite, |tenant, call| Box::pin(templates::put(tenant, call))),
    )
    .query(&["note"])
    .conditional()
    .takes(Shape::of::<Definition>())
    .gives(201, Shape::of::<TemplateSummary>())
    .gives(200, Shape::of::<TemplateSummary>())
    .refuses(PUT_REFUSED),
    Route::new(
        "listTemplates",
        Get,
        "/api/v1/templates",
        "List templates by id",
        Scoped(TemplatesRead, |tenant, call| Box::pin(templates::list(tenant, call))),
    )
    .query(PAGE)
    .gives(200, Shape::of::<Templates>()),
    Route::new(
        "getTemplate",
        Get,
        "/api/v1/templates/{template}",
        "Read a template: the version in force, or another one",
        Scoped(TemplatesRead, |tenant, call| Box::pin(templates::get(tenant, call))),
    )
    .query(&["version"])
    .gives(200, Shape::of::<Template<'static>>())
    .refuses(UNKNOWN),
    Route::new(
        "listTemplateVersions",
        Get,
        "/api/v1/templates/{template}/versions",
        "List the versions of a template, newest first",
        Scoped(TemplatesRead, |tenant, call| Box::pin(templates::versions(tenant, call))),
    )
    .gives(200, Shape::of::<TemplateVersions>())
    .refuses(UNKNOWN),
    Route::new(
        "diffTemplate",
        Get,
        "/api/v1/templates/{template}/diff",
        "Compare two versions of a template",
        Scoped(TemplatesRead, |tenant, call| Box::pin(templates::diff(tenant, call))),
    )
    .query(&["from", "to"])
    .gives(200, Shape::of::<TemplateDiff>())
    .refuses(UNKNOWN),
    Route::new(
        "activateTemplate",
        Post,
        "/api/v1/templates/{template}/activate",
        "Put a version in force, also an older one",
        Scoped(TemplatesWrite, |tenant, call| Box::pin(templates::activate(tenant, call))),
    )
    .conditional()
    .takes(Shape::of::<TemplateActivate>())
    .gives(200, Shape::of::<TemplateSummary>())
    .refuses(UNKNOWN_OR_CHANGED),
    Route::new(
        "switchTemplate",
        Patch,
        "/api/v1/templates/{template}",
        "Switch a template on or off",
        Scoped(TemplatesWrite, |tenant, call| Box::pin(templates::switch(tenant, call))),
    )
    .conditional()
    .takes(Shape::of::<TemplateSwitch>())
    .gives(200, Shape::of::<TemplateSummary>())
    .refuses(UNKNOWN_OR_CHANGED),
    Route::new(
        "deleteTemplate",
        Delete,
        "/api/v1/templates/{template}",
        "Delete a template with all its versions",
        Scoped(TemplatesWrite, |tenant, call| Box::pin(templates::delete(tenant, call))),
    )
    .conditional()
    .gives_nothing(204)
    .refuses(UNKNOWN_OR_CHANGED),
    Route::new(
        "previewTemplate",
        Post,
        "/api/v1/templates/{template}/preview",
        "Show what a template makes of some variables",
        Scoped(TemplatesRead, |tenant, call| Box::pin(previews::of_template(tenant, call))),
    )
    .takes(Shape::of::<TemplatePreviewAsk>())
    .gives(200, Shape::of::<TemplatePreview<'static>>())
    .refuses(&[
        Code::TemplateNotFound,
        Code::InvalidTemplate,
        Code::InvalidVariables,
        Code::RenderFailed,
    ]),
    Route::new(
        "previewDraft",
        Post,
        "/api/v1/templates/preview",
        "Show what a definition that is not stored makes of some variables",
        Scoped(TemplatesRead, |tenant, call| Box::pin(previews::of_draft(tenant, call))),
    )
    .takes(Shape::of::<DraftPreviewAsk>())
    .gives(200, Shape::of::<TemplatePreview<'static>>())
    .refuses(&[Code::InvalidTemplate, Code::InvalidVariables, Code::RenderFailed]),
];
