//! Who the members of a parcel are to the audit log: a pseudonym, and a secret that goes with the user's key.
//!
//! Comes from: `parcels`, with the users of a record. Does: reads key numbers from the column and asks the keyring, some at a
//! time, so that nobody waits behind a thousand. Goes to: leaves. Somebody who is gone is nobody: zeros, and a leaf that
//! cannot be told from that of anybody else who is gone.

use crate::ask::Refusal;
use crate::core::{Core, locked};
use fantail_audit::member::Pseudonym;
use fantail_machine::columns;
use fantail_machine::tables::user;
use fantail_rules::ids::{KeyNo, PartitionId, ShardNo, TenantId, UserNo};
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// Those who were looked up last. A parcel speaks at least twice, when it is decided upon and when it was answered, and
/// mostly of the same people: the second time they are here.
#[derive(Default)]
pub struct Recent(Mutex<Generations>);

/// When the newer one is full it becomes the older one, which is dropped.
#[derive(Default)]
struct Generations {
    newer: HashMap<Who, Person>,
    older: HashMap<Who, Person>,
}

type Who = (TenantId, ShardNo, UserNo);

/// Some ten megabytes for both.
const GENERATION: usize = 1 << 16;

impl Recent {
    fn state(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out of `users` whom it knows.
    fn known(&self, tenant: TenantId, shard: ShardNo, users: &mut Vec<UserNo>) -> BTreeMap<UserNo, Person> {
        let (state, mut people) = (self.state(), BTreeMap::new());
        users.retain(|user| {
            let who = (tenant, shard, *user);
            let known = state.newer.get(&who).or_else(|| state.older.get(&who));
            people.extend(known.map(|person| (*user, *person)));
            known.is_none()
        });
        people
    }

    fn remember(&self, who: Who, person: Person) {
        let mut state = self.state();
        if state.newer.len() >= GENERATION {
            state.older = std::mem::take(&mut state.newer);
        }
        state.newer.insert(who, person);
    }

    /// Keys were destroyed: no secret of theirs stays.
    pub fn forget(&self) {
        *self.state() = Generations::default();
    }
}

#[derive(Default)]
pub struct People(BTreeMap<UserNo, Person>);

impl People {
    pub async fn find(
        core: &Core,
        recent: &Recent,
        tenant: TenantId,
        shard: ShardNo,
        users: impl Iterator<Item = UserNo>,
    ) -> Result<Self, Refusal> {
        let mut users: Vec<UserNo> = users.collect();
        users.dedup();
        let mut people = recent.known(tenant, shard, &mut users);
        for some in users.chunks(AT_ONCE) {
            let known = keys(core, tenant, shard, some)?;
            let keys: Vec<KeyNo> = known.iter().map(|(_, key)| *key).collect();
            let secrets = core.ports.keyring.secrets(tenant, &keys).map_err(locked)?;
            for ((user, _), secret) in known.into_iter().zip(secrets) {
                if let Some(secret) = secret {
                    let person = Person { pseudonym: Pseudonym::derive(&secret), secret };
                    recent.remember((tenant, shard, user), person);
                    people.insert(user, person);
                }
            }
            let_others().await;
        }
        Ok(Self(people))
    }

    #[must_use]
    pub fn of(&self, user: UserNo) -> Person {
        self.known(user).unwrap_or(Person::NOBODY)
    }

    /// `None` for whoever is gone.
    #[must_use]
    pub fn known(&self, user: UserNo) -> Option<Person> {
        self.0.get(&user).copied()
    }
}

/// The keys of those who are there, from the column; a key with too large a number is in the user's row.
fn keys(
    core: &Core,
    tenant: TenantId,
    shard: ShardNo,
    users: &[UserNo],
) -> Result<Vec<(UserNo, KeyNo)>, Refusal> {
    core.read(PartitionId::Shard(shard), |view| {
        let (mut known, mut unsaid) = (Vec::with_capacity(users.len()), Vec::new());
        columns::visit(view.tables(), tenant, users, &mut |place, column| match column.reach.key() {
            Some(key) => known.push((users[place], key)),
            None if column.reach.exists() => unsaid.push(users[place]),
            None => {}
        })?;
        for user in unsaid {
            known.extend(user::find(view.tables(), tenant, user)?.map(|row| (user, row.id.key)));
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
