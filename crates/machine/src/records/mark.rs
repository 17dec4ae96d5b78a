//! The bytes of marks and watermarks in a shard's records: `mark: u8, until: millis`, and a number each. Frozen.

use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::Millis;
use fantail_rules::marks::{Mark, Watermark};

pub(super) fn write(w: &mut Writer, mark: Mark) {
    let (code, until) = match mark {
        Mark::Read => (1, Millis(0)),
        Mark::Unread => (2, Millis(0)),
        Mark::Seen => (3, Millis(0)),
        Mark::Archive => (4, Millis(0)),
        Mark::Unarchive => (5, Millis(0)),
        Mark::Snooze { until } => (6, until),
        Mark::Unsnooze => (7, Millis(0)),
        Mark::Delete => (8, Millis(0)),
    };
    w.u8(code).millis(until);
}

pub(super) fn read(r: &mut Reader<'_>) -> Result<Mark, Malformed> {
    let (code, until) = (r.u8()?, r.millis()?);
    Ok(match code {
        1 => Mark::Read,
        2 => Mark::Unread,
        3 => Mark::Seen,
        4 => Mark::Archive,
        5 => Mark::Unarchive,
        6 => Mark::Snooze { until },
        7 => Mark::Unsnooze,
        8 => Mark::Delete,
        _ => return Err(Malformed::Value("mark")),
    })
}

pub(super) fn read_watermark(r: &mut Reader<'_>) -> Result<Watermark, Malformed> {
    match r.u8()? {
        1 => Ok(Watermark::Read),
        2 => Ok(Watermark::Seen),
        3 => Ok(Watermark::Archived),
        _ => Err(Malformed::Value("watermark")),
    }
}
