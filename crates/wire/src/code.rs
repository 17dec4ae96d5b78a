//! The public error codes. A code, once released, keeps its name, its status and its meaning for good: clients
//! branch on it. Each has a page under `docs/errors` that says what happened and what to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal $status:literal $title:literal;)*) => {
        /// Why a request was refused.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The frozen name.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The HTTP status that always goes with it.
            #[must_use]
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// A short sentence that is the same for every occurrence.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

codes! {
    MalformedRequest "MALFORMED_REQUEST" 400 "The request is not well-formed HTTP";
    InvalidJson "INVALID_JSON" 400 "The body is not valid JSON";
    InvalidRequest "INVALID_REQUEST" 422 "The request has invalid fields";
    InvalidTemplate "INVALID_TEMPLATE" 422 "The template has problems";
    InvalidVariables "INVALID_VARIABLES" 422 "The variables do not fit the template";
    RenderFailed "RENDER_FAILED" 422 "The template could not be rendered";
    TooManyRenderings "TOO_MANY_RENDERINGS" 422 "The template says too much for one event";
    InvalidRecipient "INVALID_RECIPIENT" 422 "Some recipients do not exist";
    DuplicateNotification "DUPLICATE_NOTIFICATION" 409 "The id was used for another event";
    Unauthenticated "UNAUTHENTICATED" 401 "A valid API key is required";
    Forbidden "FORBIDDEN" 403 "The key may not do this";
    UnknownTenant "UNKNOWN_TENANT" 404 "There is no such tenant";
    TenantExists "TENANT_EXISTS" 409 "The tenant exists already";
    UserNotFound "USER_NOT_FOUND" 404 "There is no such user";
    NotificationNotFound "NOTIFICATION_NOT_FOUND" 404 "The user has no such notification";
    EventNotFound "EVENT_NOT_FOUND" 404 "There is no such event";
    DeliveryNotFound "DELIVERY_NOT_FOUND" 404 "There is no such delivery";
    DeviceNotFound "DEVICE_NOT_FOUND" 404 "The user has no such device";
    SuppressionNotFound "SUPPRESSION_NOT_FOUND" 404 "The address is not suppressed";
    BulkEnded "BULK_ENDED" 409 "The bulk send was called off";
    SegmentNotFound "SEGMENT_NOT_FOUND" 404 "There is no such segment";
    ScheduleNotFound "SCHEDULE_NOT_FOUND" 404 "There is no such schedule";
    InvalidFilter "INVALID_FILTER" 422 "The filter cannot be understood";
    WebhookNotFound "WEBHOOK_NOT_FOUND" 404 "There is no such webhook";
    ProviderNotFound "PROVIDER_NOT_FOUND" 404 "There is no such provider";
    CallbackRefused "CALLBACK_REFUSED" 403 "Nobody we know says this";
    KeyNotFound "KEY_NOT_FOUND" 404 "There is no such key";
    ErasureNotFound "ERASURE_NOT_FOUND" 404 "There is no such erasure";
    TemplateNotFound "TEMPLATE_NOT_FOUND" 404 "There is no such template or version";
    CategoryNotFound "CATEGORY_NOT_FOUND" 404 "The tenant says nothing about this category";
    TemplateInactive "TEMPLATE_INACTIVE" 409 "The template is switched off";
    VersionConflict "VERSION_CONFLICT" 412 "Another version is in force";
    RouteNotFound "ROUTE_NOT_FOUND" 404 "There is nothing at this path";
    UnknownHost "UNKNOWN_HOST" 421 "The server is not known by this name";
    MethodNotAllowed "METHOD_NOT_ALLOWED" 405 "This path does not answer this method";
    BodyTooLarge "BODY_TOO_LARGE" 413 "The body is too large";
    UnsupportedMediaType "UNSUPPORTED_MEDIA_TYPE" 415 "The content type is not supported";
    RateLimited "RATE_LIMITED" 429 "More is asked for than the rate allows";
    AddressRateLimited "ADDRESS_RATE_LIMITED" 429 "The address asks more than it may";
    LimitReached "LIMIT_REACHED" 409 "A limit was reached";
    QuotaExceeded "QUOTA_EXCEEDED" 409 "The tenant has as much as it may";
    TooManyConnections "TOO_MANY_CONNECTIONS" 503 "All connections are taken";
    QueueFull "QUEUE_FULL" 503 "The server is busy, try again";
    StorageFull "STORAGE_FULL" 503 "The disk is nearly full";
    NotReady "NOT_READY" 503 "The server is not ready";
    Stopping "STOPPING" 503 "The server is stopping";
    RequestTimeout "REQUEST_TIMEOUT" 408 "The request did not arrive in time";
    Internal "INTERNAL" 500 "Something went wrong on our side";
}

impl Code {
    /// Name of the page under `docs/errors`, without its ending.
    #[must_use]
    pub fn page(self) -> String {
        self.text().to_ascii_lowercase().replace('_', "-")
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.text() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: API-03
    #[test]
    fn names_are_unique_and_equal_to_their_json() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).expect("serializes"), code.text());
            assert_eq!(Code::parse(code.text()), Some(*code));
            assert!((400..600).contains(&code.status()), "{}", code.text());
            assert!(!code.title().is_empty() && !code.title().ends_with('.'));
        }
    }

    #[test]
    fn frozen_names_keep_their_status() {
        let frozen = [
            ("DUPLICATE_NOTIFICATION", 409),
            ("INVALID_RECIPIENT", 422),
            ("UNAUTHENTICATED", 401),
            ("FORBIDDEN", 403),
            ("RATE_LIMITED", 429),
            ("QUOTA_EXCEEDED", 409),
            ("QUEUE_FULL", 503),
            ("STORAGE_FULL", 503),
        ];
        for (text, status) in frozen {
            assert_eq!(Code::parse(text).map(Code::status), Some(status), "{text}");
        }
        assert_eq!(Code::DuplicateNotification.page(), "duplicate-notification");
    }
}
