//! Contents between definition and render: the fields of each channel, their compiled texts, and which of them make up
//! the body for a channel, a locale and a variant.

use crate::engine::Mode;
use crate::walk::Uses;
use fantail_wire::template::Channel;
use std::collections::BTreeMap;
use std::sync::Arc;

/// In the order in which a rendered object has them; frozen, because the bytes are hashed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Field {
    Subject,
    Html,
    Text,
    Title,
    ContentType,
    Body,
    Data,
    ImageUrl,
    Actions,
    Subtitle,
    IconUrl,
    Url,
    Badge,
    Sound,
    Category,
    ThreadId,
    ChannelId,
    ClickAction,
    Store,
}

impl Field {
    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::Html => "html",
            Self::Text => "text",
            Self::Title => "title",
            Self::ContentType => "contentType",
            Self::Body => "body",
            Self::Data => "data",
            Self::ImageUrl => "imageUrl",
            Self::Actions => "actions",
            Self::Subtitle => "subtitle",
            Self::IconUrl => "iconUrl",
            Self::Url => "url",
            Self::Badge => "badge",
            Self::Sound => "sound",
            Self::Category => "category",
            Self::ThreadId => "threadId",
            Self::ChannelId => "channelId",
            Self::ClickAction => "clickAction",
            Self::Store => "store",
        }
    }
}

/// One text of a definition.
#[derive(Debug)]
pub struct Text {
    pub source: Source,
    pub rule: Rule,
    pub language: Arc<str>,
    pub uses: Uses,
    /// Where it is written in the definition.
    pub pointer: String,
}

#[derive(Debug)]
pub enum Source {
    /// Without tags.
    Literal(String),
    /// The name of a compiled source.
    Template { mode: Mode, name: String },
}

/// What the rendered text must hold to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    Plain,
    /// One line.
    Header,
    Image,
    Link,
    Html,
    Json,
}

#[derive(Debug)]
pub enum Content {
    Text(Text),
    Data(Vec<(String, Node)>),
    Actions(Vec<ActionTexts>),
    /// JSON that is the same for everybody.
    Fixed(String),
}

/// JSON whose strings may have variables.
#[derive(Debug)]
pub enum Node {
    /// JSON as it goes out.
    Fixed(String),
    Text(Text),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

#[derive(Debug)]
pub struct ActionTexts {
    pub id: String,
    pub title: Text,
    pub url: Option<Text>,
}

impl Content {
    fn uses(&self) -> Uses {
        match self {
            Self::Text(text) => text.uses,
            Self::Data(fields) => fields.iter().map(|(_, node)| node.uses()).fold(Uses::default(), both),
            Self::Actions(actions) => {
                let texts = actions.iter().flat_map(|action| [Some(&action.title), action.url.as_ref()]);
                texts.flatten().map(|text| text.uses).fold(Uses::default(), both)
            }
            Self::Fixed(_) => Uses::default(),
        }
    }
}

impl Node {
    fn uses(&self) -> Uses {
        match self {
            Self::Fixed(_) => Uses::default(),
            Self::Text(text) => text.uses,
            Self::List(items) => items.iter().map(Self::uses).fold(Uses::default(), both),
            Self::Object(fields) => fields.iter().map(|(_, node)| node.uses()).fold(Uses::default(), both),
        }
    }
}

fn both(one: Uses, other: Uses) -> Uses {
    Uses {
        user: one.user || other.user,
        zone: one.zone || other.zone,
        notification: one.notification || other.notification,
        tenant: one.tenant || other.tenant,
    }
}

/// Contents that stand together in the definition, and so share variant and locale.
pub type Layer = BTreeMap<(Channel, Field), Arc<Content>>;

/// `None` stands for no variant and for the default locale.
pub type Layers = BTreeMap<(Option<usize>, Option<String>), Layer>;

/// What a channel shows in one locale and variant.
#[derive(Debug)]
pub struct Body {
    pub locale: Arc<str>,
    pub fields: Vec<(Field, Arc<Content>)>,
    pub uses: Uses,
}

/// Picks each field from the most specific layer that has it. Language goes before variant: a text in the user's
/// language is better than a variant in another one.
pub fn body(
    layers: &Layers,
    channel: Channel,
    variant: Option<usize>,
    locale: Option<&str>,
    named: Arc<str>,
) -> Body {
    let tags = locale.into_iter().flat_map(crate::locale::fallbacks).map(Some).chain([None]);
    let mut fields: BTreeMap<Field, Arc<Content>> = BTreeMap::new();
    for tag in tags {
        let variants = if variant.is_some() { vec![variant, None] } else { vec![None] };
        for variant in variants {
            let Some(layer) = layers.get(&(variant, tag.map(str::to_owned))) else { continue };
            for ((_, field), content) in layer.iter().filter(|((other, _), _)| *other == channel) {
                fields.entry(*field).or_insert_with(|| Arc::clone(content));
            }
        }
    }
    let uses = fields.values().map(|content| content.uses()).fold(Uses::default(), both);
    Body { locale: named, fields: fields.into_iter().collect(), uses }
}

/// Fields without which a channel cannot be sent: all of one of the groups.
pub fn required(channel: Channel) -> &'static [&'static [Field]] {
    match channel {
        Channel::Push => &[&[Field::Title], &[Field::Body]],
        Channel::InApp => &[&[Field::Title]],
        Channel::Email => &[&[Field::Subject, Field::Html], &[Field::Subject, Field::Text]],
        Channel::Sms | Channel::Webhook => &[&[Field::Body]],
    }
}
