//! How long connections are kept, and what ends them.

use super::house::{House, one_connection};
use super::server::{OK, Raw};
use std::sync::Arc;

#[test]
fn an_idle_connection_is_asked_and_kept_while_it_answers() {
    let mut house = House::new(one_connection(), |_, stream, say| async move {
        let mut raw = Raw::begin(stream, 100).await;
        while let Some(stream) = raw.request().await {
            match stream {
                0 => say.send("pinged".to_owned()).expect("the test listens"),
                stream => raw.answer(stream, OK).await,
            }
        }
    });
    assert_eq!(house.call(), "200 ");
    house.time.advance(29_999);
    assert_eq!(house.call(), "200 ");
    house.time.advance(1);
    house.hear("pinged");
    assert_eq!(house.call(), "200 ");
    assert_eq!(house.server.connections(), 1);
}

#[test]
fn a_connection_that_does_not_answer_a_ping_is_dropped() {
    let mut house = House::new(one_connection(), |number, stream, say| async move {
        let mut raw = Raw::begin(stream, 100).await;
        raw.answers_pings = number > 1;
        while let Some(stream) = raw.request().await {
            match stream {
                0 => say.send("pinged".to_owned()).expect("the test listens"),
                stream => raw.answer(stream, OK).await,
            }
        }
        say.send("closed".to_owned()).expect("the test listens");
    });
    assert_eq!(house.call(), "200 ");
    house.time.advance(30_000);
    house.hear("pinged");
    house.time.advance(10_000);
    house.hear("closed");
    house.wait_for(|gauge| gauge.connections == 0);
    assert_eq!(house.call(), "200 ");
    assert_eq!(house.server.connections(), 2);
}

#[test]
fn an_old_connection_takes_nothing_new() {
    let mut house = House::new(one_connection(), |number, stream, say| async move {
        Raw::begin(stream, 100).await.answer_all().await;
        say.send(format!("{number} closed")).expect("the test listens");
    });
    assert_eq!(house.call_by(u64::MAX), "200 ");
    house.time.advance(3_600_000);
    assert_eq!(house.call_by(u64::MAX), "200 ");
    house.hear("1 closed");
    assert_eq!(house.server.connections(), 2);
}

#[test]
fn a_pool_that_is_dropped_closes_its_connections() {
    let mut house = House::new(one_connection(), |_, stream, say| async move {
        Raw::begin(stream, 100).await.answer_all().await;
        say.send("closed".to_owned()).expect("the test listens");
    });
    assert_eq!(house.call(), "200 ");
    house.pool = Arc::new(house.pool_to(1));
    house.hear("closed");
}
