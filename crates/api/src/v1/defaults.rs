//! What holds for users who have not said otherwise: preferences of nobody, as a merge patch.

use crate::call::Call;
use crate::condition::expect_of;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::v1::preferences::{merged, shown};
use fantail_node::ask::Refusal;
use fantail_node::ask::templates::Expect;
use fantail_node::policies::DefaultsRow;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::TenantId;
use fantail_rules::policy::Defaults;
use fantail_rules::preference::Switch;
use fantail_wire::category::DefaultPreferences;
use serde_json::{Map, Value};

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    Ok(reply(&call.node.defaults(tenant)?))
}

/// Without a condition the patch is merged again if somebody else was faster.
pub async fn patch(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let expect = expect_of(&call.headers)?;
    let patch: Map<String, Value> = call.json()?;
    let _turn = call.app.merge_turns.take(tenant, "defaults", "").await;
    loop {
        let row = call.node.defaults(tenant)?;
        let current = (row.version > 0).then_some(row.version);
        if !expect.holds(current) && expect != Expect::Version(row.version) {
            return Err(Refusal::PolicyConflict { current: Some(row.version) }.into());
        }
        let preferences = merged(&shown(&row.defaults.preferences), &patch)?;
        if preferences.channels.of(ChannelKind::InApp) != Switch::NotSaid {
            return Err(Problem::field("/channels/inApp", "only a user can switch the inbox off"));
        }
        let seen = current.map_or(Expect::Absent, Expect::Version);
        match call.node.set_defaults(tenant, seen, Defaults { preferences }).await {
            Ok(row) => return Ok(reply(&row)),
            Err(Refusal::PolicyConflict { .. }) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
}

fn reply(row: &DefaultsRow) -> Reply {
    let preferences = shown(&row.defaults.preferences);
    Reply::json(200, &DefaultPreferences { version: row.version, preferences }).with_version(row.version)
}
