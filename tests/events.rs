//! What the operator sees with the feature `tracing`: each event with its session, and what the client is never told. Alone in its
//! process, as other threads that meet an event at the same moment can keep it from a subscriber that is for one thread only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[allow(dead_code)] // The suite uses the rest.
mod tree;

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcp_roots_guard::{Access, Boundary, Guard, ListRootsResult, RootsCapability, RootsResponse, RootsSource};

use tree::Tree;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The lines since this was last asked, without the target; `$T` is the tree, `$S` the session.
    fn taken(&self, tree: &Tree, session: impl std::fmt::Display) -> String {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        let mut taken = String::new();
        for line in text.lines() {
            let line = line.trim_start().replace("mcp_roots_guard: ", "");
            let line = line.replace(&tree.uri(""), "file://$T/");
            let line = line.replace(tree.path("").to_str().unwrap(), "$T/").replace("$T//", "$T/");
            writeln!(taken, "{}", line.replace(&format!("session={session}"), "session=$S")).unwrap();
        }
        taken
    }
}

#[test]
fn each_event_bears_its_session_and_the_operators_detail() {
    let tree = Tree::new("file op/a/f; dir secret; link op/out -> ../secret");
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG);
    let subscriber = subscriber.with_ansi(false).without_time().with_writer(move || writer.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let boundary = Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap();
        let guard = Guard::builder(boundary).time_to_idle(Duration::from_millis(1)).build().unwrap();
        let session = guard.session(ClientCapabilities::with_roots(RootsCapability::announcing())).unwrap();
        let number = session.id();
        let uris = [tree.uri("op/a"), tree.uri("op/later"), tree.uri("op/out\n"), "ftp://host/".into()];
        let list = ListRootsResult::from_uris(uris);
        let roots = session.roots(tells(&list)).await.unwrap();
        let told = log.taken(&tree, number);
        assert_eq!(
            told,
            "DEBUG roots fetched session=$S roots=1 rejected=3 pages=1\n\
             WARN entry rejected session=$S index=1 entry=\"file://$T/op/later\" kind=\"not_found\"\n\
             WARN entry rejected session=$S index=2 entry=\"file://$T/op/out\\n\" kind=\"dropped_character\"\n\
             WARN entry rejected session=$S index=3 entry=\"ftp://host/\" kind=\"foreign_scheme\"\n"
        );
        // A list that comes with a request is told as well.
        session.roots_from_list(list.clone()).await.unwrap();
        assert_eq!(log.taken(&tree, number), told);
        // A refusal says where a link led, and the client is not told.
        let refused = roots.read(tree.path("op/out/x"), 9).unwrap_err();
        assert!(roots.read("file:///x?y", 9).is_err());
        assert!(roots.check("f", mcp_roots_guard::Intent::Existing).unwrap().read(1).is_err());
        let told = log.taken(&tree, number);
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines.len(), 3, "{told}");
        let kinds = ["kind=\"outside_roots\"", "kind=\"query\"", "kind=\"too_large\""];
        for (line, kind) in lines.iter().zip(kinds) {
            assert!(line.starts_with("INFO refused session=$S") && line.contains(kind), "{line}");
        }
        assert!(!refused.to_string().contains("secret"), "{refused}");
        // What time forgot.
        tokio::time::sleep(Duration::from_millis(5)).await;
        guard.forget_all();
        assert_eq!(log.taken(&tree, number), "DEBUG roots evicted session=$S cause=\"time\"\n");
        session.list_changed();
        let failing = |_: Option<String>| std::future::ready(RootsResponse::Failed("-32601: \"no\"".into()));
        assert!(session.roots(failing).await.is_err());
        assert_eq!(
            log.taken(&tree, number),
            "DEBUG roots changed session=$S\n\
             WARN roots not fetched session=$S kind=\"roots_failed\" detail=\"-32601: \\\"no\\\"\"\n\
             INFO refused session=$S kind=\"roots_failed\" error=the client's roots could not be obtained \
             detail=\"-32601: \\\"no\\\"\"\n"
        );
        // Once, by whichever comes first.
        session.close();
        drop(session);
        assert_eq!(log.taken(&tree, number), "DEBUG session closed session=$S\n");
        // A directory that is there by now.
        let guard = Guard::new(guard.boundary().clone());
        let session = guard.session(ClientCapabilities::with_roots(RootsCapability::announcing())).unwrap();
        session.roots(tells(&list)).await.unwrap();
        tree.add("dir op/later");
        log.taken(&tree, number);
        let unasked = |_: Option<String>| async { panic!("asked") };
        // How long it rests is how long it took.
        let start = Instant::now();
        while session.roots(unasked).await.unwrap().roots().len() != 2 && start.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(session.roots(unasked).await.unwrap().roots().len(), 2);
        assert_eq!(log.taken(&tree, session.id()), "DEBUG roots resolved again session=$S roots=2\n");
    });
}

fn tells(list: &ListRootsResult) -> impl RootsSource + use<> {
    let list = list.clone();
    move |_: Option<String>| std::future::ready(RootsResponse::List(list.clone()))
}
