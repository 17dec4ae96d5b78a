//! The page of each error code, built into the binary: a code without a page does not compile.

use fantail_wire::code::Code;

macro_rules! page {
    ($name:literal) => {
        include_str!(concat!("../../../docs/errors/", $name, ".md"))
    };
}

pub fn of(code: Code) -> &'static str {
    match code {
        Code::MalformedRequest => page!("malformed-request"),
        Code::TooManyConnections => page!("too-many-connections"),
        Code::InvalidJson => page!("invalid-json"),
        Code::InvalidRequest => page!("invalid-request"),
        Code::InvalidTemplate => page!("invalid-template"),
        Code::InvalidVariables => page!("invalid-variables"),
        Code::RenderFailed => page!("render-failed"),
        Code::TooManyRenderings => page!("too-many-renderings"),
        Code::InvalidRecipient => page!("invalid-recipient"),
        Code::DuplicateNotification => page!("duplicate-notification"),
        Code::Unauthenticated => page!("unauthenticated"),
        Code::Forbidden => page!("forbidden"),
        Code::UnknownTenant => page!("unknown-tenant"),
        Code::TenantExists => page!("tenant-exists"),
        Code::UserNotFound => page!("user-not-found"),
        Code::NotificationNotFound => page!("notification-not-found"),
        Code::EventNotFound => page!("event-not-found"),
        Code::DeliveryNotFound => page!("delivery-not-found"),
        Code::BulkEnded => page!("bulk-ended"),
        Code::SegmentNotFound => page!("segment-not-found"),
        Code::ScheduleNotFound => page!("schedule-not-found"),
        Code::InvalidFilter => page!("invalid-filter"),
        Code::WebhookNotFound => page!("webhook-not-found"),
        Code::ProviderNotFound => page!("provider-not-found"),
        Code::CallbackRefused => page!("callback-refused"),
        Code::CategoryNotFound => page!("category-not-found"),
        Code::DeviceNotFound => page!("device-not-found"),
        Code::SuppressionNotFound => page!("suppression-not-found"),
        Code::KeyNotFound => page!("key-not-found"),
        Code::ErasureNotFound => page!("erasure-not-found"),
        Code::TemplateNotFound => page!("template-not-found"),
        Code::TemplateInactive => page!("template-inactive"),
        Code::VersionConflict => page!("version-conflict"),
        Code::RouteNotFound => page!("route-not-found"),
        Code::UnknownHost => page!("unknown-host"),
        Code::MethodNotAllowed => page!("method-not-allowed"),
        Code::BodyTooLarge => page!("body-too-large"),
        Code::UnsupportedMediaType => page!("unsupported-media-type"),
        Code::RateLimited => page!("rate-limited"),
        Code::AddressRateLimited => page!("address-rate-limited"),
        Code::LimitReached => page!("limit-reached"),
        Code::QuotaExceeded => page!("quota-exceeded"),
        Code::QueueFull => page!("queue-full"),
        Code::StorageFull => page!("storage-full"),
        Code::NotReady => page!("not-ready"),
        Code::Stopping => page!("stopping"),
        Code::RequestTimeout => page!("request-timeout"),
        Code::Internal => page!("internal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: API-03
    #[test]
    fn pages_name_their_code_and_status() {
        for code in Code::ALL {
            let page = of(*code);
            assert!(page.starts_with(&format!("# {}\n", code.text())), "{}", code.text());
            assert!(page.contains(&code.status().to_string()), "{} names its status", code.text());
            assert!(page.contains("## What to do"), "{} says what to do", code.text());
        }
    }
}
