//! TLS on our own listener.

use crate::server::{Directory, Server, fantail};
use crate::world::{expect, put_user};
use fantail_server::client::Client;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, version};

/// Writes a certificate for localhost and its key.
pub fn certificate(directory: &Directory, name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (cert, key) = (directory.path(&format!("{name}.pem")), directory.path(&format!("{name}.key")));
    std::fs::write(&cert, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    (cert.to_string_lossy().into_owned(), key.to_string_lossy().into_owned())
}

fn client(server: &Server, cert: &str) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(Path::new(cert)).expect("a certificate")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let stream = TcpStream::connect(&server.address).expect("a connection");
    Client::over("localhost", Box::new(StreamOwned::new(connection, stream)))
}

// proves: TEN-06
#[test]
fn the_api_is_served_over_tls_only() {
    let directory = Directory::new();
    let (cert, key) = certificate(&directory, "server");
    let server = Server::start_in(&directory.path("data"), &["--tls-cert", &cert, "--tls-key", &key], &[]);
    assert!(server.banner.iter().any(|line| line.contains("https://")));
    let mut secure = client(&server, &cert).with_key(&server.key("default.key"));
    put_user(&mut secure, "bob");
    expect(secure.get("/api/v1/users/bob"), 200);
    assert!(server.anonymous().get("/livez").is_err(), "plain HTTP is not answered");
    server.stop();
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let directory = Directory::new();
    let (cert, _) = certificate(&directory, "one");
    let (_, key) = certificate(&directory, "two");
    let data = directory.path("data");
    for (cert, key, part) in
        [(cert.as_str(), key.as_str(), "does not belong"), ("missing.pem", key.as_str(), "cannot read")]
    {
        let output = fantail()
            .args(["serve", "--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--data"])
            .arg(&data)
            .output()
            .expect("the binary runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(part), "{error}");
    }
}
