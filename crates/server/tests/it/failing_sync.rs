//! A disk that fails one sync of the journal under a running server, and says afterwards that all is well: nobody may
//! believe it. What was not synced is promised to nobody, nothing leaves, and the process ends.
//!
//! A preloaded library fails the call of the server alone (`failing_sync.c`); the server has no hook for this.

use crate::deliveries::{Post, counts_of, notification, register, send, status};
use crate::server::Server;
use crate::world::{eventually, put_user};
use fantail_server::client::Client;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const WAITING: usize = 20;

/// A house whose disk the test breaks.
struct Broken {
    post: Post,
    library: PathBuf,
}

impl Broken {
    fn new() -> Self {
        let post = Post::new();
        let library = post.directory.path("failing_sync.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/failing_sync.c");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
        assert!(built.expect("the compiler that links Rust is there").success());
        Self { post, library }
    }

    /// From now on the next sync of the journal fails, in each process that starts.
    fn fail(&self) {
        std::fs::write(self.post.directory.path("fail"), "").expect("written");
    }

    fn mend(&self) {
        std::fs::remove_file(self.post.directory.path("fail")).expect("it was there");
    }

    /// What became of syncs of the journal since the disk is broken.
    fn syncs(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.post.directory.path("syncs")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn try_start(&self) -> Result<Server, Vec<String>> {
        let path = |name: &str| self.post.directory.path(name).to_str().expect("a path").to_owned();
        let (below, wish, log) = (path("data/journal"), path("fail"), path("syncs"));
        let library = self.library.to_str().expect("a path");
        self.post.try_start(&[
            ("LD_PRELOAD", library),
            ("FAILING_SYNC_BELOW", &below),
            ("FAILING_SYNC_FILE", &wish),
            ("FAILING_SYNC_LOG", &log),
        ])
    }
}

/// Asks until it is gone. Whatever it says meanwhile is that it is not ready, because of its journal.
fn is_not_ready_until_it_is_gone(mut client: Client) {
    while let Ok(response) = client.get("/readyz?verbose") {
        let text = response.text();
        assert_eq!(response.status, 503, "{text}");
        let found = response.json();
        let checks = found["checks"].as_array().expect("checks").iter();
        let mut journal = checks.filter(|check| check["name"] == "journal");
        assert!(journal.all(|check| check["ok"] == false), "{text}");
    }
}

fn is_sent_once(client: &mut Client, id: &str) {
    eventually(&format!("{id} is sent"), || {
        (*counts_of(&status(client, id), "push") == json!({"sent": 1})).then_some(())
    });
}

// proves: DED-04, DED-05, DED-06, DEL-15
#[test]
fn after_a_failed_sync_nothing_is_promised_and_nothing_leaves() {
    let broken = Broken::new();
    let post = &broken.post;
    post.faults("push down\n");
    let mut server = broken.try_start().expect("it starts");
    let mut client = server.client();
    put_user(&mut client, "ann");
    register(&mut client, "ann", "phone", "stub:ok/ann");
    let one = |no| send(&mut client, &notification(&format!("n{no}"), &["ann"], json!({})));
    let mut ids: Vec<String> = (0..WAITING).map(one).collect();
    // The provider is well again, so that what waits would leave if anything could.
    broken.fail();
    post.faults("");
    let late: Vec<Value> = (0..3).map(|no| notification(&format!("late{no}"), &["ann"], json!({}))).collect();
    for body in &late {
        if let Ok(response) = client.post("/api/v1/notifications", body) {
            assert_eq!(response.status, 503, "not acknowledged: {}", response.text());
        }
    }
    is_not_ready_until_it_is_gone(server.anonymous());
    assert!(!server.wait(), "it ends, and not as if it had been asked to");
    assert!(server.log().contains("nothing more may be promised"), "{}", server.log());
    assert_eq!(broken.syncs(), ["failed"], "a sync that failed is not tried again");
    assert_eq!(post.lines().len(), 0, "no journal, no Intent, no send");

    let Err(banner) = broken.try_start() else { panic!("it started on a disk that fails") };
    assert!(banner.is_empty(), "{banner:?}");
    assert_eq!(broken.syncs(), ["failed", "failed"]);
    assert_eq!(post.lines().len(), 0);

    broken.mend();
    let server = broken.try_start().expect("the disk is well");
    let mut client = server.client();
    // Whoever got no answer asks again: it is there whole or not at all.
    ids.extend(late.iter().map(|body| send(&mut client, body)));
    ids.iter().for_each(|id| is_sent_once(&mut client, id));
    let arrived = post.arrived();
    assert_eq!(arrived.len(), WAITING + late.len(), "everything arrived");
    assert!(arrived.values().all(|copies| *copies == 1), "once: {arrived:?}");
    assert_eq!(broken.syncs().len(), 2);
    server.stop();
}
