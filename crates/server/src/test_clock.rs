//! A clock that a test moves: `fantail serve --clock SOCKET`, refused without `FANTAIL_TESTING=1`.
//!
//! Comes from: lines on a local socket, each a time (RFC 3339). Decides: whether time may move there; it never goes back.
//! Goes to: everything that asks for the time or sleeps until one, at once, and an answer for each line once that is so.
//!
//! Between moves the time runs as it always does. Wall and monotonic clock move together, so nobody sees a jump: for the
//! node the time has simply passed.

use crate::config::SWITCH;
use crate::system::SystemClock;
use anyhow::{Context, Result, bail};
use fantail_api::time;
use fantail_ports::BoxFuture;
use fantail_ports::clock::Clock;
use fantail_ports::tasks::Tasks;
use fantail_rules::ids::Millis;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::warn;

/// The time at which the test begins.
pub const BEGINS: &str = "FANTAIL_TEST_CLOCK";

/// What `--clock` asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    pub socket: PathBuf,
    pub begins: Millis,
}

impl Asked {
    /// `None` if there is no `--clock`. `testing` is the switch, `begins` the environment's start time.
    pub fn read(socket: Option<&Path>, testing: bool, begins: Option<&str>) -> Result<Option<Self>> {
        let Some(socket) = socket else { return Ok(None) };
        if !testing {
            bail!("--clock is for tests only and needs {SWITCH}=1");
        }
        let begins = begins.and_then(time::parse).with_context(|| {
            format!("--clock needs a start time: {BEGINS} must be a time like 2026-06-10T21:00:00Z")
        })?;
        Ok(Some(Self { socket: socket.to_owned(), begins }))
    }
}

pub struct TestClock {
    machine: Arc<SystemClock>,
    /// The wall when the monotonic clock began.
    began: Millis,
    /// Milliseconds that passed by being told so.
    moved: watch::Sender<u64>,
}

impl TestClock {
    #[must_use]
    pub fn new(begins: Millis) -> Self {
        Self { machine: Arc::new(SystemClock::default()), began: begins, moved: watch::Sender::new(0) }
    }

    /// It is `to` now, or an earlier time than it was, which is refused.
    pub fn move_to(&self, to: Millis) -> Result<(), Backwards> {
        let mut result = Ok(());
        self.moved.send_if_modified(|moved| {
            let now = self.began.plus(self.machine.monotonic().0 + *moved);
            if to < now {
                result = Err(Backwards { now });
                return false;
            }
            *moved += to.since(now);
            true
        });
        result
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("time does not go back: it is {} already", time::text(*now))]
pub struct Backwards {
    now: Millis,
}

impl Clock for TestClock {
    fn wall(&self) -> Millis {
        self.began.plus(self.monotonic().0)
    }

    fn monotonic(&self) -> Millis {
        self.machine.monotonic().plus(*self.moved.borrow())
    }

    /// What work takes is not what a test says.
    fn micros(&self) -> u64 {
        self.machine.micros()
    }

    fn worked_micros(&self) -> u64 {
        self.machine.worked_micros()
    }
}

/// Tokio, with sleeps that end when the clock is moved past them.
pub struct TestTasks {
    pub handle: Handle,
    pub clock: Arc<TestClock>,
}

impl Tasks for TestTasks {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.handle.spawn(task);
    }

    fn sleep_until(&self, deadline: Millis) -> BoxFuture<'static, ()> {
        let (machine, mut moved) = (self.clock.machine.clone(), self.clock.moved.subscribe());
        Box::pin(async move {
            loop {
                let moved_ms = *moved.borrow_and_update();
                let left = machine.instant(Millis(deadline.0.saturating_sub(moved_ms)));
                tokio::select! {
                    () = tokio::time::sleep_until(left.into()) => return,
                    // A clock that nobody has any more does not move.
                    Ok(()) = moved.changed() => {}
                }
            }
        })
    }
}

/// Listens for times until the process ends.
pub fn listen(clock: Arc<TestClock>, socket: &Path) -> Result<()> {
    remove_stale(socket)?;
    let listener = UnixListener::bind(socket);
    let listener = listener.with_context(|| format!("cannot listen on {}", socket.display()))?;
    warn!(socket = %socket.display(), now = %time::text(clock.wall()), "the clock is a test's, not the machine's");
    std::thread::Builder::new().name("test-clock".to_owned()).spawn(move || {
        for stream in listener.incoming() {
            if let Err(failed) = stream.and_then(|stream| serve(&clock, stream)) {
                warn!(%failed, "a connection to the clock failed");
            }
        }
    })?;
    Ok(())
}

/// A server that was killed leaves its socket behind. Anything else at this place is not ours.
fn remove_stale(socket: &Path) -> Result<()> {
    match std::fs::symlink_metadata(socket) {
        Ok(found) if found.file_type().is_socket() => Ok(std::fs::remove_file(socket)?),
        Ok(_) => bail!("{} is there already, and not a socket", socket.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", socket.display())),
    }
}

fn serve(clock: &TestClock, stream: UnixStream) -> io::Result<()> {
    let mut answers = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let answer = match time::parse(line?.trim()).map(|to| clock.move_to(to)) {
            Some(Ok(())) => "ok".to_owned(),
            Some(Err(backwards)) => backwards.to_string(),
            None => "not a time like 2026-06-10T21:00:00Z".to_owned(),
        };
        writeln!(answers, "{answer}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    // fixes: security L7
    #[test]
    fn a_clock_needs_permission_and_a_beginning() {
        let socket = Path::new("/tmp/clock");
        assert_eq!(Asked::read(None, false, None).expect("nothing is asked for"), None);
        assert_eq!(Asked::read(None, true, Some("never")).expect("nothing is asked for"), None);
        let asked = Asked::read(Some(socket), true, Some("1970-01-01T01:00:00Z")).expect("a test");
        assert_eq!(asked, Some(Asked { socket: socket.to_owned(), begins: Millis(HOUR_MS) }));
        for begins in [None, Some("yes")] {
            let refused = Asked::read(Some(socket), true, begins).expect_err("no time").to_string();
            assert!(refused.contains(BEGINS), "{refused}");
        }
        let refused = Asked::read(Some(socket), false, Some("1970-01-01T01:00:00Z"));
        assert!(refused.expect_err("no switch").to_string().contains(SWITCH));
    }

    #[test]
    fn sleeps_end_when_the_clock_is_moved_past_them() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let clock = Arc::new(TestClock::new(Millis(HOUR_MS)));
        let tasks = TestTasks { handle: runtime.handle().clone(), clock: clock.clone() };
        let deadline = clock.monotonic().plus(9 * HOUR_MS);
        let sleeping = runtime.spawn(tasks.sleep_until(deadline));
        runtime.block_on(tokio::task::yield_now());
        assert!(!sleeping.is_finished());
        assert_eq!(clock.move_to(Millis(11 * HOUR_MS)), Ok(()));
        runtime.block_on(sleeping).expect("it ends");
        assert!(clock.monotonic() >= deadline && clock.wall() >= Millis(11 * HOUR_MS));
        assert!(clock.move_to(Millis(HOUR_MS)).is_err(), "time does not go back");
        assert!(clock.wall() >= Millis(11 * HOUR_MS));
    }
}
