//! A client's subscriptions on a mounted filesystem that hangs do not affect other clients.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use filesystem_server::http::{Limits, serve_http};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::fixture::Fixture;
use crate::http::{Calls, Session};
use crate::hung_filesystem::{HungFilesystem, in_namespace};

/// The server, with the healthy directory `ok` and the mounted filesystem `mnt`.
struct Mounted {
    address: String,
    fixture: Fixture,
    mount: PathBuf,
}

/// Runs a test against a server whose filesystem can hang. The server has a runtime of its own,
/// because a runtime whose threads are blocked runs no timer.
fn with_mounted(test: impl AsyncFnOnce(&Mounted, &mut HungFilesystem) + Send) {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root mounts a filesystem");
    }
    in_namespace(|| {
        let fixture = Fixture::new();
        fixture.write("ok/f", "served");
        let mount = fixture.site().join("mnt");
        std::fs::create_dir(&mount).unwrap();
        let serving = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let clients = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mounted = Mounted { address: serve(&serving, &fixture), fixture, mount };
        // Dropped first, so that pending requests fail.
        let Some(mut filesystem) = HungFilesystem::mount(&mounted.mount) else { return };
        clients.block_on(test(&mounted, &mut filesystem));
    });
}

fn serve(runtime: &Runtime, fixture: &Fixture) -> String {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut limits = Limits::default();
    (limits.sessions, limits.connections) = (1_024, 1_024);
    runtime.spawn(serve_http(listener, fixture.server.clone(), limits, std::future::pending()));
    address
}

impl Mounted {
    fn ok(&self) -> PathBuf {
        self.fixture.site().join("ok")
    }

    /// Asserts that a new client can read a file, subscribe to it, and learn of a change.
    async fn serves_a_new_client(&self, client: &str) {
        let (start, file) = (Instant::now(), self.ok().join(client));
        std::fs::write(&file, "served").unwrap();
        let mut other = Session::new(&self.address).await;
        assert!(other.calls.call("read", &file).await.contains("served"));
        other.subscribe(&file).await;
        std::fs::write(&file, "changed").unwrap();
        assert_eq!(other.updated().await, Some(crate::client::uri(&file)));
        println!("{client}: served and notified in {:?}", start.elapsed());
    }
}

/// Sends a call whose response may never arrive.
fn start(started: &mut JoinSet<String>, calls: &Calls, method: &'static str, path: &Path) {
    let (calls, path) = (calls.clone(), path.to_owned());
    started.spawn(async move { calls.call(method, &path).await });
}

/// Ending subscriptions and sessions waits for no filesystem.
#[test]
fn subscriptions_that_hang_stop_only_their_own_client() {
    with_mounted(async |mounted, filesystem| {
        let (mut attackers, mut started) = (Vec::new(), JoinSet::new());
        for _ in 0..2 {
            let attacker = Calls::new(&mounted.address).await;
            attacker.subscribe(&mounted.ok()).await;
            attackers.push(attacker);
        }
        filesystem.hang();
        // One client's share of the slots is 64.
        for attacker in attackers.iter().flat_map(|attacker| [attacker; 64]) {
            start(&mut started, attacker, "subscribe", &mounted.mount.join("in.txt"));
        }
        filesystem.wait_for_pending(1).await;
        for attacker in &attackers {
            start(&mut started, attacker, "unsubscribe", &mounted.ok());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        mounted.serves_a_new_client("unsubscribed").await;
        for attacker in &attackers {
            attacker.delete().await;
        }
        mounted.serves_a_new_client("deleted").await;
    });
}

/// The filesystem hangs for every thread once there are subscriptions.
#[test]
fn looks_that_hang_occupy_few_threads() {
    with_mounted(async |mounted, filesystem| {
        let mut attackers = Vec::new();
        for _ in 0..600 {
            let attacker = Calls::new(&mounted.address).await;
            attacker.subscribe(&mounted.mount.join("in.txt")).await;
            attackers.push(attacker);
        }
        filesystem.hang();
        // The server tries to look at each of them at least once.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let pending = filesystem.pending();
        println!("{pending} threads wait for a look");
        for attacker in &attackers {
            attacker.delete().await;
        }
        mounted.serves_a_new_client("looked").await;
        assert!(pending <= 16, "{pending}");
    });
}
