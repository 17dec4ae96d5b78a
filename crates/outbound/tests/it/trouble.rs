//! What the pool makes of servers that refuse, go away and fall silent.

use super::house::{House, TIMING, one_connection, request, told};
use super::server::{HOST, INTERNAL_ERROR, OK, REFUSED_STREAM, Raw};
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::{At, Failure, Limits, Pool, Ports, Target};
use fantail_outbound::tls;

// proves: PSH-05
#[test]
fn streams_above_the_last_one_are_sent_again_and_the_others_never() {
    let mut house = House::new(one_connection(), |number, stream, say| async move {
        let mut raw = Raw::begin(stream, 100).await;
        if number == 1 {
            for _ in 0..3 {
                raw.request().await.expect("three requests");
            }
            // Of 1, 3 and 5 only the first was looked at; what became of it nobody says.
            raw.go_away(1).await;
            return;
        }
        let mut seen = 0;
        while let Some(stream) = raw.request().await {
            seen += 1;
            raw.answer(stream, OK).await;
            if seen == 2 {
                say.send("two again".to_owned()).expect("the test listens");
            }
            assert!(seen <= 2, "the first must not come again");
        }
    });
    let calls = house.calls(3);
    house.hear("two again");
    assert_eq!(house.ends(calls), ["200 ", "200 ", "unknown reset"]);
    assert_eq!(house.server.connections(), 2);
}

// proves: PSH-05
#[test]
fn a_server_that_goes_gracefully_still_answers_and_gets_nothing_new() {
    let mut house = House::new(one_connection(), |number, stream, say| async move {
        let mut raw = Raw::begin(stream, 100).await;
        if number > 1 {
            return raw.answer_all().await;
        }
        let stream = raw.request().await.expect("a request");
        raw.go_away(stream).await;
        say.send("going".to_owned()).expect("the test listens");
        // Answered only when the next request is somewhere else.
        assert_eq!(raw.requests_until_quiet().await, [0_u32; 0]);
        raw.answer(stream, OK).await;
        raw.drain().await;
    });
    let first = house.call_aside(TIMING);
    house.hear("going");
    assert_eq!(house.ends(vec![first]), ["200 "]);
    assert_eq!(house.call(), "200 ");
    assert_eq!(house.server.connections(), 2);
}

#[test]
fn refused_streams_are_sent_again_but_not_for_ever() {
    let house = House::new(one_connection(), |_, stream, _| async move {
        let mut raw = Raw::begin(stream, 100).await;
        for _ in 0..2 {
            let stream = raw.request().await.expect("a request");
            raw.reset(stream, REFUSED_STREAM).await;
        }
        raw.answer_all().await;
    });
    assert_eq!(house.call(), "200 ");
    let house = House::new(one_connection(), |_, stream, _| async move {
        let mut raw = Raw::begin(stream, 100).await;
        while let Some(stream) = raw.request().await {
            raw.reset(stream, REFUSED_STREAM).await;
        }
    });
    assert_eq!(house.call(), "not sent Unprocessed");
}

#[test]
fn a_stream_that_is_reset_may_have_been_taken() {
    let mut house = House::new(one_connection(), |_, stream, say| async move {
        let mut raw = Raw::begin(stream, 100).await;
        let mut seen = 0;
        while let Some(stream) = raw.request().await {
            seen += 1;
            say.send(format!("request {seen}")).expect("the test listens");
            match seen {
                1 => raw.reset(stream, INTERNAL_ERROR).await,
                _ => raw.answer(stream, OK).await,
            }
        }
    });
    assert_eq!(house.call(), "unknown reset");
    house.hear("request 1");
    assert_eq!(house.call(), "200 ");
    house.hear("request 2");
    assert_eq!(house.server.connections(), 1);
}

#[test]
fn three_timeouts_in_a_row_end_the_trust_in_a_connection() {
    let mut house = House::new(one_connection(), |number, stream, say| async move {
        let mut raw = Raw::begin(stream, 100).await;
        if number > 1 {
            return raw.answer_all().await;
        }
        while let Some(stream) = raw.request().await {
            if stream != 0 {
                say.send("silent".to_owned()).expect("the test listens");
            }
        }
    });
    for _ in 0..3 {
        assert_eq!(house.pool.gauge().opened, house.server.connections() as u64);
        let calls = house.calls(1);
        house.hear("silent");
        house.time.advance(5_000);
        assert_eq!(house.ends(calls), ["unknown timeout"]);
    }
    assert_eq!(house.call(), "200 ");
    assert_eq!(house.server.connections(), 2);
}

// proves: PSH-05
#[test]
fn trouble_halves_what_may_be_under_way() {
    let house = House::new(Limits { streams_max: 64, ..one_connection() }, |_, stream, _| async move {
        let mut raw = Raw::begin(stream, 64).await;
        let stream = raw.request().await.expect("a request");
        raw.reset(stream, INTERNAL_ERROR).await;
        raw.answer_all().await;
    });
    assert_eq!(house.call(), "unknown reset");
    house.wait_for(|gauge| gauge.permits == 32);
    assert_eq!(house.ends(house.calls(32)), vec!["200 "; 32]);
    assert_eq!(house.pool.gauge().permits, 33);
}

#[test]
fn a_server_that_takes_connections_and_nothing_else_is_left_alone() {
    let house = House::new(one_connection(), |_, stream, _| async move {
        Raw::begin(stream, 100).await.go_away(0).await;
    });
    for (rest_ms, connections) in [(0, 2), (199, 2), (1, 3), (399, 3), (1, 4)] {
        house.time.advance(rest_ms);
        assert_eq!(house.call(), "not sent NoConnection");
        assert_eq!(house.server.connections(), connections);
    }
}

// fixes: interop small
#[test]
fn a_server_that_does_not_agree_to_http2_is_named_so() {
    let house = House::over(b"", one_connection(), |_, stream, _| async move { drop(stream) });
    let tls = tls::client(house.server.root_pem.as_bytes(), &[b"h2"]).expect("a root");
    let target =
        Target { host: HOST.to_owned(), port: 443, at: At::Address(house.server.address), tls: Some(tls) };
    let pool = Pool::new(
        target,
        Ports { clock: house.time.clone(), tasks: house.time.clone(), connector: Connector::of_operator() },
    );
    match house.runtime.block_on(pool.call(request(), TIMING)) {
        Err(Failure::NotSent { message, .. }) => assert!(message.contains("no ALPN"), "{message}"),
        other => panic!("{}", told(&other)),
    }
}

#[test]
fn nobody_there_means_not_sent_and_a_rest() {
    let house = House::new(one_connection(), |_, stream, _| async move { drop(stream) });
    let closed = house.runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.2:0").await.expect("a port");
        listener.local_addr().expect("bound").port()
    });
    let pool = house.pool_to(closed);
    let call = || house.runtime.block_on(async { told(&pool.call(request(), TIMING).await) });
    for _ in 0..5 {
        assert_eq!(call(), "not sent NoConnection");
        house.time.advance(50);
    }
}
