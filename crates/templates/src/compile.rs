//! Checks a definition as a whole and compiles every text of it, in every locale and variant, or says everything that
//! is wrong. What compiles can be rendered for any valid variables, within the limits.
//!
//! `texts` compiles the sources, and `push` what only pushes have; here is what holds them together.

mod place;
mod push;
mod texts;

use crate::content::{self, Body, Layer, Layers, required};
use crate::engine::{Engine, Mode};
use crate::limits::{DEFINITION_BYTES_MAX, LOCALES_MAX, PARTIALS_MAX, VARIANTS_MAX, WEIGHT_MAX};
use crate::locale;
use crate::problems::{Problems, below};
use crate::schema::{Schema, Variables, VariablesError};
use crate::variant::Shares;
use fantail_rules::limits::{CATEGORY_BYTES_MAX, NAME_BYTES_MAX};
use fantail_wire::template::{Channel, Channels, Definition, Problem, ProblemCode, Variant};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use texts::Texts;

/// A template that is ready to render. Cheap to share, expensive to make: keep it.
pub struct Compiled {
    id: String,
    category: String,
    schema: Schema,
    shares: Shares,
    variants: Vec<String>,
    pub(crate) default_locale: Arc<str>,
    pub(crate) engines: BTreeMap<Mode, Engine>,
    /// By channel and variant, then by locale.
    pub(crate) bodies: BTreeMap<(Channel, Option<usize>), BTreeMap<String, Body>>,
}

impl Compiled {
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    #[must_use]
    pub fn category(&self) -> &str {
        &self.category
    }

    #[must_use]
    pub fn default_locale(&self) -> &str {
        &self.default_locale
    }

    /// Channels that have a body.
    pub fn channels(&self) -> impl Iterator<Item = Channel> {
        self.bodies.keys().filter(|(_, variant)| variant.is_none()).map(|(channel, _)| *channel)
    }

    /// Locales in which a channel has texts of its own; what else is asked for falls back to one of them.
    pub fn locales(&self, channel: Channel, variant: Option<usize>) -> impl Iterator<Item = &str> {
        self.bodies.get(&(channel, variant)).into_iter().flat_map(BTreeMap::keys).map(String::as_str)
    }

    /// How many variants there are.
    #[must_use]
    pub fn variants(&self) -> usize {
        self.variants.len()
    }

    #[must_use]
    pub fn variant_name(&self, variant: usize) -> Option<&str> {
        self.variants.get(variant).map(String::as_str)
    }

    /// The variant of a user, by [`variant_seed`](crate::variant_seed); `None` if there are no variants.
    #[must_use]
    pub fn choose_variant(&self, seed: u64) -> Option<usize> {
        self.shares.choose(seed)
    }

    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Whether any body of the channel depends on the user. If not, a list is rendered once per locale and variant.
    #[must_use]
    pub fn needs_user(&self, channel: Channel) -> bool {
        let of_channel = self.bodies.iter().filter(|((other, _), _)| *other == channel);
        of_channel.flat_map(|(_, bodies)| bodies.values()).any(|body| body.uses.needs_user())
    }

    /// Checks variables against the schema, once for all channels and recipients of a request.
    pub fn variables(&self, variables: &serde_json::Value) -> Result<Variables, VariablesError> {
        self.schema.check(variables)
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Compiles a definition, or says what is wrong with it, sorted by place.
pub fn compile(definition: &Definition) -> Result<Compiled, Vec<Problem>> {
    compile_with(definition, Problems::default())
}

/// Compiles a definition that was accepted before. Where variables may stand was checked then: a rule of today does not stop
/// what is sent already.
pub fn compile_stored(definition: &Definition) -> Result<Compiled, Vec<Problem>> {
    compile_with(definition, Problems::of_stored())
}

fn compile_with(definition: &Definition, mut problems: Problems) -> Result<Compiled, Vec<Problem>> {
    let compiled = compile_into(definition, &mut problems);
    match compiled {
        Some(compiled) if problems.is_empty() => Ok(compiled),
        _ => {
            let problems = problems.into_vec();
            assert!(!problems.is_empty(), "nothing is refused without a reason");
            Err(problems)
        }
    }
}

fn compile_into(definition: &Definition, problems: &mut Problems) -> Option<Compiled> {
    let bytes = serde_json::to_vec(definition).expect("a definition has string keys only").len();
    if bytes > DEFINITION_BYTES_MAX {
        let detail = format!("the definition has {bytes} bytes, at most {DEFINITION_BYTES_MAX} are allowed");
        problems.add("", ProblemCode::TooLarge, detail);
        return None;
    }
    check_names(definition, problems);
    let default_locale = check_locale(&definition.default_locale, "/defaultLocale", problems);
    check_counts(definition, problems);
    check_variants(&definition.variants, problems);
    if problems.count() > 0 {
        return None;
    }
    let default_locale: Arc<str> = default_locale?.into();
    let schema = Schema::compile(definition.schema.as_ref(), problems)?;
    let mut texts = Texts::new(definition, &schema, Arc::clone(&default_locale), problems);
    let layers = layers(definition, &default_locale, &mut texts);
    let engines = texts.finish();
    let bodies = bodies(&layers, definition.variants.len(), &default_locale, problems);
    Some(Compiled {
        id: definition.id.clone(),
        category: definition.category.clone(),
        schema,
        shares: Shares::new(&definition.variants),
        variants: definition.variants.iter().map(|variant| variant.name.clone()).collect(),
        default_locale,
        engines,
        bodies,
    })
}

fn check_names(definition: &Definition, problems: &mut Problems) {
    check_name("/id", &definition.id, NAME_BYTES_MAX, problems);
    check_name("/category", &definition.category, CATEGORY_BYTES_MAX, problems);
    if let Some(name) = &definition.name {
        check_name("/name", name, NAME_BYTES_MAX, problems);
    }
    for (map, names) in [("/layouts", &definition.layouts), ("/partials", &definition.partials)] {
        for name in names.keys() {
            check_name(&below(map, name), name, NAME_BYTES_MAX, problems);
        }
    }
    for name in definition.layouts.keys().filter(|name| definition.partials.contains_key(*name)) {
        let detail = "a layout has the same name";
        problems.add(&below("/partials", name), ProblemCode::InvalidName, detail);
    }
}

fn check_name(pointer: &str, name: &str, bytes_max: usize, problems: &mut Problems) {
    let fault = if name.is_empty() {
        "must not be empty".to_owned()
    } else if name.len() > bytes_max {
        format!("must have at most {bytes_max} bytes")
    } else if name.chars().any(char::is_control) {
        "must not contain control characters".to_owned()
    } else {
        return;
    };
    problems.add(pointer, ProblemCode::InvalidName, fault);
}

fn check_locale(tag: &str, pointer: &str, problems: &mut Problems) -> Option<String> {
    let canonical = locale::canonical(tag, true);
    if canonical.is_none() {
        problems.add(pointer, ProblemCode::InvalidLocale, "is not a BCP 47 tag such as de or zh-Hant-TW");
    }
    canonical
}

fn check_counts(definition: &Definition, problems: &mut Problems) {
    let of_variants = definition.variants.iter().map(|variant| variant.translations.len()).max().unwrap_or(0);
    let partials = definition.layouts.len() + definition.partials.len();
    for (pointer, count, max) in [
        ("/translations", definition.translations.len().max(of_variants), LOCALES_MAX),
        ("/variants", definition.variants.len(), VARIANTS_MAX),
        ("/partials", partials, PARTIALS_MAX),
    ] {
        if count > max {
            problems.add(pointer, ProblemCode::TooMany, format!("at most {max} are allowed, not {count}"));
        }
    }
}

fn check_variants(variants: &[Variant], problems: &mut Problems) {
    let mut names = BTreeSet::new();
    for (index, variant) in variants.iter().enumerate() {
        let pointer = format!("/variants/{index}");
        check_name(&below(&pointer, "name"), &variant.name, NAME_BYTES_MAX, problems);
        if !names.insert(&variant.name) {
            problems.add(&below(&pointer, "name"), ProblemCode::InvalidVariant, "the name is taken");
        }
        if variant.weight > WEIGHT_MAX {
            let detail = format!("must be at most {WEIGHT_MAX}");
            problems.add(&below(&pointer, "weight"), ProblemCode::InvalidVariant, detail);
        }
    }
    if !variants.is_empty() && variants.iter().all(|variant| variant.weight == 0) {
        problems.add("/variants", ProblemCode::InvalidVariant, "at least one weight must be above 0");
    }
}

fn layers(definition: &Definition, default_locale: &str, texts: &mut Texts<'_, '_>) -> Layers {
    let mut layers = Layers::new();
    let mut add = |variant: Option<usize>,
                   pointer: &str,
                   base: &Channels,
                   translations: &BTreeMap<String, Channels>| {
        let layer = texts.layer(&below(pointer, "channels"), base, default_locale, variant.is_none());
        layers.insert((variant, None), layer);
        for (tag, channels) in translations {
            let pointer = below(&below(pointer, "translations"), tag);
            let Some(tag) = check_locale(tag, &pointer, texts.problems) else { continue };
            if tag == default_locale {
                texts.problems.add(
                    &pointer,
                    ProblemCode::InvalidLocale,
                    "is the default locale, which is in channels",
                );
                continue;
            }
            let layer: Layer = texts.layer(&pointer, channels, &tag, false);
            if layers.insert((variant, Some(tag)), layer).is_some() {
                texts.problems.add(&pointer, ProblemCode::InvalidLocale, "is there twice, in two spellings");
            }
        }
    };
    add(None, "", &definition.channels, &definition.translations);
    for (index, variant) in definition.variants.iter().enumerate() {
        add(Some(index), &format!("/variants/{index}"), &variant.channels, &variant.translations);
    }
    layers
}

type Bodies = BTreeMap<(Channel, Option<usize>), BTreeMap<String, Body>>;

fn bodies(layers: &Layers, variants: usize, default_locale: &Arc<str>, problems: &mut Problems) -> Bodies {
    let mut bodies = Bodies::new();
    let used: BTreeSet<Channel> =
        layers.values().flat_map(BTreeMap::keys).map(|(channel, _)| *channel).collect();
    if used.is_empty() {
        problems.add("/channels", ProblemCode::NoChannels, "at least one channel needs a body");
    }
    let has = |layer: &Layer, channel: Channel| layer.keys().any(|(other, _)| *other == channel);
    for channel in used {
        let base = layers.get(&(None, None));
        let complete = |fields: &&[content::Field]| {
            fields.iter().all(|field| base.is_some_and(|base| base.contains_key(&(channel, *field))))
        };
        if !required(channel).iter().any(complete) {
            let groups = required(channel)
                .iter()
                .map(|group| group.iter().map(|field| field.key()).collect::<Vec<_>>().join(" and "));
            let detail = format!("needs {}", groups.collect::<Vec<_>>().join(", or "));
            problems.add(&below("/channels", channel.text()), ProblemCode::MissingBody, detail);
        }
        for variant in std::iter::once(None).chain((0..variants).map(Some)) {
            let by_locale = bodies.entry((channel, variant)).or_default();
            let default = content::body(layers, channel, variant, None, Arc::clone(default_locale));
            by_locale.insert(default_locale.to_string(), default);
            // A locale in which neither the variant nor the template has anything falls back to the next one.
            let own = layers
                .iter()
                .filter(|((of, _), layer)| (of.is_none() || *of == variant) && has(layer, channel));
            for tag in own.filter_map(|((_, tag), _)| tag.as_ref()) {
                let body = content::body(layers, channel, variant, Some(tag), tag.as_str().into());
                by_locale.insert(tag.clone(), body);
            }
        }
    }
    bodies
}

#[cfg(test)]
mod tests;
