//! Bounds of values in the schemas: lengths, patterns, ranges and counts.
//!
//! Comes from: the constants that the checks use, so that the document cannot say another number than they do. A server test
//! goes one beyond each of them. Lengths are those of ASCII text: the server counts bytes of UTF-8.
//! Rules between fields are in `choices`. A `format` names what a pattern cannot say: a time zone, a secret, a URL that can be called.

use super::rule::Rule::{
    Count, Each, Entries, Formatted, Items, Long, Matching, Name, NewName, Number, Text, Words,
};
use super::rule::{Rule, pattern};
use crate::check::URL_BYTES_MAX;
use crate::v1::providers::{CONCURRENCY_MAX, PER_SECOND_MAX};
use crate::v1::push_target::{APP_ID_BYTES_MAX, AUTH_LETTERS, P256DH_LETTERS};
use crate::v1::tenants::RETENTION_DAYS_MAX;
use crate::v1::webhooks::KEEP_S_MAX;
use fantail_rules::address::{EMAIL_BYTES_MAX, LOCALE_BYTES_MAX, PHONE_BYTES_MAX};
use fantail_rules::limits::{
    ACTIONS_MAX, ADDRESS_BYTES_MAX, APP_VERSION_BYTES_MAX, BATCH_ITEMS_MAX, BODY_TEXT_BYTES_MAX, BURST_MAX,
    CAP_PER_DAY_MAX, CAP_PER_HOUR_MAX, CATEGORY_BYTES_MAX, CATEGORY_CHOICES_MAX, COLLAPSE_KEY_BYTES_MAX,
    CRON_BYTES_MAX, DIGEST_ITEMS_MAX, DIGEST_WINDOW_SECONDS_MAX, EXPLICIT_USERS_MAX, FALLBACK_SECONDS_MAX,
    FALLBACK_STEPS_MAX, KEY_TEMPLATE_BYTES_MAX, MARK_IDS_MAX, NAME_BYTES_MAX, PRODUCER_RATE_MAX,
    RECEIPT_CODE_BYTES_MAX, RECEIPTS_MAX, RECIPIENTS_MAX, REFILL_SECONDS_MAX, SEGMENT_FILTER_BYTES_MAX,
    SEGMENT_NOTE_BYTES_MAX, SOURCE_BYTES_MAX, SPREAD_MINUTES_MAX, STORM_SECONDS_MAX, THROTTLE_SECONDS_MAX,
    TIER_UP_MIN, TITLE_BYTES_MAX, TTL_S_MAX, TTL_S_MIN, WALK_RATE_MAX,
};
use fantail_templates::limits::{
    DOCUMENT_SOURCE_BYTES_MAX, LOCALES_MAX, PARTIALS_MAX, TEXT_SOURCE_BYTES_MAX, VARIANTS_MAX, WEIGHT_MAX,
};
use serde_json::{Value, json};

const EMAIL: Rule = Matching(pattern::EMAIL, EMAIL_BYTES_MAX);
const PHONE: Rule = Matching(pattern::PHONE, PHONE_BYTES_MAX);
const LOCALE: Rule = Matching(pattern::LOCALE, LOCALE_BYTES_MAX);
const ZONE: Rule = Formatted("time-zone", pattern::ZONE_LETTERS_MAX);
const URL: Rule = Matching(pattern::WEB_URL, URL_BYTES_MAX);
/// Where something is sent: the operator decides whether that may be.
const TARGET: Rule = Formatted("public-url", URL_BYTES_MAX);
const CLOCK: Rule = Matching(pattern::CLOCK, 5);
const SECRET: Rule = Formatted("webhook-secret", pattern::SECRET_LETTERS_MAX);
/// Of a digest or a throttle.
const KEY: Rule = Formatted("key-template", KEY_TEMPLATE_BYTES_MAX);
const CRON: Rule = Formatted("cron", CRON_BYTES_MAX);
const OUT_OF_HOUSE: Rule = Words(|| vec!["push", "email", "sms", "webhook"]);
const CATEGORY: Rule = Matching(pattern::NO_CONTROL, CATEGORY_BYTES_MAX);
const VERSION: Rule = Number(0, u32::MAX as u64);

/// Schema, property (with `[]` for its items) and rule.
const BOUNDS: &[(&str, &str, Rule)] = &[
    // Events and their contents.
    ("CloudEvent", "specversion", Words(|| vec!["1.0"])),
    ("CloudEvent", "id", NewName),
    ("CloudEvent", "source", Name),
    ("CloudEvent", "type", Name),
    ("CloudEvent", "actor", Name),
    ("EventData", "category", CATEGORY),
    ("EventData", "ttl", Number(TTL_S_MIN, TTL_S_MAX)),
    ("EventData", "templateId", Name),
    ("EventData", "templateVersion", VERSION),
    ("Audience", "users", Items(1, EXPLICIT_USERS_MAX)),
    ("Audience", "users", Each(&Name)),
    ("Audience", "followersOf", Name),
    ("Audience", "topic", Name),
    ("Audience", "segment", Name),
    ("Content", "title", Text(TITLE_BYTES_MAX)),
    ("Content", "body", Long(BODY_TEXT_BYTES_MAX)),
    ("Content", "imageUrl", URL),
    ("Content", "actions", Items(0, ACTIONS_MAX)),
    ("Action", "id", Name),
    ("Action", "title", Text(NAME_BYTES_MAX)),
    ("Action", "url", Matching(pattern::ANY_URL, URL_BYTES_MAX)),
    ("SendOptions", "ttl", Number(TTL_S_MIN, TTL_S_MAX)),
    ("SendOptions", "sendAtLocal", Matching(pattern::LOCAL_TIME, 16)),
    ("SendOptions", "cancellationKey", Name),
    ("SendOptions", "collapseKey", Matching(pattern::VISIBLE, COLLAPSE_KEY_BYTES_MAX)),
    ("OffPeakHours", "start", CLOCK),
    ("OffPeakHours", "end", CLOCK),
    ("OffPeakHours", "days", Count(1)),
    // Notifications.
    ("NotificationSend", "notificationId", NewName),
    ("NotificationSend", "templateId", Name),
    ("NotificationSend", "templateVersion", VERSION),
    ("NotificationSend", "recipients", Items(1, RECIPIENTS_MAX)),
    ("NotificationSend", "category", CATEGORY),
    ("RecipientSend", "userId", Name),
    ("RecipientSend", "email", EMAIL),
    ("RecipientSend", "phone", PHONE),
    ("WebhookAddress", "url", TARGET),
    ("WebhookAddress", "secret", SECRET),
    ("PushAddress", "platform", Words(|| vec!["ios", "android"])),
    ("PushAddress", "token", Matching(pattern::NO_BLANKS, ADDRESS_BYTES_MAX)),
    ("PushAddress", "appId", Matching(pattern::APP_ID, APP_ID_BYTES_MAX)),
    ("CancelByKey", "cancellationKey", Name),
    ("DeadLetterChoice", "eventId", Name),
    ("DeadLetterChoice", "notificationId", Name),
    ("DeadLetterChoice", "code", Name),
    ("DeadLetterChoice", "users", Items(0, BATCH_ITEMS_MAX)),
    ("DeadLetterChoice", "users", Each(&Name)),
    ("Receipts", "receipts", Items(1, RECEIPTS_MAX)),
    ("Receipt", "code", Matching(pattern::VISIBLE_OR_NOTHING, RECEIPT_CODE_BYTES_MAX)),
    // Bulk sends, segments and schedules.
    ("BulkSend", "notificationId", NewName),
    ("BulkSend", "category", CATEGORY),
    ("BulkSend", "templateId", Name),
    ("BulkSend", "templateVersion", VERSION),
    ("BulkSend", "ratePerSecond", Number(1, WALK_RATE_MAX as u64)),
    ("BulkSend", "spreadOverMinutes", Number(1, SPREAD_MINUTES_MAX as u64)),
    ("RecipientQuery", "segment", Name),
    ("OffPeak", "start", CLOCK),
    ("OffPeak", "end", CLOCK),
    ("OffPeak", "timezone", ZONE),
    ("BulkPatch", "ratePerSecond", Number(1, WALK_RATE_MAX as u64)),
    ("BulkPatch", "spreadOverMinutes", Number(1, SPREAD_MINUTES_MAX as u64)),
    ("SegmentPut", "filter", Text(SEGMENT_FILTER_BYTES_MAX)),
    ("SegmentPut", "description", Long(SEGMENT_NOTE_BYTES_MAX)),
    ("SchedulePut", "cron", CRON),
    ("SchedulePut", "timezone", ZONE),
    ("SchedulePatch", "cron", CRON),
    ("SchedulePatch", "timezone", ZONE),
    // Users and where they are reached.
    ("UserPut", "email", EMAIL),
    ("UserPut", "phone", PHONE),
    ("UserPut", "locale", LOCALE),
    ("UserPut", "timezone", ZONE),
    ("UserPatch", "email", EMAIL),
    ("UserPatch", "phone", PHONE),
    ("UserPatch", "locale", LOCALE),
    ("UserPatch", "timezone", ZONE),
    ("UsersBatch", "users", Items(1, BATCH_ITEMS_MAX)),
    ("UserItem", "userId", NewName),
    ("UserItem", "email", EMAIL),
    ("UserItem", "phone", PHONE),
    ("UserItem", "locale", LOCALE),
    ("UserItem", "timezone", ZONE),
    ("FollowsBatch", "follows", Items(1, BATCH_ITEMS_MAX)),
    ("Follow", "user", Name),
    ("Follow", "actor", Name),
    ("SubscribersBatch", "users", Items(1, BATCH_ITEMS_MAX)),
    ("SubscribersBatch", "users", Each(&Name)),
    ("DeviceRegister", "userId", Name),
    ("DeviceRegister", "deviceId", NewName),
    ("DeviceRegister", "token", Matching(pattern::NO_BLANKS, ADDRESS_BYTES_MAX)),
    ("DeviceRegister", "appId", Matching(pattern::APP_ID, APP_ID_BYTES_MAX)),
    ("DeviceRegister", "url", TARGET),
    ("DeviceRegister", "secret", SECRET),
    ("DeviceRegister", "previousSecret", SECRET),
    ("DeviceRegister", "appVersion", Text(APP_VERSION_BYTES_MAX)),
    ("Subscription", "endpoint", Formatted("public-url", URL_BYTES_MAX)),
    ("SubscriptionKeys", "p256dh", Matching(pattern::P256DH, P256DH_LETTERS + 1)),
    ("SubscriptionKeys", "auth", Matching(pattern::PUSH_AUTH, AUTH_LETTERS + 2)),
    ("Marks", "ids", Items(1, MARK_IDS_MAX)),
    ("Marks", "ids", Each(&Name)),
    ("Marks", "before", Text(pattern::CURSOR_LETTERS_MAX)),
    ("Snooze", "ids", Items(1, MARK_IDS_MAX)),
    ("Snooze", "ids", Each(&Name)),
    ("Unsnooze", "ids", Items(1, MARK_IDS_MAX)),
    ("Unsnooze", "ids", Each(&Name)),
    ("ErasureAsk", "userId", Name),
    // Preferences of users, and a tenant's policies of categories.
    ("Preferences", "categories", Entries(CATEGORY_CHOICES_MAX)),
    ("QuietHours", "start", CLOCK),
    ("QuietHours", "end", CLOCK),
    ("QuietHours", "timezone", ZONE),
    ("QuietHours", "days", Count(1)),
    ("Frequency", "maxPerHour", Number(1, CAP_PER_HOUR_MAX as u64)),
    ("Frequency", "maxPerDay", Number(1, CAP_PER_DAY_MAX as u64)),
    ("Burst", "size", Number(1, BURST_MAX as u64)),
    ("Burst", "refillSeconds", Number(1, REFILL_SECONDS_MAX as u64)),
    ("ConsentPut", "version", Text(SOURCE_BYTES_MAX)),
    ("ConsentPut", "source", Text(SOURCE_BYTES_MAX)),
    ("PreferenceLinkAsk", "channel", OUT_OF_HOUSE),
    ("PreferenceLinkAsk", "category", Text(CATEGORY_BYTES_MAX)),
    ("CategoryPolicy", "fallback", Items(0, FALLBACK_STEPS_MAX)),
    ("CategoryPolicy", "blockedChannels", Each(&OUT_OF_HOUSE)),
    ("FallbackStep", "channel", OUT_OF_HOUSE),
    ("DigestPolicy", "windowSeconds", Number(1, DIGEST_WINDOW_SECONDS_MAX as u64)),
    ("DigestPolicy", "minCount", Number(1, DIGEST_ITEMS_MAX as u64)),
    ("DigestPolicy", "maxCount", Number(1, DIGEST_ITEMS_MAX as u64)),
    ("DigestPolicy", "leading", Number(0, DIGEST_ITEMS_MAX as u64)),
    ("DigestPolicy", "collapseKey", KEY),
    ("StormPolicy", "windowSeconds", Number(1, STORM_SECONDS_MAX as u64)),
    ("StormPolicy", "threshold", Number(0, u8::MAX as u64)),
    ("CalendarPolicy", "daily", CLOCK),
    ("WeeklyTime", "time", CLOCK),
    ("ThrottlePolicy", "perSeconds", Number(1, THROTTLE_SECONDS_MAX as u64)),
    ("ThrottlePolicy", "key", KEY),
    ("FallbackStep", "afterSeconds", Number(1, FALLBACK_SECONDS_MAX as u64)),
    // Tenants, keys, accounts and webhooks.
    ("TenantCreate", "slug", Matching(pattern::SLUG, 63)),
    ("TenantCreate", "name", Name),
    ("TenantChange", "name", Name),
    ("TenantChange", "celebrityThreshold", Number(TIER_UP_MIN as u64, u32::MAX as u64)),
    ("TenantChange", "retentionDays", Number(1, RETENTION_DAYS_MAX as u64)),
    ("RateLimit", "perSecond", Number(0, PRODUCER_RATE_MAX as u64)),
    ("RateLimit", "burst", Number(1, PRODUCER_RATE_MAX as u64)),
    ("KeyCreate", "scopes", Count(1)),
    ("ProviderPut", "order", Number(0, u16::MAX as u64)),
    ("ProviderPut", "weight", Number(0, u16::MAX as u64)),
    ("ProviderPut", "perSecond", Number(1, PER_SECOND_MAX as u64)),
    ("ProviderPut", "concurrency", Number(1, CONCURRENCY_MAX as u64)),
    ("WebhookCreate", "url", TARGET),
    ("WebhookCreate", "events", Each(&Words(super::rule::producer_events))),
    ("WebhookRotate", "keepSeconds", Number(0, KEEP_S_MAX)),
    // Templates.
    ("TemplateDefinition", "id", NewName),
    ("TemplateDefinition", "name", Name),
    ("TemplateDefinition", "category", CATEGORY),
    ("TemplateDefinition", "defaultLocale", LOCALE),
    ("TemplateDefinition", "translations", Entries(LOCALES_MAX)),
    ("TemplateDefinition", "layouts", Entries(PARTIALS_MAX)),
    ("TemplateDefinition", "layouts", Each(&Long(DOCUMENT_SOURCE_BYTES_MAX))),
    ("TemplateDefinition", "partials", Entries(PARTIALS_MAX)),
    ("TemplateDefinition", "partials", Each(&Long(DOCUMENT_SOURCE_BYTES_MAX))),
    ("TemplateDefinition", "variants", Items(0, VARIANTS_MAX)),
    ("TemplateVariant", "name", Name),
    ("TemplateVariant", "weight", Number(0, WEIGHT_MAX as u64)),
    ("TemplateVariant", "translations", Entries(LOCALES_MAX)),
    ("PushContent", "title", Long(TEXT_SOURCE_BYTES_MAX)),
    ("PushContent", "body", Long(TEXT_SOURCE_BYTES_MAX)),
    ("PushContent", "imageUrl", Long(TEXT_SOURCE_BYTES_MAX)),
    ("PushContent", "actions", Items(0, ACTIONS_MAX)),
    ("PushContent", "subtitle", Long(TEXT_SOURCE_BYTES_MAX)),
    ("PushContent", "iconUrl", Long(TEXT_SOURCE_BYTES_MAX)),
    ("PushContent", "url", Long(TEXT_SOURCE_BYTES_MAX)),
    ("PushContent", "badge", Number(0, u32::MAX as u64)),
    ("PushContent", "sound", Text(NAME_BYTES_MAX)),
    ("PushContent", "category", Text(NAME_BYTES_MAX)),
    ("PushContent", "threadId", Text(NAME_BYTES_MAX)),
    ("PushContent", "channelId", Text(NAME_BYTES_MAX)),
    ("PushContent", "clickAction", Text(NAME_BYTES_MAX)),
    ("AppContent", "title", Long(TEXT_SOURCE_BYTES_MAX)),
    ("AppContent", "body", Long(TEXT_SOURCE_BYTES_MAX)),
    ("AppContent", "imageUrl", Long(TEXT_SOURCE_BYTES_MAX)),
    ("AppContent", "actions", Items(0, ACTIONS_MAX)),
    ("EmailContent", "subject", Long(TEXT_SOURCE_BYTES_MAX)),
    ("EmailContent", "html", Long(DOCUMENT_SOURCE_BYTES_MAX)),
    ("EmailContent", "mjml", Long(DOCUMENT_SOURCE_BYTES_MAX)),
    ("EmailContent", "text", Long(DOCUMENT_SOURCE_BYTES_MAX)),
    ("SmsContent", "body", Long(TEXT_SOURCE_BYTES_MAX)),
    ("WebhookContent", "contentType", Long(pattern::CONTENT_TYPE_LETTERS_MAX)),
    ("WebhookContent", "body", Long(DOCUMENT_SOURCE_BYTES_MAX)),
    ("TemplateActivate", "version", VERSION),
    ("TemplatePreviewAsk", "locale", LOCALE),
    ("TemplatePreviewAsk", "variant", Name),
    ("TemplatePreviewAsk", "version", VERSION),
    ("DraftPreviewAsk", "locale", LOCALE),
    ("DraftPreviewAsk", "variant", Name),
    ("UserFacts", "id", Name),
    ("UserFacts", "locale", LOCALE),
    ("UserFacts", "zone", ZONE),
];

/// Says all of it in the schemas.
pub fn say(schemas: &mut Value) {
    for (name, property, rule) in BOUNDS {
        let found = property_of(&mut schemas[*name], property);
        rule.say(found.unwrap_or_else(|| panic!("there is a schema {name} with {property}")));
    }
    // Extension attributes; the same data in base64 stands in `data_base64`.
    let event = &mut schemas["CloudEvent"];
    event["propertyNames"] = json!({"pattern": pattern::ATTRIBUTE});
    event["additionalProperties"] = json!({"type": ["string", "number", "boolean", "null"]});
    schemas["Preferences"]["properties"]["categories"]["propertyNames"] =
        json!({"minLength": 1, "maxLength": CATEGORY_BYTES_MAX});
}

/// A property of an object, or of one of several alternatives.
fn property_of<'a>(schema: &'a mut Value, property: &str) -> Option<&'a mut Value> {
    if schema["oneOf"].is_array() {
        let alternatives = schema["oneOf"].as_array_mut()?;
        return alternatives.iter_mut().find_map(|one| one["properties"].get_mut(property));
    }
    schema["properties"].get_mut(property)
}
