//! Commands reach the server by the URL that its banner prints, and send no key in the clear to another machine.

use crate::server::{Directory, Server, fantail, run};
use crate::tls::certificate;
use crate::world::put_user;
use std::process::Output;

fn explain(server: &Server, args: &[&str]) -> Output {
    let data = server.data.to_str().expect("text");
    let all = [&["explain", "n1", "bob", "--data", data], args].concat();
    fantail().args(all).output().expect("the binary runs")
}

/// What a command that fails says.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

// fixes: security L2
#[test]
fn commands_take_the_url_of_the_banner() {
    let server = Server::start();
    put_user(&mut server.client(), "bob");
    let api = server.banner.iter().find_map(|line| line.trim().strip_prefix("api")).expect("a line").trim();
    for url in
        [api, api.trim_end_matches("/api/v1"), api.trim_start_matches("http://").trim_end_matches("/api/v1")]
    {
        // It was asked: there is no such notification.
        let output = explain(&server, &["--server", url]);
        assert!(said(&output).contains("404"), "{url}: {}", said(&output));
    }
    let output = explain(&server, &["--server", "http://127.0.0.1:1"]);
    assert!(said(&output).contains("127.0.0.1:1"), "it says which: {}", said(&output));
}

// fixes: security L2
#[test]
fn no_key_leaves_this_machine_in_the_clear() {
    let server = Server::start();
    for url in ["http://192.0.2.1:7070", "192.0.2.1:7070"] {
        let output = explain(&server, &["--server", url]);
        assert!(
            said(&output).contains("in the clear") && said(&output).contains("--plain"),
            "{}",
            said(&output)
        );
    }
}

// fixes: security L2
#[test]
fn commands_speak_tls() {
    let directory = Directory::new();
    let (cert, key) = certificate(&directory, "server");
    let server = Server::start_in(&directory.path("data"), &["--tls-cert", &cert, "--tls-key", &key], &[]);
    let port = server.address.rsplit(':').next().expect("a port").to_owned();
    let url = format!("https://localhost:{port}");
    let output = explain(&server, &["--server", &url]);
    assert!(said(&output).contains("ertificate"), "nobody vouches for it: {}", said(&output));
    let output = explain(&server, &["--server", &url, "--ca", &cert]);
    assert!(said(&output).contains("404"), "{}", said(&output));
    let (data, copy) = (server.data.to_str().expect("text").to_owned(), directory.path("copy"));
    let made =
        run(&["backup", copy.to_str().expect("text"), "--data", &data, "--server", &url, "--ca", &cert]);
    assert!(made.contains("bytes in"), "{made}");
}
