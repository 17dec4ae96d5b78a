//! What each user wants to get at most on a channel, and what the user got.
//!
//! ```text
//! 65 tenant channel: u8 page: u64 -> 32 × (limit: 10, used: 12)      user = page * 32 + place
//! ```
//! Apart from the other columns, since most users have no limit: a page exists once one of its users said something, or
//! got something that a limit of the tenant counts. Pages are small because a parcel may touch one for every member.
//!
//! What must never happen: a limit that disagrees with what the user said, or an authorisation under a limit that is not
//! counted. The day that something counts for comes with the record; no zone is asked here.

use crate::codec::Malformed;
use crate::tables::{Family, Key};
use crate::view::View;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::caps::{Limit, Pace, Used, When};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::{Millis, TenantId, UserNo};

const PAGE_BITS: u32 = 5;
const PAGE_USERS: usize = 1 << PAGE_BITS;
const LIMIT: usize = 10;
const WIDTH: usize = LIMIT + 12;

/// Whose and on which channel.
type Of = (TenantId, ChannelKind);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// The user's own.
    pub limit: Limit,
    pub used: Used,
}

/// How one authorisation is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    /// On the user's calendar, since 1970.
    pub day: u16,
    /// Of the bucket that it is taken from.
    pub pace: Option<Pace>,
}

/// Of each of these users, who ascend. Each page is read once.
pub fn read(tables: &dyn Tables, of: Of, users: &[UserNo]) -> Result<Vec<Counts>, TablesError> {
    let mut found = Vec::with_capacity(users.len());
    for of_page in users.chunk_by(|one, other| one.0 >> PAGE_BITS == other.0 >> PAGE_BITS) {
        let page = page(tables, of, of_page[0].0 >> PAGE_BITS)?;
        found.extend(of_page.iter().map(|user| counts_in(page.as_deref(), *user)));
    }
    Ok(found)
}

pub fn find(tables: &dyn Tables, of: Of, user: UserNo) -> Result<Counts, TablesError> {
    Ok(counts_in(page(tables, of, user.0 >> PAGE_BITS)?.as_deref(), user))
}

/// One more for each of these users, who ascend.
pub(crate) fn count(
    view: &mut View<'_>,
    of: Of,
    at: Millis,
    counted: &[(UserNo, Count)],
) -> Result<(), TablesError> {
    for of_page in counted.chunk_by(|one, other| one.0.0 >> PAGE_BITS == other.0.0 >> PAGE_BITS) {
        let no = of_page[0].0.0 >> PAGE_BITS;
        let mut bytes = page(view, of, no)?.unwrap_or_else(|| vec![0; PAGE_USERS * WIDTH]);
        for (user, Count { day, pace }) in of_page {
            let counts = counts_in(Some(&bytes), *user);
            let used = counts.used.counted(*pace, When::on_day(at, *day));
            write(&mut bytes, *user, Counts { used, ..counts });
        }
        view.put(key(of, no), bytes);
    }
    Ok(())
}

/// The user wants something else. What was got is not forgotten.
pub(crate) fn set_limit(view: &mut View<'_>, of: Of, user: UserNo, limit: Limit) -> Result<(), TablesError> {
    let used = find(view, of, user)?.used;
    set(view, of, user, Counts { limit, used })
}

/// The user is gone.
pub(crate) fn forget(view: &mut View<'_>, of: Of, user: UserNo) -> Result<(), TablesError> {
    set(view, of, user, Counts::default())
}

fn set(view: &mut View<'_>, of: Of, user: UserNo, counts: Counts) -> Result<(), TablesError> {
    let no = user.0 >> PAGE_BITS;
    let known = page(view, of, no)?;
    if counts_in(known.as_deref(), user) == counts {
        return Ok(());
    }
    let mut bytes = known.unwrap_or_else(|| vec![0; PAGE_USERS * WIDTH]);
    write(&mut bytes, user, counts);
    if bytes.iter().all(|byte| *byte == 0) {
        view.delete(key(of, no));
    } else {
        view.put(key(of, no), bytes);
    }
    Ok(())
}

#[must_use]
pub fn key((tenant, channel): Of, page: u64) -> Vec<u8> {
    Key::new(Family::Counts, tenant).bytes(&[channel as u8]).u64(page).finish()
}

fn page(tables: &dyn Tables, of: Of, no: u64) -> Result<Option<Vec<u8>>, TablesError> {
    match tables.get(&key(of, no))? {
        Some(bytes) if bytes.len() != PAGE_USERS * WIDTH => Err(Malformed::Value("length").in_row("counts")),
        found => Ok(found),
    }
}

fn at(user: UserNo) -> usize {
    (user.0 as usize & (PAGE_USERS - 1)) * WIDTH
}

fn counts_in(page: Option<&[u8]>, user: UserNo) -> Counts {
    let Some(page) = page else { return Counts::default() };
    let (of_limit, of_used) = page[at(user)..at(user) + WIDTH].split_at(LIMIT);
    let (mut limit, mut used) = ([0; LIMIT], [0; WIDTH - LIMIT]);
    limit.copy_from_slice(of_limit);
    used.copy_from_slice(of_used);
    Counts { limit: Limit::from_stored(limit), used: Used::from_stored(used) }
}

fn write(page: &mut [u8], user: UserNo, counts: Counts) {
    let (limit, used) = page[at(user)..at(user) + WIDTH].split_at_mut(LIMIT);
    limit.copy_from_slice(&counts.limit.to_bytes());
    used.copy_from_slice(&counts.used.to_bytes());
}
