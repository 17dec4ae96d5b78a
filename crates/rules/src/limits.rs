//! Every queue, loop, batch, buffer and string has a limit; here they are, each with its reason.

/// Events in one batch request, and the bytes of one request body.
pub const EVENTS_PER_REQUEST_MAX: usize = 1_000;
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// One user, follow or subscription batch.
pub const BATCH_ITEMS_MAX: usize = 10_000;
/// Explicit users of one event. Larger audiences are lists.
pub const EXPLICIT_USERS_MAX: usize = 10_000;

/// Names given by tenants: external ids, topics, event ids. Long enough for URNs, short enough for keys.
pub const NAME_BYTES_MAX: usize = 256;
pub const CATEGORY_BYTES_MAX: usize = 64;
pub const TITLE_BYTES_MAX: usize = 512;
pub const BODY_TEXT_BYTES_MAX: usize = 8 << 10;
/// Rendered content of one event, everything included.
pub const CONTENT_BYTES_MAX: usize = 32 << 10;
pub const ATTRIBUTES_BYTES_MAX: usize = 8 << 10;
/// How deep JSON may nest before it is refused.
pub const JSON_DEPTH_MAX: usize = 32;
pub const ACTIONS_MAX: usize = 5;

/// What an event's template renders for all channels together: it has to fit into one record.
pub const EVENT_CONTENT_BYTES_MAX: usize = 192 << 10;
/// One record in the journal.
pub const RECORD_BYTES_MAX: usize = 256 << 10;
/// One batch that a leader plans, appends and folds together.
pub const BATCH_RECORDS_MAX: usize = 1_024;
pub const BATCH_BYTES_MAX: usize = 2 << 20;
/// One append to the journal with its headers: half of what a block can hold. A batch ends behind the ask that brings it over
/// `BATCH_BYTES_MAX`, and what one ask writes is bounded by its request.
pub const APPEND_BYTES_MAX: usize = 16 << 20;
/// What a journal adds to each record of an append.
pub const RECORD_HEADER_BYTES_MAX: usize = 32;
/// Commands of tenants that wait for one leader; beyond it callers get 503 with Retry-After. One tenant has half of it at most.
pub const QUEUE_COMMANDS_MAX: usize = 8_192;
pub const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Events that one Take record brings into a shard.
pub const TAKE_EVENTS_MAX: usize = 256;
/// Facts of a front that one proposal brings to a shard, and what they hold in memory: a fact for 10,000 users has 80 KB.
pub const TAKE_STRETCH_MAX: usize = 1_024;
pub const TAKE_STRETCH_BYTES_MAX: usize = 4 << 20;
/// Facts of a front that stay in memory for its shards, and their bytes: more than shards lag behind in normal times.
pub const TAIL_FACTS_MAX: usize = 32_768;
pub const TAIL_BYTES_MAX: usize = 64 << 20;
/// Events that fan-out could write now, of all shards: about 100 bytes each. Beyond it events get 503, because more is
/// posted than fan-out can write. Windows that only wait to be filled do not count: nothing would ever empty them.
pub const BACKLOG_EVENTS_MAX: u64 = 2 << 20;
/// Events of one tenant that wait in one lane for their turn to be sent, counted once for each channel and shard: a row of
/// about sixty bytes each. Beyond it what would be sent in this lane gets 503; other lanes and tenants go on.
pub const LANE_EVENTS_MAX: u64 = 1_000_000;
/// Edges in one Follow record: each costs a handful of row changes.
pub const EDGES_PER_RECORD_MAX: usize = 256;
/// Users in one record.
pub const USERS_PER_RECORD_MAX: usize = 256;
/// Ids in one mark request, and rows that one mark record may touch.
pub const MARK_IDS_MAX: usize = 1_000;
pub const MARK_ROWS_PER_RECORD_MAX: usize = 256;
/// Snoozed entries of one user; they are read with every page.
pub const SNOOZED_MAX: usize = 100;
/// How often a user may change what the inbox shows until the oldest of these turns is forgotten; they are read with every page.
pub const INBOX_TURNS_MAX: usize = 16;
/// Entries that are looked at one by one to count without those that the user does not want to see. Older ones count, wanted or
/// not: each look reads what is known of its event, and a count is asked for with every page.
pub const INBOX_HIDDEN_LOOKED_AT_MAX: usize = 10_000;
/// What a user may ask to get at most in an hour and in a day on one channel. More is no cap.
pub const CAP_PER_HOUR_MAX: u16 = 1_000;
pub const CAP_PER_DAY_MAX: u16 = 10_000;
/// What may come at once, and how long one more takes at most: longer is a cap of a day.
pub const BURST_MAX: u16 = 1_000;
pub const REFILL_SECONDS_MAX: u32 = 86_400;
/// Items that one digest tells: each is a row until then. A window of so many closes before its end.
pub const DIGEST_ITEMS_MAX: u16 = 1_000;
/// People that a digest names; the others are counted.
pub const DIGEST_ACTORS_MAX: usize = 3;
/// Longer than a day is a calendar digest.
pub const DIGEST_WINDOW_SECONDS_MAX: u32 = 86_400;
/// A key of a category, as it is written; what it comes to is hashed.
pub const KEY_TEMPLATE_BYTES_MAX: usize = 256;
/// Categories that a tenant says something about: they are read whole.
pub const CATEGORIES_PER_TENANT_MAX: usize = 256;
/// Steps of a fallback chain: there are four ways out.
pub const FALLBACK_STEPS_MAX: usize = 4;
/// How long a channel may be waited for. Longer is another notification.
pub const FALLBACK_SECONDS_MAX: u32 = 86_400;
pub const THROTTLE_SECONDS_MAX: u32 = 7 * 86_400;
/// A storm is something of minutes.
pub const STORM_SECONDS_MAX: u32 = 3_600;
/// A recurring schedule, written out: every minute of an hour as a list fits.
pub const CRON_BYTES_MAX: usize = 256;
/// How far ahead a notification can be scheduled.
pub const SCHEDULE_MS_MAX: u64 = 366 * 24 * 3_600_000;
/// What one front holds back for one tenant: notifications and events, each a row with its audience, and its content beside.
pub const SCHEDULED_PER_TENANT_MAX: u64 = 1_000_000;
/// The smallest limit of the providers, which is that of APNs.
pub const COLLAPSE_KEY_BYTES_MAX: usize = 64;
/// How far ahead an entry can be snoozed: longer is deleting.
pub const SNOOZE_MS_MAX: u64 = 366 * 24 * 3_600_000;
/// Stays of one user on one list that are kept apart. Only stays with events inside count.
pub const INTERVALS_MAX: usize = 64;
/// Lists one user can be on: the reader walks them.
pub const FOLLOWS_PER_USER_MAX: usize = 10_000;

/// Endpoints of one user, of all channels: a page of them is read and written whole.
pub const ENDPOINTS_PER_USER_MAX: usize = 20;
/// Endpoints in one record, each with its sealed address; and changes of state, which are a few bytes but touch a page.
pub const ENDPOINTS_PER_RECORD_MAX: usize = 32;
pub const ENDPOINT_STATES_PER_RECORD_MAX: usize = 64;
/// Claims in one record of a directory: each costs a row or two.
pub const CLAIMS_PER_RECORD_MAX: usize = 256;
/// Endpoints that have to let go of one address before its owner may use it. They do within milliseconds; a token that
/// more users claim in that time is nobody's for a moment longer.
pub const RELEASING_MAX: usize = 16;
/// A token or a web push subscription; the longest known are under a kilobyte.
pub const ADDRESS_BYTES_MAX: usize = 4 << 10;
pub const APP_VERSION_BYTES_MAX: usize = 64;
/// A registration that says what is known already is written at most this often.
pub const REFRESH_MS_MIN: u64 = 7 * 24 * 3_600_000;
/// A device that was silent so long is stale: nothing is pushed to it until it comes back. Then it is expired.
pub const STALE_AFTER_MS: u64 = 30 * 24 * 3_600_000;
pub const EXPIRED_AFTER_MS: u64 = 270 * 24 * 3_600_000;

/// Members of one parcel: two records for all of them, and its verdicts fit well inside a record.
pub const PARCEL_MEMBERS_MAX: u32 = 1_000;
/// Users looked at for one parcel: each may cost a page of the column, and a record about 2 ms.
pub const PARCEL_USERS_SCANNED_MAX: usize = 1_024;
/// Works that one turn of the dispatcher takes: to plan so many of one member each costs about what one full parcel does.
pub const TURN_WORKS_MAX: usize = 64;
/// Keys of work that wait in the lanes of one channel (some 50 bytes each), and those of one tenant in one lane. More is
/// left in the tables until these have gone.
pub const WORK_MAX: usize = 1 << 18;
pub const WORK_PER_TENANT_MAX: usize = 1 << 12;
/// A cancellation, a retraction or a suppression is answered when every shard has taken it, and at the latest after this: then
/// the answer says that it is pending. Shards are behind by milliseconds.
pub const OBEYED_WITHIN_MS: u64 = 5_000;
/// How long a delivery waits for an endpoint whose address is still being claimed. A claim takes milliseconds; a minute
/// covers a directory that is behind.
pub const ENDPOINT_WAIT_MS: u64 = 60_000;
/// A channel that has not answered for a whole parcel after this never will: what it did not report is unknown then. A mail
/// server may take five minutes to store a mail, after some exchanges of a minute each and a failover.
pub const PARCEL_MS_MAX: u64 = 15 * 60_000;
/// Copies of a message that may be sent beyond the first because nobody knows what became of it.
pub const RESENDS_PER_DELIVERY_MAX: u8 = 1;
/// How long evidence about an unknown delivery is awaited: answers over HTTP come within seconds or not at all, texts are
/// reported within minutes, mail servers queue and report later still.
pub const EVIDENCE_WAIT_MS: u64 = 5_000;
pub const EVIDENCE_WAIT_SMS_MS: u64 = 2 * 60_000;
pub const EVIDENCE_WAIT_EMAIL_MS: u64 = 10 * 60_000;
/// The longest rest that a provider may ask for: a header with a wrong unit must not park messages for days.
pub const RETRY_AFTER_MS_MAX: u64 = 3_600_000;
/// How long a scope rests that was asked to, without being told how long.
pub const PAUSE_MS_DEFAULT: u64 = 1_000;

/// A message that finds no room at a limit comes back within this time: what is slow may become fast.
pub const PUT_OFF_MS_MAX: u64 = 60_000;
/// It comes back so much before its slot. Timers of deliveries go by the second; early messages wait at the limit.
pub const PUT_OFF_LEAD_MS: u64 = 1_000;

/// A breaker looks at the calls of so many seconds, and only if there are enough to mean something.
pub const BREAKER_WINDOW_SECONDS: usize = 10;
pub const BREAKER_CALLS_MIN: u64 = 20;
pub const BREAKER_FAILURES_PERCENT: u64 = 50;
/// How long it stays open, the first time and at most: a provider that is back is noticed within a minute.
pub const BREAKER_OPEN_MS_MIN: u64 = 1_000;
pub const BREAKER_OPEN_MS_MAX: u64 = 60_000;
/// Calls that must all succeed before it closes: one could be luck.
pub const BREAKER_PROBES: u32 = 3;
/// Thousandths of the rate with which a scope comes back; doubled every second.
pub const RAMP_SHARE_MIN: u32 = 100;

pub const PAGE_DEFAULT: usize = 50;
pub const PAGE_MAX: usize = 100;
pub const LIST_PAGE_MAX: usize = 1_000;

/// Followers from which an author's events become pointers, and below which they are written out again.
pub const TIER_UP_DEFAULT: u32 = 10_000;
/// The smallest threshold a tenant may choose: shards report list sizes from about this on.
pub const TIER_UP_MIN: u32 = 100;
/// A shard reports the size of its part of a list from here on.
pub const REPORT_MEMBERS_MIN: u64 = 16;

/// How long an idempotency key is remembered, at least.
pub const IDEMPOTENCY_WINDOW_MS: u64 = 48 * 3_600_000;
/// How long an inbox keeps an entry.
/// Receipts in one request: one record each, folded together.
pub const RECEIPTS_MAX: usize = 1_000;
/// Of a provider's word for what became of a delivery.
pub const RECEIPT_CODE_BYTES_MAX: usize = 64;
/// What is kept about deliveries, which is what keeps one from being sent twice, goes so long after its event. It outlasts
/// the longest time to live, and so every retry and every dead letter that could still be sent.
pub const GUARD_MS: u64 = 30 * 86_400_000;
pub const RETENTION_DAYS_DEFAULT: u32 = 90;
/// A loop of the node that failed tries again after this, doubled up to the maximum: a moment of trouble costs a moment, and
/// lasting trouble no more than a few reads a minute.
pub const LOOP_RETRY_MS_MIN: u64 = 200;
pub const LOOP_RETRY_MS_MAX: u64 = 30_000;
/// A larger jump of the wall clock is alarmed, not adopted.
pub const CLOCK_JUMP_MS_MAX: u64 = 60_000;
/// A wall clock that is further ahead of everything known at start is not believed until an operator says so: a server that
/// was off for a week is rare, and what a wrong clock expires and deletes is gone.
pub const CLOCK_AHEAD_MS_MAX: u64 = 7 * 86_400_000;
/// A jump ahead, of no more than the above, is adopted after the wall clock has stayed there for so long: a virtual machine
/// was paused, and its clock was corrected. Time synchronisation that is wrong for a moment corrects itself sooner.
pub const CLOCK_SETTLE_MS: u64 = 10 * 60_000;

/// Producers whose use is remembered: tenants and keys with a rate. Above it those that used nothing lately are
/// forgotten.
pub const ALLOWANCES_MAX: usize = 20_000;
/// Users, edges or lines of an upload that cost a producer as much as one recipient of a send.
pub const IMPORT_ITEMS_PER_COST: usize = 10;
/// Rates above this are none.
pub const PRODUCER_RATE_MAX: u32 = 10_000_000;
pub const TENANTS_MAX: usize = 10_000;
pub const KEYS_PER_TENANT_MAX: usize = 100;
/// Templates are kinds of notifications, not notifications.
pub const TEMPLATES_PER_TENANT_MAX: usize = 1_000;
/// Versions of one template that can be seen and put in force again; the oldest make room.
pub const TEMPLATE_VERSIONS_MAX: usize = 50;
pub const TEMPLATE_NOTE_BYTES_MAX: usize = 512;

/// How long something may still be sent, in seconds: a day if nobody says, a month (the guard's time) at most.
pub const TTL_S_DEFAULT: u64 = 86_400;
pub const TTL_S_MIN: u64 = 60;
pub const TTL_S_MAX: u64 = 30 * 86_400;

/// Recipients of one notification. More are a list, or a bulk send.
pub const RECIPIENTS_MAX: usize = 1_000;

/// What one audit entry says. Facts are small: names, numbers and hashes; a sealed proof of consent is the largest.
pub const AUDIT_BODY_BYTES_MAX: usize = 4 << 10;
/// Entries that one call appends with one sync, and their bytes: half of what the log's files take at once.
pub const AUDIT_ENTRIES_PER_APPEND_MAX: usize = 16_384;
pub const AUDIT_APPEND_BYTES_MAX: usize = 8 << 20;
/// Names in audit entries: of an API key and of an action; what is acted on has a name like any other.
pub const AUDIT_NAME_BYTES_MAX: usize = 64;
/// Webhooks to the producer. Each reads the journal for itself.
pub const WEBHOOKS_PER_TENANT_MAX: usize = 16;
/// Accounts with providers. Each has its own connections, and all are read whenever the control plane changes.
pub const PROVIDERS_PER_TENANT_MAX: usize = 32;
/// What is said about an account, as JSON, and its credentials: a service account or a key has about 3 KB.
pub const PROVIDER_BYTES_MAX: usize = 32_768;
/// What is kept of the reason of one delivery: enough for every word of ours and nearly all of the providers'.
pub const AUDIT_REASON_BYTES_MAX: usize = 32;
/// Heads that one checkpoint lists, about 100 bytes each: ten partitions of every tenant there may be.
pub const CHECKPOINT_HEADS_MAX: usize = 100_000;
/// Findings that one verification lists; the rest is counted. Who sees so many looks at the first ones.
pub const AUDIT_FINDINGS_MAX: usize = 1_000;
/// Changes of what a user wants that are kept: a change a day for years, and what goes with the user is still one record.
pub const RESPECT_HISTORY_MAX: u32 = 1_000;
/// Categories that a user says something about.
pub const CATEGORY_CHOICES_MAX: usize = 64;
/// Recurring schedules of a tenant: each is looked at again and again.
pub const SCHEDULES_PER_TENANT_MAX: usize = 100;
/// With the time of a run behind it, it is still a name.
pub const SCHEDULE_ID_BYTES_MAX: usize = 200;
/// What a schedule sends, as JSON: it fits into a record with room for the rest.
pub const SCHEDULE_BYTES_MAX: usize = 192 << 10;
/// A schedule that comes more often is a stream of events.
pub const SCHEDULE_GAP_MINUTES_MIN: u16 = 5;
/// A run that nobody was there for is made up for within this, and left out after it.
pub const SCHEDULE_LATE_MS_MAX: u64 = 3_600_000;
/// Runs that are shown ahead.
pub const SCHEDULE_RUNS_SHOWN: usize = 5;
/// Segments are kinds of users, not users.
pub const SEGMENTS_PER_TENANT_MAX: usize = 1_000;
/// A condition that chooses users: what it costs for each user is bounded by its size.
pub const SEGMENT_FILTER_BYTES_MAX: usize = 4_096;
pub const SEGMENT_DEPTH_MAX: usize = 32;
pub const SEGMENT_TESTS_MAX: usize = 128;
pub const SEGMENT_VALUES_MAX: usize = 256;
/// Each is a list that is read beside the users.
pub const SEGMENT_TOPICS_MAX: usize = 16;
pub const SEGMENT_NOTE_BYTES_MAX: usize = 512;
/// Users that one record adds to an uploaded list: each sets a bit on some page.
pub const ENLISTED_PER_RECORD_MAX: usize = 256;
/// Lines of an upload that are resolved together, and the longest of them.
pub const UPLOAD_LINES_AT_ONCE: usize = 1_024;
pub const UPLOAD_LINE_BYTES_MAX: usize = 4 << 10;
/// Users that a walk looks at in one step, and those of them that it takes along: as many as a parcel has.
pub const WALK_LOOKED_AT_MAX: usize = 5_000;
pub const WALK_MEMBERS_MAX: usize = 1_000;
/// Parts of a walk that may wait for their deliveries: enough to keep every channel busy, and no more to call off.
pub const WALK_PARTS_AHEAD_MAX: u32 = 8;
/// Bulk sends of a tenant that are under way, as many that wait for their time (they may begin together), and the longest time
/// over which one is spread.
pub const WALKS_PER_TENANT_MAX: usize = 100;
pub const SPREAD_MINUTES_MAX: u32 = 30 * 24 * 60;
/// Faster than this is no limit.
pub const WALK_RATE_MAX: u32 = 1_000_000;
/// Users that an estimate looks at: below it is a count.
pub const ESTIMATE_USERS_MAX: u64 = 100_000;

/// Who said so, and the version of the text that was agreed to.
pub const SOURCE_BYTES_MAX: usize = 64;

/// Bytes of responses that one connection may have unread before its next request is handled: the reserves of as many
/// writes as HTTP/2 allows at a time.
pub const RESPONSE_BYTES_PER_CONNECTION_MAX: u64 = 4 << 20;
/// The same for all connections together. Above it each connection is handled one request at a time, and one whose peer
/// does not read is ended early.
pub const RESPONSE_BYTES_MAX: u64 = 256 << 20;
/// Counted for a request until its response is known: what is read may fill a page, what is written is answered shortly.
/// A connection reads 32 pages at a time, so one of a mebibyte each is the most that can exist beyond the limit.
pub const READ_RESPONSE_BYTES_RESERVED: u64 = 128 << 10;
pub const WRITE_RESPONSE_BYTES_RESERVED: u64 = 16 << 10;
/// Bytes of request bodies that are held at once: being read, or read by a request that is under way.
pub const REQUEST_BYTES_MAX: u64 = 256 << 20;
/// Of them, what is kept for whoever holds no more than one body: a few who hold much shut nobody out.
pub const REQUEST_BYTES_RESERVED: u64 = 32 << 20;
/// Half, as of everything that tenants wait for together.
pub const REQUEST_BYTES_PER_TENANT_MAX: u64 = 128 << 20;
/// Of all who call without a key: callbacks of providers, and forms of hosted pages. They are counted as they arrive.
pub const REQUEST_BYTES_WITHOUT_KEY_MAX: u64 = 64 << 20;
/// Of them, of one peer and of one of its connections: eight and four of the largest callbacks. One stranger leaves seven of eight
/// bytes to others. This machine has no such limit, because a proxy on it speaks for many. Callers with a key have none either: their
/// tenant's share is the bound, and behind a load balancer the tenants share addresses and connections.
pub const REQUEST_BYTES_WITHOUT_KEY_PER_ADDRESS_MAX: u64 = 8 << 20;
pub const REQUEST_BYTES_WITHOUT_KEY_PER_CONNECTION_MAX: u64 = 4 << 20;
/// Counted for an upload of any length, which is read some lines at a time.
pub const UPLOAD_BYTES_RESERVED: u64 = 1 << 20;
/// Exports of a tenant that are being read. Each holds a page of some kind, about a mebibyte, however slowly it is read.
pub const EXPORTS_PER_TENANT_MAX: usize = 8;
/// Entries of an inbox in one page of an export: with content of the largest size they have less than a mebibyte.
pub const EXPORT_INBOX_PAGE: usize = 25;
/// What is handed to the transport at once, and what a peer must read within the write deadline.
pub const RESPONSE_SLICE_BYTES: usize = 64 << 10;
/// The head of an HTTP/1 request. A longer one is answered 431, one with a path above 64 KiB 414.
pub const HEAD_BYTES_MAX: usize = 128 << 10;
/// Input that is read and dropped after the last response of a connection, so that the response is not lost: a body of
/// the largest size that would have been accepted.
pub const LINGER_BYTES_MAX: usize = BODY_BYTES_MAX;
/// Connections without a place, which are answered probes only. Health checks ask at once, so few are enough.
pub const PROBE_CONNECTIONS_MAX: usize = 64;
/// Of a listener for administration: however many connections the others have, an operator comes in.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Addresses whose limits are remembered, twice: about 15 MB. Whoever is forgotten begins anew.
pub const ADDRESSES_REMEMBERED_MAX: usize = 32 << 10;
/// Addresses that are told apart in a sum of refused logins. Beyond it there are "64+".
pub const REFUSED_PEERS_COUNTED_MAX: usize = 64;
/// Lines about refused requests in the log, a second and at once after a rest; strangers and tenants have so many each. A line has about 300
/// bytes, so whoever floods writes 3 KB a second at most.
pub const REFUSAL_LINES_PER_SECOND_MAX: u32 = 10;
pub const REFUSAL_LINES_AT_ONCE_MAX: u32 = 600;
/// What an upload of any length must bring, so that it does not hold a connection for ever: less than any line of today.
pub const UPLOAD_BYTES_PER_SECOND_MIN: u64 = 1 << 10;

/// Changes that one link to preferences saves in an hour: more than a reader makes. To push all 1,000 changes of a user's history
/// out then takes two days, and the audit log keeps them all.
pub const LINK_SAVES_PER_HOUR_MAX: u8 = 20;
/// Places at which saves of links are counted, a byte each. With 100,000 links an hour the chance that strangers fill the place of
/// a link is below 10⁻²⁰.
pub const LINK_SAVE_PLACES: usize = 1 << 20;
/// How long a link for recipients works that nobody gave an end: longer than the year between two yearly mails.
pub const LINK_MS: u64 = 400 * 24 * 3_600_000;
