//! What a user agreed to, channel by channel. Push needs a grant; a withdrawal counts for everything that is not yet
//! authorised when it is answered.

use crate::call::Call;
use crate::check::Faults;
use crate::pointer::Pointer;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::time;
use crate::v1::notifications;
use fantail_node::respect::{self, ConsentAsk};
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::TenantId;
use fantail_rules::limits::SOURCE_BYTES_MAX;
use fantail_wire::preference::{Consent, ConsentPut, Consents};

pub async fn get(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    show(tenant, &call)
}

pub async fn put(tenant: TenantId, call: Call) -> Result<Reply, Problem> {
    let user = call.name("user")?.to_owned();
    let kind = ChannelKind::parse(call.param("channel"));
    let kind = kind.filter(|kind| !matches!(kind, ChannelKind::InApp | ChannelKind::Webhook));
    let kind = kind.ok_or_else(|| Problem::field("/channel", "must be push, email or sms"))?;
    let put: ConsentPut = call.json()?;
    let mut faults = Faults::default();
    let ask = ask_of(put, Pointer::ROOT, call.caller.actor().name(), &mut faults);
    faults.into_result()?;
    call.node.consent(tenant, &user, kind, ask).await?;
    show(tenant, &call)
}

fn show(tenant: TenantId, call: &Call) -> Result<Reply, Problem> {
    let user = call.name("user")?;
    let row = call.node.respect(tenant, user)?;
    let consents =
        row.consents.into_iter().map(|known| (notifications::shown(known.channel), shown(known.consent)));
    let answer = Consents { user_id: user.to_owned(), consents: consents.collect() };
    Ok(Reply::json(200, &answer).with_version(row.revision))
}

/// A consent as a request says it.
pub fn ask_of(put: ConsentPut, at: Pointer<'_>, caller: &str, faults: &mut Faults) -> ConsentAsk {
    let ConsentPut { granted, version, source, granted_at } = put;
    faults.text(at.key("version"), &version, SOURCE_BYTES_MAX);
    if let Some(source) = &source {
        faults.text(at.key("source"), source, SOURCE_BYTES_MAX);
    }
    let given = granted_at.as_deref().map(time::parse);
    if given == Some(None) {
        faults.add(at.key("grantedAt"), "must be a time like 2026-01-31T12:00:00Z");
    }
    let source = source.unwrap_or_else(|| caller.to_owned());
    ConsentAsk { is_granted: granted, given: given.flatten(), version, source }
}

pub fn shown(consent: respect::Consent) -> Consent {
    let respect::Consent { is_granted, given, version, source } = consent;
    Consent { granted: is_granted, version, source, granted_at: time::text(given) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // proves: PRF-07
    #[test]
    fn consents_are_checked() {
        for (body, pointers) in [
            (json!({"granted": true, "version": "2026-01"}), vec![]),
            (
                json!({"granted": false, "version": "1", "source": "web", "grantedAt": "2026-01-31T12:00:00Z"}),
                vec![],
            ),
            (json!({"granted": true, "version": "", "grantedAt": "soon"}), vec!["/version", "/grantedAt"]),
            (json!({"granted": true, "version": "1", "source": "x".repeat(65)}), vec!["/source"]),
        ] {
            let put: ConsentPut = serde_json::from_value(body.clone()).expect("the shape fits");
            let mut faults = Faults::default();
            ask_of(put, Pointer::ROOT, "key", &mut faults);
            let errors = faults.into_result().map_or_else(|problem| problem.errors, |()| Vec::new());
            let found: Vec<&str> = errors.iter().map(|error| error.pointer.as_str()).collect();
            assert_eq!(found, pointers, "{body}");
        }
    }
}
