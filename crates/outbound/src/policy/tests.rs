//! Which targets and addresses a policy allows, and what its refusals say.

use super::*;
use crate::url::Url;

fn policy(allow: &[&str]) -> Policy {
    Policy::default().allowing(allow.iter().map(|entry| entry.parse().expect("an entry")).collect())
}

fn web(url: &str) -> Destination {
    Destination::web(&Url::parse(url).expect("a URL").origin)
}

fn mail(host: &str, port: u16, is_plain: bool) -> Destination {
    Destination { host: Host::of(host), port, is_plain, service: Service::Mail }
}

fn check(policy: &Policy, destination: &Destination, expected: &str) {
    let judged =
        policy.judge(destination).map_or_else(|forbidden| forbidden.to_string(), |()| "ok".to_owned());
    assert!(judged.contains(expected), "{destination:?}: {judged}, not {expected}");
}

#[test]
fn by_default_tls_to_the_public() {
    let policy = policy(&[]);
    for url in
        ["https://example.org/", "https://example.org:8443/", "https://1.1.1.1/", "https://[2606:4700::1]/"]
    {
        check(&policy, &web(url), "ok");
    }
    for (url, expected) in [
        ("http://example.org/", "use TLS, or the operator can allow it: outbound.allow = \"example.org:80\""),
        (
            "https://example.org:22/",
            "port 22 is not a usual one; the operator can allow it: outbound.allow = \"example.org:22\"",
        ),
        ("https://localhost/", "outbound.allow = \"localhost:443\""),
        ("http://hooks.localhost:9000/", "outbound.allow = \"hooks.localhost:9000\""),
        ("https://metadata/", "no domain"),
        ("http://receiver:8080/", "outbound.allow = \"receiver:8080\""),
        ("http://127.0.0.1:9000/", "outbound.allow = \"127.0.0.1:9000\""),
        ("https://[::1]/", "outbound.allow = \"[::1]:443\""),
        ("https://10.1.2.3/", "not public"),
        ("https://169.254.169.254/", "no setting allows"),
    ] {
        check(&policy, &web(url), expected);
    }
    check(&policy, &mail("smtp.example.org", 587, false), "ok");
    check(&policy, &mail("smtp.example.org", 25, true), "plain");
    check(&policy, &mail("smtp.example.org", 443, false), "port 443");
    check(&policy, &mail("127.0.0.1", 25, true), "outbound.allow = \"127.0.0.1:25\"");
}

/// The value that a refusal names is enough: nobody has to find three settings.
// fixes: usability 3.8
#[test]
fn what_a_refusal_names_allows_its_target() {
    for url in [
        "http://127.0.0.1:9000/",
        "http://localhost:9000/",
        "https://[::1]:9/",
        "http://receiver:8080/",
        "http://example.org:81/",
        "https://10.1.2.3:444/",
    ] {
        let refused = policy(&[]).judge(&web(url)).expect_err(url).to_string();
        let value = refused.split('"').nth(1).expect(url);
        let opened = policy(&[value]);
        check(&opened, &web(url), "ok");
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let at = match &web(url).host {
            Host::Address(address) => *address,
            Host::Name(_) => loopback,
        };
        assert_eq!(opened.judge_address(&web(url), at), Ok(()), "{url}");
    }
}

#[test]
fn an_entry_opens_its_target_and_no_other() {
    let policy = policy(&["127.0.0.1:9000", "10.1.0.0/16", "hooks", ".corp.example:8080"]);
    for url in [
        "http://127.0.0.1:9000/",
        "https://127.0.0.1:9000/",
        "http://localhost:9000/",
        "https://10.1.2.3/",
        "https://hooks/",
        "http://a.corp.example:8080/",
    ] {
        check(&policy, &web(url), "ok");
    }
    for (url, expected) in [
        ("http://127.0.0.1:9001/", "not public"),
        ("http://127.0.0.2:9000/", "not public"),
        ("http://10.1.2.3:443/", "plain"),
        ("http://10.1.2.3/", "not public"),
        ("https://10.1.2.3:8080/", "not public"),
        ("https://10.2.2.3/", "not public"),
        ("http://hooks/", "plain"),
        ("http://a.corp.example:8081/", "plain"),
        ("https://other/", "no domain"),
    ] {
        check(&policy, &web(url), expected);
    }
    for (url, address, expected) in [
        ("https://hooks/", "192.168.0.1", true),
        ("http://a.corp.example:8080/", "127.0.0.1", true),
        ("http://corp.example:8080/", "127.0.0.1", false),
        ("http://evilcorp.example:8080/", "127.0.0.1", false),
        ("http://a.corp.example.evil.example:8080/", "127.0.0.1", false),
        ("https://hooks/", "169.254.169.254", false),
        ("https://hooks/", "::ffff:10.1.2.3", false),
        ("https://example.org/", "10.1.2.3", true),
        ("https://example.org/", "10.2.2.3", false),
        ("https://example.org/", "8.8.8.8", true),
        ("http://example.org:9000/", "127.0.0.1", true),
        ("http://example.org:9000/", "8.8.8.8", false),
    ] {
        let judged = policy.judge_address(&web(url), address.parse().expect("an address"));
        assert_eq!(judged.is_ok(), expected, "{url} {address}: {judged:?}");
    }
}

#[test]
fn metadata_is_refused_whatever_is_listed() {
    let policy = policy(&[
        "169.254.169.254:80",
        "169.254.0.0/16:80",
        "[::ffff:0:0/96]:80",
        "[64:ff9b::/96]:80",
        "md:80",
    ]);
    for address in ["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"] {
        let address: IpAddr = address.parse().expect("an address");
        for url in ["http://md/", "http://169.254.169.254/"] {
            assert_eq!(policy.judge_address(&web(url), address), Err(Forbidden::Never), "{address}");
        }
    }
    check(&policy, &web("http://169.254.169.254/"), "no setting allows");
}

#[test]
fn families_and_ports_are_the_operators() {
    let only = Policy::default().with_families(Families::Ipv4).with_ports(vec![9443], vec![26]);
    check(&only, &web("https://[2606:4700::1]:9443/"), "outbound.families");
    check(&only, &web("https://1.1.1.1:9443/"), "ok");
    check(&only, &web("https://1.1.1.1/"), "port 443");
    check(&only, &mail("smtp.example.org", 26, false), "ok");
    check(&Policy::of_operator(), &web("http://127.0.0.1:1/"), "ok");
}

/// A name's addresses are the house's secret.
#[test]
fn a_refusal_of_a_name_tells_no_address() {
    assert!(
        !Forbidden::Resolved.to_string().contains("10.") && Forbidden::Resolved.to_string().contains(SETTING)
    );
}
