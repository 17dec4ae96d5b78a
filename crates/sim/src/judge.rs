//! What is judged at every step, before anybody hears an answer: the journal and the calls of the provider.

use crate::broken::Broken;
use crate::run::Sim;
use fantail_rules::attempt::State;
use fantail_rules::ids::PartitionId;

impl Sim {
    /// Every call of the provider, held against what is durable at this very moment.
    pub(crate) fn judge_calls(&mut self) -> Result<(), Broken> {
        let partitions = self.world.partitions();
        self.deliveries.follow(&self.world.journal, &partitions)?;
        let store = &self.world.store;
        for news in self.deliveries.take_news(|front| store.position(PartitionId::Front(front))) {
            self.oracle.hear(news)?;
        }
        for reference in self.world.provider.take_starts() {
            self.deliveries.started(&reference, &*self.world.keyring)?;
        }
        for sent in self.world.provider.take_calls() {
            self.trace.note("sent", &sent);
            self.deliveries.called(&sent, &*self.world.keyring)?;
            self.oracle.judge_call(&sent)?;
        }
        Ok(())
    }

    pub(crate) fn count_deliveries(&mut self) {
        let (report, deliveries) = (&mut self.report, &self.deliveries);
        report.deliveries = deliveries.count(None);
        report.accepted = deliveries.count(Some(State::Accepted));
        report.digests = deliveries.digests();
        report.steps_of_walks = deliveries.steps();
        report.unconfirmed = deliveries.count(Some(State::Unconfirmed));
        report.dead_letters = deliveries.count(Some(State::Dead));
        report.resends = deliveries.resends();
        report.sent = self.world.provider.seen();
    }
}
