//! How much a template may hold and how much a render may cost. Each number has its reason.

use fantail_rules::limits::RECORD_BYTES_MAX;

/// A definition is one record of the control plane: its JSON, with room for the envelope.
pub const DEFINITION_BYTES_MAX: usize = RECORD_BYTES_MAX - (16 << 10);
/// One text for a phone, a subject, a URL.
pub const TEXT_SOURCE_BYTES_MAX: usize = 8 << 10;
/// HTML, MJML and plain text of an email, a webhook's body, a layout.
pub const DOCUMENT_SOURCE_BYTES_MAX: usize = 128 << 10;
/// HTML after MJML was turned into it: about three times its source.
pub const HTML_SOURCE_BYTES_MAX: usize = 512 << 10;
pub const SCHEMA_BYTES_MAX: usize = 32 << 10;

pub const LOCALES_MAX: usize = 64;
pub const VARIANTS_MAX: usize = 8;
/// Each variant; the sum cannot overflow.
pub const WEIGHT_MAX: u32 = 1_000_000;
/// Layouts and partials together: each is compiled once per way of escaping.
pub const PARTIALS_MAX: usize = 32;
/// Texts with variables in one definition, over all locales and variants.
pub const SOURCES_MAX: usize = 4_096;
/// How deep `extends` and `include` may nest.
pub const INCLUDE_DEPTH_MAX: usize = 4;
/// How deep `for` may nest.
pub const LOOP_DEPTH_MAX: usize = 4;
/// Words and signs between two delimiters. A long chain of operators becomes a deep tree, and trees are walked
/// recursively, here and in the engine.
pub const TAG_TOKENS_MAX: usize = 200;
/// Tags in one source: a chain of `elif` is a deep tree as well.
pub const TAGS_MAX: usize = 1_000;
/// Steps of the checks over all sources: includes multiply.
pub const WALK_STEPS_MAX: usize = 400_000;
/// How many times the size of its parts a computed value may have. Concatenation in `set` doubles at each step, and
/// fuel does not see it.
pub const GROWTH_MAX: u32 = 16;
/// The same inside a loop, where it is paid many times.
pub const GROWTH_IN_LOOP_MAX: u32 = 8;
/// How deep elements of an email may nest: its parser is recursive.
pub const MARKUP_DEPTH_MAX: usize = 100;
/// Nodes of a schema after its references are followed: validation visits them, and references multiply.
pub const SCHEMA_NODES_MAX: usize = 4_096;
pub const SCHEMA_DEPTH_MAX: usize = 32;

/// Problems in one answer; a caller with more has the idea.
pub const PROBLEMS_MAX: usize = 64;
/// Faults of the variables in one answer.
pub const VARIABLE_FAULTS_MAX: usize = 20;

/// Variables of one render, as JSON.
pub const VARIABLES_BYTES_MAX: usize = 32 << 10;
/// Values in them, at any depth: `in` and `==` visit them in one step of fuel.
pub const VARIABLES_NODES_MAX: usize = 1_000;
pub const VARIABLES_DEPTH_MAX: usize = fantail_rules::limits::JSON_DEPTH_MAX;

/// Instructions of the engine for one text; a message whose texts together took more than the larger number is stopped.
/// A row of a table in an email takes about 40. The most expensive instructions we know compare whole lists: a message
/// of nothing else is stopped before 50 ms (`examples/render_rate.rs`).
pub const FUEL_DOCUMENT: u64 = 10_000;
pub const FUEL_TEXT: u64 = 4_000;
/// Steps of all renderings of one event: sixty-four editions of a mail with sixty rows, or of a dozen phone texts. The most
/// expensive steps we know take a second then.
pub const FUEL_EVENT: u64 = 200_000;
/// Steps of all renderings of one notification: a thousand recipients with fifty rows each. With the most expensive steps that we
/// know, one request holds its place for ten seconds at most.
pub const FUEL_NOTIFICATION: u64 = 2_000_000;
/// Bytes that filters may work through in one render: fuel counts a filter as one step, whatever it is given.
pub const FILTER_BYTES_MAX: usize = 256 << 10;
/// Numbers in one `range`.
pub const RANGE_MAX: i64 = 1_000;

/// The frozen JSON of an email: one record holds it, with room for the envelope and the seal.
pub const EMAIL_BYTES_MAX: usize = RECORD_BYTES_MAX - (16 << 10);
/// The frozen JSON of every other channel: twice what the largest push provider takes.
pub const MESSAGE_BYTES_MAX: usize = 8 << 10;
/// What APNs and FCM take, after encoding.
pub const PUSH_PAYLOAD_BYTES_MAX: usize = 4_096;
/// Longer URLs are cut by some clients.
pub const URL_BYTES_MAX: usize = 2_048;
