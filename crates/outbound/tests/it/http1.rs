//! Servers that speak HTTP/1.1 only.

use super::house::{House, Say};
use fantail_outbound::pool::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

const PLAIN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Answers each request with the next text; closes after the last.
async fn answer_with(mut stream: TlsStream<TcpStream>, say: Say, answers: Vec<&'static str>) {
    let mut read = Vec::new();
    for answer in answers {
        while !read.ends_with(b"\r\n\r\n{}") {
            match stream.read_buf(&mut read).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
        say.send(String::from_utf8_lossy(&read).lines().next().unwrap_or_default().to_owned())
            .expect("the test listens");
        let host = String::from_utf8_lossy(&read).to_lowercase();
        assert!(host.contains("host: push.example.org\r\n"), "{host}");
        read.clear();
        stream.write_all(answer.as_bytes()).await.expect("a client");
        stream.flush().await.expect("a client");
    }
}

fn house(answers: &'static [&'static str]) -> House {
    House::over(b"http/1.1", Limits::default(), move |_, stream, say| {
        answer_with(stream, say, answers.to_vec())
    })
}

#[test]
fn connections_are_kept_for_the_next_request() {
    let house = house(&[PLAIN; 100]);
    for _ in 0..5 {
        assert_eq!(house.call(), "200 ok");
    }
    assert_eq!(house.server.connections(), 1);
    house.time.advance(4_000);
    assert_eq!(house.call(), "200 ok");
    assert_eq!(house.server.connections(), 1);
    house.time.advance(4_001);
    assert_eq!(house.call(), "200 ok");
    assert_eq!(house.server.connections(), 2, "one that waited for so long is not trusted");
}

#[test]
fn each_has_one_request_and_there_are_as_many_as_are_needed() {
    let limits = Limits { http1_connections_max: 3, ..Limits::default() };
    let house = House::over(b"http/1.1", limits, |_, stream, say| answer_with(stream, say, vec![PLAIN; 100]));
    assert_eq!(house.ends(house.calls(20)), vec!["200 ok"; 20]);
    assert!((1..=3).contains(&house.server.connections()));
    assert_eq!(house.pool.gauge().in_flight, 0);
}

#[test]
fn a_connection_that_ends_is_not_used_again() {
    const LAST: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let house = house(&[LAST]);
    assert_eq!(house.call(), "200 ok");
    assert_eq!(house.call(), "200 ok");
    assert_eq!(house.server.connections(), 2);
}

#[test]
fn an_answer_that_does_not_come_may_have_been_taken() {
    let mut house = house(&[""]);
    let call = house.calls(1);
    house.hear("POST /3/device/ab12 HTTP/1.1");
    assert_eq!(house.ends(call), ["unknown reset"]);
}
