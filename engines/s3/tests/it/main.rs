//! The client against a small storage on this machine: what is sent, what is believed, and what is refused.

mod storage;

use bytes::Bytes;
use fantail_memory::clock::ManualClock;
use fantail_outbound::connector::Connector;
use fantail_outbound::pool::Ports;
use fantail_outbound::sigv4::Credentials;
use fantail_ports::BoxFuture;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use fantail_s3::bucket::sha256;
use fantail_s3::{Bucket, BucketError, Held, Listed, Location, Lock};
use std::future::pending;
use std::sync::Arc;
use storage::Storage;
use tokio::runtime::Handle;

/// Time stands still here, so nothing is ever late.
struct Still(Handle);

impl Tasks for Still {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }

    fn sleep_until(&self, _deadline: Millis) -> BoxFuture<'static, ()> {
        Box::pin(pending())
    }
}

async fn bucket(storage: &Storage) -> Bucket {
    let endpoint = format!("http://{}", storage.address);
    let location = Location::read("s3://audit-log/here", "us-east-1", Some(&endpoint)).expect("a location");
    let credentials =
        Credentials { access_key_id: "id".into(), secret_access_key: "secret".into(), session_token: None };
    let clock = Arc::new(ManualClock::new(Millis(1_794_817_800_000)));
    let ports =
        Ports { clock, tasks: Arc::new(Still(Handle::current())), connector: Connector::of_operator() };
    Bucket::open(location, credentials, b"", ports).expect("a bucket")
}

// proves: AUD-02
#[tokio::test]
async fn what_is_put_is_locked_listed_and_read_back() {
    let storage = Storage::start().await;
    let bucket = bucket(&storage).await;
    let bytes = Bytes::from(vec![7; 3_000_000]);
    let lock = Lock { retain_until: Millis(1_794_817_800_000 + 86_400_000) };
    bucket.put("log/a b", bytes.clone(), Some(lock)).await.expect("put");
    bucket.put("empty", Bytes::new(), None).await.expect("put");
    let held = bucket.head("log/a b").await.expect("an answer").expect("it is there");
    assert_eq!(held, Held { bytes: 3_000_000, sha256: Some(sha256(&bytes)), is_locked: true });
    assert_eq!(bucket.hash("log/a b", held.bytes).await, Ok(sha256(&bytes)), "read in pieces");
    assert_eq!(bucket.hash("empty", 0).await, Ok(sha256(b"")));
    assert_eq!(bucket.head("nothing").await, Ok(None));
    let object = |key: &str, bytes| Listed { key: key.to_owned(), bytes };
    assert_eq!(bucket.list().await, Ok(vec![object("empty", 0), object("log/a b", 3_000_000)]));
    let seen = storage.seen();
    let put = &seen[0];
    assert_eq!(put.path, "/audit-log/here/log/a%20b");
    assert_eq!(put.header("x-amz-object-lock-mode"), "COMPLIANCE");
    assert_eq!(put.header("x-amz-object-lock-retain-until-date"), "2026-11-17T08:30:00Z");
    assert!(put.header("authorization").contains("/us-east-1/s3/aws4_request"), "signed");
    assert!(
        put.header("authorization").contains("x-amz-object-lock-retain-until-date"),
        "the lock is signed as well"
    );
}

#[tokio::test]
async fn listings_of_several_pages_are_read_to_their_end() {
    let storage = Storage::start().await;
    let bucket = bucket(&storage).await;
    for no in 0..7 {
        bucket.put(&format!("log/{no}"), Bytes::from_static(b"x"), None).await.expect("put");
    }
    let keys: Vec<String> =
        bucket.list().await.expect("a listing").into_iter().map(|object| object.key).collect();
    assert_eq!(keys, ["log/0", "log/1", "log/2", "log/3", "log/4", "log/5", "log/6"]);
    assert!(storage.seen().iter().filter(|seen| seen.path.contains("continuation-token")).count() >= 2);
}

#[tokio::test]
async fn what_is_refused_or_changed_is_said() {
    let storage = Storage::start().await;
    let bucket = bucket(&storage).await;
    storage.refuse(403, "AccessDenied");
    let refused = bucket.put("a", Bytes::from_static(b"x"), None).await;
    assert_eq!(refused, Err(BucketError::Refused { status: 403, code: "AccessDenied".into() }));
    bucket.put("a", Bytes::from_static(b"what it was"), None).await.expect("put");
    storage.change("here/a", b"what it is.");
    assert_ne!(bucket.hash("a", 11).await, Ok(sha256(b"what it was")));
    assert_eq!(bucket.hash("a", 12).await, Err(BucketError::Unreadable { wanted: "the bytes of the range" }));
}
