//! One client's load hardly delays another client: over HTTP, with many searches, and with a hung
//! filesystem.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::http::{Connection, Http, Session};
use crate::raw_client::{call, list};
use crate::server::{Server, Tree};

/// The duration of the long form of these tests, if it was requested.
fn long() -> Option<Duration> {
    let seconds = std::env::var("GUARD_FAIRNESS_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().unwrap()))
}

/// How long these tests wait for something that must happen, also on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Sends calls of a session concurrently, each on its own connection. Their responses are not read.
async fn send(
    http: &Http,
    session: &Session,
    calls: impl IntoIterator<Item = Value>,
) -> Vec<Connection> {
    let mut sending = tokio::task::JoinSet::new();
    for call in calls {
        let (mut connection, id) = (http.connect().await, session.id.clone());
        sending.spawn(async move {
            assert_eq!(connection.post(&id, &call).await.status, 200);
            connection
        });
    }
    sending.join_all().await
}

/// The durations of sequential reads of a small file by one client.
struct Times(Vec<Duration>);

impl Times {
    async fn take(http: &Http, path: &str, expected: &str, until: impl Fn(usize) -> bool) -> Self {
        let mut other = http.begin(json!({})).await;
        let mut answers = http.connect().await;
        let mut times = Vec::new();
        while !until(times.len()) {
            let began = Instant::now();
            let (read, nothing) = (call(1, "read", path), list::<&str>([]));
            let read =
                tokio::time::timeout(PATIENCE, other.call(&mut answers, &read, &nothing)).await;
            let read = read.expect("the other client was not served in time");
            times.push(began.elapsed());
            assert_eq!(read.as_deref(), Ok(expected));
        }
        times.sort();
        Self(times)
    }

    fn print(&self, what: &str) {
        let of =
            |hundredths: usize| self.0[(self.0.len() * hundredths / 100).min(self.0.len() - 1)];
        println!(
            "{what}: {} reads: p50 {:?}, p99 {:?}, max {:?}",
            self.0.len(),
            of(50),
            of(99),
            of(100)
        );
    }
}

/// The number of searches that ended since the last call.
fn searched(reports: &mut UnboundedReceiver<String>) -> u32 {
    let mut searched = 0;
    while reports.try_recv().is_ok() {
        searched += 1;
    }
    searched
}

#[test]
fn another_client_does_not_wait_for_a_clients_many_searches() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let tree = Tree::new();
        // The short form uses fewer searches and slots.
        let (searches, slots) = if long().is_some() { (600, 256) } else { (40, 16) };
        tree.add("dir op/big");
        for file in 0..1000 {
            std::fs::write(tree.path(&format!("op/big/{file}")), "text").unwrap();
        }
        let guard = tree.builder().work_at_once(slots).build().unwrap();
        let (server, mut reports) = Server::new(&guard);
        let sessions = guard.wrap_sessions(
            rmcp::transport::streamable_http_server::session::local::LocalSessionManager::default(),
        );
        let http = Http::serve_with(move || server.clone(), sessions).await;
        let mut attacker = http.begin(json!({})).await;
        let _connections =
            send(&http, &attacker, (1..=searches).map(|id| call(id, "search", "big"))).await;
        let before = searched(&mut reports);
        let began = Instant::now();
        let times = Times::take(&http, "a/in.txt", "a", |read| match long() {
            Some(time) => began.elapsed() > time,
            None => read == 20,
        })
        .await;
        let meanwhile = searched(&mut reports);
        times.print(&format!("{searches} searches, {meanwhile} of which ended meanwhile"));
        // Ends the attacker's session, which stops its searches.
        attacker.connection.request("DELETE", &attacker.id.clone(), "").await;
        // If the calls were served in order of arrival, most searches would have ended first.
        let ended = before + meanwhile;
        assert!(
            long().is_some() || ended < searches / 2,
            "{ended} of {searches} searches ended first"
        );
    });
}

#[cfg(target_os = "linux")]
mod hung_operations {
    use mcp_roots_guard::{
        Access, Boundary, BoundaryBuilder, ClientCapabilities, Guard, ListRootsResult,
        RootsCapability, RootsResponse,
    };

    use super::*;
    use crate::hung_filesystem::{HungFilesystem, in_namespace};
    use crate::raw_client::cancelled;
    use crate::server::reason;

    /// Runs a test with a filesystem that can hang, mounted at `at`, and with these allowed
    /// directories. Does not run the test if the filesystem cannot be mounted.
    fn with_mounted(
        at: &str,
        allowed: &[&str],
        test: impl AsyncFnOnce(&Tree, &Http, &mut HungFilesystem) + Send,
    ) {
        in_namespace(|| {
            let tree = Tree::new();
            tree.add(&format!("dir {at}"));
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            // The filesystem is dropped before the runtime, so that pending requests fail.
            let Some(mut filesystem) = HungFilesystem::mount(tree.path(at).as_ref()) else {
                return;
            };
            runtime.block_on(async {
                let add = |builder: BoundaryBuilder, path: &&str| {
                    builder.directory(tree.path(path), Access::ReadWrite)
                };
                let guard =
                    Guard::new(allowed.iter().fold(Boundary::builder(), add).build().unwrap());
                let http = Http::serve(&guard).await;
                test(&tree, &http, &mut filesystem).await;
            });
        });
    }

    /// Reads the file once before the filesystem hangs. The kernel then knows its name and sends a
    /// request for each later read.
    async fn read_once(http: &Http, path: &str) {
        Times::take(http, path, "content", |read| read == 1).await;
    }

    /// Starts a session with this many reads, which hang.
    async fn start_hung_reads(http: &Http, path: &str, reads: u32) -> (Session, Vec<Connection>) {
        let session = http.begin(json!({})).await;
        let connections = send(http, &session, (1..=reads).map(|id| call(id, "read", path))).await;
        (session, connections)
    }

    #[test]
    fn cancelled_hung_reads_do_not_block_a_new_client() {
        with_mounted("mounted", &["op", "mounted"], async |tree, http, filesystem| {
            let file = tree.path("mounted/in.txt");
            read_once(http, &file).await;
            filesystem.hang();
            let (mut session, connections) = start_hung_reads(http, &file, 270).await;
            filesystem.wait_for_pending(64).await;
            for id in 1..=270 {
                session.notify(&cancelled(id)).await;
            }
            session.connection.request("DELETE", &session.id.clone(), "").await;
            drop(connections);
            let times = Times::take(http, "a/in.txt", "a", |read| {
                read == if long().is_some() { 2000 } else { 50 }
            });
            times.await.print(&format!("{} requests hang in the filesystem", filesystem.pending()));
        });
    }

    /// Uses enough clients to occupy all slots.
    #[test]
    fn hung_reads_of_many_clients_do_not_block_a_new_client() {
        with_mounted("mounted", &["op", "mounted"], async |tree, http, filesystem| {
            let file = tree.path("mounted/in.txt");
            read_once(http, &file).await;
            filesystem.hang();
            let mut hung = Vec::new();
            for _ in 0..10 {
                hung.push(start_hung_reads(http, &file, 60).await);
            }
            filesystem.wait_for_pending(256).await;
            Times::take(http, "a/in.txt", "a", |read| read == 20).await.print("all slots hang");
            // A client that has a hung read is refused a later one, and does not wait for it.
            let (mut client, _connections) = start_hung_reads(http, &file, 1).await;
            filesystem.wait_for_pending(257).await;
            let (mut answers, later) = (http.connect().await, call(2, "read", &file));
            let read = client.call(&mut answers, &later, &list::<&str>([])).await;
            assert_eq!(read, Err(reason("busy").to_owned()));
        });
    }

    /// Two clients list the same directory. For one of them, resolving another list hangs.
    #[test]
    fn a_hung_client_does_not_hide_a_replaced_root_from_others() {
        with_mounted("op/mnt", &["op"], async |tree, _, filesystem| {
            tree.add("file op/w/f = old");
            let guard = Boundary::builder().directory(tree.path("op"), Access::ReadWrite);
            let guard = Guard::new(guard.build().unwrap());
            let list = |path: &str| ListRootsResult::from_uris([tree.uri(path)]);
            let listing = |list: ListRootsResult| {
                move |_: Option<String>| std::future::ready(RootsResponse::List(list.clone()))
            };
            let announcing = ClientCapabilities::with_roots(RootsCapability::announcing());
            let (one, other) =
                (guard.session(announcing).unwrap(), guard.session(announcing).unwrap());
            one.roots(listing(list("op/w"))).await.unwrap();
            other.roots(listing(list("op/w"))).await.unwrap();
            filesystem.hang();
            let (hung_operations, hung) = (one.clone(), list("op/mnt/in.txt"));
            let hanging =
                tokio::spawn(async move { hung_operations.roots_from_list(hung).await.is_ok() });
            filesystem.wait_for_pending(1).await;
            let (calls, again) = (one.clone(), listing(list("op/w")));
            let calling = tokio::spawn(async move {
                loop {
                    calls.roots(again.clone()).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            std::fs::rename(tree.path("op/w"), tree.path("op/was")).unwrap();
            tree.add("file op/w/f = new");
            let start = std::time::Instant::now();
            let read = async || other.roots(listing(list("op/w"))).await.unwrap().read("f", 9).ok();
            while read().await.as_deref() != Some(b"new") {
                assert!(start.elapsed() < PATIENCE, "the replaced root was never noticed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert!(!calling.is_finished(), "a cached snapshot was refused");
            calling.abort();
            hanging.abort();
        });
    }

    /// The hung filesystem is mounted inside the only allowed directory.
    #[test]
    fn a_hung_mount_inside_a_root_does_not_block_the_root() {
        with_mounted("op/mnt", &["op"], async |tree, http, filesystem| {
            let file = tree.path("op/mnt/in.txt");
            read_once(http, &file).await;
            filesystem.hang();
            let mut hung = Vec::new();
            for _ in 0..5 {
                hung.push(start_hung_reads(http, &file, 64).await);
            }
            filesystem.wait_for_pending(200).await;
            for pause in [0, 3, 3] {
                tokio::time::sleep(Duration::from_secs(pause)).await;
                let times = Times::take(http, "a/in.txt", "a", |read| read == 20);
                times.await.print(&format!(
                    "{} requests hang in a mount inside the root",
                    filesystem.pending()
                ));
            }
        });
    }
}

/// The options for slots and for keyed lists either take effect or are refused.
#[test]
fn an_option_without_effect_is_refused() {
    use mcp_roots_guard::ClientRoots;
    let tree = Tree::new();
    for (slots, expected) in
        [(0, false), (1, true), (4096, true), (4097, false), (usize::MAX, false)]
    {
        let built = tree.builder().work_at_once(slots).build();
        assert_eq!(built.is_ok(), expected, "{slots} slots");
        let kind = built.err().map(|error| error.code());
        assert_eq!(kind, (!expected).then_some("invalid_options"), "{slots} slots");
    }
    let ignores = tree.builder().client_roots(ClientRoots::Ignore);
    let refused =
        ignores.time_to_live_keyed(std::time::Duration::from_secs(1)).build().unwrap_err();
    assert!(refused.to_string().ends_with("leave time_to_live_keyed out"), "{refused}");
}
