//! What one client does at once costs another little: over HTTP, with many searches, and with a filesystem that hangs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::http::{Connection, Http, Session};
use crate::raw_client::{call, list};
use crate::server::{Server, Tree};

/// The long form, and how long it goes on.
fn long() -> Option<Duration> {
    let seconds = std::env::var("GUARD_FAIRNESS_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().unwrap()))
}

/// Sends calls of a session at once, each on a connection of its own, whose answers nobody reads.
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

/// How long each of these reads of 6 bytes or fewer takes a client, one after the other.
struct Times(Vec<Duration>);

impl Times {
    async fn take(http: &Http, path: &str, expected: &str, until: impl Fn(usize) -> bool) -> Self {
        let mut victim = http.begin(json!({})).await;
        let mut answers = http.connect().await;
        let mut times = Vec::new();
        while !until(times.len()) {
            let began = Instant::now();
            let (read, nothing) = (call(1, "read", path), list::<&str>([]));
            let patience = Duration::from_secs(if long().is_some() { 600 } else { 60 });
            let read =
                tokio::time::timeout(patience, victim.call(&mut answers, &read, &nothing)).await;
            let read = read.expect("the victim is not served");
            times.push(began.elapsed());
            assert_eq!(read.as_deref(), Ok(expected));
        }
        times.sort();
        Self(times)
    }

    fn say(&self, what: &str) {
        let of =
            |hundredths: usize| self.0[(self.0.len() * hundredths / 100).min(self.0.len() - 1)];
        println!(
            "{what}: {} reads: p50 {:?}, p99 {:?}, most {:?}",
            self.0.len(),
            of(50),
            of(99),
            of(100)
        );
    }
}

/// How many searches have ended since this was last asked.
fn searched(tells: &mut UnboundedReceiver<String>) -> u32 {
    let mut searched = 0;
    while tells.try_recv().is_ok() {
        searched += 1;
    }
    searched
}

#[test]
fn many_searches_of_one_client_keep_another_waiting_for_none_of_them() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let tree = Tree::new();
        // The short form has fewer of both.
        let (searches, places) = if long().is_some() { (600, 256) } else { (40, 16) };
        tree.add("dir op/big");
        for file in 0..1000 {
            std::fs::write(tree.path(&format!("op/big/{file}")), "text").unwrap();
        }
        let guard = tree.builder().work_at_once(places).build().unwrap();
        let (server, mut tells) = Server::new(&guard);
        let sessions = guard.wrap_sessions(
            rmcp::transport::streamable_http_server::session::local::LocalSessionManager::default(),
        );
        let http = Http::serve_with(move || server.clone(), sessions).await;
        let mut attacker = http.begin(json!({})).await;
        let _connections =
            send(&http, &attacker, (1..=searches).map(|id| call(id, "search", "big"))).await;
        let before = searched(&mut tells);
        let began = Instant::now();
        let times = Times::take(&http, "a/in.txt", "a", |read| match long() {
            Some(time) => began.elapsed() > time,
            None => read == 20,
        })
        .await;
        let meanwhile = searched(&mut tells);
        times.say(&format!("{searches} searches, of which {meanwhile} ended meanwhile"));
        // They stop.
        attacker.connection.request("DELETE", &attacker.id.clone(), "").await;
        // In the order in which they came, all would have begun and most would have ended.
        let ended = before + meanwhile;
        assert!(
            long().is_some() || ended < searches / 2,
            "{ended} of {searches} searches ended first"
        );
    });
}

#[cfg(target_os = "linux")]
mod hangs {
    use mcp_roots_guard::{
        Access, Boundary, BoundaryBuilder, ClientCapabilities, Guard, ListRootsResult,
        RootsCapability, RootsResponse,
    };

    use super::*;
    use crate::hung_filesystem::{Dead, in_namespace};
    use crate::server::refusal;

    /// With a dead filesystem mounted at a directory; those are allowed.
    fn with_dead(
        at: &str,
        allowed: &[&str],
        test: impl AsyncFnOnce(&Tree, &Http, &mut Dead) + Send,
    ) {
        in_namespace(|| {
            let tree = Tree::new();
            tree.add(&format!("dir {at}"));
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            // Dropped first, so that whoever waits for it goes on.
            let Some(mut dead) = Dead::mount(tree.path(at).as_ref()) else { return };
            runtime.block_on(async {
                let add = |builder: BoundaryBuilder, path: &&str| {
                    builder.directory(tree.path(path), Access::ReadWrite)
                };
                let guard =
                    Guard::new(allowed.iter().fold(Boundary::builder(), add).build().unwrap());
                let http = Http::serve(&guard).await;
                test(&tree, &http, &mut dead).await;
            });
        });
    }

    /// Reads the file while it can be, so that the kernel knows its name and asks for it each time.
    async fn alive(http: &Http, path: &str) {
        Times::take(http, path, "alive", |read| read == 1).await;
    }

    /// A session of these reads, which hang.
    async fn hang(http: &Http, path: &str, reads: u32) -> (Session, Vec<Connection>) {
        let session = http.begin(json!({})).await;
        let connections = send(http, &session, (1..=reads).map(|id| call(id, "read", path))).await;
        (session, connections)
    }

    #[test]
    fn reads_that_hang_are_cancelled_and_a_new_client_is_served() {
        with_dead("dead", &["op", "dead"], async |tree, http, dead| {
            let file = tree.path("dead/in.txt");
            alive(http, &file).await;
            dead.die();
            let (mut session, connections) = hang(http, &file, 270).await;
            dead.hangs(64).await;
            for id in 1..=270 {
                let params = json!({ "requestId": id });
                session
                    .notify(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
                    .await;
            }
            session.connection.request("DELETE", &session.id.clone(), "").await;
            drop(connections);
            let times = Times::take(http, "a/in.txt", "a", |read| {
                read == if long().is_some() { 2000 } else { 50 }
            });
            times.await.say(&format!("{} requests hang in the filesystem", dead.hanging()));
        });
    }

    /// Of so many clients that they could take all places.
    #[test]
    fn reads_of_many_clients_hang_and_a_new_one_is_served_and_told() {
        with_dead("dead", &["op", "dead"], async |tree, http, dead| {
            let file = tree.path("dead/in.txt");
            alive(http, &file).await;
            dead.die();
            let mut hung = Vec::new();
            for _ in 0..6 {
                hung.push(hang(http, &file, 64).await);
            }
            dead.hangs(200).await;
            Times::take(http, "a/in.txt", "a", |read| read == 20).await.say("all places hang");
            // A client whose own read hangs is told.
            let (mut client, _connections) = hang(http, &file, 1).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            let mut answers = http.connect().await;
            let read = client.call(&mut answers, &call(2, "read", &file), &list::<&str>([])).await;
            assert_eq!(read, Err(refusal(&file, "busy")));
        });
    }

    /// Two sessions share a snapshot, and one of them has a list resolved that hangs.
    #[test]
    fn a_client_that_hangs_keeps_nobody_from_noticing_a_replaced_root() {
        with_dead("op/mnt", &["op"], async |tree, _, dead| {
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
            dead.die();
            let (hangs, hung) = (one.clone(), list("op/mnt/in.txt"));
            let hanging = tokio::spawn(async move { hangs.roots_from_list(hung).await.is_ok() });
            dead.hangs(1).await;
            let (calls, again) = (one.clone(), listing(list("op/w")));
            let calling = tokio::spawn(async move {
                loop {
                    // What is cached is served, verified or not.
                    calls.roots(again.clone()).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
            std::fs::rename(tree.path("op/w"), tree.path("op/was")).unwrap();
            tree.add("file op/w/f = new");
            let start = std::time::Instant::now();
            let read = async || other.roots(listing(list("op/w"))).await.unwrap().read("f", 9).ok();
            while read().await.as_deref() != Some(b"new") {
                assert!(start.elapsed() < Duration::from_secs(60), "never noticed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert!(!calling.is_finished(), "a cached snapshot was refused");
            calling.abort();
            hanging.abort();
        });
    }

    /// What hangs is a mount inside the one allowed directory, so all is on its device.
    #[test]
    fn reads_of_a_mount_inside_a_root_hang_and_the_root_is_served() {
        with_dead("op/mnt", &["op"], async |tree, http, dead| {
            let file = tree.path("op/mnt/in.txt");
            alive(http, &file).await;
            dead.die();
            let mut hung = Vec::new();
            for _ in 0..5 {
                hung.push(hang(http, &file, 64).await);
            }
            dead.hangs(200).await;
            for pause in [0, 3, 3] {
                tokio::time::sleep(Duration::from_secs(pause)).await;
                let times = Times::take(http, "a/in.txt", "a", |read| read == 20);
                times
                    .await
                    .say(&format!("{} requests hang in a mount inside the root", dead.hanging()));
            }
        });
    }
}

/// What a server says of places and of keyed lists has an effect, or is refused.
#[test]
fn a_choice_without_effect_is_refused() {
    use mcp_roots_guard::ClientRoots;
    let tree = Tree::new();
    for (places, expected) in
        [(0, false), (1, true), (4096, true), (4097, false), (usize::MAX, false)]
    {
        let built = tree.builder().work_at_once(places).build();
        assert_eq!(built.is_ok(), expected, "{places} places");
        let kind = built.err().map(|error| error.code());
        assert_eq!(kind, (!expected).then_some("invalid_options"), "{places} places");
    }
    let ignores = tree.builder().client_roots(ClientRoots::Ignore);
    let refused =
        ignores.time_to_live_keyed(std::time::Duration::from_secs(1)).build().unwrap_err();
    assert!(refused.to_string().ends_with("leave time_to_live_keyed out"), "{refused}");
}
