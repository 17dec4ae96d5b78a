//! What is judged at every step, before anybody hears an answer: the journal and the calls of the provider.

use crate::broken::Broken;
use crate::call::{Answer, Call, token_text};
use crate::deliveries::Withdrawal;
use crate::oracle::CallId;
use crate::owners;
use crate::run::Sim;
use fantail_ports::keyring::Keyring;
use fantail_rules::attempt::State;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{AddressHash, PartitionId};

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
            self.deliveries.started(&reference, &*self.world.keyring, self.world.held_through())?;
        }
        for sent in self.world.provider.take_calls() {
            self.trace.note("sent", &sent);
            self.deliveries.called(&sent, &*self.world.keyring)?;
            self.oracle.judge_call(&sent)?;
        }
        Ok(())
    }

    /// What an answer promises, held against what is durable before anybody hears it.
    pub(crate) fn judge_answer(&mut self, id: CallId, answer: &Answer) -> Result<(), Broken> {
        let Some(call) = self.oracle.call(id) else { return Ok(()) };
        let shards = || {
            self.world.partitions().into_iter().filter_map(|partition| match partition {
                PartitionId::Shard(shard) => Some(shard),
                PartitionId::Root | PartitionId::Front(_) | PartitionId::Directory(_) => None,
            })
        };
        let obeyed = |tenant, event, how| self.deliveries.check_obeyed(shards(), (tenant, event, how));
        match (call, answer) {
            (Call::Retract { tenant, event, .. }, Answer::Retracted(Ok(true))) => {
                obeyed(*tenant, *event, Withdrawal::Retracted)
            }
            (Call::Cancel { tenant, event, .. }, Answer::Cancelled(Ok(called)))
                if !called.is_pending && called.cancelled > 0 =>
            {
                obeyed(*tenant, *event, Withdrawal::Cancelled)
            }
            // What is too late is not recorded, and somebody else may be calling it off.
            (Call::CancelKey { tenant, key }, Answer::CalledOff(Ok(called)))
                if !called.is_pending && called.too_late == 0 =>
            {
                let mut events = self.oracle.events_under(*tenant, *key, id).into_iter();
                events.try_for_each(|event| obeyed(*tenant, event, Withdrawal::Cancelled))
            }
            (Call::DeleteUser { who, .. }, Answer::Deleted(Ok(()))) => {
                match self.world.keyring.lookup_user(who.tenant, &who.name()) {
                    Ok(lookup) => self.deliveries.check_gone(who.tenant, lookup),
                    Err(_) => Ok(()),
                }
            }
            (Call::Suppress { tenant, token, on: true }, Answer::Suppressed(Ok(true))) => {
                let text = ["address", ChannelKind::Push.name(), &token_text(*token)].join("\0");
                match self.world.keyring.digest(*tenant, text.as_bytes()) {
                    Ok(hash) => owners::check_unused(&self.world, *tenant, AddressHash(hash)),
                    Err(_) => Ok(()),
                }
            }
            _ => Ok(()),
        }
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
