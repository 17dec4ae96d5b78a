//! What one seed is about: sizes, faults and habits, each on or off, so that quiet runs exist beside wild ones.

use crate::chance::Chance;
use crate::knobs::Draw;
use fantail_rules::knobs::Knobs;

#[derive(Clone, Debug)]
pub struct Swarm {
    /// Limits of the node.
    pub knobs: Knobs,
    pub shards: u16,
    pub fronts: u16,
    pub directories: u16,
    /// Calls of the chaotic phase.
    pub calls: u32,
    pub in_flight_max: usize,
    /// Followers of the star that come and go in crowds; zero: no crowd.
    pub crowd: u16,
    pub crashes: bool,
    pub crash_in_start: bool,
    pub sync_failures: bool,
    pub full_disks: bool,
    pub clock_steps: bool,
    /// Restart from a snapshot, or from the journal alone.
    pub rebuilds: bool,
    pub deletions: bool,
    pub duels: bool,
    pub retractions: bool,
    pub other_bodies: bool,
    pub marks: bool,
    pub devices: bool,
    /// Also ask what production is known not to hold yet: one key with two bodies that go to different fronts.
    pub strict: bool,
    /// Events leave the house.
    pub deliveries: bool,
    /// The provider refuses, loses answers, is slow or down.
    pub moods: bool,
    /// Events are held back until they are due.
    pub schedules: bool,
    pub cancellation_keys: bool,
    /// Somebody says later what became of messages.
    pub receipts: bool,
    /// Users agree to push and change their minds.
    pub consents: bool,
    /// Users want only so many pushes.
    pub limits: bool,
    /// Addresses that are nobody's are sent to.
    pub strangers: bool,
    /// Events are rendered from a template, in the language of each reader.
    pub templates: bool,
    /// Walks over everybody, paused, resumed and called off.
    pub walks: bool,
    /// Single calls of ports fail, or take their time.
    pub port_faults: bool,
    /// The node is stopped cleanly and started again.
    pub clean_stops: bool,
    /// The process stands still past its deadlines, or its machine is suspended.
    pub pauses: bool,
    /// A start finds the clock years ahead.
    pub far_clocks: bool,
    /// The provider answers at length, and events are for more named users.
    pub long_answers: bool,
    /// How eagerly the disk makes appends durable, in hundredths.
    pub flush_weight: u64,
    /// The audit log is told what changes no table.
    pub notes: bool,
}

impl Swarm {
    #[must_use]
    pub fn of(seed: u64, strict: bool, draw: Draw) -> Self {
        let chance = Chance::of(seed, "swarm");
        let knobs = draw.knobs(seed);
        let one_of = |from: &[u16]| chance.pick(from).copied().unwrap_or(1);
        Self {
            knobs,
            shards: one_of(&[1, 2, 2, 4]),
            fronts: one_of(&[1, 1, 2]),
            calls: u32::try_from(chance.between(150, 400)).unwrap_or(150),
            in_flight_max: chance.index(12) + 1,
            crowd: if chance.percent(65) { one_of(&[110, 130, 150]) } else { 0 },
            crashes: chance.percent(75),
            crash_in_start: chance.percent(30),
            sync_failures: chance.percent(25),
            full_disks: chance.percent(30),
            clock_steps: chance.percent(40),
            rebuilds: chance.percent(30),
            deletions: chance.percent(60),
            duels: chance.percent(40),
            strict,
            retractions: chance.percent(70),
            other_bodies: chance.percent(70),
            marks: chance.percent(85),
            flush_weight: chance.between(2, 40),
            devices: chance.percent(75),
            directories: one_of(&[1, 1, 2]),
            deliveries: chance.percent(80),
            moods: chance.percent(75),
            schedules: chance.percent(60),
            cancellation_keys: chance.percent(60),
            receipts: chance.percent(70),
            consents: chance.percent(60),
            limits: chance.percent(60),
            strangers: chance.percent(60),
            templates: chance.percent(60),
            walks: chance.percent(60),
            port_faults: chance.percent(50),
            clean_stops: chance.percent(40),
            pauses: chance.percent(30),
            far_clocks: chance.percent(25),
            long_answers: knobs != Knobs::DEFAULT && chance.percent(60),
            notes: chance.percent(60),
        }
    }
}
