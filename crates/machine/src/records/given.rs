//! An event for explicit users of a shard; for its bytes see `shard`.

use super::front::Delivery;
use crate::codec::{Malformed, Reader, Writer};
use crate::tables::ledger::Standing;
use fantail_rules::attempt::State;
use fantail_rules::gates::Reason;
use fantail_rules::ids::{FrontNo, Millis, Position, TenantId, UserNo};
use fantail_rules::ulid::Ulid;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    pub front: FrontNo,
    pub position: Position,
    pub tenant: TenantId,
    pub event: Ulid,
    /// It was held back: see `tables::taken`.
    pub is_late: bool,
    pub delivery: Option<Delivery>,
    pub members: Vec<UserNo>,
    /// Those of them who do not want to see it in their inbox, and why. Ascending.
    pub unwanted: Vec<(UserNo, Reason)>,
}

impl Given {
    /// Those who see it in their inbox, ascending.
    pub fn readers(&self) -> impl Iterator<Item = UserNo> {
        self.members.iter().copied().filter(|user| self.objection(*user).is_none())
    }

    /// Why a member does not want to see it.
    #[must_use]
    pub fn objection(&self, user: UserNo) -> Option<Reason> {
        let found = self.unwanted.binary_search_by_key(&user, |(user, _)| *user).ok()?;
        Some(self.unwanted[found].1)
    }

    /// What becomes of a member's in-app delivery: being visible is being delivered.
    #[must_use]
    pub fn in_app(&self, user: UserNo) -> Standing {
        let (state, code) = match self.objection(user) {
            None => (State::Delivered, String::new()),
            Some(reason) => (State::Suppressed, reason.word().to_owned()),
        };
        Standing { state, retries: 0, resends: 0, due: Millis(0), code, was_authorised: false }
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.varint(self.front.0.into()).position(self.position);
        w.tenant(self.tenant).ulid(self.event).flag(self.is_late);
        w.option(self.delivery.as_ref(), |w, delivery| delivery.write(w));
        w.ascending(self.members.iter().map(|member| member.0));
        w.list(self.unwanted.iter(), |w, (user, reason)| {
            w.user(*user).text(reason.word());
        });
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            front: FrontNo(r.u16()?),
            position: r.position()?,
            tenant: r.tenant()?,
            event: r.ulid()?,
            is_late: r.flag()?,
            delivery: r.option(Delivery::read)?,
            members: r.ascending()?.into_iter().map(UserNo).collect(),
            unwanted: r.list(|r| {
                let (user, word) = (r.user()?, r.text()?);
                Ok((user, Reason::parse(&word).ok_or(Malformed::Value("reason"))?))
            })?,
        })
    }
}
