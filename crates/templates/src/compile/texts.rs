//! Compiles the texts of a definition, each for its place: which engine renders it, how large it may be, and what must
//! hold for what comes out.

use super::place::{CONTENT_TYPE_DEFAULT, Place, is_content_type, is_json, literal_fault};
use super::push::Shown;
use crate::content::{ActionTexts, Content, Field, Layer, Node, Rule, Source, Text};
use crate::engine::{Engine, Mode};
use crate::limits::{DOCUMENT_SOURCE_BYTES_MAX, SOURCES_MAX};
use crate::problems::{Problems, below};
use crate::schema::Schema;
use crate::source::{has_tags, parse_source};
use crate::walk::{Library, Tree, Uses, parts, walk};
use crate::{html, locale, mjml};
use fantail_rules::limits::{ACTIONS_MAX, JSON_DEPTH_MAX, NAME_BYTES_MAX};
use fantail_wire::event::Action;
use fantail_wire::template::{Channel, Channels, Definition, EmailContent, ProblemCode, WebhookContent};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct Texts<'d, 'p> {
    pub problems: &'p mut Problems,
    schema: &'d Schema,
    library: Library<'d>,
    /// Sources of layouts and partials as the engines get them.
    shared: Vec<(&'d str, String)>,
    engines: BTreeMap<Mode, Engine>,
    language: Arc<str>,
    webhook_mode: Mode,
    count: usize,
    steps: usize,
}

impl<'d, 'p> Texts<'d, 'p> {
    pub fn new(
        definition: &'d Definition,
        schema: &'d Schema,
        language: Arc<str>,
        problems: &'p mut Problems,
    ) -> Self {
        let content_type =
            definition.channels.webhook.as_ref().and_then(|webhook| webhook.content_type.as_deref());
        let mut texts = Self {
            problems,
            schema,
            library: Library::new(),
            shared: Vec::new(),
            engines: BTreeMap::new(),
            language,
            webhook_mode: if is_json(content_type.unwrap_or(CONTENT_TYPE_DEFAULT)) {
                Mode::Json
            } else {
                Mode::Text
            },
            count: 0,
            steps: 0,
        };
        for (map, sources) in [("/layouts", &definition.layouts), ("/partials", &definition.partials)] {
            for (name, source) in sources {
                texts.share(&below(map, name), name, source);
            }
        }
        texts
    }

    pub fn finish(self) -> BTreeMap<Mode, Engine> {
        self.engines
    }

    fn share(&mut self, pointer: &str, name: &'d str, source: &'d str) {
        if !self.fits(pointer, source, DOCUMENT_SOURCE_BYTES_MAX) {
            return;
        }
        let Some(root) = parse_source(source, pointer, self.problems) else { return };
        let mut out = source.to_owned();
        if mjml::is_mjml(source) {
            match mjml::to_html(source) {
                Ok(html) => out = html,
                Err(detail) => return self.problems.add(pointer, ProblemCode::InvalidMjml, detail),
            }
        }
        self.library.insert(name, Tree { pointer: pointer.to_owned(), root });
        self.shared.push((name, out));
    }

    /// One `channels` object. `is_base` if it is the definition's own.
    pub fn layer(&mut self, pointer: &str, channels: &Channels, tag: &str, is_base: bool) -> Layer {
        self.language = locale::language(tag).into();
        let mut layer = Layer::new();
        if let Some(content) = &channels.push {
            self.push(&below(pointer, "push"), content, &mut layer);
        }
        if let Some(content) = &channels.in_app {
            self.app(&below(pointer, "inApp"), Channel::InApp, Shown::from(content), &mut layer);
        }
        if let Some(content) = &channels.email {
            self.email(&below(pointer, "email"), content, &mut layer);
        }
        if let Some(body) = channels.sms.as_ref().and_then(|sms| sms.body.as_deref()) {
            let place = Place { pointer: below(&below(pointer, "sms"), "body"), ..Place::TEXT };
            self.put(&mut layer, Channel::Sms, Field::Body, body, place);
        }
        if let Some(content) = &channels.webhook {
            self.webhook(&below(pointer, "webhook"), content, is_base, &mut layer);
        }
        layer
    }

    /// What pushes and inboxes share.
    pub(super) fn app(&mut self, pointer: &str, channel: Channel, content: Shown<'_>, layer: &mut Layer) {
        self.put_each(
            pointer,
            channel,
            &[
                (Field::Title, content.title, Rule::Plain),
                (Field::Body, content.body, Rule::Plain),
                (Field::ImageUrl, content.image_url, Rule::Image),
            ],
            layer,
        );
        if let Some(data) = content.data {
            let pointer = below(pointer, "data");
            let fields = data.iter().filter_map(|(name, value)| {
                Some((name.clone(), self.node(&below(&pointer, name), value, 1)?))
            });
            let fields = fields.collect();
            layer.insert((channel, Field::Data), Arc::new(Content::Data(fields)));
        }
        if let Some(actions) = content.actions {
            let actions = self.actions(&below(pointer, "actions"), actions);
            layer.insert((channel, Field::Actions), Arc::new(Content::Actions(actions)));
        }
    }

    fn actions(&mut self, pointer: &str, actions: &[Action]) -> Vec<ActionTexts> {
        if actions.len() > ACTIONS_MAX {
            self.problems.add(pointer, ProblemCode::TooMany, format!("at most {ACTIONS_MAX} are allowed"));
            return Vec::new();
        }
        let mut ids = BTreeSet::new();
        let mut out = Vec::new();
        for (index, action) in actions.iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            let (id, title, url) = (below(&pointer, "id"), below(&pointer, "title"), below(&pointer, "url"));
            let is_long = action.id.len() > NAME_BYTES_MAX;
            if action.id.is_empty() || is_long || has_tags(&action.id) || !ids.insert(&action.id) {
                self.problems.add(
                    &id,
                    ProblemCode::InvalidName,
                    format!("must be a name of its own, without variables, at most {NAME_BYTES_MAX} bytes"),
                );
            }
            if action.title.trim().is_empty() {
                self.problems.add(&title, ProblemCode::MissingBody, "must not be empty");
            }
            let title = self.text(&action.title, Place { pointer: title, ..Place::TEXT });
            let link =
                |source: &String| (source.clone(), Place { pointer: url, rule: Rule::Link, ..Place::TEXT });
            let url = action.url.as_ref().map(link).and_then(|(source, place)| self.text(&source, place));
            if let Some(title) = title {
                out.push(ActionTexts { id: action.id.clone(), title, url });
            }
        }
        out
    }

    fn node(&mut self, pointer: &str, value: &Value, depth: usize) -> Option<Node> {
        if depth > JSON_DEPTH_MAX {
            self.problems.add(
                pointer,
                ProblemCode::TooComplex,
                format!("nests deeper than {JSON_DEPTH_MAX}"),
            );
            return None;
        }
        match value {
            Value::String(source) if has_tags(source) => {
                let place = Place { pointer: pointer.to_owned(), ..Place::TEXT };
                self.text(source, place).map(Node::Text)
            }
            Value::Array(items) => {
                let each = |(index, item)| self.node(&format!("{pointer}/{index}"), item, depth + 1);
                items.iter().enumerate().map(each).collect::<Option<Vec<Node>>>().map(Node::List)
            }
            Value::Object(fields) => {
                let mut out = Vec::new();
                for (name, value) in fields {
                    out.push((name.clone(), self.node(&below(pointer, name), value, depth + 1)?));
                }
                Some(Node::Object(out))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Some(Node::Fixed(value.to_string()))
            }
        }
    }

    fn email(&mut self, pointer: &str, content: &EmailContent, layer: &mut Layer) {
        let document = Place { bytes_max: DOCUMENT_SOURCE_BYTES_MAX, ..Place::TEXT };
        if let Some(subject) = &content.subject {
            let place = Place { pointer: below(pointer, "subject"), rule: Rule::Header, ..Place::TEXT };
            self.put(layer, Channel::Email, Field::Subject, subject, place);
        }
        if let Some(text) = &content.text {
            let place = Place { pointer: below(pointer, "text"), ..document.clone() };
            self.put(layer, Channel::Email, Field::Text, text, place);
        }
        let html = Place { mode: Mode::Html, rule: Rule::Html, ..document };
        match (&content.html, &content.mjml) {
            (Some(_), Some(_)) => {
                self.problems.add(pointer, ProblemCode::ConflictingBody, "has both html and mjml");
            }
            (Some(source), None) => {
                let place = Place { pointer: below(pointer, "html"), ..html };
                self.put(layer, Channel::Email, Field::Html, source, place);
            }
            (None, Some(source)) => {
                let place = Place { pointer: below(pointer, "mjml"), mjml: true, ..html };
                self.put(layer, Channel::Email, Field::Html, source, place);
            }
            (None, None) => {}
        }
    }

    fn webhook(&mut self, pointer: &str, content: &WebhookContent, is_base: bool, layer: &mut Layer) {
        let given = content.content_type.as_deref();
        let at = below(pointer, "contentType");
        if is_base {
            let content_type = given.unwrap_or(CONTENT_TYPE_DEFAULT);
            if !is_content_type(content_type) {
                self.problems.add(&at, ProblemCode::InvalidContentType, "is not a media type");
            }
            let literal = self.literal(content_type.to_owned(), Place { pointer: at, ..Place::TEXT });
            layer.insert((Channel::Webhook, Field::ContentType), Arc::new(Content::Text(literal)));
        } else if given.is_some() {
            self.problems.add(&at, ProblemCode::NotAllowed, "is the same for all locales and variants");
        }
        if let Some(body) = &content.body {
            let rule = if self.webhook_mode == Mode::Json { Rule::Json } else { Rule::Plain };
            let pointer = below(pointer, "body");
            let bytes_max = DOCUMENT_SOURCE_BYTES_MAX;
            let place = Place { pointer, mode: self.webhook_mode, rule, bytes_max, mjml: false };
            self.put(layer, Channel::Webhook, Field::Body, body, place);
        }
    }

    /// Texts of a phone, each below `pointer`.
    pub(super) fn put_each(
        &mut self,
        pointer: &str,
        channel: Channel,
        texts: &[(Field, Option<&str>, Rule)],
        layer: &mut Layer,
    ) {
        for (field, source, rule) in texts {
            if let Some(source) = source {
                let place = Place { pointer: below(pointer, field.key()), rule: *rule, ..Place::TEXT };
                self.put(layer, channel, *field, source, place);
            }
        }
    }

    fn put(&mut self, layer: &mut Layer, channel: Channel, field: Field, source: &str, place: Place) {
        let pointer = place.pointer.clone();
        // A text that is wrong is not also missing.
        let text = self.text(source, place).unwrap_or_else(|| Text {
            source: Source::Literal(String::new()),
            rule: Rule::Plain,
            language: Arc::clone(&self.language),
            uses: Uses::default(),
            pointer,
        });
        layer.insert((channel, field), Arc::new(Content::Text(text)));
    }

    fn fits(&mut self, pointer: &str, source: &str, bytes_max: usize) -> bool {
        if source.len() > bytes_max {
            self.problems.add(pointer, ProblemCode::TooLarge, format!("must have at most {bytes_max} bytes"));
        }
        source.len() <= bytes_max
    }

    /// `None` after adding a problem.
    fn text(&mut self, source: &str, place: Place) -> Option<Text> {
        let before = self.problems.count();
        if !self.fits(&place.pointer, source, place.bytes_max) {
            return None;
        }
        let uses = if has_tags(source) { self.check(source, &place)? } else { Uses::default() };
        let mut source = source.to_owned();
        if place.mjml {
            source = match mjml::to_html(&source) {
                Ok(html) => html,
                Err(detail) => {
                    self.problems.add(&place.pointer, ProblemCode::InvalidMjml, detail);
                    return None;
                }
            };
        }
        if place.mode == Mode::Html {
            self.check_html(&source, &place.pointer);
        }
        if self.problems.count() > before {
            return None;
        }
        if !has_tags(&source) {
            return Some(self.literal(source, place));
        }
        let name = self.add(source, &place)?;
        let (rule, pointer, language) = (place.rule, place.pointer, Arc::clone(&self.language));
        Some(Text { source: Source::Template { mode: place.mode, name }, rule, language, uses, pointer })
    }

    /// Syntax and variables, in the source as it was written.
    fn check(&mut self, source: &str, place: &Place) -> Option<Uses> {
        let root = parse_source(source, &place.pointer, self.problems)?;
        let tree = Tree { pointer: place.pointer.clone(), root };
        Some(walk(&tree, &self.library, self.schema, &mut self.steps, self.problems))
    }

    fn check_html(&mut self, source: &str, pointer: &str) {
        if !has_tags(source) {
            if let Some(detail) = html::link_fault(source) {
                self.problems.add(pointer, ProblemCode::InvalidUrl, detail);
            }
            return;
        }
        let Some(root) = parse_source(source, pointer, self.problems) else { return };
        let mut found = Vec::new();
        parts(&root, &mut found);
        if let Some(detail) = html::written_link_fault(found.iter().copied()) {
            self.problems.add(pointer, ProblemCode::InvalidUrl, detail);
        }
        for (line, detail) in html::variable_faults(found) {
            self.problems.add(pointer, ProblemCode::UnsafeHtml, format!("line {line}: {detail}"));
        }
    }

    /// Gives the source to the engine of its mode, which gets the layouts and partials when it is first needed.
    fn add(&mut self, source: String, place: &Place) -> Option<String> {
        self.count += 1;
        if self.count > SOURCES_MAX {
            let detail = format!("at most {SOURCES_MAX} texts with variables are allowed");
            self.problems.add(&place.pointer, ProblemCode::TooMany, detail);
            return None;
        }
        if !self.engines.contains_key(&place.mode) {
            let engine = self.engine(place.mode);
            self.engines.insert(place.mode, engine);
        }
        // No partial can have this name.
        let name = format!("\0{}", self.count);
        let engine = self.engines.get_mut(&place.mode).expect("made just now");
        match engine.add(name.clone(), source) {
            Ok(()) => Some(name),
            Err(error) => {
                self.problems.add(&place.pointer, ProblemCode::Syntax, error.to_string());
                None
            }
        }
    }

    fn engine(&mut self, mode: Mode) -> Engine {
        let mut engine = Engine::new(mode);
        for (name, source) in self.shared.clone() {
            let pointer = self.library.get(name).map(|tree| tree.pointer.clone()).unwrap_or_default();
            if mode == Mode::Html {
                self.check_html(&source, &pointer);
            }
            if let Err(error) = engine.add(name.to_owned(), source) {
                self.problems.add(&pointer, ProblemCode::Syntax, error.to_string());
            }
        }
        engine
    }

    /// A text without tags is checked here, once.
    fn literal(&mut self, source: String, place: Place) -> Text {
        let Place { pointer, rule, .. } = place;
        if let Some((code, detail)) = literal_fault(&source, rule) {
            self.problems.add(&pointer, code, detail);
        }
        let language = Arc::clone(&self.language);
        Text { source: Source::Literal(source), rule, language, uses: Uses::default(), pointer }
    }
}
