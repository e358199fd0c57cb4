//! The log events of the feature `tracing`: each names its session, and contains details that the
//! client never receives. The audit log of `examples/audit.rs` says what happened in an attack.
//!
//! These tests have their own process, because concurrent threads that reach the same event can
//! hide it from a subscriber that is set for one thread only. They run one at a time.
// Some tests exist only on one system.
#![cfg_attr(windows, allow(unused_imports))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../support/tree.rs"]
#[allow(dead_code)] // The suite uses the other items.
mod tree;

#[path = "../../examples/audit.rs"]
#[allow(dead_code)] // The example has a `main`.
mod audit;
#[cfg(feature = "__rmcp-tests")]
#[path = "../support/raw_client.rs"]
#[allow(dead_code, clippy::needless_pass_by_value)] // The rmcp suite uses the other items.
mod raw_client;
#[cfg(feature = "__rmcp-tests")]
#[path = "../support/rmcp_server.rs"]
#[allow(dead_code, deprecated, clippy::large_futures, clippy::needless_pass_by_value)]
mod server;

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use guarded_fs::host;
#[cfg(feature = "__rmcp-tests")]
use mcp_roots_guard::rmcp::HandlerError;
use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, Error, ErrorKind, Guard, ListRootsResult, Precondition,
    Roots, RootsResponse, RootsSource,
};

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
    /// Returns the lines logged since the last call, without their targets. `$T` stands for the
    /// path of the tree, and `$S` for the session.
    fn take(&self, tree: &Tree, session: impl std::fmt::Display) -> String {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        let mut lines = String::new();
        for line in text.lines() {
            // On Windows, a separator is escaped by the event and again by the subscriber.
            let line = line.trim_start().replace("mcp_roots_guard: ", "");
            let line = line.replace("guarded_fs: ", "").replace(r"\\\\", "/");
            let line = line.replace(&tree.uri(""), "file://$T/");
            let top = tree.path("").to_str().unwrap().replace('\\', "/");
            let line = line.replace(&top, "$T/").replace("$T//", "$T/");
            writeln!(lines, "{}", line.replace(&format!("session={session}"), "session=$S"))
                .unwrap();
        }
        lines
    }
}

static ONE_TEST_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A program's own refusals and operations are logged in the form of the crate's.
#[test]
fn refusals_of_a_program_are_logged_like_others() {
    let _alone = ONE_TEST_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (tree, log) = (Tree::new(""), Log::default());
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time();
    let subscriber = subscriber.with_max_level(tracing::Level::TRACE);
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let declined = Error::new(ErrorKind::Other("declined"), "declined", "the user declined");
    let declined = declined.with_request("format", "a\n".as_ref());
    let declined = declined.with_outcome("1 of 2 files is formatted".to_owned());
    let (roots, _turn) = Roots::from_dirs([tree.path("")], Access::ReadWrite).unwrap().stoppable();
    let session = host::scope(&roots).unwrap().number();
    assert_eq!(declined.logged(&roots).code(), "declined");
    assert_eq!(
        log.take(&tree, session),
        "INFO refused session=$S operation=\"format\" request=\"a\\\\n\" code=\"declined\" \
         error=format \"a\\n\": the user declined; 1 of 2 files is formatted\n"
    );
    tree.add("file a = x");
    host::log_allowed(&roots.check("a").unwrap(), "format", "./a".as_ref());
    let (events, name) = (log.take(&tree, session), r#"operation="format" request="./a""#);
    assert!(events.contains(&format!("TRACE allowed session=$S {name}")), "{events}");
}

/// A refusal outside the roots has none, which would say whether something exists there.
#[test]
fn an_error_of_the_system_is_logged_with_its_number() {
    let _alone = ONE_TEST_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (tree, log) = (Tree::new("file op/d/f; file secret"), Log::default());
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time();
    let subscriber = subscriber.with_writer(move || writer.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let full = Error::from(io::Error::from_raw_os_error(28)).with_request("write", "b".as_ref());
    let _ = host::log_refused(full, None);
    let events = log.take(&tree, "");
    let full = "INFO refused operation=\"write\" request=\"b\" code=\"io\" os_error=28 error=";
    assert!(events.starts_with(full), "{events}");
    let roots = Roots::from_dirs([tree.path("op")], Access::ReadWrite).unwrap();
    if cfg!(unix) {
        assert!(roots.rename("d", "d/in", Precondition::Missing).is_err());
        let events = log.take(&tree, "");
        assert!(events.contains("destination=\"d/in\" code=\"io\" os_error=22 "), "{events}");
    }
    for outside in ["secret", "missing", "secret/missing"] {
        assert!(roots.read(tree.path(outside), 9).is_err());
        let events = log.take(&tree, "");
        assert!(events.contains("code=\"outside_roots\" error="), "{events}");
    }
}

#[test]
fn each_event_names_its_session_and_its_cause() {
    let _alone = ONE_TEST_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let tree = Tree::new("file op/a/f; dir secret; link op/out -> ../secret");
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG);
    let subscriber =
        subscriber.with_ansi(false).without_time().with_writer(move || writer.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let boundary =
            Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap();
        let guard = Guard::new(boundary.clone());
        let session = guard.session(ClientCapabilities::WithAnnouncedRoots).unwrap();
        let number = session.id();
        let uris =
            [tree.uri("op/a"), tree.uri("op/a/f/in"), tree.uri("op/out\n"), "ftp://host/".into()];
        let list = ListRootsResult::from_uris(uris);
        let roots = session.roots(source(&list)).await.unwrap();
        let events = log.take(&tree, number);
        let number_on_unix = if cfg!(unix) { " os_error=20" } else { "" };
        assert_eq!(events, OF_LIST.replace("$N", number_on_unix));
        // A list that comes with a request causes the same events.
        session.roots_from_list(list.clone()).await.unwrap();
        assert_eq!(log.take(&tree, number), events);
        // A refusal's event says where the symlink points. The client's error does not.
        let refused = roots.read(tree.path("op/out/x"), 9).unwrap_err();
        assert!(roots.read("file:///x?y", 9).is_err());
        assert!(roots.check("f").unwrap().read(1).is_err());
        let events = log.take(&tree, number);
        let lines: Vec<_> = events.lines().collect();
        assert_eq!(lines.len(), 3, "{events}");
        for (line, expected) in lines.iter().zip([
            "operation=\"read\" request=\"$T/op/out/x\" code=\"outside_roots\"",
            "operation=\"parse\" request=\"file:///x?y\" code=\"query\"",
            "operation=\"read\" request=\"f\" code=\"too_large\"",
        ]) {
            assert!(line.starts_with(&format!("INFO refused session=$S {expected}")), "{line}");
        }
        assert!(!refused.to_string().contains("secret"), "{refused}");
        session.list_changed();
        let failing =
            |_: Option<String>| std::future::ready(RootsResponse::Failed("-32601: \"no\"".into()));
        assert!(session.roots(failing).await.is_err());
        assert_eq!(
            log.take(&tree, number),
            "DEBUG roots changed session=$S\n\
             WARN roots not fetched session=$S code=\"roots_failed\" \
             detail=\"-32601: \\\"no\\\"\"\n\
             INFO refused session=$S code=\"roots_failed\" \
             error=the client's roots could not be obtained \
             detail=\"-32601: \\\"no\\\"\"\n"
        );
        // The session is closed once, although closing and dropping both close it.
        session.close();
        drop(session);
        assert_eq!(log.take(&tree, number), "DEBUG session closed session=$S\n");
        // The list is resolved again some seconds after the filesystem rejected an entry.
        let guard = Guard::new(boundary);
        let session = guard.session(ClientCapabilities::WithAnnouncedRoots).unwrap();
        session.roots(source(&list)).await.unwrap();
        std::fs::remove_file(tree.path("op/a/f")).unwrap();
        tree.add("dir op/a/f");
        log.take(&tree, number);
        let unasked = |_: Option<String>| async { panic!("the client was asked") };
        let start = Instant::now();
        while session.roots(unasked).await.unwrap().iter().len() != 2
            && start.elapsed() < Duration::from_secs(60)
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(session.roots(unasked).await.unwrap().iter().len(), 2);
        assert_eq!(
            log.take(&tree, session.id()),
            "DEBUG roots resolved again session=$S roots=2\n\
             DEBUG root in force session=$S index=0 root=\"$T/op/a\"\n\
             DEBUG root in force session=$S index=1 root=\"$T/op/a/f/in\"\n"
        );
        #[cfg(feature = "__rmcp-tests")]
        {
            // The model learns that the tool failed. Only the operator learns why.
            let answer = call_failing_tool(&guard).await;
            assert!(
                answer.contains("its operator can see why") && !answer.contains("password"),
                "{answer}"
            );
            let events = log.take(&tree, "");
            let failed = "handler failed session=";
            let line = events
                .lines()
                .find(|line| line.contains(failed))
                .unwrap_or_else(|| panic!("{events}"));
            let cause = "os_error=28 error=\"the catalogue: password refused: ";
            assert!(line.contains(cause), "{line}");
        }
    });
}

/// The events of a list with one root and three other entries.
const OF_LIST: &str = r#"DEBUG roots fetched session=$S roots=1 rejected=3 pages=1
DEBUG root in force session=$S index=0 root="$T/op/a"
WARN entry rejected session=$S index=1 entry="file://$T/op/a/f/in" code="not_a_directory"$N
WARN entry rejected session=$S index=2 entry="file://$T/op/out\\n" code="dropped_character"
WARN entry rejected session=$S index=3 entry="ftp://host/" code="foreign_scheme"
"#;

fn source(list: &ListRootsResult) -> impl RootsSource + use<> {
    let list = list.clone();
    move |_: Option<String>| std::future::ready(RootsResponse::List(list.clone()))
}

/// Calls a tool that fails with an error that the guard did not cause. Returns the response.
#[cfg(feature = "__rmcp-tests")]
async fn call_failing_tool(guard: &Guard) -> String {
    #[derive(Debug)]
    struct Catalogue(io::Error);
    impl std::fmt::Display for Catalogue {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the catalogue: password refused")
        }
    }
    impl std::error::Error for Catalogue {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let mut raw = raw_client::Raw::to_tool(guard, |guard, call, ctx| async move {
        let refused = || Catalogue(io::Error::from_raw_os_error(28));
        let work = move |_| Err::<String, _>(HandlerError::other(refused()));
        guard.tool(&ctx, &call, work).await
    });
    raw.initialize(serde_json::json!({})).await;
    raw.send(&raw_client::call(1, "any", "")).await;
    raw.receive().await.to_string()
}

/// Replays the steps of `tests/data/audit.txt`, and expects the lines that follow each of them.
#[cfg(all(target_os = "linux", feature = "__rmcp-tests"))]
#[test]
fn the_audit_log_of_an_attack_says_what_happened_and_nothing_else() {
    use raw_client::{Raw, announcing, call, list, list_changed};
    let _alone = ONE_TEST_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let tree = Tree::new(
        "file op/a/in.txt = CONTENT; file op/a/.env = CONTENT; fifo op/a/pipe; dir op/a/.git
        file op/b/in.txt = CONTENT; file elsewhere/hidden.txt = CONTENT; link op/a/alias -> in.txt
        link op/a/out -> ../../elsewhere/hidden.txt",
    );
    let log = Log::default();
    let (layer, written) = audit::audit(log.clone());
    let subscriber =
        tracing_subscriber::layer::SubscriberExt::with(tracing_subscriber::registry(), layer);
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let boundary = Boundary::builder().directory(tree.path("op"), Access::ReadWrite);
    let boundary = boundary.protect_defaults().deny(".env");
    let guard = Guard::new(boundary.build().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let script = include_str!("../data/audit.txt");
    runtime.block_on(async {
        let mut clients = [(); 2].map(|()| (Raw::to_tool(&guard, tool), list::<&str>([])));
        for (client, _) in &mut clients {
            client.initialize(announcing()).await;
        }
        for step in script.lines().filter_map(|line| line.strip_prefix("> ")) {
            let (who, step) = step.split_once(' ').unwrap();
            let (what, of) = step.split_once(' ').unwrap();
            let of = tree.expand(&of.replace("\\n", "\n"));
            let (client, listed) = &mut clients[usize::from(who == "B")];
            if who == "somebody" {
                tree.add(step);
            } else if what == "list" {
                *listed = list(of.split(' '));
                client.send(&list_changed()).await;
            } else {
                client.send(&call(1, what, &of)).await;
                client.answer(listed).await;
            }
        }
        // The tool of each line is the one that was called, even if clients call several at once.
        let [(a, listed_a), (b, listed_b)] = &mut clients;
        for _ in 0..50 {
            a.send(&call(1, "write", "new.txt")).await;
            b.send(&call(1, "read", "in.txt")).await;
            tokio::join!(a.answer(listed_a), b.answer(listed_b));
        }
    });
    drop(written);
    let text = String::from_utf8(std::mem::take(&mut *log.0.lock().unwrap())).unwrap();
    let top = tree.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let mut first = None;
    let mut lines = text.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let session = line["session"].as_u64().unwrap();
        line["session"] = (session - *first.get_or_insert(session)).into();
        assert!(line.as_object_mut().unwrap().remove("time").unwrap().as_f64().unwrap() > 1.0e9);
        line.to_string().replace(&top, "$T")
    });
    let expected: Vec<_> = script.lines().filter(|line| line.starts_with('{')).collect();
    let attack: Vec<_> = lines.by_ref().take(expected.len()).collect();
    assert_eq!(attack, expected, "{}", attack.join("\n"));
    for line in lines {
        let caller = if line.contains(r#""session":0"#) { "write" } else { "read" };
        for field in ["operation", "tool"] {
            assert!(line.contains(&format!(r#""{field}":"{caller}""#)), "{line}");
        }
    }
    // Neither the content of a file, nor a place outside that the client did not name.
    for hidden in ["CONTENT", "elsewhere", "hidden"] {
        assert!(!text.contains(hidden), "{hidden}");
    }
}

#[cfg(all(target_os = "linux", feature = "__rmcp-tests"))]
async fn tool(
    guard: Guard,
    call: rmcp::model::CallToolRequestParams,
    ctx: rmcp::service::RequestContext<rmcp::RoleServer>,
) -> Result<rmcp::model::CallToolResponse, rmcp::ErrorData> {
    use tracing::Instrument as _;
    let (path, name) = (server::path_of(&call), call.name.clone());
    let span = tracing::info_span!("call", tool = &*call.name);
    let work = move |roots: mcp_roots_guard::rmcp::RequestRoots| match &*name {
        "read" => Ok(roots.read_to_string(path, 99)?),
        "write" => Ok(roots.write(path, "CONTENT").map(|()| "written".to_owned())?),
        "link" => {
            let place = roots.check_entry(path)?;
            Ok(place.symlink("../../etc/shadow").map(|()| "linked".to_owned())?)
        }
        other => Err(HandlerError::new(other)),
    };
    guard.tool(&ctx, &call, work).instrument(span).await
}

/// Lines that a full disk refuses are counted, and the first one that fits says so.
#[test]
fn the_audit_log_says_how_many_lines_a_full_disk_lost() {
    /// The content, and the number of bytes that each write still accepts.
    struct Disk(Vec<u8>, Vec<usize>);
    impl io::Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = self.1.pop().unwrap().min(bytes.len());
            self.0.extend(&bytes[..fits]);
            if fits == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(fits) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (sender, queue) = std::sync::mpsc::sync_channel(9);
    for line in [Some("first\n"), Some("second\n"), Some("third\n"), None] {
        sender.send(line.map(str::to_owned)).unwrap();
    }
    // The first line is cut, and the second one does not fit.
    let mut disk = Disk(Vec::new(), vec![99, 0, 0, 3]);
    audit::write_lines(&mut disk, &queue, &std::sync::atomic::AtomicU64::new(0));
    let written = String::from_utf8(disk.0).unwrap();
    assert_eq!(written, "fir\n{\"event\":\"lines lost\",\"lines\":2}\nthird\n");
}
