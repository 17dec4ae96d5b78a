//! How many requests are under way, and on how many connections.

use super::house::{House, TIMING, one_connection};
use super::server::{OK, Raw, SERVER_ERROR};
use super::time::BEGAN;
use fantail_outbound::pool::{Limits, Timing};
use std::sync::Arc;
use tokio::sync::Semaphore;

// proves: PSH-01
#[test]
fn a_server_gets_no_more_streams_than_it_allows() {
    let house = House::new(one_connection(), |_, stream, _| async move {
        let mut raw = Raw::begin(stream, 3).await;
        let mut open = Vec::new();
        for _ in 0..3 {
            open.extend(raw.request().await);
        }
        assert_eq!(raw.requests_until_quiet().await, [0_u32; 0], "three are all that may be open");
        for stream in open {
            raw.answer(stream, OK).await;
        }
        raw.answer_all().await;
    });
    assert_eq!(house.ends(house.calls(10)), vec!["200 "; 10]);
    assert_eq!(house.server.connections(), 1);
}

// proves: PSH-01
#[test]
fn a_limit_that_is_raised_is_used() {
    let house = House::new(one_connection(), |_, stream, _| async move {
        let mut raw = Raw::begin(stream, 1).await;
        let first = raw.request().await.expect("a request");
        assert_eq!(raw.requests_until_quiet().await, [0_u32; 0]);
        raw.allow(4).await;
        let mut open = vec![first];
        for _ in 0..3 {
            open.extend(raw.request().await);
        }
        for stream in open {
            raw.answer(stream, OK).await;
        }
        raw.drain().await;
    });
    assert_eq!(house.ends(house.calls(4)), vec!["200 "; 4]);
}

// proves: PSH-01
#[test]
fn a_cold_connection_has_one_stream_until_the_first_success() {
    let limits = Limits { warm_up: true, ..Limits::default() };
    let house = House::new(limits, |_, stream, _| async move {
        let mut raw = Raw::begin(stream, 100).await;
        for status in [SERVER_ERROR, OK] {
            let stream = raw.request().await.expect("one");
            assert_eq!(raw.requests_until_quiet().await, [0_u32; 0], "alone until the first success");
            raw.answer(stream, status).await;
        }
        let mut open = Vec::new();
        for _ in 0..8 {
            open.extend(raw.request().await);
        }
        for stream in open {
            raw.answer(stream, OK).await;
        }
        raw.drain().await;
    });
    let ends = house.ends(house.calls(10));
    assert_eq!(ends.iter().filter(|end| *end == "200 ").count(), 9);
    assert_eq!(ends[9], "500 ");
    assert_eq!(house.server.connections(), 1, "a cold connection is no reason for another");
}

// proves: PSH-01
#[test]
fn callers_who_wait_get_another_connection_up_to_the_limit() {
    let limits = Limits { http2_connections_max: 2, ..Limits::default() };
    let release = Arc::new(Semaphore::new(0));
    let released = Arc::clone(&release);
    let mut house = House::new(limits, move |_, stream, say| {
        let released = Arc::clone(&released);
        async move {
            let mut raw = Raw::begin(stream, 2).await;
            let (first, second) = (raw.request().await, raw.request().await);
            say.send("full".to_owned()).expect("the test listens");
            drop(released.acquire().await);
            for stream in [first, second].into_iter().flatten() {
                raw.answer(stream, OK).await;
            }
            raw.answer_all().await;
        }
    });
    let calls = house.calls(7);
    house.hear("full");
    house.hear("full");
    house.wait_for(|gauge| gauge.waiting == 3);
    release.add_permits(1);
    assert_eq!(house.ends(calls), vec!["200 "; 7]);
    assert_eq!(house.server.connections(), 2);
}

// proves: PSH-01
#[test]
fn a_connection_that_was_nearly_full_for_a_second_gets_a_second_one_beside() {
    let limits = Limits { http2_connections_max: 2, ..Limits::default() };
    let mut house = House::new(limits, |_, stream, say| async move {
        let mut raw = Raw::begin(stream, 10).await;
        let mut held = Vec::new();
        while held.len() < 9 {
            held.extend(raw.request().await);
        }
        say.send("nearly full".to_owned()).expect("the test listens");
        held.extend(raw.request().await);
        for stream in held {
            raw.answer(stream, OK).await;
        }
        raw.drain().await;
    });
    let mut calls = house.calls(9);
    house.hear("nearly full");
    assert_eq!(house.pool.gauge().opened, 1);
    house.time.advance(1_000);
    calls.push(house.call_aside(TIMING));
    house.wait_for(|gauge| gauge.opened == 2);
    assert_eq!(house.ends(calls), vec!["200 "; 10]);
}

#[test]
fn what_waits_is_not_sent_after_its_deadline() {
    let mut house = House::new(one_connection(), |_, stream, say| async move {
        let mut raw = Raw::begin(stream, 1).await;
        let held = raw.request().await.expect("a request");
        say.send("held".to_owned()).expect("the test listens");
        assert_eq!(raw.request().await, Some(0));
        assert_eq!(raw.cancelled, [held], "the second call gave up long before");
        assert_eq!(raw.requests_until_quiet().await, [0_u32; 0]);
        say.send("quiet".to_owned()).expect("the test listens");
    });
    let held = house.call_aside(TIMING);
    house.hear("held");
    let late = house.call_aside(Timing { start_by: BEGAN.plus(2_000), ..TIMING });
    house.wait_for(|gauge| gauge.waiting == 1);
    house.time.advance(2_000);
    assert_eq!(house.ends(vec![late]), ["not sent Deadline"]);
    house.time.advance(3_000);
    assert_eq!(house.ends(vec![held]), ["unknown timeout"]);
    house.hear("quiet");
}

#[test]
fn callers_who_go_away_make_room() {
    let mut house = House::new(one_connection(), |_, stream, say| async move {
        let mut raw = Raw::begin(stream, 1).await;
        let first = raw.request().await.expect("a request");
        say.send("held".to_owned()).expect("the test listens");
        assert_eq!(raw.request().await, Some(0));
        assert_eq!(raw.cancelled, [first]);
        raw.answer_all().await;
    });
    let held = house.call_aside(TIMING);
    house.hear("held");
    let next = house.call_aside(TIMING);
    house.wait_for(|gauge| gauge.waiting == 1);
    held.abort();
    assert_eq!(house.ends(vec![next]), ["200 "]);
}

#[test]
fn answers_with_a_body_come_whole() {
    let house = House::new(one_connection(), |_, stream, _| async move {
        let mut raw = Raw::begin(stream, 10).await;
        let stream = raw.request().await.expect("a request");
        raw.answer_body(stream, OK, br#"{"reason":"x"}"#).await;
        raw.drain().await;
    });
    assert_eq!(house.call(), r#"200 {"reason":"x"}"#);
}
