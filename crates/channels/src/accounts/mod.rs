//! The accounts that tenants have with providers, and the channels that go through them.
//!
//! Comes from: the control plane, which says after every change which accounts there are; and the dispatcher, with shipments.
//! Decides: which account a message goes through, by order and weight, each user always the same one as long as it has room;
//! what an account of mail or text messages certainly did not take, the next one is asked to. Goes to: the provider's client.
//!
//! What must never happen: a push through an account that its token does not belong to, for it would be called dead; a message
//! that a second account gets while the first one may have it; a tenant that has accounts, or once had, whose messages go elsewhere.

mod choose;
pub mod client;
pub mod open;
mod room;
mod sender;

pub use room::Counts;
pub use sender::Standing;

use crate::fields::SettingsError;
use crate::mixed::NO_PROVIDER;
use crate::probe::Hop;
use choose::{begin_where_room_is, chain, is_of};
use client::{Client, Deaf, Heard, Incoming};
use fantail_ports::BoxFuture;
use fantail_ports::accounts::{Account, Accounts};
use fantail_ports::channel::{Answer, Channel, Refusal, Report, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::channel_kind::ChannelKind;
use fantail_rules::ids::TenantId;
use fantail_rules::provider_kind::ProviderKind;
use futures_util::future::join_all;
use sender::{AccountSender, NoRoom};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use tracing::{error, info};

/// Makes the client of an account; the error says what is wrong, and points into its settings or credentials.
pub type Opener = dyn Fn(&Account) -> Result<Arc<dyn Client>, SettingsError> + Send + Sync;

/// All accounts, as they are now.
pub struct Registry {
    clock: Arc<dyn Clock>,
    tasks: Arc<dyn Tasks>,
    opener: Box<Opener>,
    own: RwLock<BTreeMap<TenantId, Ways>>,
    /// Tenants that once had an account.
    with_history: RwLock<BTreeSet<TenantId>>,
    /// For tenants that never had an account: made when the first of them sends something.
    others: OnceLock<Ways>,
    sandbox: OnceLock<SandboxAccounts>,
}

/// Accounts for tenants that have none, and how their clients are made: the operator's own, so no tenant's settings open
/// what they need.
pub struct SandboxAccounts {
    pub make: Box<dyn Fn() -> Vec<Account> + Send + Sync>,
    pub opener: Box<Opener>,
}

/// An account without its credentials, and how it is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountStanding {
    pub tenant: TenantId,
    pub id: String,
    pub kind: ProviderKind,
    pub enabled: bool,
    pub standing: Standing,
}

/// Ascending by order, then by name.
type Ways = Arc<Vec<Arc<AccountSender>>>;

impl Registry {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, tasks: Arc<dyn Tasks>, opener: Box<Opener>) -> Arc<Self> {
        let (own, with_history) = (RwLock::default(), RwLock::default());
        let (others, sandbox) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self { clock, tasks, opener, own, with_history, others, sandbox })
    }

    /// Where messages of tenants go that never had an account: the sandbox. Said once; asked for when it is needed.
    pub fn serve_others(&self, sandbox: SandboxAccounts) {
        assert!(self.sandbox.set(sandbox).is_ok(), "it is said once");
    }

    /// The channel that goes through the accounts for this kind.
    #[must_use]
    pub fn channel(self: &Arc<Self>, kind: ChannelKind) -> Arc<dyn Channel> {
        Arc::new(Through { kind, registry: self.clone() })
    }

    /// Whether settings and credentials can be used at all, without using them.
    pub fn check(&self, account: &Account) -> Result<(), SettingsError> {
        (self.opener)(account).map(drop)
    }

    /// Tries each hop with the account as it is given.
    pub async fn probe(&self, account: &Account) -> Vec<Hop> {
        match (self.opener)(account) {
            Ok(client) => client.probe().await,
            Err(error) => vec![Hop::failed("settings", error.to_string())],
        }
    }

    /// The account that a call is for, if accounts of its kind are called back. The sandbox calls from this machine, for
    /// tenants without accounts of their own.
    #[must_use]
    pub fn called(&self, tenant: TenantId, id: &str, is_local: bool) -> Option<CalledAccount> {
        let ways = self.own_ways(tenant).or_else(|| self.others.get().filter(|_| is_local).cloned())?;
        let way = ways.iter().find(|way| way.account.id == id)?;
        let proof = match way.account.kind {
            ProviderKind::Smtp => CallbackProof::Secret,
            ProviderKind::Ses => CallbackProof::SnsSignature,
            ProviderKind::Twilio => CallbackProof::TwilioSignature,
            ProviderKind::Apns | ProviderKind::Fcm | ProviderKind::WebPush => return None,
        };
        Some(CalledAccount { proof, way: way.clone() })
    }

    /// How each account is doing, those of tenants without any first.
    #[must_use]
    pub fn standings(&self) -> Vec<AccountStanding> {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        let others = self.others.get().into_iter();
        others.chain(own.values()).flat_map(|ways| ways.iter()).map(|way| standing(way)).collect()
    }

    /// The same, of one tenant's own accounts.
    #[must_use]
    pub fn standings_of(&self, tenant: TenantId) -> Vec<AccountStanding> {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        own.get(&tenant).into_iter().flat_map(|ways| ways.iter()).map(|way| standing(way)).collect()
    }

    fn ways(&self, tenant: TenantId) -> Ways {
        if let Some(own) = self.own_ways(tenant) {
            return own;
        }
        let open = || {
            let Some(SandboxAccounts { make, opener }) = self.sandbox.get() else { return Ways::default() };
            sorted(make().into_iter().map(|account| self.open(account, opener)).collect())
        };
        self.others.get_or_init(open).clone()
    }

    /// The same, but for accounts that nothing was sent through yet.
    fn ways_in_use(&self, tenant: TenantId) -> Option<Ways> {
        self.own_ways(tenant).or_else(|| self.others.get().cloned())
    }

    /// `None` for a tenant that never had an account. One that has none any more has no way out.
    fn own_ways(&self, tenant: TenantId) -> Option<Ways> {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner).get(&tenant).cloned();
        let had = || self.with_history.read().unwrap_or_else(PoisonError::into_inner).contains(&tenant);
        own.or_else(|| had().then(Ways::default))
    }

    /// Whether what the tenant sends goes to the sandbox.
    #[must_use]
    pub fn is_sandboxed(&self, tenant: TenantId) -> bool {
        self.sandbox.get().is_some() && self.own_ways(tenant).is_none()
    }

    fn open(&self, account: Account, opener: &Opener) -> Arc<AccountSender> {
        let client = opener(&account).map_err(|error| error.to_string());
        if let Err(reason) = &client {
            error!(provider = account.id, tenant = %account.tenant, reason, "an account cannot be used");
        }
        Arc::new(AccountSender::new(account, client, self.clock.clone(), self.tasks.clone()))
    }
}

/// How a call shows that it comes from the provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallbackProof {
    /// In its body.
    SnsSignature,
    /// In its head.
    TwilioSignature,
    /// It is not signed: it comes to an address that has a secret in it, or with a key.
    Secret,
}

/// An account that is called back.
pub struct CalledAccount {
    pub proof: CallbackProof,
    way: Arc<AccountSender>,
}

impl CalledAccount {
    /// The only channel that its calls speak of.
    #[must_use]
    pub fn channel(&self) -> ChannelKind {
        self.way.account.kind.channel()
    }

    /// What is said in the name of the provider. That a [`CallbackProof::Secret`] was shown, the caller has seen. An account
    /// that cannot be used proves nothing, so that a stranger is answered as if there were none.
    pub async fn hear(&self, call: &Incoming) -> Result<Heard, Deaf> {
        match &self.way.client {
            Ok(client) => client.hear(call).await,
            Err(_) => {
                open::check_in_vain(call, self.proof);
                Err(Deaf::NotProven)
            }
        }
    }

    /// What was heard under this id is durable.
    pub fn written(&self, message_id: String) {
        if let Ok(client) = &self.way.client {
            client.written(message_id);
        }
    }
}

impl Accounts for Registry {
    fn leave_sandbox(&self, tenants: Vec<TenantId>) {
        self.with_history.write().unwrap_or_else(PoisonError::into_inner).extend(tenants);
    }

    fn replace(&self, tenant: TenantId, accounts: Vec<Account>) {
        let known = self.own.read().unwrap_or_else(PoisonError::into_inner).get(&tenant).cloned();
        let known: BTreeMap<&str, &Arc<AccountSender>> =
            known.iter().flat_map(|ways| ways.iter()).map(|way| (way.account.id.as_str(), way)).collect();
        let open = |account: Account| match known.get(account.id.as_str()) {
            // One that did not change keeps its connections and its pace.
            Some(way) if way.account == account => Arc::clone(way),
            Some(_) | None => {
                info!(provider = account.id, %tenant, version = account.version, "account in use");
                self.open(account, &self.opener)
            }
        };
        let ways = sorted(accounts.into_iter().map(open).collect());
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        match ways.is_empty() {
            true => drop(own.remove(&tenant)),
            false => drop(own.insert(tenant, ways)),
        }
    }
}

fn standing(way: &AccountSender) -> AccountStanding {
    let Account { tenant, id, kind, enabled, .. } = &way.account;
    AccountStanding {
        tenant: *tenant,
        id: id.clone(),
        kind: *kind,
        enabled: *enabled,
        standing: way.standing(),
    }
}

fn sorted(mut ways: Vec<Arc<AccountSender>>) -> Ways {
    ways.sort_by(|a, b| (a.account.order, &a.account.id).cmp(&(b.account.order, &b.account.id)));
    Arc::new(ways)
}

/// One channel, through whichever accounts its tenant has.
struct Through {
    kind: ChannelKind,
    registry: Arc<Registry>,
}

impl Channel for Through {
    fn send<'a>(&'a self, shipment: &'a Shipment, report: &'a Report<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let ways = self.registry.ways(shipment.tenant);
            let mut by_chain: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
            let mut ahead = vec![0; ways.len()];
            for (place, message) in shipment.messages.iter().enumerate() {
                match chain(self.kind, &ways, message) {
                    Ok(mut chain) => {
                        begin_where_room_is(&mut chain, &ways, &mut ahead);
                        by_chain.entry(chain).or_default().push(place);
                    }
                    Err(answer) => report(place, answer),
                }
            }
            let sends = by_chain.into_iter().map(|(chain, places)| {
                let chain = chain.into_iter().map(|at| ways[at].clone()).collect();
                ask_all(chain, shipment, places, report)
            });
            join_all(sends).await;
        })
    }

    fn paces_hosts(&self) -> bool {
        true
    }

    fn places(&self, tenant: TenantId) -> u32 {
        let Some(ways) = self.registry.ways_in_use(tenant) else { return u32::MAX };
        let ways = ways.iter().filter(|way| way.account.enabled && is_of(way.account.kind, self.kind));
        // An account that rests gives its messages back at once, or to the next one; if all rest, they all may.
        let places: Vec<u32> = ways.filter_map(|way| way.places()).collect();
        if places.is_empty() { u32::MAX } else { places.iter().fold(0, |sum, one| sum.saturating_add(*one)) }
    }
}

/// Asks one account after the other, for what those before certainly did not take.
async fn ask_all(
    chain: Vec<Arc<AccountSender>>,
    shipment: &Shipment,
    places: Vec<usize>,
    report: &Report<'_>,
) {
    let mut left = places;
    let Some((last, others)) = chain.split_last() else { return };
    for way in others {
        let refused = Mutex::new(Vec::new());
        way.ask(shipment, (&left, NoRoom::GoesOn), report, &|place, _| locked(&refused).push(place)).await;
        left = std::mem::take(&mut *locked(&refused));
        left.sort_unstable();
        if left.is_empty() {
            return;
        }
    }
    // There is no other account: what it does not take is told at once.
    last.ask(shipment, (&left, NoRoom::ComesBack), report, report).await;
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_provider() -> Answer {
    Answer::Rejected {
        refusal: Refusal::Message,
        code: NO_PROVIDER.to_owned(),
        message: "the tenant has no account for this endpoint".to_owned(),
    }
}
