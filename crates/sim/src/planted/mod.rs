//! Planted bugs: ports that break their contract in one way. The simulator must catch each of them, which shows that
//! the oracle looks where it should. Nothing of production is touched.

mod answers;
mod channel;
mod journal;
mod keyring;
pub(crate) mod pages;
mod sizes;
mod store;
mod tasks;

pub(crate) use answers::cancel_early;

use crate::provider::{KINDS, Provider, Way};
use fantail_memory::journal::MemoryJournal;
use fantail_memory::keyring::MemoryKeyring;
use fantail_memory::store::MemoryStore;
use fantail_ports::channel::Channel;
use fantail_ports::clock::Clock;
use fantail_ports::journal::Journal;
use fantail_ports::keyring::Keyring;
use fantail_ports::store::Store;
use fantail_ports::tasks::Tasks;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::knobs::Knobs;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// The journal answers appends at once; a crash loses what was promised.
    AcksBeforeDurable,
    /// The last record of a batch becomes durable later than the batch is answered.
    TearsBatches,
    /// Who joins or leaves a list is not told to the `lists` port.
    LosesListEdits,
    /// Now and then a window of events never reaches the inbox.
    LosesWindows,
    /// Retracted events are not remembered.
    ForgetsRetractions,
    /// Idempotency keys are not remembered.
    ForgetsKeys,
    /// Flags of entries are not remembered, only their sums.
    ForgetsFlags,
    /// A sync point does not name how far a front was taken.
    ForgetsTakes,
    /// The directory does not remember whose an address is.
    ForgetsOwners,
    /// Users are found by their name alone, without their tenant.
    MixesTenants,
    /// What may be sent is sent before that is durable.
    SendsBeforeDurable,
    /// What an earlier leader may have sent is taken for not sent.
    TrustsOrphans,
    /// A message that was taken in is told as refused for now.
    RetriesAccepted,
    /// Now and then what came of a parcel is not remembered.
    ForgetsOutcomes,
    /// Now and then a parcel is planned, and the work is as before.
    RepeatsWork,
    /// What is held back until it is due is not remembered.
    ForgetsSchedule,
    /// What was accepted under a cancellation key is not remembered.
    ForgetsCancellationKeys,
    /// What users got is not remembered, nor how much they want.
    ForgetsCounts,
    /// The cursor of a walk moves, and those behind it are not remembered.
    ForgetsParts,
    /// Now and then the members of a step are remembered, and the cursor is where it was.
    RepeatsSteps,
    /// Whoever looks for what became of a push to somebody finds none.
    OverlooksPushes,
    /// A cancellation is answered when the front has recorded it: the shards go on until they have taken it.
    AnswersEarly,
    /// A loop ends when one call of a port fails (correctness A6).
    QuitsLoops,
    /// After one read that failed, the dispatcher forgets what waits in the tables (correctness A9).
    ForgetsLooks,
    /// A clean stop does not wait for deliveries under way (correctness A5).
    StopsAtOnce,
    /// Outcomes are not cut, and no leader asks how large they are: the journal takes none above a limit (correctness A3).
    OutgrowsRecords,
    /// The dispatcher forgets work and timers of a whole page that did not fit (correctness A4).
    ForgetsOverflow,
    /// The guard sweep gets a few turns a minute, however much there is to sweep (correctness A8).
    SweepsSlowly,
    /// Queues, tails and batches are bounded in things, not in bytes (correctness A15).
    CountsThings,
}

impl Bug {
    pub const ALL: [Self; 29] = [
        Self::AcksBeforeDurable,
        Self::TearsBatches,
        Self::LosesListEdits,
        Self::LosesWindows,
        Self::ForgetsRetractions,
        Self::ForgetsKeys,
        Self::ForgetsFlags,
        Self::ForgetsTakes,
        Self::ForgetsOwners,
        Self::MixesTenants,
        Self::SendsBeforeDurable,
        Self::TrustsOrphans,
        Self::RetriesAccepted,
        Self::ForgetsOutcomes,
        Self::RepeatsWork,
        Self::ForgetsSchedule,
        Self::ForgetsCancellationKeys,
        Self::ForgetsCounts,
        Self::ForgetsParts,
        Self::RepeatsSteps,
        Self::OverlooksPushes,
        Self::AnswersEarly,
        Self::QuitsLoops,
        Self::ForgetsLooks,
        Self::StopsAtOnce,
        Self::OutgrowsRecords,
        Self::ForgetsOverflow,
        Self::SweepsSlowly,
        Self::CountsThings,
    ];

    /// What the node takes for its limits.
    pub(crate) fn knobs(bug: Option<Self>, knobs: Knobs) -> Knobs {
        match bug {
            Some(Self::OutgrowsRecords) => Knobs { record_bytes: usize::MAX, ..knobs },
            Some(Self::CountsThings) => Knobs {
                batch_bytes: usize::MAX,
                queue_bytes: usize::MAX,
                tail_bytes: usize::MAX,
                take_bytes: usize::MAX,
                ..knobs
            },
            _ => knobs,
        }
    }

    pub(crate) fn tasks(bug: Option<Self>, tasks: Arc<dyn Tasks>, clock: Arc<dyn Clock>) -> Arc<dyn Tasks> {
        if bug == Some(Self::SweepsSlowly) { Arc::new(tasks::SlowSweep { tasks, clock }) } else { tasks }
    }

    pub(crate) fn journal(
        bug: Option<Self>,
        journal: MemoryJournal,
        Knobs { record_bytes, .. }: Knobs,
    ) -> Arc<dyn Journal> {
        match bug {
            Some(Self::OutgrowsRecords) => {
                Arc::new(sizes::Asserting { journal: Arc::new(journal), record_bytes })
            }
            Some(bug @ (Self::AcksBeforeDurable | Self::TearsBatches | Self::SendsBeforeDurable)) => {
                Arc::new(journal::Lying { bug, journal })
            }
            _ => Arc::new(journal),
        }
    }

    pub(crate) fn store(bug: Option<Self>, store: Arc<MemoryStore>) -> Arc<dyn Store> {
        match bug {
            None
            | Some(
                Self::AcksBeforeDurable
                | Self::TearsBatches
                | Self::SendsBeforeDurable
                | Self::RetriesAccepted
                | Self::AnswersEarly
                | Self::QuitsLoops
                | Self::ForgetsLooks
                | Self::StopsAtOnce
                | Self::OutgrowsRecords
                | Self::ForgetsOverflow
                | Self::SweepsSlowly
                | Self::CountsThings,
            ) => store,
            Some(bug) => Arc::new(store::Forgetful::new(bug, store)),
        }
    }

    /// The ways out of the house.
    pub(crate) fn channels(
        bug: Option<Self>,
        provider: &Arc<Provider>,
    ) -> BTreeMap<ChannelKind, Arc<dyn Channel>> {
        let way = |kind| -> Arc<dyn Channel> {
            let way = Way { kind, provider: provider.clone() };
            if bug == Some(Self::RetriesAccepted) { Arc::new(channel::Deaf::new(way)) } else { Arc::new(way) }
        };
        KINDS.into_iter().map(|kind| (kind, way(kind))).collect()
    }

    pub(crate) fn keyring(bug: Option<Self>, keyring: Arc<MemoryKeyring>) -> Arc<dyn Keyring> {
        if bug == Some(Self::MixesTenants) { Arc::new(keyring::OnePepper(keyring)) } else { keyring }
    }
}
