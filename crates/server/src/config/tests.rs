//! Layers win in their order, and what is wrong is named.

use super::*;

/// A file in the temporary directory that goes away with the test.
struct File(PathBuf);

impl File {
    fn with(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fantail-config-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).expect("a temporary file");
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("the temporary file is there");
    }
}

fn read(
    flags: &[(&'static str, &str)],
    environment: &[(&str, &str)],
    file: Option<&File>,
) -> Result<Config, ConfigError> {
    let values = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    let flags = Flags { file: file.map(|file| file.0.clone()), values };
    let environment: BTreeMap<&str, &str> = environment.iter().copied().collect();
    Layers::read(&flags, &|name| environment.get(name).map(|value| (*value).to_owned()))?.config()
}

#[test]
fn defaults_are_valid() {
    let config = read(&[], &[], None).expect("valid");
    assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:7070");
    assert_eq!(config.data, PathBuf::from("./fantail-data"));
    assert!(config.tls.is_none() && config.admin_key.is_none());
    assert_eq!(config.http.connections_max, 10_000);
}

#[test]
fn flags_override_environment_overrides_file() {
    let file = File::with(
        "layers",
        "listen = \"127.0.0.1:1\"\n[http]\ndrain_s = 3\nslow_ms = 5\n[log]\nlevel = \"warn\"",
    );
    let environment = [("FANTAIL_LISTEN", "127.0.0.1:2"), ("FANTAIL_HTTP_DRAIN_S", "4")];
    let config = read(&[("listen", "127.0.0.1:3")], &environment, Some(&file)).expect("valid");
    assert_eq!(config.listeners[0].address.port(), 3);
    assert_eq!(config.http.drain, Duration::from_secs(4));
    assert_eq!(config.http.slow, Duration::from_millis(5));
    assert_eq!(config.log.level, tracing::Level::WARN);
}

#[test]
fn tenants_have_a_rate_unless_another_one_or_none_is_set() {
    // fixes: security M8
    let usual = read(&[], &[], None).expect("valid").producers;
    let tenant = Some(Rate { per_second: 100_000, burst: 100_000 });
    assert_eq!(usual, producers::Defaults { tenant, key: None });
    let free = read(&[], &[("FANTAIL_PRODUCER_TENANT_PER_SECOND", "0")], None).expect("valid").producers;
    assert_eq!(free, producers::Defaults::default());
    let environment = [("FANTAIL_PRODUCER_TENANT_PER_SECOND", "7"), ("FANTAIL_PRODUCER_KEY_BURST", "9")];
    let limited = read(&[], &environment, None).expect("valid").producers;
    let tenant = Some(Rate { per_second: 7, burst: 7 });
    assert_eq!(limited, producers::Defaults { tenant, key: None }, "a burst alone is no rate");
}

#[test]
fn what_is_wrong_is_named() {
    let unknown = File::with("unknown", "[http]\ndrain = 3\n");
    let broken = File::with("broken", "listen = ");
    let short = [("FANTAIL_ADMIN_KEY", "short")];
    let cases: [(Result<Config, ConfigError>, &str); 9] = [
        (read(&[], &[], Some(&unknown)), "unknown key: http.drain"),
        (read(&[], &[], Some(&broken)), "is not TOML"),
        (read(&[("listen", "nowhere")], &[], None), "listen (flag --listen)"),
        (read(&[("tls.cert", "a.pem")], &[], None), "belong together"),
        (read(&[], &short, None), "admin.key (environment FANTAIL_ADMIN_KEY)"),
        (read(&[], &[("FANTAIL_HTTP_DRAIN_S", "0")], None), "must be a number from 1 to 600"),
        (read(&[("log.level", "loud")], &[], None), "log.level"),
        (read(&[("log.format", "xml")], &[], None), "must be compact or json"),
        (read(&[("data", "")], &[], None), "must not be empty"),
    ];
    for (result, part) in cases {
        let error = result.expect_err(part).to_string();
        assert!(error.contains(part), "{error} should contain {part}");
        assert!(!error.contains("\"short\""), "secrets are not repeated");
    }
}

// fixes: security L9
#[test]
fn a_file_that_cannot_be_read_is_named_by_its_place_and_not_shown() {
    let file = File::with("secret", "listen = \"a\"\n[admin]\nkey = s3cr3t-s3cr3t-s3cr3t\n");
    let error = read(&[], &[], Some(&file)).expect_err("no TOML").to_string();
    assert!(!error.contains("s3cr3t") && error.contains("line 3, column 7"), "{error}");
    let file = File::with("no-string", "[admin]\nkey = \"s3cr3t");
    let error = read(&[], &[], Some(&file)).expect_err("no TOML").to_string();
    assert!(!error.contains("s3cr3t") && error.contains("line 2"), "{error}");
}

#[test]
fn the_file_with_a_secret_is_known() {
    let file = File::with("with-key", &format!("[admin]\nkey = \"{}\"", "k".repeat(40)));
    let config = read(&[], &[], Some(&file)).expect("valid");
    assert_eq!(config.secret_files, std::slice::from_ref(&file.0));
    let file = File::with("without-key", "listen = \"127.0.0.1:1\"");
    assert_eq!(read(&[], &[], Some(&file)).expect("valid").secret_files, [] as [PathBuf; 0]);
}

/// A reserve below what one write may take does not protect the tables from a full disk.
// fixes: torture 9
#[test]
fn a_reserve_below_the_files_that_are_begun_at_once_is_refused() {
    let with = |mib: &str| read(&[], &[("FANTAIL_STORAGE_FREE_MIB_MIN", mib)], None);
    for mib in ["0", "1", "63", "255"] {
        let refused = with(mib).expect_err("too small").to_string();
        assert!(refused.contains("free_mib_min") && refused.contains("256"), "{mib}: {refused}");
    }
    assert_eq!(with("256").expect("enough").room.free_bytes_min, 256 << 20);
}

#[test]
fn environment_names_are_unique() {
    for (index, setting) in SETTINGS.iter().enumerate() {
        assert!(SETTINGS[..index].iter().all(|earlier| earlier.environment() != setting.environment()));
        assert!(setting.doc.ends_with('.'), "{}", setting.key);
    }
}

#[test]
fn secrets_are_not_printed() {
    let key = "k".repeat(40);
    let config = read(&[], &[("FANTAIL_ADMIN_KEY", &key)], None).expect("valid");
    assert!(!format!("{config:?}").contains(&key));
}

// fixes: security L7
#[test]
fn test_settings_are_refused_without_the_switch_and_public_listeners_with_it() {
    let settings = [
        ("FANTAIL_DELIVERY_DIE_AT", "deliver.allowed:2"),
        ("FANTAIL_DELIVERY_PANIC_AT", "lead.planned:2"),
        ("FANTAIL_DELIVERY_STUB_ARRIVALS", "a"),
        ("FANTAIL_DELIVERY_STUB_FAULTS", "f"),
        ("FANTAIL_DELIVERY_STUB_STANDBY", "false"),
    ];
    for setting in settings {
        let refused = read(&[], &[setting], None).expect_err("no switch").to_string();
        assert!(refused.contains(setting.0) && refused.contains("FANTAIL_TESTING=1"), "{refused}");
        assert!(read(&[], &[setting, (SWITCH, "1")], None).expect("a test").testing);
    }
    assert!(!read(&[], &[(SWITCH, "0")], None).expect("valid").testing);
    assert!(read(&[], &[(SWITCH, "yes")], None).is_err());
    for listen in ["0.0.0.0:7070", "192.0.2.1:7070", "[::]:7070"] {
        let plain = ("FANTAIL_HTTP_PLAIN_ALLOWED", "true");
        let refused =
            read(&[("listen", listen)], &[(SWITCH, "1"), plain], None).expect_err("public").to_string();
        assert!(refused.contains("loopback"), "{refused}");
        assert!(read(&[("listen", listen)], &[("FANTAIL_HTTP_PLAIN_ALLOWED", "true")], None).is_ok());
    }
}

/// Outbound targets are read at the start, and what opens too much or is misspelt is named there.
// fixes: security H2
#[test]
fn outbound_targets_are_read_and_mistakes_are_named() {
    let with = |name: &str, value: &str| read(&[], &[(name, value)], None);
    let allow = |value: &str| with("FANTAIL_OUTBOUND_ALLOW", value);
    let several =
        allow("127.0.0.1:9000, 10.0.0.0/8 ,hooks.internal:8080,,.internal").expect("valid").outbound;
    assert_eq!(several.listed(), "127.0.0.1/32:9000, 10.0.0.0/8, hooks.internal:8080, .internal");
    assert_eq!(read(&[], &[], None).expect("valid").outbound.listed(), "");
    assert!(with("FANTAIL_OUTBOUND_FAMILIES", "ipv6").is_ok());
    let many = ["127.0.0.1"; 257].join(",");
    for (result, part) in [
        (allow("http://127.0.0.1:9000"), "outbound.allow"),
        (allow("10.0.0.0/8:*"), "every port"),
        (allow("0.0.0.0/0"), "switch the filter off"),
        (allow(&many), "at most 256"),
        (with("FANTAIL_OUTBOUND_FAMILIES", "v4"), "must be both, ipv4 or ipv6"),
        (with("FANTAIL_OUTBOUND_PORTS", "0"), "must be ports"),
        (with("FANTAIL_OUTBOUND_MAIL_PORTS", "smtp"), "must be ports"),
    ] {
        let error = result.expect_err(part).to_string();
        assert!(error.contains(part), "{error} should contain {part}");
    }
}
