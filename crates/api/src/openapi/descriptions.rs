//! Descriptions of operations beyond their summary: when its effect is visible, what a repeat does, what it leaves alone.

/// `None` for a route that has none yet, which a test refuses.
pub fn of(operation: &str) -> Option<&'static str> {
    DESCRIPTIONS.iter().find(|(id, _)| *id == operation).map(|(_, text)| *text)
}

const DESCRIPTIONS: &[(&str, &str)] = &[
    (
        "postEvents",
        "Answered once the event is on disk. Its readers see it moments later: a read or a mark right behind the 202 may \
         still miss it. The same `source` and `id` again within 48 hours gives the first answer. A batch is accepted only \
         if every event in it is well formed; what became of each is in `events`.",
    ),
    (
        "retractEvent",
        "The event disappears from every inbox and from the counts, and what of it was not sent stays unsent. 202 says that \
         it is recorded and that not all of the server has taken it yet. A repeat does nothing.",
    ),
    (
        "putUser",
        "With a body the user is replaced: a field that is left out is removed. Without a body a user is made if there is \
         none, and one that there is stays as it is. A changed address is in use as soon as no other user has it, usually \
         within milliseconds.",
    ),
    (
        "patchUser",
        "What the body leaves out stays, what is `null` is removed, and attributes are merged one by one. With `If-Match` \
         only the version that its author has read is changed; without it the patch is merged into what is there.",
    ),
    ("getUser", "The `ETag` names this version of the user for `If-Match`."),
    (
        "deleteUser",
        "The user is gone at once for everybody. Copies in the journal cannot be read any more, because the user's key is \
         destroyed. `POST /api/v1/erasures` does the same and gives a receipt.",
    ),
    (
        "putUsers",
        "Each user is replaced as by `PUT` with a body. Users that could not be put are in `errors` by their place; the \
         others are done. A repeat changes nothing.",
    ),
    ("follow", "From now on the user has what the actor posts. Again: nothing changes."),
    ("unfollow", "What the actor posted meanwhile stays in the inbox. Again: nothing changes."),
    ("getFollow", "An actor need not be a user, so an unknown one is simply not followed."),
    ("listFollows", "In no particular order. `count` is of all of them, not of the page."),
    ("listFollowers", "In no particular order. `count` is of all of them, not of the page."),
    (
        "followMany",
        "Follows that could not be added are in `errors` by their place; the others are. A repeat changes nothing.",
    ),
    (
        "unfollowMany",
        "Follows that could not be removed are in `errors` by their place; the others are. A repeat changes nothing.",
    ),
    (
        "subscribe",
        "From now on the user has what is sent to the topic. A topic exists as soon as it has a subscriber.",
    ),
    ("unsubscribe", "What was sent to the topic meanwhile stays in the inbox. Again: nothing changes."),
    ("listSubscribers", "In no particular order. `count` is of all of them, not of the page."),
    (
        "subscribeMany",
        "Users that could not be subscribed are in `errors` by their place; the others are. A repeat changes nothing.",
    ),
    (
        "unsubscribeMany",
        "Users that could not be unsubscribed are in `errors` by their place; the others are. A repeat changes nothing.",
    ),
    (
        "createTenant",
        "An app or a brand that shares nothing with others. It has no key yet: make one with `POST …/keys`.",
    ),
    ("listTenants", "All of them, with their quotas and what they have of each."),
    ("getTenant", "The limits that hold for it, and what it has of each."),
    ("changeTenant", "What is left out stays. `rateLimit` and `quota` need the server's admin key."),
    (
        "createKey",
        "The key is shown this once and stored only as a hash. It works at once. The scope `admin` is not all scopes: each \
         has to be named.",
    ),
    ("listKeys", "With what each may do and until when, revoked ones included."),
    ("revokeKey", "The next request with it is refused. Again: nothing changes."),
    ("createBackup", "Answered when the copy is complete and verified. Requests are served meanwhile."),
    ("acceptClock", "The server goes by the machine's clock again. What it held back meanwhile goes on."),
    ("livez", "It looks at nothing else, so that a sick disk does not lead to a restart loop."),
    (
        "readyz",
        "200 if requests are served, 503 if not. With `verbose` each check is shown with its reason, as JSON.",
    ),
    ("metrics", "In the text format. docs/runbook.md explains each of them."),
    ("openapi", "OpenAPI 3.1, made from the routes and shapes of the server that answers."),
    ("errorPage", "What happened and what to do about it. The `type` of every problem document leads here."),
    (
        "listServerAuditEntries",
        "Entries of no tenant, with the server's own key only. Refused logins are summed up: at most one entry a minute.",
    ),
    (
        "listAuditEntries",
        "About the whole tenant, or about one notification, one user or a span of time. Entries are chained by hash; \
         docs/audit.md says how to check them.",
    ),
    (
        "proveRecipient",
        "Each proof ties what was decided or done to an entry of the log, and as soon as there is one to a signed \
         checkpoint. `fantail audit verify` checks it without the server.",
    ),
    (
        "listAuditCheckpoints",
        "Keep them where the owner of the server cannot change them: they fix the content of the log.",
    ),
    (
        "createBulk",
        "Answered once it is on disk; the users are looked at afterwards. The same `notificationId` again within 48 hours \
         gives the first answer.",
    ),
    ("listBulks", "With `status` a page may have fewer than `limit` and still be followed by others."),
    (
        "estimateBulk",
        "Nothing is stored or sent. Above 100,000 users it is what a sample comes to: `exact` is false then.",
    ),
    ("getBulk", "How many users were looked at, chosen and left out, and what became of the deliveries."),
    ("patchBulk", "It holds from the next users on. An empty object lifts every limit."),
    ("pauseBulk", "Deliveries that have begun go on. Again: nothing changes."),
    ("resumeBulk", "The bulk send goes on where it stopped. Again: nothing changes."),
    ("cancelBulk", "What was sent stays sent. 202 says that not all of the server has taken it yet."),
    ("listCategories", "Only those about which something is said. All others are as is usual."),
    ("getCategory", "The `ETag` names this version for `If-Match`."),
    (
        "putCategory",
        "Replaces all that was said about it, and needs `If-Match` if something was. What was accepted before keeps what \
         held then.",
    ),
    ("deleteCategory", "The category is as is usual again. Needs `If-Match`."),
    ("getDefaultPreferences", "Version 0 if nothing was said."),
    ("patchDefaultPreferences", "A merge patch. It holds at once for every user who has not said otherwise."),
    (
        "registerDevice",
        "Registering a `deviceId` again replaces its token. A token belongs to one user at a time: `pending` says that \
         another one is still letting go of it. A webhook and a consent need the scope `users:write` as well, because \
         they speak for the user.",
    ),
    ("listDevices", "Tokens, URLs and secrets are not shown again."),
    ("unregisterDevice", "Nothing more is sent there. What is on its way may still arrive."),
    ("getSuppression", "404 if messages may go there."),
    (
        "putSuppression",
        "It holds for every user who has the address, now or later. Without a body the reason is `manual`.",
    ),
    (
        "deleteSuppression",
        "The next message may go there again. Only what the suppression stopped before stays stopped.",
    ),
    (
        "deleteAddress",
        "As a user is deleted. A user with an id who has the address is another one and stays.",
    ),
    (
        "eraseUser",
        "The user is gone for everybody when this is answered. What is kept elsewhere is removed in the background; keep \
         `erasureId` to ask how far it is.",
    ),
    ("getErasure", "`completed` with what was removed, by store, once nothing is left."),
    ("exportUser", "One JSON object on each line, streamed. docs/erasure.md lists the kinds of lines."),
    (
        "makePreferenceLink",
        "The holder of the link can change these preferences and nothing else, until it ends.",
    ),
    ("showPreferencePage", "Scanners that follow every link of a mail change nothing."),
    (
        "changeByPreferencePage",
        "Mail programs send `List-Unsubscribe=One-Click`. 409 if the preferences were changed since the page was shown.",
    ),
    (
        "listNotifications",
        "Newest first. Events that were accepted a moment ago may still be missing. Poll with `since` and the \
         `sinceCursor` of the answer before: it finds everything that has arrived since, once.",
    ),
    ("getNotification", "404 until the user's inbox has it, moments after it was accepted."),
    ("deleteNotification", "It is gone for this user alone. Again: nothing changes."),
    ("getUnread", "Archived, snoozed and deleted notifications do not count."),
    (
        "markRead",
        "What is read is seen, too. Give ids, or `all` with or without `before`. The answer has the new counts.",
    ),
    ("markUnread", "Unread notifications stay seen. The answer has the new counts."),
    ("markSeen", "For when the inbox was opened. The answer has the new counts."),
    ("archive", "Archived notifications do not count and are shown with `state=archived`."),
    ("unarchive", "They are in the inbox again, read or unread as they were."),
    ("snooze", "They come back on their own. At most 100 of a user at a time, at most a year ahead."),
    ("unsnooze", "They are in the inbox again, where they were."),
    ("listProviders", "Credentials are never shown. `standing` says how each is doing on this server."),
    ("getProvider", "The `ETag` names this version for `If-Match`."),
    (
        "putProvider",
        "Settings and credentials are checked before they are stored. Messages go through the new account from the next \
         one on. Needs `If-Match` if there is such an account.",
    ),
    ("deleteProvider", "Messages that were handed over stay there. Needs `If-Match`."),
    (
        "rotateProvider",
        "Of accounts of the kind `smtp`. The address before is believed until `keepSeconds` are over; without a body a week.",
    ),
    ("testProvider", "Name, connection, TLS and credentials, each with what was found. No message is sent."),
    ("takeCallback", "Each provider signs what it says in its own way. What is not signed is refused."),
    ("takeStatusCallback", "Twilio signs it with the token of the account."),
    ("showPicture", "Always the same picture; what it counts is read from its name."),
    ("followLink", "Leads to the URL that is sealed in the link, and nowhere else."),
    ("getPreferences", "What was not said is left out. The `ETag` names this version for `If-Match`."),
    (
        "patchPreferences",
        "A merge patch: what is `null` is not said any more. It holds from the next message on, also for what waits. With \
         `If-Match` only the version that its author has read is changed.",
    ),
    ("listPreferenceHistory", "With what held before and after, and who said so."),
    (
        "getConsents",
        "Push needs one. Email and SMS may be used until one is withdrawn, but marketing by SMS needs one.",
    ),
    (
        "putConsent",
        "It holds from the next message on, also for what waits. Each change is kept in the history.",
    ),
    ("listSchedules", "Without what each of them sends."),
    ("getSchedule", "The next five runs, the latest one, and what is sent."),
    (
        "putSchedule",
        "It is checked as a send at this moment would be. The next run goes by what is said now; runs that were issued go \
         on. `If-Match` is not needed.",
    ),
    ("patchSchedule", "A merge patch: `{\"paused\": true}` pauses it."),
    ("deleteSchedule", "Cancel what a run has issued as any other notification."),
    ("listSegments", "Filters, descriptions and how long the uploaded lists are."),
    ("getSegment", "Its filter, and how long its uploaded list is."),
    ("putSegment", "What is under way goes on with the filter that it began with."),
    ("deleteSegment", "Users are not touched."),
    ("countSegment", "Above 100,000 users it is what a sample comes to: `exact` is false then."),
    ("putSegmentMembers", "The list is replaced when the last line was read; until then the old one holds."),
    (
        "sendNotification",
        "Answered once it is on disk; it is sent, and shown in inboxes, moments later. The same `notificationId` (or \
         `Idempotency-Key`) again within 48 hours gives the first answer. Every named user has it in the inbox, whatever \
         `channels` says, unless it has a time of the recipient's own.",
    ),
    (
        "getNotificationStatus",
        "Sums by channel and state, and the deliveries one by one: 100, or as many as `limit` says. Kept for 30 days.",
    ),
    (
        "explainNotification",
        "Each decision with what it was made from, and the same as a text. Exactly one recipient is named.",
    ),
    (
        "traceNotification",
        "In the trace of the event, beside what OpenTelemetry was sent. Exactly one recipient is named.",
    ),
    (
        "cancelNotification",
        "What was sent stays sent: the answer counts both. 202 says that not all of the server has taken it yet.",
    ),
    (
        "cancelNotificationsByKey",
        "Everything of the last 30 days that was sent with the key. Too late is an answer, not an error.",
    ),
    (
        "takeReceipts",
        "Each is taken or refused on its own. Saying one again changes nothing, and none is taken back.",
    ),
    ("listDeadLetters", "What failed for good, shard by shard. A page may have a few more than `limit`."),
    (
        "redriveDeadLetters",
        "Everything that fits all that is said. What a provider has taken is never sent again by it.",
    ),
    (
        "dropDeadLetters",
        "Everything that fits all that is said, and all of the tenant if nothing is said. `dryRun` counts.",
    ),
    (
        "putTemplate",
        "Checked whole: `errors` names every problem by its place. The new version is in force at once. Needs `If-Match` if \
         there is such a template.",
    ),
    ("listTemplates", "Without their definitions."),
    ("getTemplate", "The `ETag` names the version that is shown."),
    ("listTemplateVersions", "The newest fifty are kept."),
    ("diffTemplate", "Without `to` the version in force, without `from` the one before it."),
    ("activateTemplate", "It also switches the template on. Needs `If-Match`."),
    (
        "switchTemplate",
        "Sends that name a template that is off are refused; what was accepted goes on. Needs `If-Match`.",
    ),
    ("deleteTemplate", "What was accepted goes on: it was rendered then. Needs `If-Match`."),
    ("previewTemplate", "As it would be sent, and what it would cost. Nothing is stored or sent."),
    ("previewDraft", "As it would be sent, and what it would cost. Nothing is stored or sent."),
    (
        "createWebhook",
        "Messages are signed as Standard Webhooks describes; docs/webhooks.md shows how to check them. Keep `secret`: it is \
         shown this once.",
    ),
    ("listWebhooks", "Secrets are not shown again."),
    ("deleteWebhook", "Messages that wait are dropped."),
    ("enableWebhook", "What it missed is sent, as far as the journal goes back."),
    ("rotateWebhook", "Messages are signed with both until `keepSeconds` are over. Without a body a day."),
    ("replayWebhook", "Messages keep their ids, so a receiver knows those it has."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    // fixes: usability §3.5
    #[test]
    fn every_operation_is_described_and_nothing_else() {
        for route in ROUTES {
            let text = of(route.id).unwrap_or_else(|| panic!("{} has a description", route.id));
            assert!(text.ends_with('.') && text.len() > 20, "{}: {text}", route.id);
        }
        for (at, (id, _)) in DESCRIPTIONS.iter().enumerate() {
            assert!(ROUTES.iter().any(|route| route.id == *id), "{id} is an operation");
            assert!(DESCRIPTIONS[..at].iter().all(|(earlier, _)| earlier != id), "{id} is described once");
        }
    }
}
