//! Why a request is not answered as asked, and the one place where the node's refusals become public codes.

use crate::access::AccessFault;
use crate::reply::Reply;
use crate::template_problem;
use axum::http::{HeaderValue, header};
use fantail_node::ask::{Refusal, Resource};
use fantail_rules::pacing::retry_after_s;
use fantail_wire::code::Code;
use fantail_wire::problem::{FieldError, MEDIA_TYPE};
use std::borrow::Cow;
use tracing::{error, warn};

/// Field errors in one document; a caller with more has the idea.
pub const FIELD_ERRORS_MAX: usize = 20;

#[derive(Clone, Debug)]
pub struct Problem {
    pub code: Code,
    pub detail: Cow<'static, str>,
    pub errors: Vec<FieldError>,
    retry_after_s: Option<u64>,
    /// What is in force instead of what the caller expected.
    version: Option<u32>,
    /// For the operator: why the caller may not do this.
    fault: Option<AccessFault>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after_s: None,
            version: None,
            fault: None,
        }
    }

    /// One wrong field.
    pub fn field(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            errors: vec![FieldError::new(pointer, detail)],
            ..Self::new(Code::InvalidRequest, "a field is invalid")
        }
    }

    #[must_use]
    pub fn with_errors(self, errors: Vec<FieldError>) -> Self {
        Self { errors, ..self }
    }

    /// The same faults under another code.
    #[must_use]
    pub fn of(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// Faults of a part of the body that begins here.
    #[must_use]
    pub fn below(mut self, pointer: &str) -> Self {
        self.errors.iter_mut().for_each(|error| error.pointer.insert_str(0, pointer));
        self
    }

    #[must_use]
    pub fn retry_after_s(self, seconds: u64) -> Self {
        Self { retry_after_s: Some(seconds), ..self }
    }

    #[must_use]
    pub fn with_version(self, version: Option<u32>) -> Self {
        Self { version, ..self }
    }

    #[must_use]
    pub fn because(self, fault: AccessFault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    /// Why the caller may not do this, if that is what is wrong.
    #[must_use]
    pub fn fault(&self) -> Option<AccessFault> {
        self.fault.or((self.code == Code::Forbidden).then_some(AccessFault::Forbidden))
    }

    /// For a request that names no version where one is in force: what to send instead.
    #[must_use]
    pub fn without_condition(mut self) -> Self {
        let (Code::VersionConflict, Some(version)) = (self.code, self.version) else { return self };
        let detail =
            format!("version {version} is in force and If-Match is missing: send If-Match: \"{version}\"");
        self.errors =
            vec![FieldError::new("/If-Match", format!("is missing, version {version} is in force"))];
        self.detail = detail.into();
        self
    }

    /// Every 422 says where: what concerns the whole body points at all of it.
    fn located(&self) -> Vec<FieldError> {
        if self.errors.is_empty() && self.code.status() == 422 {
            return vec![FieldError::new("", self.detail.as_ref())];
        }
        self.errors.clone()
    }

    /// The document as it goes out.
    pub fn into_reply(self, request_id: &str) -> Reply {
        let errors = self.located();
        let document = fantail_wire::problem::Problem {
            kind: format!("/errors/{}", self.code.page()),
            title: self.code.title().to_owned(),
            status: self.code.status(),
            detail: self.detail.into_owned(),
            code: self.code,
            request_id: request_id.to_owned(),
            errors,
        };
        let mut reply = Reply::json(self.code.status(), &document).with_type(MEDIA_TYPE);
        if let Some(seconds) = self.retry_after_s {
            reply = reply.with_header(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(version) = self.version {
            reply = reply.with_version(version);
        }
        if self.code == Code::Unauthenticated {
            reply = reply.with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        reply
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            Refusal::UnknownTenant => Self::new(Code::UnknownTenant, detail),
            Refusal::TenantExists { .. } => Self::new(Code::TenantExists, detail),
            Refusal::TooMany { .. } => Self::new(Code::LimitReached, detail),
            Refusal::UnknownWebhook { .. } => Self::new(Code::WebhookNotFound, detail),
            Refusal::UnknownProvider { .. } => Self::new(Code::ProviderNotFound, detail),
            Refusal::ProviderKind { .. } => Self::field("/kind", detail),
            Refusal::ProviderConflict { current } => {
                Self::new(Code::VersionConflict, detail).with_version(current)
            }
            Refusal::BulkEnded { .. } => Self::new(Code::BulkEnded, detail),
            Refusal::UnknownSegment { .. } => Self::new(Code::SegmentNotFound, detail),
            Refusal::UnknownSchedule { .. } => Self::new(Code::ScheduleNotFound, detail),
            Refusal::UnknownKey => Self::new(Code::KeyNotFound, detail),
            Refusal::UnknownUser { .. } => Self::new(Code::UserNotFound, detail),
            Refusal::UnknownRecipients { users } => unknown_recipients(&users),
            Refusal::SameRecipient { second, .. } => {
                let error = FieldError::new(format!("/recipients/{second}"), detail.clone());
                Self::new(Code::InvalidRecipient, detail).with_errors(vec![error])
            }
            Refusal::UnknownNotification { .. } => Self::new(Code::NotificationNotFound, detail),
            Refusal::BadCursor => Self::field("/cursor", detail),
            Refusal::UnknownDevice { .. } => Self::new(Code::DeviceNotFound, detail),
            Refusal::NotSuppressed => Self::new(Code::SuppressionNotFound, detail),
            Refusal::UnknownEvent { .. } => Self::new(Code::EventNotFound, detail),
            Refusal::UnknownDelivery => Self::new(Code::DeliveryNotFound, detail),
            Refusal::OtherBody => Self::new(
                Code::DuplicateNotification,
                "this id was used within the last 48 hours for something with other content",
            ),
            Refusal::UnknownTemplate { .. } | Refusal::UnknownTemplateVersion { .. } => {
                Self::new(Code::TemplateNotFound, detail)
            }
            Refusal::TemplateConflict { current } => {
                Self::new(Code::VersionConflict, detail).with_version(current)
            }
            Refusal::RespectConflict { current } => {
                Self::new(Code::VersionConflict, detail).with_version(Some(current))
            }
            Refusal::PolicyConflict { current } => {
                Self::new(Code::VersionConflict, detail).with_version(current)
            }
            Refusal::UserChanged => Self::new(Code::VersionConflict, detail),
            Refusal::UnknownCategory { .. } => Self::new(Code::CategoryNotFound, detail),
            Refusal::TemplateInactive { .. } => Self::new(Code::TemplateInactive, detail),
            Refusal::InvalidTemplate { problems } => template_problem::invalid(problems),
            Refusal::TooManyFollows { .. }
            | Refusal::TooManyEndpoints { .. }
            | Refusal::TooManyScheduled { .. }
            | Refusal::TooManySecrets { .. }
            | Refusal::TooManySnoozed { .. } => Self::new(Code::LimitReached, detail),
            Refusal::OverQuota { resource, .. } => over_quota(resource, detail),
            Refusal::TooFast { retry_after_ms } => {
                later(Code::RateLimited, "the tenant or the key asks faster than it may", retry_after_ms)
            }
            Refusal::Busy { retry_after_ms } => {
                later(Code::QueueFull, "too much is waiting to be stored", retry_after_ms)
            }
            // The sizes of requests are limited before: what does not fit is ours to look at.
            Refusal::TooLarge { .. } => Self::new(Code::BodyTooLarge, detail),
            Refusal::NoRoom => {
                Self::new(Code::StorageFull, "nothing new is stored until space returns").retry_after_s(30)
            }
            Refusal::Internal { reason } => internal(&reason),
            Refusal::Stopped { reason } => stopped(&reason),
        }
    }
}

/// Scheduled notifications end by themselves; everything else stays until it is deleted.
fn over_quota(resource: Resource, detail: String) -> Problem {
    let problem = Problem::new(Code::QuotaExceeded, detail);
    match resource {
        Resource::Waiting => problem.retry_after_s(60),
        Resource::Users | Resource::Devices | Resource::Schedules | Resource::StoredBytes => problem,
    }
}

fn later(code: Code, detail: &'static str, retry_after_ms: u64) -> Problem {
    Problem::new(code, detail).retry_after_s(retry_after_s(retry_after_ms))
}

/// The reason may name files: it is for the operator.
fn internal(reason: &str) -> Problem {
    error!(reason, "failed inside the server");
    Problem::new(Code::Internal, "the server could not do this, see its log")
}

/// As with [`internal`].
fn stopped(reason: &str) -> Problem {
    warn!(reason, "refused: not serving");
    Problem::new(Code::Stopping, "the server does not accept changes any more").retry_after_s(5)
}

fn unknown_recipients(users: &[String]) -> Problem {
    let errors = users
        .iter()
        .take(FIELD_ERRORS_MAX)
        .map(|user| FieldError::new("/data/audience/users", format!("no such user: {user}")))
        .collect();
    let count = users.len();
    Problem::new(Code::InvalidRecipient, format!("{count} recipients do not exist")).with_errors(errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fantail_rules::ulid::Ulid;

    // proves: API-03
    #[test]
    fn refusals_become_codes() {
        let cases = [
            (Refusal::UnknownTenant, "UNKNOWN_TENANT"),
            (Refusal::TenantExists { slug: "a".into() }, "TENANT_EXISTS"),
            (Refusal::TooMany { limit: 3 }, "LIMIT_REACHED"),
            (Refusal::UnknownKey, "KEY_NOT_FOUND"),
            (Refusal::UnknownWebhook { webhook: "w".into() }, "WEBHOOK_NOT_FOUND"),
            (Refusal::UnknownProvider { provider: "p".into() }, "PROVIDER_NOT_FOUND"),
            (Refusal::ProviderKind { provider: "p".into() }, "INVALID_REQUEST"),
            (Refusal::ProviderConflict { current: Some(2) }, "VERSION_CONFLICT"),
            (Refusal::BulkEnded { event: Ulid(1) }, "BULK_ENDED"),
            (Refusal::UnknownSegment { segment: "s".into() }, "SEGMENT_NOT_FOUND"),
            (Refusal::UnknownSchedule { schedule: "s".into() }, "SCHEDULE_NOT_FOUND"),
            (Refusal::UnknownUser { user: "u".into() }, "USER_NOT_FOUND"),
            (Refusal::UnknownRecipients { users: vec!["u".into()] }, "INVALID_RECIPIENT"),
            (Refusal::UnknownNotification { event: Ulid(1) }, "NOTIFICATION_NOT_FOUND"),
            (Refusal::UnknownEvent { event: Ulid(1) }, "EVENT_NOT_FOUND"),
            (Refusal::UnknownDelivery, "DELIVERY_NOT_FOUND"),
            (Refusal::BadCursor, "INVALID_REQUEST"),
            (Refusal::OtherBody, "DUPLICATE_NOTIFICATION"),
            (Refusal::TooManyFollows { user: "u".into(), limit: 1 }, "LIMIT_REACHED"),
            (Refusal::TooManySnoozed { limit: 1 }, "LIMIT_REACHED"),
            (Refusal::TooManyScheduled { limit: 1 }, "LIMIT_REACHED"),
            (Refusal::OverQuota { resource: Resource::Users, limit: 1 }, "QUOTA_EXCEEDED"),
            (Refusal::UnknownTemplate { template: "t".into() }, "TEMPLATE_NOT_FOUND"),
            (Refusal::UnknownTemplateVersion { template: "t".into(), version: 2 }, "TEMPLATE_NOT_FOUND"),
            (Refusal::TemplateConflict { current: Some(3) }, "VERSION_CONFLICT"),
            (Refusal::UserChanged, "VERSION_CONFLICT"),
            (Refusal::UnknownCategory { category: "c".into() }, "CATEGORY_NOT_FOUND"),
            (Refusal::PolicyConflict { current: Some(3) }, "VERSION_CONFLICT"),
            (Refusal::TemplateInactive { template: "t".into() }, "TEMPLATE_INACTIVE"),
            (Refusal::InvalidTemplate { problems: vec![] }, "INVALID_TEMPLATE"),
            (Refusal::TooManySecrets { limit: 1 }, "LIMIT_REACHED"),
            (Refusal::TooManyEndpoints { user: "u".into(), limit: 1 }, "LIMIT_REACHED"),
            (Refusal::UnknownDevice { device: "d".into() }, "DEVICE_NOT_FOUND"),
            (Refusal::NotSuppressed, "SUPPRESSION_NOT_FOUND"),
            (Refusal::Busy { retry_after_ms: 20 }, "QUEUE_FULL"),
            (Refusal::TooLarge { what: "record", bytes: 9, max: 8 }, "BODY_TOO_LARGE"),
            (Refusal::NoRoom, "STORAGE_FULL"),
            (Refusal::Internal { reason: "secret path".into() }, "INTERNAL"),
            (Refusal::Stopped { reason: "secret path".into() }, "STOPPING"),
        ];
        for (refusal, code) in cases {
            let problem = Problem::from(refusal);
            assert_eq!(problem.code.text(), code);
            assert!(!problem.detail.contains("secret path"), "reasons stay in the log");
        }
    }

    // fixes: usability §3.15
    #[test]
    fn every_422_says_where() {
        for code in Code::ALL.iter().filter(|code| code.status() == 422) {
            let reply = Problem::new(*code, "wrong").into_reply("r1");
            let document: serde_json::Value = serde_json::from_slice(&reply.body).expect("a document");
            assert_eq!(document["errors"][0]["detail"], "wrong", "{code:?}");
        }
        let reply = Problem::new(Code::Forbidden, "no").into_reply("r1");
        let document: serde_json::Value = serde_json::from_slice(&reply.body).expect("a document");
        assert!(document["errors"].is_null());
    }

    // fixes: usability §3.9
    #[test]
    fn a_missing_condition_is_named() {
        let conflict = || Problem::from(Refusal::PolicyConflict { current: Some(3) });
        assert_eq!(
            conflict().without_condition().detail,
            "version 3 is in force and If-Match is missing: send If-Match: \"3\""
        );
        assert_eq!(conflict().without_condition().errors[0].pointer, "/If-Match");
        let none = Problem::from(Refusal::PolicyConflict { current: None });
        assert_eq!(none.clone().without_condition().detail, none.detail);
        let other = Problem::field("/x", "wrong");
        assert_eq!(other.without_condition().errors[0].pointer, "/x");
    }

    #[test]
    fn documents_say_when_to_come_back() {
        let reply = Problem::from(Refusal::Busy { retry_after_ms: 1_200 }).into_reply("r1");
        assert_eq!(reply.status.as_u16(), 503);
        assert_eq!(reply.header("retry-after"), Some("2"));
        let document: fantail_wire::problem::Problem =
            serde_json::from_slice(&reply.body).expect("a document");
        assert_eq!(document.kind, "/errors/queue-full");
        assert_eq!(document.request_id, "r1");
        assert_eq!(document.status, 503);
    }

    // fixes: security M8
    #[test]
    fn only_what_goes_by_itself_is_worth_asking_again() {
        let reply = |resource| Problem::from(Refusal::OverQuota { resource, limit: 7 }).into_reply("r1");
        for (resource, retry_after) in [
            (Resource::Users, None),
            (Resource::Devices, None),
            (Resource::Schedules, None),
            (Resource::Waiting, Some("60")),
            (Resource::StoredBytes, None),
        ] {
            let reply = reply(resource);
            assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (409, retry_after));
            assert!(String::from_utf8_lossy(&reply.body).contains(&format!("at most 7 {}", resource.noun())));
        }
    }

    #[test]
    fn many_unknown_recipients_are_cut() {
        let users = (0..1_000).map(|n| format!("u{n}")).collect();
        let problem = Problem::from(Refusal::UnknownRecipients { users });
        assert_eq!(problem.errors.len(), FIELD_ERRORS_MAX);
        assert!(problem.detail.contains("1000"));
    }
}
