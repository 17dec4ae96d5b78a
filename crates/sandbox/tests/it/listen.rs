//! Ports, names and protocols.

use crate::client::{http1, start, tls};
use bytes::Bytes;
use fantail_sandbox::faults::Profile;
use fantail_sandbox::{Options, Sandbox, StartError};
use http_body_util::Empty;
use hyper::http::Request;
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use tokio::net::TcpStream;

#[tokio::test]
async fn an_emulator_is_found_by_name_path_and_port() {
    let running = start().await;
    let body = || Bytes::from_static(b"{}");
    let by_name = tls(&running, running.shared(), "fcm.googleapis.com", &[b"http/1.1"]).await;
    let by_path = tls(&running, running.shared(), "localhost", &[]).await;
    let own = running.own("fcm").expect("a port");
    let by_port = tls(&running, own, "127.0.0.1", &[b"http/1.1"]).await;
    let plain = TcpStream::connect(own).await.expect("a connection");
    // The host header says localhost: then the path decides.
    let path = "/v1/projects/p/messages:send";
    let (status, told) = http1(by_name, "POST", path, body()).await;
    assert_eq!(status, 421, "{told:?}");
    for (status, told) in [
        http1(by_path, "POST", &format!("/fcm{path}"), body()).await,
        http1(by_port, "POST", path, body()).await,
        http1(plain, "POST", path, body()).await,
    ] {
        assert_eq!(status, 401);
        assert!(String::from_utf8_lossy(&told).contains("UNAUTHENTICATED"));
    }
    let apple = tls(&running, running.own("apns").expect("a port"), "localhost", &[b"http/1.1"]).await;
    assert_eq!(http1(apple, "POST", "/3/device/aa", body()).await.0, 505, "Apple speaks HTTP/2 only");
}

#[tokio::test]
async fn the_last_answer_of_http1_says_so() {
    let running = start().await;
    running.set_faults("fcm", Profile { go_away_every: Some(2), ..Profile::default() });
    let stream = TcpStream::connect(running.own("fcm").expect("a port")).await.expect("a connection");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    let ended = tokio::spawn(connection);
    for expected in [None, Some("close")] {
        let request = Request::get("/nothing").header("host", "localhost").body(Empty::<Bytes>::new());
        let answer = sender.send_request(request.expect("a request")).await.expect("an answer");
        let said = answer.headers().get("connection").and_then(|value| value.to_str().ok());
        assert_eq!(said, expected);
    }
    ended.await.expect("an end").expect("no error");
}

#[tokio::test]
async fn a_port_of_nobody_is_refused_at_the_start() {
    let own_ports = BTreeMap::from([("nobody".to_owned(), 0)]);
    let started = Sandbox::start(Options { own_ports, ..Options::default() }).await;
    assert!(matches!(started, Err(StartError::UnknownEmulator { name }) if name == "nobody"));
}

#[tokio::test]
async fn the_authority_is_written_where_it_was_wanted() {
    let directory = std::env::temp_dir().join(format!("fantail-sandbox-{}", std::process::id()));
    let options = Options { directory: Some(directory.clone()), ..Options::default() };
    let running = Sandbox::start(options).await.expect("a sandbox");
    let written = std::fs::read_to_string(directory.join("ca.pem")).expect("a file");
    assert_eq!(written, running.ca_pem());
    std::fs::remove_dir_all(directory).expect("removed");
    running.stop().await;
}
