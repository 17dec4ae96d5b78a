//! What a shipment of 1,000 `stub:ok` messages costs with the record off: the stub must not show in a measured fan-out.
//! `cargo run --release -p fantail-channels --example stub_cost`

use fantail_channels::stub::{Settings, Stub};
use fantail_conformance::block_on;
use fantail_ports::BoxFuture;
use fantail_ports::channel::{Answer, Channel, Message, Shipment};
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::{Millis, TenantId};
use fantail_rules::priority::Priority;
use std::hint::black_box;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const MESSAGES: u64 = 1_000;
const SHIPMENTS: usize = 10_001;

/// Stands still: what is measured does not wait.
struct Still;

impl Clock for Still {
    fn wall(&self) -> Millis {
        Millis(1)
    }

    fn monotonic(&self) -> Millis {
        Millis(1)
    }
}

impl Tasks for Still {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        block_on(task);
    }

    fn sleep_until(&self, _deadline: Millis) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

fn main() -> io::Result<()> {
    let stub = Stub::open(&Settings::default(), Arc::new(Still), Arc::new(Still))?;
    let message = |number| Message {
        reference: format!("reference-{number}"),
        endpoint: b"stub:ok".to_vec(),
        content: None,
        attempt: 1,
        recipient: number,
        unsubscribe: None,
    };
    let shipment = Shipment {
        tenant: TenantId(1),
        content: Arc::from(&b"{}"[..]),
        lane: Priority::Normal,
        expires_at: Millis(u64::MAX),
        collapse_key: None,
        deadline: Millis(u64::MAX),
        callbacks: None,
        messages: (0..MESSAGES).map(message).collect(),
    };
    let accepted = AtomicU64::new(0);
    let report = |_, answer: Answer| {
        if matches!(black_box(answer), Answer::Accepted { .. }) {
            accepted.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut nanos: Vec<u128> = (0..SHIPMENTS)
        .map(|_| {
            #[expect(clippy::disallowed_methods, reason = "this program measures time")]
            let began = Instant::now();
            block_on(stub.send(black_box(&shipment), &report));
            began.elapsed().as_nanos()
        })
        .collect();
    assert_eq!(accepted.into_inner(), MESSAGES * SHIPMENTS as u64);
    nanos.sort_unstable();
    let at = |percent: usize| nanos[(SHIPMENTS - 1) * percent / 100];
    writeln!(io::stdout(), "1,000 messages: p50 {} ns, p99 {} ns, max {} ns", at(50), at(99), at(100))
}
