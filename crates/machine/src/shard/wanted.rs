//! Who of those that are named does not want to see an event in the inbox.
//!
//! Comes from: `take`, with users who ascend. Decides: by what each of them said (`rules::visibility`); nobody is asked about
//! what is critical, or in a category that the tenant insists on. Goes to: the `Given` record. The readers of a list are
//! not asked here: their inbox hides what they do not want when they look (`inbox`).

use super::serve::Known;
use crate::columns::{self, Column};
use crate::tables::respect;
use crate::tables::taken::About;
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::gates::Reason;
use fantail_rules::ids::{TenantId, UserNo};
use fantail_rules::visibility::InboxWish;

pub(super) fn by_none_of(
    view: &View<'_>,
    tenant: TenantId,
    users: &[UserNo],
    about: About,
    known: Known<'_>,
) -> Result<Vec<(UserNo, Reason)>, TablesError> {
    let insists = known.policies.of(tenant, about.category).mandatory.contains(ChannelKind::InApp);
    if about.is_critical || insists {
        return Ok(Vec::new());
    }
    let mut columns = vec![Column::default(); users.len()];
    columns::visit(view, tenant, users, &mut |place, column| columns[place] = column)?;
    let mut unwanted = Vec::new();
    for (user, _) in users.iter().zip(columns).filter(|(_, column)| may_object(column, about)) {
        let wish = InboxWish::of(&respect::find(view, tenant, *user)?.preferences);
        unwanted.extend(wish.objection(about.category).map(|reason| (*user, reason)));
    }
    Ok(unwanted)
}

/// A first look that costs no row of the user's own.
fn may_object(column: &Column, about: About) -> bool {
    let Some(profile) = column.respect.profile() else { return true };
    profile.global_off
        || profile.channels_off.contains(ChannelKind::InApp)
        || column.respect.may_speak_of(about.category)
}
