//! Links that are sent to users: to their preferences, or out of something.

use crate::call::Call;
use crate::check::Faults;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::event_ask::channel_of;
use fantail_node::links::{LinkAsk, Purpose};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::CATEGORY_BYTES_MAX;
use fantail_wire::link::{LinkPurpose, PreferenceLink, PreferenceLinkAsk, UnsubscribeHeaders};

pub async fn make(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let wanted: PreferenceLinkAsk = call.json()?;
    let purpose = wanted.purpose;
    let ask = ask_of(wanted)?;
    let token = call.node.make_link(tenant, call.name("user")?, ask)?;
    let url = format!("{}/u/{token}", call.app.public_url());
    let mail_headers = match purpose {
        LinkPurpose::Preferences => None,
        LinkPurpose::Unsubscribe => Some(UnsubscribeHeaders {
            list_unsubscribe: format!("<{url}>"),
            list_unsubscribe_post: "List-Unsubscribe=One-Click".to_owned(),
        }),
    };
    Ok(Reply::json(201, &PreferenceLink { url, mail_headers }))
}

fn ask_of(wanted: PreferenceLinkAsk) -> Result<LinkAsk, Problem> {
    let PreferenceLinkAsk { purpose, channel, category, expires_at } = wanted;
    let (root, mut faults) = (Pointer::ROOT, Faults::default());
    let channel = channel.map(channel_of);
    if channel == Some(ChannelKind::InApp) {
        faults.add(root.key("channel"), "the inbox has no switch: it interrupts nobody");
    }
    if let Some(category) = &category {
        faults.text(root.key("category"), category, CATEGORY_BYTES_MAX);
    }
    let until = expires_at.as_deref().map(time::parse);
    if until == Some(None) {
        faults.add(root.key("expiresAt"), "must be a time like 2026-01-31T12:00:00Z");
    }
    faults.into_result()?;
    let purpose = match purpose {
        LinkPurpose::Preferences => Purpose::Preferences,
        LinkPurpose::Unsubscribe => Purpose::Unsubscribe,
    };
    Ok(LinkAsk { purpose, channel, category, until: until.flatten() })
}
