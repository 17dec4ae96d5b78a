//! TLS: who is believed.

use super::house::House;
use super::parcel::told;
use fantail_channels::webhook::Settings;
use fantail_outbound::resolve::Resolve;
use fantail_ports::BoxFuture;
use fantail_rules::ids::TenantId;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::{ServerConfig, SupportedProtocolVersion, version};

/// Every name is here.
struct AllHere;

impl Resolve for AllHere {
    fn resolve(&self, _whose: Option<TenantId>, _name: &str) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(vec![Ipv4Addr::LOCALHOST.into()]) })
    }
}

const HOST: &str = "hook.example.org";

fn house(versions: &[&'static SupportedProtocolVersion], change: impl FnOnce(&mut Settings, &str)) -> House {
    let names = [HOST.to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .expect("known versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .expect("the key of the certificate");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let pem = made.cert.pem();
    House::build(Some(acceptor), Arc::new(AllHere), |settings| change(settings, &pem))
}

fn trusting(settings: &mut Settings, pem: &str) {
    settings.extra_roots_pem = pem.as_bytes().to_vec();
}

fn check(house: &House, host: &str, expected: &str) {
    let url = format!("https://{host}:{}/status/200", house.sink.address.port());
    assert_eq!(told(&house.post_to(&url)), expected, "{url}");
}

#[test]
fn an_added_root_is_trusted_for_its_names() {
    for version in [&version::TLS13, &version::TLS12] {
        let house = house(&[version], trusting);
        check(&house, HOST, "accepted");
        check(&house, "127.0.0.1", "accepted");
        assert_eq!(house.sink.counts().requests, 2);
        check(&house, "other.example.org", "not sent NoConnection");
        assert_eq!(house.sink.counts().requests, 2);
        let seen = house.sink.seen();
        assert_eq!(seen[0].headers["host"], format!("{HOST}:{}", house.sink.address.port()));
    }
}

#[test]
fn a_stranger_is_not_trusted() {
    let house = house(&[&version::TLS13], |_, _| ());
    check(&house, HOST, "not sent NoConnection");
    assert_eq!(house.sink.counts().requests, 0);
}

#[test]
fn connections_over_tls_are_used_again() {
    let house = house(&[&version::TLS13], trusting);
    for _ in 0..5 {
        check(&house, HOST, "accepted");
        house.wait_for_idle(1);
    }
    assert_eq!(house.sink.counts().connections, 1);
}
