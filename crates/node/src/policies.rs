//! What tenants say about categories and the silent, read and changed.
//!
//! Comes from: the category and default preference APIs. Does: asks the root. Once it answers, everybody who plans goes by it.
//! Goes to: `machine::root::policy`; `control` has all of it as one value.

pub use fantail_machine::tables::policy::{CategoryRow, DefaultsRow};

use crate::ask::Refusal;
use crate::ask::templates::Expect;
use crate::core::{Core, answer, internal};
use crate::node::Node;
use fantail_machine::root::policy::{Answer, Ask, Change};
use fantail_machine::root::{RootAnswer, RootAsk};
use fantail_machine::tables::policy;
use fantail_ports::tables::{Tables, TablesError};
use fantail_rules::actor::Actor;
use fantail_rules::ids::{PartitionId, TenantId};
use fantail_rules::policy::{CategoryPolicy, Defaults};
use fantail_rules::priority::Priority;

/// What a policy takes in a queue.
const ASK_BYTES: usize = 4_096;

impl Node {
    /// `true` if it was created.
    pub async fn put_category(
        &self,
        tenant: TenantId,
        name: &str,
        expect: Expect,
        policy: CategoryPolicy,
    ) -> Result<(CategoryRow, bool), Refusal> {
        let change = Change::PutCategory { name: name.to_owned(), policy };
        match ask(&self.core, &self.by, Ask { tenant, expect, change }).await? {
            Answer::Category { row, created } => Ok((row, created)),
            _ => Err(other()),
        }
    }

    pub async fn delete_category(&self, tenant: TenantId, name: &str, expect: Expect) -> Result<(), Refusal> {
        let change = Change::DeleteCategory { name: name.to_owned() };
        match ask(&self.core, &self.by, Ask { tenant, expect, change }).await? {
            Answer::Gone => Ok(()),
            _ => Err(other()),
        }
    }

    pub fn category(&self, tenant: TenantId, name: &str) -> Result<CategoryRow, Refusal> {
        let found = self.read_policies(|tables| policy::category(tables, tenant, name))?;
        found.ok_or_else(|| Refusal::UnknownCategory { category: name.to_owned() })
    }

    /// By name.
    pub fn categories(&self, tenant: TenantId) -> Result<Vec<(String, CategoryRow)>, Refusal> {
        self.read_policies(|tables| policy::categories(tables, tenant))
    }

    pub fn defaults(&self, tenant: TenantId) -> Result<DefaultsRow, Refusal> {
        self.core.require_tenant(tenant)?;
        self.read_policies(|tables| policy::defaults(tables, tenant))
    }

    /// Refused if what is there is not what the caller expects.
    pub async fn set_defaults(
        &self,
        tenant: TenantId,
        expect: Expect,
        defaults: Defaults,
    ) -> Result<DefaultsRow, Refusal> {
        let change = Change::PutDefaults(defaults);
        match ask(&self.core, &self.by, Ask { tenant, expect, change }).await? {
            Answer::Defaults(row) => Ok(row),
            _ => Err(other()),
        }
    }

    /// The lane of something that names none.
    #[must_use]
    pub fn usual_priority(&self, tenant: TenantId, category: &str) -> Priority {
        self.core.control.now().policies.priority(tenant, category)
    }

    fn read_policies<T>(
        &self,
        read: impl FnOnce(&dyn Tables) -> Result<T, TablesError>,
    ) -> Result<T, Refusal> {
        self.core.read(PartitionId::Root, |view| read(view.tables()))
    }
}

/// The root answers when the change is durable and everybody has it.
async fn ask(core: &Core, by: &Actor, ask: Ask) -> Result<Answer, Refusal> {
    let (tenant, name) = match &ask.change {
        Change::PutCategory { name, .. } | Change::DeleteCategory { name } => (ask.tenant, name.clone()),
        Change::PutDefaults(_) => (ask.tenant, String::new()),
    };
    let pushed = core.root.push(tenant, by, vec![RootAsk::Policy(Box::new(ask))], ASK_BYTES);
    let RootAnswer::Policy(answer) = answer(pushed).await? else { return Err(other()) };
    match answer {
        done @ (Answer::Category { .. } | Answer::Gone | Answer::Defaults(_)) => Ok(done),
        Answer::Unknown => Err(Refusal::UnknownCategory { category: name }),
        Answer::Conflict { current } => Err(Refusal::PolicyConflict { current }),
        Answer::UnknownTenant => Err(Refusal::UnknownTenant),
        Answer::TooMany { limit } => Err(Refusal::TooMany { limit }),
    }
}

fn other() -> Refusal {
    internal("the root answered something else")
}
