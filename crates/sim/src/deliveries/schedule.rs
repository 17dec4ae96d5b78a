//! What fronts hold back: released once, not before it is due, and never after it was called off.

use super::Deliveries;
use crate::broken::{Broken, Invariant};
use fantail_machine::records::front::{Audience, Delivery as Leaving, FrontRecord};
use fantail_rules::ids::{FrontNo, Millis, Position, TenantId};
use fantail_rules::ulid::Ulid;
use std::collections::BTreeMap;

/// What nobody is told when it happens.
#[derive(Clone, Copy, Debug)]
pub enum News {
    /// Nobody has it before it is released.
    Held(Ulid),
    Released(Ulid),
    /// It was called off or retracted before it was due.
    Dropped(Ulid),
    CalledOff(Ulid),
}

#[derive(Default)]
pub(super) struct Schedule {
    held: BTreeMap<(TenantId, Ulid), Millis>,
    /// With the record that says so.
    news: Vec<((FrontNo, Position), News)>,
}

impl Deliveries {
    /// What happened since it was last asked for, in order, as far as the fronts have folded it: what is durable and not
    /// folded can be taken by no shard yet.
    pub fn take_news(&mut self, folded: impl Fn(FrontNo) -> Position) -> Vec<News> {
        let is_folded = |((front, position), _): &((FrontNo, Position), News)| *position <= folded(*front);
        let (now, later) = std::mem::take(&mut self.schedule.news).into_iter().partition(is_folded);
        self.schedule.news = later;
        let now: Vec<_> = now;
        now.into_iter().map(|(_, news)| news).collect()
    }
}

impl Schedule {
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub fn fold(
        &mut self,
        place: (FrontNo, Position),
        record: &FrontRecord,
        at: Millis,
    ) -> Result<(), Broken> {
        match record {
            FrontRecord::Admitted(admitted) => {
                if let Some(due) = admitted.options.due {
                    self.held.insert((admitted.tenant, admitted.event), due);
                    self.news.push((place, News::Held(admitted.event)));
                }
            }
            FrontRecord::Released(released) => {
                let due = self.held.remove(&(released.tenant, released.event));
                Invariant::CalledOff.holds(due.is_some(), || {
                    format!("{} is released, but it is not held back", released.event)
                })?;
                Invariant::Time.holds(due.is_some_and(|due| at >= due), || {
                    format!("{} is released at {at}, before {due:?}", released.event)
                })?;
                self.news.push((place, News::Released(released.event)));
            }
            FrontRecord::Retracted { tenant, event } => self.drop_held(place, *tenant, *event),
            FrontRecord::Cancelled { tenant, event } => {
                self.drop_held(place, *tenant, *event);
                self.news.push((place, News::CalledOff(*event)));
            }
            FrontRecord::Counted { .. }
            | FrontRecord::Steered { .. }
            | FrontRecord::Forgotten { .. }
            | FrontRecord::Unsaid { .. }
            | FrontRecord::Wiped(_)
            | FrontRecord::CalledOff(_)
            | FrontRecord::Part { .. } => {}
        }
        Ok(())
    }

    fn drop_held(&mut self, place: (FrontNo, Position), tenant: TenantId, event: Ulid) {
        if self.held.remove(&(tenant, event)).is_some() {
            self.news.push((place, News::Dropped(event)));
        }
    }
}

/// An event for a list that the shards take from this record.
pub(super) fn listed(record: &FrontRecord) -> Option<(TenantId, Ulid, Option<Leaving>)> {
    let (tenant, event, leaving, audience) = match record {
        FrontRecord::Admitted(admitted) if admitted.options.due.is_none() => {
            (admitted.tenant, admitted.event, admitted.delivery, &admitted.audience)
        }
        FrontRecord::Released(released) => {
            (released.tenant, released.event, released.delivery, &released.audience)
        }
        _ => return None,
    };
    matches!(audience, Audience::Listed { .. }).then_some((tenant, event, leaving))
}
