//! The table of all settings. Environment names, the file's keys and `fantail config doc` come from it.

use super::setting::Setting;

pub const SETTINGS: &[Setting] = &[
    text("data", "./fantail-data", "Directory that holds everything: journal, tables, keys."),
    text(
        "listen",
        "127.0.0.1:7070",
        "Address and port of the API. Port 0 chooses a free one. What follows in public.listen and admin.listen is served here too, \
         unless it has a listener of its own.",
    ),
    text(
        "bootstrap",
        "default",
        "What a new server makes for its first request: default (the tenant default and a key that may do everything but admin and \
         send:critical), full (a key that may do that too) or none.",
    ),
    text(
        "public.listen",
        "",
        "Another address for what needs no key: hosted pages, callbacks of providers, tracked links, terse health. Empty: listen.",
    ),
    text(
        "tls.cert",
        "",
        "Certificate chain in PEM. With tls.key: listen speaks TLS only, and so does every other listener beyond this machine.",
    ),
    text("tls.key", "", "Private key of the certificate in PEM."),
    text(
        "admin.listen",
        "",
        "Another address for administration: what the server's own key does, /metrics, /readyz?verbose, and all of the API. Empty: \
         listen as long as that is on this machine, otherwise 127.0.0.1:7071. Beyond this machine only if it is named here.",
    ),
    text(
        "admin.hosts",
        "",
        "Names by which /metrics and /readyz?verbose may be called on this machine beside localhost and its addresses, separated by commas, \
         like fantail.internal. Requests for other hosts get 421 there: a page in a browser could have its own name lead here.",
    ),
    secret(
        "admin.key",
        "Admin key of the server, 32 to 256 printable characters. Prefer a file or the environment. Without it one is made on \
         the first start and kept in admin.key in the data directory.",
    ),
    text("log.format", "compact", "compact or json."),
    text("log.level", "info", "error, warn, info, debug or trace."),
    text(
        "http.public_url",
        "",
        "Where recipients reach this server, like https://notify.example.com: links to preferences and out of mailings \
         begin with it. Empty: the address that is listened on.",
    ),
    number(
        "http.connections_max",
        "10000",
        "Connections at a time. Further ones are answered /livez, /readyz and /metrics only, and closed.",
    ),
    number(
        "http.connections_per_address",
        "1000",
        "The same for one address (of IPv6: for one /64 network), except for this machine. 0: as many as there are. A proxy \
         in front may need more.",
    ),
    number(
        "http.requests_per_address",
        "1000",
        "Requests without a key that one address (of IPv6: one /64 network) may make in a second: hosted pages, callbacks, tracked \
         links. Further ones get 429. 0: as many as it likes.",
    ),
    number(
        "http.failed_logins_per_address",
        "60",
        "Logins of one address that may fail in a minute. Further ones get 429, and the server's own key is not even compared. 0: as \
         many as it likes.",
    ),
    text(
        "http.limit_loopback",
        "false",
        "true or false: whether this machine has the limits of every other address.",
    ),
    text(
        "http.trusted_proxies",
        "",
        "Networks of proxies in front, like 10.0.0.0/8, separated by commas. For what they pass on, the rightmost address of \
         X-Forwarded-For or Forwarded that is none of them counts: in limits and in logs.",
    ),
    text(
        "http.plain_allowed",
        "false",
        "true or false: plain HTTP beyond this machine. For a proxy in front that ends TLS; without one, keys travel in the clear.",
    ),
    number("http.header_timeout_s", "10", "Time for the TLS handshake and the head of the first request."),
    number(
        "http.idle_timeout_s",
        "60",
        "Time a connection may wait for its next request. HTTP/2 connections are told to go away.",
    ),
    number(
        "http.write_timeout_s",
        "30",
        "Time within which a peer must read some of a waiting response; one that does not is closed.",
    ),
    number("http.body_timeout_s", "30", "Time for the body of a request."),
    number("http.drain_s", "10", "Time for requests under way when the server stops."),
    number("http.slow_ms", "1000", "Requests slower than this are logged at info."),
    number(
        "links.days",
        "400",
        "Days for which links to preferences and out of mailings work, unless they are made with an end of their own. 0: as \
         long as their user is there.",
    ),
    number(
        "producer.tenant_per_second",
        "100000",
        "What the producers of a tenant may ask for in a second, together: one for each recipient of a notification, one \
         for each user an event names or for its list; and, from an allowance of their own, one for each ten users, devices, \
         follows, templates and schedules. 0: as much as they like. Tenants can have a rate of their own.",
    ),
    number(
        "producer.tenant_burst",
        "0",
        "What they may ask for at once after a rest. 0: one second's worth.",
    ),
    number("producer.key_per_second", "0", "The same for each key. Keys can have a rate of their own."),
    number("producer.key_burst", "0", "The same for each key."),
    number(
        "quota.users",
        "200000000",
        "Users that a tenant may have. 0: as many as there is room for. Tenants can have quotas of their own, here and below: \
         PATCH /api/v1/tenants/{slug}.",
    ),
    number("quota.devices", "400000000", "Devices and webhooks of a tenant's users, together."),
    number("quota.schedules", "100", "Recurring schedules of a tenant. More than 100 there never are."),
    number(
        "quota.waiting",
        "1000000",
        "Notifications and events of a tenant that wait for the time they are scheduled at. More than 1000000 there never are.",
    ),
    number(
        "quota.stored_mib",
        "262144",
        "What a tenant may have stored: users, addresses, events as long as they are kept, schedules and templates. What is \
         derived from it (inboxes, deliveries, indexes) and the journal come on top, up to a few times as much.",
    ),
    number(
        "storage.shards",
        "4",
        "Shards of the users. Fixed when the data directory is created; later changes have no effect.",
    ),
    number(
        "storage.free_mib_min",
        "1024",
        "Writes get 503 while the disk has less free than this, or than free_percent_min; reads go on.",
    ),
    number("storage.free_percent_min", "5", "The same, as a part of the disk. The larger of the two counts."),
    number(
        "storage.cache_mib",
        "256",
        "Memory for blocks of the tables that were read. Takes effect as they are read, not at the start.",
    ),
    number(
        "storage.columns_mib",
        "512",
        "Memory for what gates ask of every recipient, as it is read: about 34 bytes for each user.",
    ),
    number(
        "storage.keys_mib",
        "384",
        "Memory for the keys of users, as they are used: 32 bytes for each user, and for 63 neighbours.",
    ),
    secret(
        "keyring.server_key",
        "The key that seals all other keys: 32 bytes, as 64 hexadecimal digits or in base64. Without it, its file \
         and the next setting, one is made on the first start and kept in keys/server.key in the data directory, beside what it seals.",
    ),
    list(
        "keyring.server_key_command",
        "A program and its arguments, like [\"aws\", \"kms\", \"decrypt\"], that prints this key, in the same form or as 32 bytes. It is run \
         at every start, without a shell, without the secrets of these settings in its environment.",
    ),
    number(
        "keyring.command_timeout_s",
        "30",
        "Time for that program. One that takes longer is killed, and the start fails.",
    ),
    number(
        "inbox.window_events",
        "4096",
        "Events of a shard that wait in memory, found through the lists of whoever reads, before they are written to \
         the inbox index together. More make larger runs and fewer rewrites; each costs about 100 bytes.",
    ),
    number(
        "inbox.transpose_mib",
        "128",
        "Memory for turning windows of events into sorted entries, in all shards together. Larger audiences are \
         written in several steps.",
    ),
    number("inbox.hot_mib", "16", "Memory for the newest entries of users who read often."),
    number(
        "retention.guard_days",
        "30",
        "Days for which what became of deliveries is kept after their event: status, attempts, dead letters, and with them \
         what keeps a delivery from being sent twice. At least 30, so that it outlasts everything that can still be sent.",
    ),
    text(
        "backup.recipient",
        "",
        "To whom the keys in backups are sealed: a line that `fantail backup keygen` prints. Only its identity opens them: keep that away from \
         this machine. Empty: backups have their keys in the clear, unless they are made without keys.",
    ),
    number(
        "backup.keep_max",
        "3",
        "Backups that stay in the data directory, where those that are made by the API are; older ones are removed. 0: all of them.",
    ),
    number("backup.keep_days", "7", "Days for which they stay there. 0: for good."),
    text(
        "erasures.list",
        "",
        "File of the list of erasures: who was erased, sealed, so that `fantail restore --erasures` can erase them again in a copy that \
         was made from an older backup. Empty: erasures.list in the data directory, which is lost together with it. Better on another \
         disk. An erasure is done once it is in the list.",
    ),
    text(
        "outbound.allow",
        "",
        "Targets inside the house that tenants may have connected to, for webhooks, providers' accounts and push services, \
         separated by commas: an address, a network or a host, each with a port or without, like 127.0.0.1:9000, \
         10.0.0.0/8, hooks.internal:8080 or .internal (all names below it). With a port, or * for all ports of one host, \
         plain connections are allowed too. List only names whose addresses you control. Metadata services of clouds are \
         refused always.",
    ),
    text(
        "outbound.ports",
        "443,8443",
        "Ports of public addresses that webhooks, providers' accounts and push services may be at, separated by commas.",
    ),
    text(
        "outbound.mail_ports",
        "25,465,587,2525",
        "Ports of public addresses that mail relays may be at, separated by commas.",
    ),
    text("outbound.families", "both", "both, ipv4 or ipv6: which addresses tenants may have connected to."),
    number("webhook.timeout_s", "15", "Time for one attempt."),
    number(
        "webhook.disable_after_s",
        "86400",
        "A webhook to the producer whose receiver fails for this long is switched off, until it is enabled again.",
    ),
    number(
        "audit.checkpoint_s",
        "60",
        "While something moves, a signed checkpoint of the audit log is made this often. What happened since the last \
         one is held by its chain alone.",
    ),
    secret(
        "audit.signing_key",
        "The secret that signs checkpoints of the audit log: 64 hexadecimal digits. Without it one is made on the first start and kept \
         in keys/audit.key in the data directory.",
    ),
    text(
        "otlp.endpoint",
        "",
        "A collector that gets traces by OTLP over HTTP, like http://127.0.0.1:4318/v1/traces, or https. Empty: none are \
         made.",
    ),
    secret(
        "otlp.headers",
        "Headers for the collector, like api-key=abc,x-org=7, values percent-encoded. Prefer a file or the environment.",
    ),
    text(
        "otlp.roots",
        "",
        "A file with certificates in PEM that vouch for the collector, beside those of the web.",
    ),
    number(
        "delivery.queue_max",
        "1000000",
        "Events of a tenant that may wait in one lane to be sent, counted once for each channel and shard. Beyond it what \
         would be sent in this lane gets 503 until some have left; other lanes and tenants go on.",
    ),
    number(
        "delivery.drain_s",
        "30",
        "Time for deliveries under way when the server stops: it starts no more of them, and waits until the answer to each \
         is on disk. What is still open then is unknown to the next start, and may be sent twice.",
    ),
    testing(
        "delivery.stub_arrivals",
        "",
        "For tests: a file to which the stub provider appends a line for every message that arrives there.",
    ),
    testing(
        "delivery.stub_faults",
        "",
        "For tests: a file that says what is wrong with the stub provider, read anew for every parcel: lines like \
         push down, email fail=20, sms slow=50 or push malformed=10.",
    ),
    text(
        "delivery.sandbox",
        "true",
        "Whether messages of tenants that never had a provider go to the sandbox in this process, which emulates the providers and \
         lets nothing leave this machine. false: they fail with no_provider.",
    ),
    number(
        "delivery.sandbox_port",
        "0",
        "Where the sandbox's own API listens on 127.0.0.1; 0 chooses a free port. Its key is in sandbox.key in the data directory.",
    ),
    testing(
        "delivery.stub_standby",
        "false",
        "For tests: a second stub behind the first one of each channel, for what the first certainly did not take. Its faults \
         are lines like push-standby down.",
    ),
    testing(
        "delivery.die_at",
        "",
        "For tests: a point of the walk and a number, like deliver.allowed:2; the process dies when it gets there.",
    ),
    testing(
        "delivery.panic_at",
        "",
        "For tests: a point of the walk or a loop and a number, like lead.planned:2 or books:later; the task that gets there panics.",
    ),
];

const fn text(key: &'static str, default: &'static str, doc: &'static str) -> Setting {
    Setting { key, default, doc, secret: false, number: false, list: false, testing: false }
}

const fn testing(key: &'static str, default: &'static str, doc: &'static str) -> Setting {
    Setting { key, default, doc, secret: false, number: false, list: false, testing: true }
}

const fn number(key: &'static str, default: &'static str, doc: &'static str) -> Setting {
    Setting { key, default, doc, secret: false, number: true, list: false, testing: false }
}

const fn secret(key: &'static str, doc: &'static str) -> Setting {
    Setting { key, default: "", doc, secret: true, number: false, list: false, testing: false }
}

const fn list(key: &'static str, doc: &'static str) -> Setting {
    Setting { list: true, ..text(key, "", doc) }
}
