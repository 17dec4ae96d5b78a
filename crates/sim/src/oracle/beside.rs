//! What may be asked beside what is under way, so that every answer can be judged.

use super::{Oracle, Who};
use crate::call::Call;

impl Oracle {
    /// Whether a call can be judged beside what is under way: one writer per user, one change per edge at a time.
    pub fn may_start(&mut self, call: &Call) -> bool {
        match call {
            Call::PutUsers { tenant, users } => {
                users.iter().all(|(user, _)| self.person(Who { tenant: *tenant, user: *user }).may_write())
            }
            Call::DeleteUser { who, .. } | Call::Duel { who, .. } => self.person(*who).may_write(),
            Call::Edit { tenant, edges, .. } => edges
                .iter()
                .all(|(user, list)| self.person(Who { tenant: *tenant, user: *user }).may_edit(*list)),
            Call::Mark { who, .. } => {
                let person = self.person(*who);
                person.may_use() && person.exists && person.marking.is_none()
            }
            Call::Poll { who, .. } => {
                let person = self.person(*who);
                person.may_use() && person.exists && !person.polling
            }
            Call::Walk { who, .. } => {
                let person = self.person(*who);
                person.may_use() && person.exists
            }
            Call::Enrol { who, .. } => {
                let person = self.person(*who);
                person.may_use() && person.exists
            }
            Call::Post { posts, .. } => posts.iter().all(|(post, _)| self.targets_are_judged(*post)),
            Call::Register { who, .. } | Call::Unregister { who, .. } => {
                let person = self.person(*who);
                person.may_use() && person.exists && !person.devices.busy
            }
            // One at a time per token, so that the last answer says how it stands.
            Call::Suppress { tenant, token, .. } => !self.calls.values().any(|open| {
                matches!(open.call, Call::Suppress { tenant: t, token: o, .. } if (t, o) == (*tenant, *token))
            }),
            Call::Consent { .. }
            | Call::Steer { .. }
            | Call::Limit { .. }
            | Call::Cancel { .. }
            | Call::CancelKey { .. }
            | Call::Forget { .. }
            | Call::Receipt { .. }
            | Call::Retract { .. }
            | Call::Note { .. }
            | Call::ReadUser { .. }
            | Call::Audit { .. } => true,
        }
    }
}
