//! The stub: what arrives, what is counted, how time passes.

use super::parcel::{message, send, shipment, told};
use super::time::{BEGAN, Time};
use fantail_channels::stub::{Faults, Settings, Stub};
use fantail_conformance::block_on;
use fantail_ports::channel::{Channel, Message};
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Poll;

fn stub(settings: &Settings) -> (Stub, Arc<Time>) {
    let time = Time::new(None);
    (Stub::open(settings, time.clone(), time.clone()).expect("a stub"), time)
}

fn post(stub: &Stub, messages: Vec<Message>) -> Vec<String> {
    block_on(send(stub, &shipment(messages))).iter().map(told).collect()
}

#[test]
fn copies_are_counted_where_they_arrive() {
    let (stub, _) = stub(&Settings::recording());
    for endpoint in ["stub:ok", "stub:ok", "stub:timeout", "stub:lost", "stub:500", "stub:refused"] {
        post(&stub, vec![message("a", endpoint.as_bytes())]);
    }
    assert_eq!(stub.copies("a"), 3);
    assert_eq!(stub.copies("b"), 0);
    assert_eq!(stub.arrivals().into_iter().collect::<Vec<_>>(), [("a".into(), 3)]);
}

#[test]
fn a_full_record_says_so_and_loses_no_count() {
    let (stub, _) = stub(&Settings { references_max: 1, ..Settings::default() });
    let answers = post(&stub, ["a", "b", "a"].map(|reference| message(reference, b"stub:ok")).to_vec());
    assert_eq!(answers, ["accepted", "unknown record", "accepted"]);
    assert_eq!(stub.copies("a"), 2);
}

#[test]
fn retries_come_through_in_the_end() {
    let (stub, _) = stub(&Settings::recording());
    let attempts = |endpoint: &str| -> Vec<String> {
        let message = |attempt| Message { attempt, ..message(endpoint, endpoint.as_bytes()) };
        (1..=20).flat_map(|attempt| post(&stub, vec![message(attempt)])).collect()
    };
    assert_eq!(attempts("stub:fail-first=2")[1..3], ["later None Message 500", "accepted"]);
    let mixed = attempts("stub:fail=50");
    assert!(mixed.iter().any(|answer| answer == "accepted"));
    assert!(mixed.iter().any(|answer| answer.starts_with("later")));
    assert_eq!(mixed, attempts("stub:fail=50"), "the same attempts give the same answers");
}

#[test]
fn faults_come_and_go_while_it_runs() {
    let (stub, _) = stub(&Settings::recording());
    let once = || post(&stub, vec![message("a", b"stub:ok")]).remove(0);
    assert_eq!(once(), "accepted");
    stub.set_faults(Faults { down: true, ..Faults::default() });
    assert_eq!(once(), "later None Origin 503");
    stub.set_faults(Faults { fail_percent: 100, ..Faults::default() });
    assert_eq!(once(), "later None Message 500");
    stub.set_faults(Faults::default());
    assert_eq!(once(), "accepted");
    assert_eq!(stub.copies("a"), 2);
}

#[test]
fn slow_answers_wait_together_and_come_when_due() {
    let (stub, time) = stub(&Settings::default());
    stub.set_faults(Faults { slow_ms: 5, ..Faults::default() });
    let endpoints = ["stub:slow=50", "stub:ok", "stub:slow=10", "stub:slow=50"];
    let shipment = shipment(endpoints.iter().map(|endpoint| message("a", endpoint.as_bytes())).collect());
    let answered = Mutex::new(Vec::new());
    let report = |index: usize, _| answered.lock().expect("no report panics").push(index);
    let mut sending = stub.send(&shipment, &report);
    let mut poll = |span_ms, expected: &[usize]| {
        time.advance(span_ms);
        let is_done = block_on(poll_fn(|context| Poll::Ready(sending.as_mut().poll(context)))).is_ready();
        assert_eq!(*answered.lock().expect("no report panics"), expected, "after {span_ms} ms more");
        is_done
    };
    assert!(!poll(0, &[]));
    assert!(!poll(5, &[1]));
    assert!(!poll(9, &[1]));
    assert!(!poll(1, &[1, 2]));
    assert!(poll(40, &[1, 2, 0, 3]));
}

#[test]
fn arrivals_are_in_the_file_before_they_are_answered() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("arrivals.txt");
    if path.exists() {
        std::fs::remove_file(&path).expect("the file of an earlier run");
    }
    let settings = Settings { arrivals_file: Some(path.clone()), ..Settings::default() };
    let lines = || std::fs::read_to_string(&path).expect("the file").lines().count();
    let (first, _) = stub(&settings);
    let shipment = shipment(["a", "b"].map(|reference| message(reference, b"stub:ok")).to_vec());
    let counts = Mutex::new(Vec::new());
    let report = |_, _| counts.lock().expect("no report panics").push(lines());
    block_on(first.send(&shipment, &report));
    assert_eq!(counts.into_inner().expect("no report panics"), [1, 2]);
    // Another life appends.
    let (second, _) = stub(&settings);
    let again = Message { attempt: 2, ..message("a", b"stub:timeout") };
    post(&second, vec![again, message("c", b"stub:500")]);
    let expected = ["a 1", "b 1", "a 2"].map(|line| format!("{line} - {{\"title\":\"hello\"}}\n")).concat();
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), expected);
}

#[test]
fn the_deadline_itself_is_in_time() {
    let (stub, time) = stub(&Settings::default());
    let mut shipment = shipment(vec![message("a", b"stub:ok")]);
    shipment.deadline = BEGAN;
    assert_eq!(told(&block_on(send(&stub, &shipment))[0]), "accepted");
    time.advance(1);
    assert_eq!(told(&block_on(send(&stub, &shipment))[0]), "not sent Deadline");
}
