//! How far a shard is: arrivals per tenant, the retention horizon, and what it has taken of each front.
//!
//! ```text
//! 32 tenant       -> last: arrival, horizon: arrival, users: varint, retracted: varint, pointerLists: varint
//! 33 front: u64   -> through: position
//! ```

use super::{Family, Key, Row, get, put};
use crate::codec::{Malformed, Reader, Writer};
use crate::view::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::ids::{Arrival, FrontNo, Position, TenantId};

#[must_use]
pub fn key(tenant: TenantId) -> Vec<u8> {
    Key::new(Family::ShardState, tenant).finish()
}

#[must_use]
pub fn taken_key(front: FrontNo) -> Vec<u8> {
    Key::of_partition(Family::TakenFrom).u64(front.0.into()).finish()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The newest arrival given out.
    pub last: Arrival,
    /// Entries up to and including this one are past retention.
    pub horizon: Arrival,
    /// The number the next new user gets.
    pub users: u64,
    /// Retracted events that are not past retention.
    pub retracted: u64,
    /// Lists that have pointers.
    pub pointer_lists: u64,
}

struct Through(Position);

pub fn find(tables: &dyn Tables, tenant: TenantId) -> Result<Progress, TablesError> {
    Ok(get(tables, &key(tenant))?.unwrap_or_default())
}

/// The last position of a front that this shard has taken.
pub fn taken(tables: &dyn Tables, front: FrontNo) -> Result<Position, TablesError> {
    Ok(get::<Through>(tables, &taken_key(front))?.map_or(Position::START, |row| row.0))
}

pub(crate) fn set_taken(view: &mut View<'_>, front: FrontNo, through: Position) {
    put(view, taken_key(front), &Through(through));
}

impl Row for Progress {
    const NAME: &'static str = "progress";

    fn write(&self, w: &mut Writer) {
        w.arrival(self.last).arrival(self.horizon).varint(self.users);
        w.varint(self.retracted).varint(self.pointer_lists);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            last: r.arrival()?,
            horizon: r.arrival()?,
            users: r.varint()?,
            retracted: r.varint()?,
            pointer_lists: r.varint()?,
        })
    }
}

impl Row for Through {
    const NAME: &'static str = "taken from";

    fn write(&self, w: &mut Writer) {
        w.position(self.0);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        r.position().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::Plain;
    use fantail_ports::tables::Changes;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_front_has_its_own_watermark(through: u64, front in 0u16..1024) {
            prop_assert_eq!(Through::decode(&Through(Position(through)).encode()).map(|row| row.0.0), Ok(through));
            let (base, mut changes) = (Plain::default(), Changes::new());
            let mut view = View::new(&base, &[], &mut changes);
            set_taken(&mut view, FrontNo(front), Position(through));
            prop_assert_eq!(taken(&view, FrontNo(front)), Ok(Position(through)));
            prop_assert_eq!(taken(&view, FrontNo(front + 1)), Ok(Position::START));
        }
    }
}
