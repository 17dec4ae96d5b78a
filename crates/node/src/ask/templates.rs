//! Templates as callers ask for them and see them.

use super::Refusal;
pub use fantail_machine::root::template::Expect;
use fantail_rules::ids::Millis;
use fantail_templates::{Canonical, Compiled, canonical, compile, compile_stored};
use fantail_wire::template::{Definition, Problem};
use std::sync::Arc;

/// A definition that was checked and compiled: only such can be put.
#[derive(Clone)]
pub struct PreparedTemplate {
    pub(crate) name: Option<String>,
    pub(crate) canonical: Canonical,
    pub(crate) compiled: Arc<Compiled>,
}

impl PreparedTemplate {
    /// Takes milliseconds, tens of them for the largest: call it where that may be.
    pub fn compile(definition: &Definition) -> Result<Self, Refusal> {
        Self::of(definition, compile(definition))
    }

    /// One that was put before.
    pub(crate) fn compile_stored(definition: &Definition) -> Result<Self, Refusal> {
        Self::of(definition, compile_stored(definition))
    }

    fn of(definition: &Definition, compiled: Result<Compiled, Vec<Problem>>) -> Result<Self, Refusal> {
        let compiled = compiled.map_err(|problems| Refusal::InvalidTemplate { problems })?;
        let (name, canonical) = (definition.name.clone(), canonical(definition));
        Ok(Self { name, canonical, compiled: Arc::new(compiled) })
    }

    #[must_use]
    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.compiled
    }
}

#[derive(Clone)]
pub struct TemplateAsk {
    pub prepared: PreparedTemplate,
    pub expect: Expect,
    /// The id of the key that writes.
    pub author: String,
    pub note: Option<String>,
}

/// Fields that are `None` stay as they are.
#[derive(Clone, Debug)]
pub struct TemplatePatch {
    pub expect: Expect,
    /// Puts a version in force that is kept.
    pub version: Option<u32>,
    /// Whether it may be used.
    pub active: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TemplateView {
    pub id: String,
    /// The version in force.
    pub version: u32,
    pub newest: u32,
    pub active: bool,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// The version that was asked for, or else the one in force.
    pub shown: VersionView,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionView {
    pub version: u32,
    pub author: String,
    pub category: String,
    pub name: Option<String>,
    pub note: Option<String>,
    /// SHA-256 of the stored definition.
    pub hash: [u8; 32],
    pub created_at: Millis,
}

/// A page of templates by id; the last id asks for the next one.
#[derive(Clone, Debug)]
pub struct TemplatePage {
    pub templates: Vec<TemplateView>,
    pub next: Option<String>,
}
