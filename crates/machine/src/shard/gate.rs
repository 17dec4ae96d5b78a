//! What the users of a parcel want, asked right before anything of it is authorised.
//!
//! Comes from: `intend` and `wake`, with users who ascend. Decides: nothing itself; it brings columns, for those who said
//! something about the category their rows, and what the tenant says about the category and the silent, to `rules::gates`. Goes to: a verdict for each user, which the caller
//! writes into the record. A change of what a user wants lies before or behind that record in the same journal.
//!
//! What must never happen: a send for somebody whose profile cannot be read.

use super::intend;
use super::serve::Known;
use crate::columns::{self, Column};
use crate::tables::respect;
use crate::tables::work::{Terms, WorkId};
use crate::view::View;
use fantail_ports::tables::TablesError;
use fantail_rules::attempt::Step;
use fantail_rules::category::CategoryId;
use fantail_rules::gates::{self, Ask, Choice, Frequency, Person, Reason, Verdict};
use fantail_rules::ids::{DeviceNo, Millis, TenantId, UserNo};
use fantail_rules::policy::Defaults;
use fantail_rules::preference::{CategoryChoice, Switch};
use fantail_rules::wall::Clocks;

/// The category whose messages need a yes.
const MARKETING: &str = "marketing";
/// What waits for a change of its user's profile, without knowing for how long, is looked at again after this.
const LOOK_AGAIN_MS: u64 = 60 * 60 * 1_000;

/// One user of a parcel.
pub(super) struct Asked {
    /// Where the user can be reached by the channel, ascending.
    pub devices: Vec<DeviceNo>,
    pub decision: Decision,
}

/// What the gates come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Decision {
    pub step: Step,
    pub code: &'static str,
    /// When to ask again; 0 if that is not needed.
    pub due: Millis,
}

impl Decision {
    pub(super) const ALLOWED: Self = Self { step: Step::Authorise, code: "", due: Millis(0) };
    /// The user is not there any more.
    pub(super) const GONE: Self = Self { step: Step::Suppress, code: intend::ERASED, due: Millis(0) };
}

/// Asks for one parcel.
pub(super) struct Gate<'a, 'v> {
    view: &'a View<'v>,
    work: WorkId,
    terms: Terms,
    ask: Ask,
    defaults: &'a Defaults,
    clocks: Clocks,
}

impl<'a, 'v> Gate<'a, 'v> {
    pub(super) fn new(view: &'a View<'v>, work: WorkId, terms: Terms, known: Known<'a>) -> Self {
        let Known { policies, now } = known;
        let is_marketing = terms.category == CategoryId::of(MARKETING);
        let defaults = policies.defaults(work.tenant);
        let usual = chosen(defaults.choice(terms.category, CategoryChoice::default()));
        let policy = policies.of(work.tenant, terms.category).gates(usual);
        let ask = Ask { lane: terms.lane, is_marketing, policy, ..Ask::new(work.channel) };
        Self { view, work, terms, ask, defaults, clocks: Clocks::at(now) }
    }

    /// Each of these users, who ascend: a row for every 64 of them, one more for each who has many devices, and one for
    /// each who may have said something about the category.
    pub(super) fn ask(&mut self, users: &[UserNo]) -> Result<Vec<Asked>, TablesError> {
        let WorkId { tenant, channel, .. } = self.work;
        let mut columns = vec![Column::default(); users.len()];
        columns::visit(self.view, tenant, users, &mut |place, column| columns[place] = column)?;
        users
            .iter()
            .zip(columns)
            .map(|(user, column)| {
                let devices = if column.reach.has_more() {
                    intend::listed_devices(self.view, tenant, *user, channel)?
                } else {
                    intend::devices(&column.reach, channel)
                };
                let decision = if !column.reach.exists() {
                    Decision::GONE
                } else if devices.is_empty() {
                    Decision::ALLOWED
                } else {
                    self.decide(*user, &column)?
                };
                Ok(Asked { devices, decision })
            })
            .collect()
    }

    fn decide(&mut self, user: UserNo, column: &Column) -> Result<Decision, TablesError> {
        let category = self.terms.category;
        let choice = if column.respect.may_speak_of(category) {
            let own = choice(self.view, self.work.tenant, user, category)?;
            own.map(|own| chosen(self.defaults.choice(category, own)))
        } else {
            None
        };
        let profile = column.respect.profile();
        let profile = profile.map(|profile| self.defaults.under(profile, column.respect.said()));
        let person = Person { profile, choice, ..Person::default() };
        Ok(match gates::decide(&self.ask, &person, &mut self.clocks) {
            Verdict::Allow => Decision::ALLOWED,
            Verdict::Suppress(reason) => {
                Decision { step: Step::Suppress, code: reason.word(), due: Millis(0) }
            }
            Verdict::Defer { until, reason } => self.deferred(until, reason),
            Verdict::Fold(fold) => Decision { step: Step::Suppress, code: fold.word(), due: Millis(0) },
        })
    }

    /// The time to live may end first: then it is looked at then.
    fn deferred(&self, until: Option<Millis>, reason: Reason) -> Decision {
        let until = until.unwrap_or(self.clocks.now().plus(LOOK_AGAIN_MS));
        Decision { step: Step::Defer, code: reason.word(), due: until.min(self.terms.expires_at) }
    }
}

/// What a user chose for a category.
fn choice(
    view: &View<'_>,
    tenant: TenantId,
    user: UserNo,
    category: CategoryId,
) -> Result<Option<CategoryChoice>, TablesError> {
    let row = respect::find(view, tenant, user)?;
    let mut chosen = row.preferences.categories.iter();
    let chosen = chosen.find(|(name, _)| CategoryId::of(name) == category);
    Ok(chosen.map(|(_, choice)| *choice))
}

/// As the gates ask for it.
fn chosen(choice: CategoryChoice) -> Choice {
    let CategoryChoice { switch, channels } = choice;
    Choice { is_off: switch == Switch::Off, channels, frequency: Frequency::Immediate }
}
