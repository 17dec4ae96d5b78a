//! Examples about segments.

use super::Example;
use super::examples::{examples, text};
use fantail_wire::segment::{Segment, SegmentCount, SegmentList, SegmentPut, SegmentUploaded, Segments};

const TIME: &str = "2026-01-31T12:00:00.000Z";
const FILTER: &str = r#"attributes.plan == "pro" and lastSeenAt > ago(30d)"#;

fn segment() -> Segment {
    Segment {
        name: text("active-pros"),
        filter: Some(text(FILTER)),
        description: text("paying and here lately"),
        list: Some(SegmentList { members: 1_000, uploaded_at: text(TIME) }),
        created_at: text(TIME),
        updated_at: text(TIME),
    }
}

examples! {
    SegmentPut => SegmentPut { filter: Some(text(FILTER)), description: text("paying and here lately") };
    Segment => segment();
    Segments => Segments { segments: vec![segment()], next_cursor: Some(text("AQIk3w8AAAAAAAAABw")) };
    SegmentUploaded => SegmentUploaded { segment: segment(), lines: 1_002, unknown: 2 };
    SegmentCount => SegmentCount { members: 812, users: 40_000, exact: true };
}
