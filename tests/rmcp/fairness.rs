//! One client's load hardly delays another client: over HTTP, with many searches, and with a hung
//! filesystem.

use std::time::{Duration, Instant};

use rmcp::transport::StreamableHttpServerConfig;
use serde_json::{Value, json};

use crate::http::{Connection, Http, Session};
use crate::raw_client::{Raw, call, cancelled, list, stateless, tool_text};
use crate::server::Tree;

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

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn another_client_does_not_wait_for_a_clients_many_searches() {
    runtime().block_on(async {
        let tree = Tree::new();
        // The short form uses fewer searches and slots.
        let (searches, slots) = if long().is_some() { (600, 256) } else { (40, 16) };
        tree.add("dir op/big");
        for file in 0..1000 {
            std::fs::write(tree.path(&format!("op/big/{file}")), "text").unwrap();
        }
        let guard = tree.builder().slots(slots).build().unwrap();
        let (http, mut reports) =
            Http::reporting(&guard, StreamableHttpServerConfig::default()).await;
        let mut attacker = http.begin(json!({})).await;
        let _connections =
            send(&http, &attacker, (1..=searches).map(|id| call(id, "search", "big"))).await;
        let began = Instant::now();
        let times = Times::take(&http, "a/in.txt", "a", |read| match long() {
            Some(time) => began.elapsed() > time,
            None => read == 20,
        })
        .await;
        let ended = std::iter::from_fn(|| reports.try_recv().ok()).count();
        times.print(&format!("{searches} searches, {ended} of which ended first"));
        // Ends the attacker's session, which stops its searches.
        attacker.connection.request("DELETE", &attacker.id.clone(), "").await;
        // If the calls were served in order of arrival, most searches would have ended first.
        assert!(long().is_some() || ended < 20, "{ended} of {searches} searches ended first");
    });
}

#[cfg(target_os = "linux")]
mod hung_operations {
    use mcp_roots_guard::{ClientCapabilities, ListRootsResult, RootsResponse};

    use super::*;
    use crate::hung_filesystem::{HungFilesystem, in_namespace};
    use crate::server::reason;

    /// Runs a test with the allowed directory `op`, in which a filesystem that can hang is mounted at
    /// `op/mnt`. Does not run the test if it cannot be mounted.
    fn with_mounted(test: impl AsyncFnOnce(&Tree, &mut HungFilesystem) + Send) {
        in_namespace(|| {
            let tree = Tree::new();
            tree.add("dir op/mnt");
            let runtime = runtime();
            // The filesystem is dropped before the runtime, so that pending requests fail.
            if let Some(mut filesystem) = HungFilesystem::mount(tree.path("op/mnt").as_ref()) {
                runtime.block_on(test(&tree, &mut filesystem));
            }
        });
    }

    /// Starts a session with this many reads, which hang.
    async fn start_hung_reads(http: &Http, path: &str, reads: u32) -> (Session, Vec<Connection>) {
        let session = http.begin(json!({})).await;
        let connections = send(http, &session, (1..=reads).map(|id| call(id, "read", path))).await;
        (session, connections)
    }

    /// Uses enough clients to occupy all slots, and no client that gets none: a slot would be lent to
    /// it later, and its read would then count as a pending one. The mount is inside the root that
    /// the new client reads.
    #[test]
    fn hung_reads_of_many_clients_do_not_block_a_new_client() {
        with_mounted(async |tree, filesystem| {
            let http = &Http::serve(&tree.guard()).await;
            let file = tree.path("op/mnt/in.txt");
            // The kernel then knows the name, and sends a request for each later read.
            Times::take(http, &file, "content", |read| read == 1).await;
            filesystem.hang();
            let mut hung = Vec::new();
            for _ in 0..5 {
                hung.push(start_hung_reads(http, &file, 60).await);
            }
            filesystem.wait_for_pending(256).await;
            let reads = if long().is_some() { 2000 } else { 20 };
            Times::take(http, "a/in.txt", "a", |read| read == reads).await.print("all slots hang");
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
        with_mounted(async |tree, filesystem| {
            tree.add("file op/w/f = old");
            let guard = tree.guard();
            let list = |path: &str| ListRootsResult::from_uris([tree.uri(path)]);
            let listing = |list: ListRootsResult| {
                move |_: Option<String>| std::future::ready(RootsResponse::List(list.clone()))
            };
            let announcing = ClientCapabilities::WithAnnouncedRoots;
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
}

/// In the stateless era, too, a connection without a key is a client of its own.
#[tokio::test]
async fn stateless_requests_of_another_connection_do_not_wait() {
    let tree = Tree::new();
    // Each client has one slot.
    let guard = tree.builder().slots(4).build().unwrap();
    let [mut one, mut other] = [(); 2].map(|()| Raw::connect(&guard));
    for id in 1..=2 {
        one.send(&stateless(call(id, "walk", ""), json!({}))).await;
    }
    assert_eq!(one.next_report().await.as_deref(), Some("walking"));
    other.send(&stateless(call(1, "read", "a/in.txt"), json!({}))).await;
    assert_eq!(tool_text(&other.receive().await).as_deref(), Ok("a"));
    assert_eq!(one.earlier_report(), None, "a client has more than its share");
    for id in [2, 1] {
        one.send(&cancelled(id)).await;
    }
}

/// The options for slots and for lists either take effect or are refused.
#[test]
fn an_option_without_effect_is_refused() {
    use mcp_roots_guard::ClientRoots;
    let tree = Tree::new();
    for (slots, expected) in
        [(0, Some("invalid_options")), (1, None), (4096, None), (4097, Some("invalid_options"))]
    {
        let built = tree.builder().slots(slots).build();
        assert_eq!(built.err().map(|error| error.code()), expected, "{slots} slots");
    }
    let never = tree.builder().stalled_after(Duration::ZERO).build().unwrap_err();
    assert_eq!(never.code(), "invalid_options");
    let ignores = tree.builder_for(ClientRoots::Ignore);
    let refused = ignores.time_to_live(Duration::from_secs(1)).build().unwrap_err();
    assert_eq!(refused.code(), "invalid_options");
    assert!(refused.to_string().contains("time_to_live"), "{refused}");
}
