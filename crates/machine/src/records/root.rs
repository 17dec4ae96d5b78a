//! Facts of the control plane.
//!
//! ```text
//! 1 Layout     shards: varint, fronts: varint, directories: varint
//! 2 TenantPut  tenant, slug: text, name: text, tierUp: varint, retentionDays: varint, created: millis,
//!              rate: option rate, difference
//! 3 KeyPut     tenant, id: text, hash: 32, scopes: list of text, created, expires: option millis,
//!              rate: option rate, difference
//! 4 KeyRevoked tenant, id: text, difference
//! 5 to 7       templates: see `template`
//! 8 QuotaPut   tenant, quota, difference
//! 10 to 12     policies: see `policy`
//! 15 to 17     recurring schedules: see `schedule`
//! 20 to 22     segments: see `segment`
//! 40 to 43     webhooks to the producer: see `webhook`
//! 44 and 45    accounts with providers: see `provider`
//! 50 Noted     tenant, action: text, target: text
//!
//! rate = perSecond: varint (0: no limit), burst: varint      difference: see there
//! quota = for each resource, in the order of their numbers: option varint (0: no limit)
//! ```

use super::Fact;
use super::difference::Difference;
use super::policy::{CategoryPut, DefaultsPut};
use super::provider::{CallbackRotated, ProviderPut};
use super::schedule::{SchedulePut, ScheduleRan};
use super::segment::{SegmentListed, SegmentPut};
use super::template::{TemplateActivated, TemplatePut};
use super::webhook::{WebhookPut, WebhookSwitched};
use crate::codec::{Malformed, Reader, Writer};
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::pacing::Rate;
use fantail_rules::quota::{Quota, Resource};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RootRecord {
    /// How many shards, fronts and directories there are. Written once, when the data directory is created.
    Layout(Layout),
    TenantPut(Tenant, Difference),
    /// How much the tenant may have; all of it is replaced.
    QuotaPut(TenantQuota, Difference),
    KeyPut(ApiKey, Difference),
    KeyRevoked {
        tenant: TenantId,
        id: String,
        difference: Difference,
    },
    TemplatePut(Box<TemplatePut>),
    TemplateActivated(TemplateActivated),
    TemplateGone {
        tenant: TenantId,
        id: String,
        difference: Difference,
    },
    CategoryPut(Box<CategoryPut>),
    CategoryGone {
        tenant: TenantId,
        name: String,
        difference: Difference,
    },
    DefaultsPut(Box<DefaultsPut>),
    SchedulePut(Box<SchedulePut>),
    ScheduleGone {
        tenant: TenantId,
        id: String,
        difference: Difference,
    },
    ScheduleRan(ScheduleRan),
    SegmentPut(SegmentPut, Difference),
    SegmentListed(SegmentListed),
    /// `id` is its name.
    SegmentGone {
        tenant: TenantId,
        id: String,
        difference: Difference,
    },
    WebhookPut(WebhookPut, Difference),
    WebhookGone {
        tenant: TenantId,
        id: String,
        difference: Difference,
    },
    WebhookSwitched(WebhookSwitched),
    /// The receiver takes nothing from now on, or does again.
    WebhookFailing {
        tenant: TenantId,
        id: String,
        is_failing: bool,
    },
    ProviderPut(Box<ProviderPut>, Difference),
    ProviderGone {
        tenant: TenantId,
        id: String,
        difference: Difference,
    },
    CallbackRotated(CallbackRotated),
    /// Something was done that changes no table and belongs into the audit log: a backup, an export, refused logins.
    Noted(Noted),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Noted {
    /// 0: the server itself.
    pub tenant: TenantId,
    /// As the audit log names it: `backup.create`.
    pub action: String,
    /// What it was done to; never a person.
    pub target: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    pub shards: u16,
    pub fronts: u16,
    pub directories: u16,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tenant {
    pub id: TenantId,
    pub slug: String,
    pub name: String,
    pub tier_up: u32,
    pub retention_days: u32,
    pub created: Millis,
    /// How fast its producers may ask, together; `None`: as the server says.
    pub rate: Option<Rate>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantQuota {
    pub tenant: TenantId,
    pub quota: Quota,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiKey {
    pub tenant: TenantId,
    pub id: String,
    pub secret_hash: [u8; 32],
    pub scopes: Vec<String>,
    pub created: Millis,
    pub expires: Option<Millis>,
    /// How fast its holder may ask; `None`: as the server says.
    pub rate: Option<Rate>,
}

impl Layout {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.varint(self.shards.into()).varint(self.fronts.into()).varint(self.directories.into());
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { shards: r.u16()?, fronts: r.u16()?, directories: r.u16()? })
    }
}

impl Tenant {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.id).text(&self.slug).text(&self.name);
        w.varint(self.tier_up.into()).varint(self.retention_days.into()).millis(self.created);
        write_rate(w, self.rate);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: r.tenant()?,
            slug: r.text()?,
            name: r.text()?,
            tier_up: r.u32()?,
            retention_days: r.u32()?,
            created: r.millis()?,
            rate: r.option(read_rate)?,
        })
    }
}

impl Noted {
    fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.action).text(&self.target);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { tenant: r.tenant()?, action: r.text()?, target: r.text()? })
    }
}

impl TenantQuota {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant);
        for resource in Resource::ALL {
            w.option(self.quota.own(resource), |w, limit| {
                w.varint(limit);
            });
        }
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (tenant, mut quota) = (r.tenant()?, Quota::default());
        for resource in Resource::ALL {
            quota = quota.with(resource, r.option(Reader::varint)?);
        }
        Ok(Self { tenant, quota })
    }
}

impl ApiKey {
    pub(crate) fn write(&self, w: &mut Writer) {
        w.tenant(self.tenant).text(&self.id).fixed(&self.secret_hash);
        w.list(self.scopes.iter(), |w, scope| {
            w.text(scope);
        });
        w.millis(self.created).option(self.expires, |w, at| {
            w.millis(at);
        });
        write_rate(w, self.rate);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            tenant: r.tenant()?,
            id: r.text()?,
            secret_hash: r.array()?,
            scopes: r.list(Reader::text)?,
            created: r.millis()?,
            expires: r.option(Reader::millis)?,
            rate: r.option(read_rate)?,
        })
    }
}

fn write_rate(w: &mut Writer, rate: Option<Rate>) {
    w.option(rate, |w, rate| {
        w.varint(rate.per_second.into()).varint(rate.burst.into());
    });
}

fn read_rate(r: &mut Reader<'_>) -> Result<Rate, Malformed> {
    Ok(Rate { per_second: r.u32()?, burst: r.u32()? })
}

impl Fact for RootRecord {
    fn tag(&self) -> u8 {
        match self {
            Self::Layout(_) => 1,
            Self::TenantPut(..) => 2,
            Self::KeyPut(..) => 3,
            Self::KeyRevoked { .. } => 4,
            Self::TemplatePut(_) => 5,
            Self::TemplateActivated(_) => 6,
            Self::TemplateGone { .. } => 7,
            Self::QuotaPut(..) => 8,
            Self::CategoryPut(_) => 10,
            Self::CategoryGone { .. } => 11,
            Self::DefaultsPut(_) => 12,
            Self::SchedulePut(_) => 15,
            Self::ScheduleGone { .. } => 16,
            Self::ScheduleRan(_) => 17,
            Self::SegmentPut(..) => 20,
            Self::SegmentListed(_) => 21,
            Self::SegmentGone { .. } => 22,
            Self::WebhookPut(..) => 40,
            Self::WebhookGone { .. } => 41,
            Self::WebhookSwitched(_) => 42,
            Self::WebhookFailing { .. } => 43,
            Self::ProviderPut(..) => 44,
            Self::ProviderGone { .. } => 45,
            Self::CallbackRotated(_) => 46,
            Self::Noted(_) => 50,
        }
    }

    fn write(&self, w: &mut Writer) {
        match self {
            Self::Layout(layout) => {
                layout.write(w);
            }
            Self::TenantPut(tenant, difference) => {
                tenant.write(w);
                difference.write(w);
            }
            Self::QuotaPut(quota, difference) => {
                quota.write(w);
                difference.write(w);
            }
            Self::KeyPut(key, difference) => {
                key.write(w);
                difference.write(w);
            }
            Self::TemplatePut(put) => put.write(w),
            Self::TemplateActivated(activated) => activated.write(w),
            Self::SchedulePut(put) => put.write(w),
            Self::ScheduleRan(ran) => ran.write(w),
            Self::SegmentPut(put, difference) => {
                put.write(w);
                difference.write(w);
            }
            Self::SegmentListed(listed) => listed.write(w),
            Self::WebhookPut(put, difference) => {
                put.write(w);
                difference.write(w);
            }
            Self::WebhookSwitched(switched) => switched.write(w),
            Self::WebhookFailing { tenant, id, is_failing } => {
                w.tenant(*tenant).text(id).flag(*is_failing);
            }
            Self::ProviderPut(put, difference) => {
                put.write(w);
                difference.write(w);
            }
            Self::CallbackRotated(rotated) => rotated.write(w),
            Self::Noted(noted) => noted.write(w),
            Self::CategoryPut(put) => put.write(w),
            Self::DefaultsPut(put) => put.write(w),
            Self::KeyRevoked { tenant, id, difference }
            | Self::CategoryGone { tenant, name: id, difference }
            | Self::TemplateGone { tenant, id, difference }
            | Self::ScheduleGone { tenant, id, difference }
            | Self::SegmentGone { tenant, id, difference }
            | Self::ProviderGone { tenant, id, difference }
            | Self::WebhookGone { tenant, id, difference } => {
                w.tenant(*tenant).text(id);
                difference.write(w);
            }
        }
    }

    fn read(tag: u8, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match tag {
            1 => Self::Layout(Layout::read(r)?),
            2 => Self::TenantPut(Tenant::read(r)?, Difference::read(r)?),
            3 => Self::KeyPut(ApiKey::read(r)?, Difference::read(r)?),
            4 => {
                let (tenant, id, difference) = read_named(r)?;
                Self::KeyRevoked { tenant, id, difference }
            }
            5 => Self::TemplatePut(Box::new(TemplatePut::read(r)?)),
            6 => Self::TemplateActivated(TemplateActivated::read(r)?),
            7 => {
                let (tenant, id, difference) = read_named(r)?;
                Self::TemplateGone { tenant, id, difference }
            }
            8 => Self::QuotaPut(TenantQuota::read(r)?, Difference::read(r)?),
            10 => Self::CategoryPut(Box::new(CategoryPut::read(r)?)),
            11 => {
                let (tenant, name, difference) = read_named(r)?;
                Self::CategoryGone { tenant, name, difference }
            }
            12 => Self::DefaultsPut(Box::new(DefaultsPut::read(r)?)),
            15 => Self::SchedulePut(Box::new(SchedulePut::read(r)?)),
            16 => {
                let (tenant, id, difference) = read_named(r)?;
                Self::ScheduleGone { tenant, id, difference }
            }
            17 => Self::ScheduleRan(ScheduleRan::read(r)?),
            20 => Self::SegmentPut(SegmentPut::read(r)?, Difference::read(r)?),
            21 => Self::SegmentListed(SegmentListed::read(r)?),
            22 => {
                let (tenant, id, difference) = read_named(r)?;
                Self::SegmentGone { tenant, id, difference }
            }
            40 => Self::WebhookPut(WebhookPut::read(r)?, Difference::read(r)?),
            41 => {
                let (tenant, id, difference) = read_named(r)?;
                Self::WebhookGone { tenant, id, difference }
            }
            42 => Self::WebhookSwitched(WebhookSwitched::read(r)?),
            43 => Self::WebhookFailing { tenant: r.tenant()?, id: r.text()?, is_failing: r.flag()? },
            44 => Self::ProviderPut(Box::new(ProviderPut::read(r)?), Difference::read(r)?),
            45 => {
                let (tenant, id, difference) = read_named(r)?;
                Self::ProviderGone { tenant, id, difference }
            }
            46 => Self::CallbackRotated(CallbackRotated::read(r)?),
            50 => Self::Noted(Noted::read(r)?),
            _ => return Err(Malformed::Tag(tag)),
        })
    }
}

fn read_named(r: &mut Reader<'_>) -> Result<(TenantId, String, Difference), Malformed> {
    Ok((r.tenant()?, r.text()?, Difference::read(r)?))
}
