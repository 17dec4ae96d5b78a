//! Those who are chosen, not named: segments, uploaded lists, and walks over users.

use fantail_machine::records::difference::Difference;
use fantail_machine::records::root::RootRecord;
use fantail_machine::records::segment::{SegmentListed, SegmentPut, UploadId};
use fantail_machine::records::shard::ShardRecord;
use fantail_machine::records::walk::{Delisted, Enlisted, WalkRecord};
use fantail_rules::ids::{TenantId, UserNo};

pub fn root_examples(tenant: TenantId, difference: Difference) -> Vec<RootRecord> {
    vec![
        RootRecord::SegmentPut(
            SegmentPut { tenant, name: "vips".into(), filter: Some("everyone".into()), note: "all".into() },
            difference,
        ),
        RootRecord::SegmentListed(SegmentListed {
            tenant,
            name: "vips".into(),
            list: UploadId([0x33; 16]),
            members: 300,
            difference,
        }),
        RootRecord::SegmentGone { tenant, id: "vips".into(), difference },
    ]
}

pub fn examples(tenant: TenantId) -> Vec<ShardRecord> {
    vec![
        ShardRecord::Walk(WalkRecord::Enlisted(Enlisted {
            tenant,
            list: UploadId([0x33; 16]),
            users: vec![UserNo(7), UserNo(1_000)],
        })),
        ShardRecord::Walk(WalkRecord::Delisted(Delisted {
            tenant,
            list: UploadId([0x33; 16]),
            pages: vec![0, 300],
            is_last: true,
        })),
    ]
}
