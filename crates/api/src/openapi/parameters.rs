//! Parameters of paths, queries and headers: what each may be, and which of them a request cannot do without.

use super::rule::Rule::{Matching, Name, NewName, ShortNewName, Text, Words};
use super::rule::{Rule, pattern};
use crate::route::{Handle, Method, Route};
use crate::v1::{audit, providers};
use fantail_rules::limits::{
    CATEGORY_BYTES_MAX, LIST_PAGE_MAX, NAME_BYTES_MAX, PAGE_DEFAULT, PAGE_MAX, SCHEDULE_ID_BYTES_MAX,
    SOURCE_BYTES_MAX, TEMPLATE_NOTE_BYTES_MAX,
};
use serde_json::{Value, json};

const LIST_PAGE_DEFAULT: usize = 100;
const ADDRESS: &[&str] = &["push", "email", "sms", "webhook"];
const CONSENT: &[&str] = &["push", "email", "sms"];
const STATES: &[&str] = &["inbox", "unread", "read", "archived", "snoozed", "all"];
const PHASES: &[&str] = &["scheduled", "running", "paused", "sending", "done", "cancelled"];
/// Cursors are opaque; this is more than any has.
const CURSOR_LETTERS_MAX: usize = pattern::CURSOR_LETTERS_MAX;

/// All of a route.
pub fn of(route: &Route) -> Vec<Value> {
    let mut parameters: Vec<Value> = route.path_params().map(|name| in_path(route, name)).collect();
    parameters.extend(route.query.iter().map(|name| in_query(route, name)));
    if route.is_conditional {
        let of_version = Matching(r#"^(\*|"[0-9]{1,10}")$"#, 12);
        parameters.push(header("If-Match", &of_version, "The version that this replaces, in quotes, or *"));
        parameters.push(header("If-None-Match", &Words(|| vec!["*"]), "* if there must be nothing yet"));
    }
    if route.is_idempotent_by_name() {
        parameters.push(header(
            "Idempotency-Key",
            &Text(NAME_BYTES_MAX),
            "The name of this send, if the body gives no `notificationId`: sent again, it is accepted once. UTF-8. Refused if \
             it differs from `notificationId`.",
        ));
    }
    if matches!(route.handle, Handle::Scoped(..)) {
        parameters.push(header(
            "Fantail-Tenant",
            &Matching(pattern::SLUG, 63),
            "The tenant's slug. Required with the server's admin key.",
        ));
    }
    parameters
}

fn header(name: &str, rule: &Rule, description: &str) -> Value {
    let schema = text(rule);
    json!({"name": name, "in": "header", "required": false, "schema": schema, "description": description})
}

fn text(rule: &Rule) -> Value {
    let mut schema = json!({"type": "string"});
    rule.say(&mut schema);
    schema
}

fn in_path(route: &Route, name: &str) -> Value {
    let (rule, description) = path_rule(route, name);
    // Readers of mails are shown a picture whatever they ask for.
    let schema = if name == "picture" { json!({"type": "string"}) } else { text(&rule) };
    json!({"name": name, "in": "path", "required": true, "schema": schema, "description": description})
}

fn path_rule(route: &Route, name: &str) -> (Rule, &'static str) {
    // A PUT may create only names that people can see.
    let made = |description| (if route.method == Method::Put { NewName } else { Name }, description);
    let short = |max, description| match route.method {
        Method::Put => (ShortNewName(max), description),
        Method::Get | Method::Post | Method::Patch | Method::Delete => {
            (Matching(pattern::NO_CONTROL, max), description)
        }
    };
    match name {
        "user" if route.id == "putUser" => made("The producer's id of the user"),
        "user" => (Name, "The producer's id of the user"),
        "actor" => (Name, "Who is followed; need not be a user"),
        // The first subscriber makes it.
        "topic" if matches!(route.id, "subscribe" | "subscribeMany") => {
            (NewName, "The producer's name for the topic")
        }
        "topic" => (Name, "The producer's name for the topic"),
        "device" => (Name, "The producer's id of the device"),
        "event" | "notification" | "bulk" => (
            Name,
            "The platform's `eventId`, or the producer's `notificationId`, which is known for at least 48 hours. Never \
             `bulk`: such paths are those of bulk sends.",
        ),
        "template" => made("The producer's id of the template"),
        "segment" => made("The producer's name for the segment"),
        "schedule" => short(SCHEDULE_ID_BYTES_MAX, "The producer's id of the schedule"),
        "category" => short(CATEGORY_BYTES_MAX, "The producer's name for the category"),
        "provider" => {
            (Matching(pattern::PROVIDER, providers::ID_BYTES_MAX), "The tenant's id of the account")
        }
        "channel" if route.id == "putConsent" => (Words(|| CONSENT.to_vec()), "Which channel"),
        "channel" => (Words(|| ADDRESS.to_vec()), "Which channel the address belongs to"),
        "address" => {
            (Text(fantail_rules::limits::ADDRESS_BYTES_MAX), "A token, mail address, phone number or URL")
        }
        "slug" => (Matching(pattern::SLUG, 63), "The tenant's slug"),
        "key" => (Name, "The id of the key"),
        "webhook" => (Name, "The id of the webhook"),
        "erasure" => (Name, "The id of the erasure"),
        "tenant" => (Matching(pattern::SLUG, 63), "The tenant's slug"),
        "token" => (Text(CURSOR_LETTERS_MAX), "What the link ends with"),
        "reference" => (Text(CURSOR_LETTERS_MAX), "Names the delivery"),
        "page" => (Text(NAME_BYTES_MAX), "The code in lower case, with hyphens"),
        _ => (Text(pattern::SEAL_LETTERS_MAX), "As the link has it"),
    }
}

fn in_query(route: &Route, name: &str) -> Value {
    let required = route.required_query.contains(&name);
    let (schema, description) = query_schema(route, name);
    json!({"name": name, "in": "query", "required": required, "schema": schema, "description": description})
}

fn query_schema(route: &Route, name: &str) -> (Value, &'static str) {
    match name {
        "limit" => {
            let (default, max) = match route.id {
                "listNotifications" => (PAGE_DEFAULT, PAGE_MAX),
                "listAuditEntries" | "listServerAuditEntries" | "listAuditCheckpoints" => {
                    (LIST_PAGE_DEFAULT, audit::PAGE_MAX)
                }
                _ => (LIST_PAGE_DEFAULT, LIST_PAGE_MAX),
            };
            let schema = json!({"type": "integer", "minimum": 1, "maximum": max, "default": default});
            (schema, "How many at most")
        }
        "cursor" => (text(&Text(CURSOR_LETTERS_MAX)), "`nextCursor` of the page before"),
        "since" => (
            text(&Text(CURSOR_LETTERS_MAX)),
            "A `sinceCursor`: what has arrived after it, oldest first. Not with `cursor`.",
        ),
        "state" => (text(&Words(|| STATES.to_vec())), "Which notifications; `inbox` if left out"),
        "status" => (text(&Words(|| PHASES.to_vec())), "Only bulk sends of this status"),
        "from" | "to" if matches!(route.id, "listAuditEntries" | "listServerAuditEntries") => {
            (json!({"type": "string", "format": "date-time"}), "The span of time, its end not included")
        }
        "from" if route.id == "listAuditCheckpoints" => {
            (json!({"type": "integer", "minimum": 1, "maximum": u64::MAX}), "The number to begin with")
        }
        "version" | "from" | "to" => {
            (json!({"type": "integer", "minimum": 1, "maximum": u32::MAX}), "A version of the template")
        }
        "notification" => (text(&Name), "An `eventId` or a `notificationId`"),
        "user" | "userId" => (text(&Name), "The producer's id of the user"),
        "email" | "phone" | "webhook" | "pushToken" => (
            text(&Text(fantail_rules::limits::ADDRESS_BYTES_MAX)),
            "Instead of `user`: the address that was sent to. Exactly one of them.",
        ),
        "k" => (
            text(&Text(NAME_BYTES_MAX)),
            "The secret in the `callbackUrl` of an account whose calls are not signed",
        ),
        "source" => (text(&Text(SOURCE_BYTES_MAX)), "Where the change was made; the key's name if left out"),
        "note" => (text(&Text(TEMPLATE_NOTE_BYTES_MAX)), "The change, for readers of the versions"),
        "verbose" => (json!({"type": "string"}), "Given, whatever its value: each check as JSON"),
        _ => panic!("{name} of {} has no description", route.id),
    }
}

#[cfg(test)]
mod tests {
    use crate::routes::ROUTES;

    #[test]
    fn what_is_required_is_known() {
        for route in ROUTES {
            assert!(route.required_query.iter().all(|name| route.query.contains(name)), "{}", route.id);
        }
    }
}
