//! Who the members of a parcel are to the audit log: a pseudonym, and a secret that goes with the user's key.
//!
//! Comes from: `parcels`, with the users of a record. Does: reads identities and asks the keyring, some at a time, so that
//! nobody waits behind a thousand. Goes to: leaves. Somebody who is gone is nobody: zeros, and a leaf that cannot be told
//! from that of anybody else who is gone.

use crate::ask::Refusal;
use crate::core::{Core, locked};
use fantail_audit::member::Pseudonym;
use fantail_machine::tables::user;
use fantail_rules::ids::{KeyNo, Lookup, PartitionId, ShardNo, TenantId, UserNo};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;

/// Users that are read without a pause: a fraction of a millisecond.
const AT_ONCE: usize = 128;

#[derive(Clone, Copy)]
pub struct Person {
    pub pseudonym: Pseudonym,
    pub secret: [u8; 32],
}

impl Person {
    /// Whoever is not there any more.
    pub const NOBODY: Self = Self { pseudonym: Pseudonym([0; 16]), secret: [0; 32] };
}

#[derive(Default)]
pub struct People(BTreeMap<UserNo, Person>);

impl People {
    pub async fn find(
        core: &Core,
        tenant: TenantId,
        shard: ShardNo,
        users: impl Iterator<Item = UserNo>,
    ) -> Result<Self, Refusal> {
        let mut users: Vec<UserNo> = users.collect();
        users.dedup();
        let mut people = BTreeMap::new();
        for some in users.chunks(AT_ONCE) {
            let known = identities(core, tenant, shard, some)?;
            let keys: Vec<KeyNo> = known.iter().map(|(_, _, key)| *key).collect();
            let secrets = core.ports.keyring.secrets(tenant, &keys).map_err(locked)?;
            for ((user, lookup, _), secret) in known.into_iter().zip(secrets) {
                if let Some(secret) = secret {
                    people.insert(user, Person { pseudonym: Pseudonym(lookup.0), secret });
                }
            }
            let_others().await;
        }
        Ok(Self(people))
    }

    #[must_use]
    pub fn of(&self, user: UserNo) -> Person {
        self.0.get(&user).copied().unwrap_or(Person::NOBODY)
    }
}

fn identities(
    core: &Core,
    tenant: TenantId,
    shard: ShardNo,
    users: &[UserNo],
) -> Result<Vec<(UserNo, Lookup, KeyNo)>, Refusal> {
    core.read(PartitionId::Shard(shard), |view| {
        let mut known = Vec::with_capacity(users.len());
        for user in users {
            if let Some((lookup, key)) = user::identity(view.tables(), tenant, *user)? {
                known.push((*user, lookup, key));
            }
        }
        Ok(known)
    })
}

/// Lets whoever waits for this thread go first.
pub async fn let_others() {
    let mut is_second = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_second, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
