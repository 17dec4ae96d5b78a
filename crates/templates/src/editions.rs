//! Editions: what a template says in one locale and variant, by channel; all of them frozen together when a list is told
//! something, so that nothing is rendered when it is sent. Who gets which is a pure function of the bytes and the reader.
//!
//! ```text
//! 2, template: text, version: u32, default locale: text,
//! variants: u8 × (name: text, end of its share: u64),
//! editions: u8 × (variant: u8 or 255, locale: text, channels: u8 × (kind: u8, body: u16)),
//! bodies:  u16 × (locale: text, length: u32, JSON object)             numbers little-endian; text = length: u16, UTF-8
//! ```
//! A body that several editions share is there once: a channel without translations costs no more for having editions.
//!
//! What must never happen: a reader of an edition who would have got another text from a notification of its own.

use crate::compile::Compiled;
use crate::locale;
use crate::render::Rendered;
use crate::variant::{Shares, variant_seed};
use fantail_rules::channel_kind::ChannelKind;
use fantail_wire::template::Channel;
use std::collections::{BTreeMap, BTreeSet};

/// The first byte, by which it is told from content that is the same for everybody.
pub const EDITIONS: u8 = 2;
/// One event may have so many: each is rendered for every channel, and all of them travel in one record.
pub const EDITIONS_MAX: usize = 64;

const NO_VARIANT: u8 = u8::MAX;

/// Which edition: the variant by its number, and the locale that it was asked for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EditionKey {
    pub variant: Option<usize>,
    pub locale: String,
}

impl Compiled {
    /// What has to be rendered so that every reader finds what a notification of its own would say: each variant that
    /// somebody gets, in each locale in which it has a text for one of the channels.
    #[must_use]
    pub fn editions(&self, channels: &[Channel]) -> Vec<EditionKey> {
        let variants: Vec<Option<usize>> = match self.variants() {
            0 => vec![None],
            count => (0..count).filter(|variant| !self.shares().is_empty(*variant)).map(Some).collect(),
        };
        let of_variant = |variant: Option<usize>| {
            let locales: BTreeSet<&str> =
                channels.iter().flat_map(|channel| self.locales(*channel, variant)).collect();
            locales.into_iter().map(move |locale| EditionKey { variant, locale: locale.to_owned() })
        };
        variants.into_iter().flat_map(of_variant).collect()
    }
}

/// Freezes what was rendered.
pub struct Press {
    head: Vec<u8>,
    /// As a variant is written: for one reader only its own is.
    numbers: BTreeMap<usize, u8>,
    editions: BTreeMap<EditionKey, Vec<(ChannelKind, u16)>>,
    bodies: BTreeMap<(String, Vec<u8>), u16>,
    bytes: usize,
    steps: u64,
}

impl Press {
    /// For whoever reads it.
    #[must_use]
    pub fn for_all(compiled: &Compiled, version: u32) -> Self {
        Self::new(compiled, version, (0..compiled.variants()).collect())
    }

    /// For one reader, whose variant is chosen.
    #[must_use]
    pub fn for_one(compiled: &Compiled, version: u32, variant: Option<usize>) -> Self {
        Self::new(compiled, version, variant.into_iter().collect())
    }

    fn new(compiled: &Compiled, version: u32, variants: Vec<usize>) -> Self {
        let mut head = vec![EDITIONS];
        put_text(&mut head, compiled.id());
        head.extend_from_slice(&version.to_le_bytes());
        put_text(&mut head, compiled.default_locale());
        head.push(narrow(variants.len()));
        for variant in &variants {
            put_text(&mut head, compiled.variant_name(*variant).unwrap_or_default());
            head.extend_from_slice(&compiled.shares().end(*variant).to_le_bytes());
        }
        let numbers = variants.iter().enumerate().map(|(number, variant)| (*variant, narrow(number)));
        let bytes = head.len();
        let (numbers, editions, bodies) = (numbers.collect(), BTreeMap::new(), BTreeMap::new());
        Self { head, numbers, editions, bodies, bytes, steps: 0 }
    }

    pub fn add(&mut self, key: &EditionKey, kind: ChannelKind, rendered: Rendered) {
        let next = u16::try_from(self.bodies.len()).expect("an edition of 64 has at most five bodies");
        self.steps += rendered.steps;
        let body = (rendered.locale.to_string(), rendered.bytes);
        let size = 6 + body.0.len() + body.1.len();
        let number = *self.bodies.entry(body).or_insert(next);
        if number == next {
            self.bytes += size;
        }
        let channels = self.editions.entry(key.clone()).or_insert_with(|| {
            self.bytes += 4 + key.locale.len();
            Vec::new()
        });
        channels.push((kind, number));
        self.bytes += 3;
    }

    /// How much it will be, but for a few bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What all of it cost to render.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut out = self.head;
        assert!(self.editions.len() <= EDITIONS_MAX, "whoever asks for editions counts them first");
        out.push(narrow(self.editions.len()));
        for (key, channels) in &self.editions {
            let number = key.variant.and_then(|variant| self.numbers.get(&variant).copied());
            out.push(number.unwrap_or(NO_VARIANT));
            put_text(&mut out, &key.locale);
            out.push(narrow(channels.len()));
            for (kind, body) in channels {
                out.push(*kind as u8);
                out.extend_from_slice(&body.to_le_bytes());
            }
        }
        let mut bodies: Vec<(u16, &(String, Vec<u8>))> =
            self.bodies.iter().map(|(body, number)| (*number, body)).collect();
        bodies.sort_unstable_by_key(|(number, _)| *number);
        out.extend_from_slice(&u16::try_from(bodies.len()).unwrap_or(u16::MAX).to_le_bytes());
        for (_, (locale, bytes)) in bodies {
            put_text(&mut out, locale);
            out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        out
    }
}

/// Counts that limits keep far below 255.
fn narrow(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// What is known of a reader. Both are empty if nothing is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reader {
    pub locale: String,
    /// Chooses the variant: as its tenant calls the user.
    pub name: String,
}

/// Frozen editions, read from their bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Editions<'a> {
    pub template: &'a str,
    pub version: u32,
    default_locale: &'a str,
    variants: Vec<&'a str>,
    shares: Shares,
    editions: Vec<Edition<'a>>,
    bodies: Vec<Body<'a>>,
}

/// One of them: what one reader is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edition<'a> {
    variant: Option<usize>,
    locale: &'a str,
    channels: Vec<(ChannelKind, usize)>,
}

/// What one channel carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Body<'a> {
    /// Its place among the bodies: equal for all editions that share it.
    pub place: usize,
    /// The locale that its texts are in.
    pub locale: &'a str,
    pub bytes: &'a [u8],
}

impl<'a> Editions<'a> {
    /// `None` if these are no editions, or not whole.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Bytes(bytes);
        if from.u8()? != EDITIONS {
            return None;
        }
        let (template, version, default_locale) = (from.text()?, from.u32()?, from.text()?);
        let (mut variants, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..from.u8()? {
            variants.push(from.text()?);
            ends.push(from.u64()?);
        }
        let mut editions = Vec::new();
        for _ in 0..from.u8()? {
            let variant = Some(from.u8()?).filter(|number| *number != NO_VARIANT).map(usize::from);
            let locale = from.text()?;
            let mut channels = Vec::new();
            for _ in 0..from.u8()? {
                channels.push((ChannelKind::from_stored(from.u8()?)?, usize::from(from.u16()?)));
            }
            editions.push(Edition { variant, locale, channels });
        }
        let mut bodies = Vec::new();
        for place in 0..usize::from(from.u16()?) {
            let locale = from.text()?;
            let length = from.u32()? as usize;
            bodies.push(Body { place, locale, bytes: from.take(length)? });
        }
        let is_whole = from.0.is_empty() && !editions.is_empty();
        let mut used = editions.iter().flat_map(|edition| &edition.channels);
        let shares = Shares::of_ends(ends);
        let found = used.all(|(_, body)| *body < bodies.len());
        (is_whole && found).then_some(Self {
            template,
            version,
            default_locale,
            variants,
            shares,
            editions,
            bodies,
        })
    }

    /// Whether readers have to be known to choose.
    #[must_use]
    pub fn differ(&self) -> bool {
        self.editions.len() > 1
    }

    /// Whether the choice goes by the reader's name, too.
    #[must_use]
    pub fn differ_by_name(&self) -> bool {
        self.editions.windows(2).any(|pair| pair[0].variant != pair[1].variant)
    }

    /// The edition of a reader: by the same rules as a message that is rendered for it alone.
    #[must_use]
    pub fn choose(&self, reader: &Reader) -> &Edition<'a> {
        if !self.differ() {
            return &self.editions[0];
        }
        let variant = self.shares.choose(variant_seed(self.template, &reader.name));
        let of_variant = |edition: &&Edition<'_>| edition.variant == variant;
        let exactly = |tag: &str| self.editions.iter().filter(of_variant).find(|found| found.locale == tag);
        let translated = || {
            let wanted = locale::canonical(&reader.locale, false)?;
            locale::fallbacks(&wanted).find_map(exactly)
        };
        let found = exactly(&reader.locale).or_else(translated).or_else(|| exactly(self.default_locale));
        found.unwrap_or(&self.editions[0])
    }

    /// What an edition says by a channel; where it says nothing, what the inbox shows, or else the first.
    #[must_use]
    pub fn body(&self, edition: &Edition<'_>, kind: ChannelKind) -> Option<Body<'a>> {
        self.body_and_channel(edition, kind).map(|(_, body)| body)
    }

    /// The same, and the channel that the body was written for.
    #[must_use]
    pub fn body_and_channel(
        &self,
        edition: &Edition<'_>,
        kind: ChannelKind,
    ) -> Option<(ChannelKind, Body<'a>)> {
        let of = |kind: ChannelKind| edition.channels.iter().find(|(other, _)| *other == kind);
        let found = of(kind).or_else(|| of(ChannelKind::InApp)).or(edition.channels.first());
        found.map(|(channel, body)| (*channel, self.bodies[*body]))
    }

    /// The channels of an edition and the locale in which each speaks.
    pub fn locales(&self, edition: &Edition<'_>) -> impl Iterator<Item = (ChannelKind, &'a str)> {
        edition.channels.iter().map(|(kind, body)| (*kind, self.bodies[*body].locale))
    }

    /// The name of an edition's variant.
    #[must_use]
    pub fn variant(&self, edition: &Edition<'_>) -> Option<&'a str> {
        self.variants.get(edition.variant?).copied()
    }
}

/// The bytes that are left to read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.u16()?;
        std::str::from_utf8(self.take(usize::from(length))?).ok()
    }
}

#[cfg(test)]
mod tests;
