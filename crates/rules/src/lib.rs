//! Decisions on plain values. Everything here is a pure function of its arguments: no clock, no randomness,
//! no environment, no IO, no threads, no `HashMap` iteration, so that the simulator and production agree.
//!
//! Reading order: what things are called (`ids`, `ulid`), how much of anything is allowed (`limits`, `knobs`), then the
//! decisions in the order an event meets them: `believed_time`, `admit`, `tier` (and `cost`),
//! `interval`, `merge`, `marks`; where somebody can be reached (`channel_kind`, `address`, `endpoint`, `suppression`), and what a text to them costs (`sms`);
//! time as people have it (`zone`, `wall`, `schedule`), and what they say about being told (`category`, `preference`, and without
//! logging in by a `link`), and who is chosen by it (`segment`); and
//! those that a delivery meets on its way out: `gates` with `quiet`, `caps` and `throttle` (whether and when it may interrupt somebody),
//! `digest` (many told as one), `policy` (what a tenant says about all of that), `chain` (which channel comes next), `bulk_pace` (how fast a bulk send goes), `lanes` (whose turn it is; `fair_queue` of everything that is no delivery), `pacing` (how much may be sent now), `quota` (how much a tenant may have), `attempt` (what became of
//! it), `retry` (when again). `trace` names what is told about all of it; `tracked_link` and
//! `warm_up` are of mail alone.

pub mod actor;
pub mod ids;
pub mod ulid;

pub mod knobs;
pub mod limits;

pub mod admit;
pub mod believed_time;
pub mod cost;
pub mod priority;
pub mod producer_event;
pub mod reference;
pub mod tier;

pub mod interval;
pub mod marks;
pub mod merge;

pub mod address;
pub mod channel_kind;
pub mod endpoint;
pub mod name;
pub mod nameless;
pub mod provider_kind;
pub mod push_address;
pub mod sms;
pub mod suppression;

pub mod visibility;
pub mod wall;
pub mod zone;

pub mod category;
pub mod link;
pub mod preference;
pub mod segment;

pub mod caps;
pub mod digest;
pub mod gates;
pub mod quiet;
pub mod schedule;
pub mod throttle;

pub mod policy;

pub mod chain;

pub mod bulk_pace;
pub mod fair_queue;
pub mod lanes;
pub mod outlook;
pub mod pacing;
pub mod quota;

pub mod attempt;
pub mod retry;

pub mod trace;
pub mod tracked_link;
pub mod warm_up;
