//! The phases of a run: opening, chaos, healing, the full look, a replica from the journal alone, and old age.

use crate::broken::{Broken, Invariant};
use crate::call::{Call, EVERYONE, Stranger, Who};
use crate::deliveries::Meant;
use crate::executor::at_once;
use crate::oracle::{Due, check_audit, check_devices, check_lists};
use crate::perform::page;
use crate::run::Sim;
use crate::template;
use crate::workload::Workload;
use fantail_machine::records::Stamped;
use fantail_machine::records::front::{Audience, FrontRecord};
use fantail_machine::root::template::Expect;
use fantail_node::Node;
use fantail_node::ask::{InboxFrom, Refusal, TenantAsk, TenantPatch, TenantView};
use fantail_node::segments::SegmentPut;
use fantail_ports::clock::Clock;
use fantail_ports::keyring::Keyring;
use fantail_ports::tasks::Tasks;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::endpoint::Status;
use fantail_rules::ids::{Millis, PartitionId, TenantId};
use fantail_rules::limits::{GUARD_MS, TIER_UP_MIN};
use fantail_rules::policy::{CategoryPolicy, Condition, Step};
use fantail_rules::tier::Tier;
use std::sync::{Arc, Mutex, PoisonError};

const TENANTS: usize = 2;
/// How long push has before the webhook is tried.
const STEP_SECONDS: u32 = 30;
/// Steps that healing may take; runs need a few thousand.
pub(crate) const DRAIN_STEPS_MAX: u64 = 400_000;
const DAY_MS: u64 = 86_400_000;
/// Longer than most timers, and than the longest step of a clock in a few.
const SOON_MS: u64 = 20_000;
const LATER_MS: u64 = 900_000;

/// With one tenant the webhook waits for a receipt of push, with the other for a look.
fn chained(tenant: usize) -> CategoryPolicy {
    let when = if tenant == 0 { Condition::NoReceipt } else { Condition::NotSeen };
    let step = Step { channel: ChannelKind::Webhook, when, after_seconds: STEP_SECONDS };
    CategoryPolicy { fallback: vec![step], storm: None, ..CategoryPolicy::default() }
}

fn everyone(tenant: TenantId) -> SegmentPut {
    let filter = Some("everyone".to_owned());
    SegmentPut { tenant, name: EVERYONE.to_owned(), filter, note: String::new() }
}

impl Sim {
    pub(crate) fn whole_run(&mut self) -> Result<(), Broken> {
        self.trace.note("swarm", &self.swarm.clone());
        self.open()?;
        (self.chaos, self.calls_left) = (true, self.swarm.calls);
        self.world.provider.set_moody(self.swarm.moods);
        while self.calls_left > 0 {
            self.step()?;
        }
        self.heal()?;
        self.deliver_everything()?;
        self.look_at_everything()?;
        self.fold_journal();
        self.replicate()?;
        self.grow_old()?;
        self.world.node = None;
        self.world.executor.clear();
        Ok(())
    }

    fn open(&mut self) -> Result<(), Broken> {
        self.world.boot();
        self.wait_for_start(|_| Ok(()))?;
        let mut tenants = Vec::new();
        for number in 0..TENANTS {
            let made = self.ask(move |node| async move {
                let ask = TenantAsk { slug: format!("t{number}"), name: format!("tenant {number}") };
                let made = node.create_tenant(ask).await?;
                node.put_template(made.id, template::ask()).await?;
                node.put_category(made.id, "social", Expect::Unsaid, chained(number)).await?;
                node.put_segment(everyone(made.id)).await?;
                let patch = TenantPatch { tier_up: Some(TIER_UP_MIN), ..TenantPatch::default() };
                node.patch_tenant(made.id, patch).await
            })?;
            let Ok(TenantView { id, .. }) = made else {
                return Invariant::Serves.broken(format!("no tenant can be made: {made:?}"));
            };
            tenants.push(id);
        }
        self.use_tenants(tenants);
        for call in self.workload.opening() {
            self.invoke(call);
            self.drain()?;
        }
        Ok(())
    }

    /// Asks the node something beside the calls, and waits for the answer.
    fn ask<T, F>(&mut self, work: impl FnOnce(Node) -> F) -> Result<T, Broken>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let Some(node) = self.world.node.clone() else {
            return Invariant::Serves.broken("there is no node".to_owned());
        };
        let slot: Arc<Mutex<Option<T>>> = Arc::default();
        let (work, into) = (work(node), slot.clone());
        let task = async move {
            let answer = work.await;
            *into.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        };
        self.world.executor.spawn("ask", Box::pin(task));
        for _ in 0..DRAIN_STEPS_MAX {
            if let Some(answer) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Ok(answer);
            }
            self.step()?;
        }
        Invariant::Drains.broken("an ask is never answered".to_owned())
    }

    /// Faults end, and everything comes to rest.
    fn heal(&mut self) -> Result<(), Broken> {
        self.chaos = false;
        self.trace.note("heal", &());
        self.world.set_full(false);
        self.world.provider.set_moody(false);
        self.world.faults.disarm();
        self.world.mend_clock();
        self.drain()
    }

    /// Time passes until nothing is left to be sent, tried again or waited for. A clock that stepped back holds timers
    /// up for as long.
    fn deliver_everything(&mut self) -> Result<(), Broken> {
        let spans = [SOON_MS; 60].into_iter().chain([LATER_MS; 140]);
        for span in spans {
            if self.deliveries.is_done() {
                return self.check_deliveries();
            }
            self.resume_walks()?;
            self.trace.note("wait", &span);
            self.world.pass(span);
            self.drain()?;
        }
        Invariant::Drains.broken(format!("deliveries do not end: {}", self.deliveries.open()))
    }

    /// What is paused would wait for ever; what is scheduled may begin so.
    fn resume_walks(&mut self) -> Result<(), Broken> {
        for (tenant, event) in self.deliveries.paused() {
            let resumed = self.ask(move |node| async move {
                node.steer_bulk(tenant, event, fantail_node::bulk::Steer::Resume).await
            })?;
            let is_heard = matches!(resumed, Ok(()) | Err(Refusal::BulkEnded { .. }));
            Invariant::Serves.holds(is_heard, || format!("{event} cannot be resumed: {resumed:?}"))?;
        }
        Ok(())
    }

    fn check_deliveries(&mut self) -> Result<(), Broken> {
        let world = &self.world;
        self.deliveries.check_end(&*world.store, &world.provider, &*world.keyring)?;
        self.deliveries.check_arrived(self.oracle.arrived(), &*world.keyring)?;
        for due in self.oracle.dues() {
            let Due { who, event, channel, address } = due;
            if world.provider.is_dead(address.text(who).as_bytes()) {
                continue;
            }
            let Ok(lookup) = world.keyring.lookup_user(who.tenant, &who.name()) else { continue };
            let shard = lookup.shard(self.swarm.shards);
            self.deliveries.check_meant(&Meant { tenant: who.tenant, event, shard, lookup, channel })?;
        }
        for (event, stranger) in self.oracle.strangers_due() {
            let Stranger { tenant, kind: channel, .. } = stranger;
            if world.provider.is_dead(stranger.text().as_bytes()) {
                continue;
            }
            let Ok(lookup) = world.keyring.lookup_user(tenant, &stranger.name()) else { continue };
            let shard = lookup.shard(self.swarm.shards);
            self.deliveries.check_meant(&Meant { tenant, event, shard, lookup, channel })?;
        }
        Ok(())
    }

    /// Runs until nothing is under way any more and stays so.
    fn drain(&mut self) -> Result<(), Broken> {
        let end = self.trace.step + DRAIN_STEPS_MAX;
        let mut calm_since = self.world.clock.monotonic();
        while self.trace.step < end {
            let rests = self.oracle.in_flight() == 0
                && !self.world.executor.has_ready()
                && self.world.journal.waiting() == 0
                && self.world.take_lag() == Some(0);
            let now = self.world.clock.monotonic();
            if !rests && self.world.journal.waiting() > 0 {
                calm_since = now;
            }
            if rests && now.since(calm_since) > 600 {
                self.oracle.quiet(self.trace.step);
                return Ok(());
            }
            self.step()?;
        }
        let lag = self.world.take_lag();
        Invariant::Drains.broken(format!("{} calls and a lag of {lag:?} remain", self.oracle.in_flight()))
    }

    /// Every user's inbox, polls and lists against the oracle.
    fn look_at_everything(&mut self) -> Result<(), Broken> {
        for who in self.oracle.everybody() {
            self.look_at(Call::ReadUser { who })?;
            self.look_at(Call::Audit { who })?;
        }
        // Once more: the first round may have decided what was uncertain, for everybody.
        for who in self.oracle.everybody() {
            self.look_at(Call::Audit { who })?;
            self.poll_to_the_end(who)?;
            self.oracle.check_polled(who)?;
        }
        let Some(node) = self.world.node.clone() else { return Ok(()) };
        for tenant in self.workload.tenants.clone() {
            check_lists(&self.oracle, &node, tenant, &Workload::lists())?;
            check_devices(&self.oracle, &node, tenant)?;
        }
        check_audit(&self.oracle, &node, &self.world.audit)?;
        Ok(())
    }

    fn poll_to_the_end(&mut self, who: Who) -> Result<(), Broken> {
        loop {
            let from = self.oracle.polled_through(who);
            let call = Call::Poll { who, from, limit: 16 };
            if !self.oracle.may_start(&call) {
                return Ok(());
            }
            self.look_at(call)?;
            if self.oracle.polled_through(who) == from {
                return Ok(());
            }
        }
    }

    fn look_at(&mut self, call: Call) -> Result<(), Broken> {
        self.invoke(call);
        while self.oracle.in_flight() > 0 {
            self.trace.step += 1;
            self.run_one()?;
            self.after_step()?;
        }
        Ok(())
    }

    /// The bytes of the journal are part of the trace; what the fronts decided is counted.
    fn fold_journal(&mut self) {
        for partition in self.world.partitions() {
            for record in self.world.records(partition) {
                self.trace.fold(&record);
                if let (PartitionId::Front(_), Ok(stamped)) =
                    (partition, Stamped::<FrontRecord>::decode(&record))
                {
                    self.count(&stamped.record);
                }
            }
        }
        let digests = self.world.digests();
        self.trace.note("digests", &digests);
    }

    fn count(&mut self, record: &FrontRecord) {
        if let FrontRecord::Admitted(admitted) = record {
            match admitted.audience {
                Audience::Listed { tier: Tier::Pointer, .. } => self.report.pointers += 1,
                Audience::Listed { tier: Tier::Written, .. } => self.report.written += 1,
                Audience::Addressed(_) | Audience::Walked(_) => {}
            }
        }
    }

    /// A second node from the journal alone has the same tables at the same positions, and shows the same.
    fn replicate(&mut self) -> Result<(), Broken> {
        let digests = self.world.digests();
        self.die();
        self.world.lose_store(false)?;
        self.world.boot();
        self.wait_for_start(|_| Ok(()))?;
        let replica = self.world.digests();
        for (one, other) in digests.iter().zip(&replica) {
            Invariant::Replicas.holds(one == other, || format!("{one:?} against {other:?}"))?;
        }
        self.drain()?;
        self.check_deliveries()?;
        self.look_at_everything()
    }

    /// Fifty days later there is a little more; ninety-five days later only that is left.
    fn grow_old(&mut self) -> Result<(), Broken> {
        self.let_days_pass(50)?;
        let old = self.oracle.post_count();
        self.workload.oldest_repeat = old;
        self.oracle.forget_told();
        self.calls_left = 40;
        while self.calls_left > 0 {
            self.step()?;
        }
        self.drain()?;
        self.deliver_everything()?;
        self.look_at_everything()?;
        self.let_days_pass(45)?;
        let retained = self.ask(|node| async move { node.retain().await })?;
        Invariant::Serves.holds(retained.is_ok(), || format!("retention failed: {retained:?}"))?;
        self.oracle.expire_through(old);
        self.drain()?;
        self.look_at_everything()?;
        self.let_days_pass(100)?;
        let retained = self.ask(|node| async move { node.retain().await })?;
        Invariant::Serves.holds(retained.is_ok(), || format!("retention failed: {retained:?}"))?;
        self.everything_is_gone()
    }

    fn let_days_pass(&mut self, days: u64) -> Result<(), Broken> {
        self.trace.note("days", &days);
        self.world.pass(days * DAY_MS);
        self.drain()?;
        let oldest_kept = Millis(self.world.wall().0.saturating_sub(GUARD_MS));
        self.deliveries.check_swept(&*self.world.store, oldest_kept)
    }

    fn everything_is_gone(&mut self) -> Result<(), Broken> {
        let Some(node) = self.world.node.clone() else { return Ok(()) };
        for who in self.oracle.everybody() {
            let Some(Ok(found)) = at_once(page(&node, who, InboxFrom::Newest, 10)) else { continue };
            let devices = at_once(node.devices(who.tenant, &who.name())).and_then(Result::ok);
            // Only apps fall silent; a webhook is where it was.
            let mut pushed = devices.into_iter().flatten().filter(|device| device.kind == ChannelKind::Push);
            let used = pushed.find(|device| device.status == Status::Active);
            Invariant::Time.holds(used.is_none(), || format!("{who:?} was silent for long: {used:?}"))?;
            let empty = found.notifications.is_empty() && (found.unread, found.unseen) == (0, 0);
            Invariant::Counts.holds(empty, || format!("{who:?} has {found:?} long after retention"))?;
        }
        Ok(())
    }
}
