//! A compiled template and the facts of one recipient become the bytes of one message: a JSON object, frozen for
//! retries and audit, with its hash.
//!
//! *Comes from* acceptance (direct sends, lists) or the flush of a digest. *Decides* locale, and whether what came out
//! may be sent: not too large, no header with a line break, no link that runs, JSON that is JSON. *Goes to* the journal.

use crate::compile::Compiled;
use crate::content::{Body, Content, Field, Node, Rule, Source, Text};
use crate::engine::{Facts, Root, value_of};
use crate::limits::{EMAIL_BYTES_MAX, FUEL_DOCUMENT, MESSAGE_BYTES_MAX};
use crate::schema::Variables;
use crate::{html, links, locale};
use aws_lc_rs::digest::{SHA256, digest};
use fantail_rules::ids::Millis;
use fantail_wire::template::Channel;
use minijinja::value::Value;
use minijinja::{Error, ErrorKind};
use serde::de::IgnoredAny;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

#[derive(Clone, Copy, Debug)]
pub struct RenderAsk<'a> {
    pub channel: Channel,
    /// The wanted locale; what there is of it decides.
    pub locale: &'a str,
    /// From [`Compiled::choose_variant`].
    pub variant: Option<usize>,
    /// Checked by [`Compiled::variables`] of this template.
    pub variables: &'a Variables,
    /// `None` when a list is rendered once for all of its members.
    pub user: Option<UserFacts<'a>>,
    pub notification: NotificationFacts<'a>,
    pub tenant: TenantFacts<'a>,
    pub now: Millis,
}

/// `user.*`
#[derive(Clone, Copy, Debug)]
pub struct UserFacts<'a> {
    pub id: &'a str,
    pub locale: &'a str,
    /// IANA name.
    pub zone: &'a str,
    pub attributes: &'a serde_json::Value,
}

/// `notification.*`; `notification.at` is the ask's `now`.
#[derive(Clone, Copy, Debug)]
pub struct NotificationFacts<'a> {
    pub id: &'a str,
}

/// `tenant.*`
#[derive(Clone, Copy, Debug)]
pub struct TenantFacts<'a> {
    pub id: &'a str,
    pub name: &'a str,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendered {
    /// The JSON object of the channel.
    pub bytes: Vec<u8>,
    /// SHA-256 of the bytes.
    pub hash: [u8; 32],
    pub locale: Arc<str>,
    pub variant: Option<usize>,
    /// What it cost.
    pub steps: u64,
}

/// Why a message was not rendered. None of them goes away by trying again with the same ask.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RenderError {
    #[error("the template has no body for {}", channel.text())]
    NoChannel { channel: Channel },
    #[error("the template has no variant {variant}")]
    NoVariant { variant: usize },
    #[error("the body depends on the user")]
    NeedsUser,
    #[error("{pointer}: line {line}: {detail}")]
    Missing { pointer: String, line: usize, detail: String },
    #[error("{pointer}: line {line}: {detail}")]
    Failed { pointer: String, line: usize, detail: String },
    #[error("{pointer}: takes too many steps")]
    TooMuchWork { pointer: String },
    #[error("the message has more than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    #[error("{pointer}: is empty")]
    Empty { pointer: String },
    #[error("{pointer}: has a line break or a control character")]
    ControlCharacter { pointer: String },
    #[error("{pointer}: {detail}")]
    InvalidUrl { pointer: String, detail: String },
    #[error("{pointer}: is not JSON: {detail}")]
    InvalidJson { pointer: String, detail: String },
}

impl Compiled {
    /// Renders one message. The same ask gives the same bytes.
    pub fn render(&self, ask: &RenderAsk<'_>) -> Result<Rendered, RenderError> {
        let body = self.body_for(ask)?;
        if body.uses.needs_user() && ask.user.is_none() {
            return Err(RenderError::NeedsUser);
        }
        let bytes_max = if ask.channel == Channel::Email { EMAIL_BYTES_MAX } else { MESSAGE_BYTES_MAX };
        let mut writer = Writer {
            compiled: self,
            facts: Arc::new(self.facts(ask, body)),
            out: Vec::with_capacity(256),
            text: Vec::with_capacity(256),
            bytes_max,
            steps: 0,
        };
        writer.body(body)?;
        let (bytes, steps) = (writer.out, writer.steps);
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, &bytes).as_ref());
        Ok(Rendered { bytes, hash, locale: Arc::clone(&body.locale), variant: ask.variant, steps })
    }

    fn body_for(&self, ask: &RenderAsk<'_>) -> Result<&Body, RenderError> {
        if let Some(variant) = ask.variant.filter(|variant| *variant >= self.variants()) {
            return Err(RenderError::NoVariant { variant });
        }
        let channel = ask.channel;
        let bodies = self.bodies.get(&(channel, ask.variant)).ok_or(RenderError::NoChannel { channel })?;
        if let Some(body) = bodies.get(ask.locale) {
            return Ok(body);
        }
        let wanted = if bodies.len() > 1 { locale::canonical(ask.locale, false) } else { None };
        let translated = wanted.iter().flat_map(|tag| locale::fallbacks(tag)).find_map(|tag| bodies.get(tag));
        let default = || bodies.get(self.default_locale.as_ref());
        Ok(translated.or_else(default).expect("every channel has a body in the default locale"))
    }

    fn facts(&self, ask: &RenderAsk<'_>, body: &Body) -> Facts {
        let user = |user: &UserFacts<'_>| {
            Value::from_pairs([
                ("id", Value::from(user.id)),
                ("locale", Value::from(user.locale)),
                ("zone", Value::from(user.zone)),
                ("attributes", value_of(user.attributes)),
            ])
        };
        let notification = || {
            Value::from_pairs([
                ("id", Value::from(ask.notification.id)),
                ("category", Value::from(self.category())),
                ("at", Value::from(ask.now.0)),
            ])
        };
        let tenant = || {
            Value::from_pairs([("id", Value::from(ask.tenant.id)), ("name", Value::from(ask.tenant.name))])
        };
        Facts {
            variables: ask.variables.0.clone(),
            user: ask.user.as_ref().filter(|_| body.uses.user).map(user),
            notification: body.uses.notification.then(notification),
            tenant: body.uses.tenant.then(tenant),
            zone: ask.user.as_ref().filter(|_| body.uses.zone).map(|user| user.zone.into()),
            paid: AtomicUsize::new(0),
        }
    }
}

struct Writer<'c> {
    compiled: &'c Compiled,
    facts: Arc<Facts>,
    out: Vec<u8>,
    /// The text at hand, before it is framed.
    text: Vec<u8>,
    bytes_max: usize,
    /// Steps of all texts so far: each has its own fuel, and there may be many.
    steps: u64,
}

impl Writer<'_> {
    fn body(&mut self, body: &Body) -> Result<(), RenderError> {
        self.out.push(b'{');
        let mut shown = false;
        for (field, content) in &body.fields {
            let before = self.out.len();
            if before > 1 {
                self.out.push(b',');
            }
            self.key(field.key());
            if self.content(content)? {
                shown |= matches!(field, Field::Title | Field::Body | Field::Html | Field::Text);
            } else if must_show(body, *field) {
                return Err(RenderError::Empty { pointer: pointer_of(content) });
            } else {
                self.out.truncate(before);
            }
            if self.out.len() >= self.bytes_max {
                return Err(RenderError::TooLarge { bytes_max: self.bytes_max });
            }
        }
        self.out.push(b'}');
        if shown {
            return Ok(());
        }
        let pointer = body.fields.first().map(|(_, content)| pointer_of(content)).unwrap_or_default();
        Err(RenderError::Empty { pointer })
    }

    /// Whether anything was written.
    fn content(&mut self, content: &Content) -> Result<bool, RenderError> {
        match content {
            Content::Text(text) => self.text(text),
            Content::Data(fields) => self.object(fields).map(|()| true),
            Content::Actions(actions) => {
                self.out.push(b'[');
                for (index, action) in actions.iter().enumerate() {
                    self.out.extend_from_slice(if index == 0 { b"{\"id\":" } else { b",{\"id\":" });
                    self.string(&action.id);
                    self.out.extend_from_slice(b",\"title\":");
                    if !self.text(&action.title)? {
                        return Err(RenderError::Empty { pointer: action.title.pointer.clone() });
                    }
                    if let Some(url) = &action.url {
                        let before = self.out.len();
                        self.out.extend_from_slice(b",\"url\":");
                        if !self.text(url)? {
                            self.out.truncate(before);
                        }
                    }
                    self.out.push(b'}');
                }
                self.out.push(b']');
                Ok(!actions.is_empty())
            }
            Content::Fixed(json) => {
                self.out.extend_from_slice(json.as_bytes());
                Ok(true)
            }
        }
    }

    fn node(&mut self, node: &Node) -> Result<(), RenderError> {
        match node {
            Node::Fixed(json) => self.out.extend_from_slice(json.as_bytes()),
            Node::Text(text) => {
                if !self.text(text)? {
                    self.out.extend_from_slice(b"\"\"");
                }
            }
            Node::List(items) => {
                self.out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.out.push(b',');
                    }
                    self.node(item)?;
                }
                self.out.push(b']');
            }
            Node::Object(fields) => self.object(fields)?,
        }
        Ok(())
    }

    fn object(&mut self, fields: &[(String, Node)]) -> Result<(), RenderError> {
        self.out.push(b'{');
        for (index, (name, node)) in fields.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.key(name);
            self.node(node)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn key(&mut self, name: &str) {
        self.string(name);
        self.out.push(b':');
    }

    fn string(&mut self, text: &str) {
        serde_json::to_writer(&mut self.out, text).expect("a vector takes everything");
    }

    /// Writes a text as a JSON string; nothing if it is empty.
    fn text(&mut self, text: &Text) -> Result<bool, RenderError> {
        let mut buffer = std::mem::take(&mut self.text);
        buffer.clear();
        match &text.source {
            Source::Literal(literal) => buffer.extend_from_slice(literal.as_bytes()),
            Source::Template { mode, name } => {
                let root = Root { facts: Arc::clone(&self.facts), language: Arc::clone(&text.language) };
                let engine = self.compiled.engines.get(mode).expect("an engine for every mode that is used");
                let root = Value::from_object(root);
                let done = engine.render(name, root.clone(), &mut buffer, self.bytes_max);
                let missing = |cause: &Error| engine.missing(cause, name, &root);
                self.steps += done.map_err(|error| self.error(text, &error, missing))?;
                if self.steps > FUEL_DOCUMENT {
                    return Err(RenderError::TooMuchWork { pointer: text.pointer.clone() });
                }
            }
        }
        let shown = std::str::from_utf8(&buffer).expect("templates and values are UTF-8");
        let shown = if text.rule == Rule::Plain { shown } else { shown.trim() };
        check(text, shown)?;
        let any = !shown.trim().is_empty();
        if any {
            self.string(shown);
        }
        self.text = buffer;
        Ok(any)
    }

    fn error(&self, text: &Text, error: &Error, missing: impl Fn(&Error) -> String) -> RenderError {
        // Includes and blocks wrap what happened inside of them.
        let mut cause = error;
        while let Some(inner) = cause.source().and_then(|source| source.downcast_ref::<Error>()) {
            cause = inner;
        }
        let (pointer, line) = (text.pointer.clone(), cause.line().unwrap_or(1));
        let said = cause.detail().map(str::to_owned);
        match cause.kind() {
            ErrorKind::OutOfFuel => RenderError::TooMuchWork { pointer },
            ErrorKind::WriteFailure => RenderError::TooLarge { bytes_max: self.bytes_max },
            ErrorKind::UndefinedError => {
                RenderError::Missing { pointer, line, detail: said.unwrap_or_else(|| missing(cause)) }
            }
            kind => RenderError::Failed { pointer, line, detail: said.unwrap_or_else(|| kind.to_string()) },
        }
    }
}

/// What came out, against the rule of its place. Literals were checked when the template was created.
fn check(text: &Text, shown: &str) -> Result<(), RenderError> {
    if matches!(text.source, Source::Literal(_)) || shown.is_empty() {
        return Ok(());
    }
    let pointer = || text.pointer.clone();
    let url = |fault: Option<String>| match fault {
        Some(detail) => Err(RenderError::InvalidUrl { pointer: pointer(), detail }),
        None => Ok(()),
    };
    if shown.as_bytes().contains(&0) {
        return Err(RenderError::ControlCharacter { pointer: pointer() });
    }
    match text.rule {
        Rule::Plain => Ok(()),
        Rule::Header if shown.chars().any(char::is_control) => {
            Err(RenderError::ControlCharacter { pointer: pointer() })
        }
        Rule::Header => Ok(()),
        Rule::Image => url(links::image_fault(shown)),
        Rule::Link => url(links::link_fault(shown)),
        Rule::Html => url(html::link_fault(shown)),
        Rule::Json => match serde_json::from_str::<IgnoredAny>(shown) {
            Ok(_) => Ok(()),
            Err(error) => Err(RenderError::InvalidJson { pointer: pointer(), detail: error.to_string() }),
        },
    }
}

/// A push may leave out its title or its body, not both; nothing else that is required may be empty.
fn must_show(body: &Body, field: Field) -> bool {
    let has = |field: Field| body.fields.iter().any(|(other, _)| *other == field);
    match field {
        Field::Subject => true,
        Field::Title => !has(Field::Body),
        Field::Body => !has(Field::Title),
        Field::Html
        | Field::Text
        | Field::ContentType
        | Field::Data
        | Field::ImageUrl
        | Field::Actions
        | Field::Subtitle
        | Field::IconUrl
        | Field::Url
        | Field::Badge
        | Field::Sound
        | Field::Category
        | Field::ThreadId
        | Field::ChannelId
        | Field::ClickAction
        | Field::Store => false,
    }
}

fn pointer_of(content: &Content) -> String {
    match content {
        Content::Text(text) => text.pointer.clone(),
        Content::Data(_) | Content::Actions(_) | Content::Fixed(_) => String::new(),
    }
}
