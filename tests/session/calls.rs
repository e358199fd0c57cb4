//! Sessions: when the client receives a request for its roots, which roots are in force, and how
//! long a call can take.

use std::fs;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

#[cfg(unix)]
use mcp_roots_guard::limits::SYMLINKED_LIST_TTL;
use mcp_roots_guard::limits::{FETCH_LIMIT, ROOT_LIST_PAGES};
use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, ClientRoots, Guard, GuardBuilder, ListRootsResult, Roots,
    RootsResponse, RootsSource, RootsState, Session, kinds,
};
use tokio::time::Instant;

use crate::support::code;
use crate::support::random::Random;
use crate::support::tree::{Tree, symlinks_are_visible};

type Source<'a> = Box<dyn FnMut(Option<String>) -> RootsResponse + Send + 'a>;

const LIMIT: Duration = FETCH_LIMIT;

/// The capabilities of a client that announces changes.
const ANNOUNCING: ClientCapabilities = ClientCapabilities::WithAnnouncedRoots;

fn guard(tree: &Tree) -> GuardBuilder {
    let boundary = Boundary::builder().directory(tree.path(""), Access::ReadWrite).build().unwrap();
    let builder = Guard::builder(boundary);
    // A paused clock would advance while threads of the guard's own are working.
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => builder.runtime(runtime),
        Err(_) => builder,
    }
}

fn announcing(guard: &Guard) -> Session {
    guard.session(ANNOUNCING).unwrap()
}

/// A session of a client that has roots and does not announce changes.
fn silent(guard: &Guard) -> Session {
    guard.session(ClientCapabilities::WithRoots).unwrap()
}

fn list(tree: &Tree, paths: &[&str]) -> ListRootsResult {
    ListRootsResult::from_uris(paths.iter().map(|path| tree.uri(path)))
}

/// The paths of the roots relative to the tree (`.` is the tree itself), separated by spaces, or the
/// code of the error.
type Served = Result<String, &'static str>;

fn outcome(tree: &Tree, roots: &mcp_roots_guard::Result<Roots>) -> Served {
    let short = |root: &mcp_roots_guard::Root| {
        let path = root.path().strip_prefix(tree.path("")).unwrap().display().to_string();
        if path.is_empty() { ".".to_owned() } else { path.replace('\\', "/") }
    };
    let roots = roots.as_ref().map_err(mcp_roots_guard::Error::code)?;
    Ok(roots.iter().map(short).collect::<Vec<_>>().join(" "))
}

/// The outcome of a call.
async fn served(tree: &Tree, session: &Session, source: impl RootsSource) -> Served {
    outcome(tree, &session.roots(source).await)
}

/// A client that counts the requests that it receives.
#[derive(Clone)]
struct Client {
    list: ListRootsResult,
    requests: Arc<AtomicUsize>,
}

impl Client {
    fn listing(list: ListRootsResult) -> Self {
        Self { list, requests: Arc::default() }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn source(&self) -> impl RootsSource + use<> {
        let Self { list, requests } = self.clone();
        move |_: Option<String>| {
            requests.fetch_add(1, Ordering::SeqCst);
            std::future::ready(RootsResponse::List(list.clone()))
        }
    }
}

/// A client that gives each request this answer, after this time.
fn answer_after(delay: Duration, answer: RootsResponse) -> impl RootsSource {
    move |_: Option<String>| {
        let answer = answer.clone();
        async move {
            tokio::time::sleep(delay).await;
            answer
        }
    }
}

/// A client that always answers with this list.
fn source_of(list: ListRootsResult) -> impl RootsSource {
    move |_: Option<String>| std::future::ready(RootsResponse::List(list.clone()))
}

fn source_listing(tree: &Tree, paths: &[&str]) -> impl RootsSource + use<> {
    source_of(list(tree, paths))
}

fn no_answer() -> impl RootsSource {
    |_: Option<String>| pending()
}

fn no_request_expected() -> impl RootsSource {
    |_: Option<String>| async { panic!("the client received a request") }
}

/// If a client declares roots and never answers, no call waits for longer than the limit, and
/// nothing is granted.
#[tokio::test(start_paused = true)]
async fn an_unresponsive_client_delays_a_call_by_at_most_the_fetch_limit() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let call = |after: Duration| {
        let session = session.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let start = Instant::now();
            (code(session.roots(no_answer()).await), start.elapsed())
        })
    };
    let timed_out = |took| (Some("roots_timed_out"), took);
    // The calls that waited share the failure. A later call is refused at once, until the client
    // may be asked again.
    let calls =
        [Duration::ZERO, LIMIT / 10, LIMIT / 2, LIMIT + Duration::from_millis(500)].map(call);
    let mut took = Vec::new();
    for call in calls {
        took.push(call.await.unwrap());
    }
    let rounded =
        |took: Duration| Duration::from_millis(u64::try_from(took.as_millis()).unwrap() / 10 * 10);
    let took: Vec<_> = took.into_iter().map(|(code, took)| (code, rounded(took))).collect();
    let expected = [LIMIT, LIMIT / 10 * 9, LIMIT / 2, Duration::ZERO].map(timed_out);
    assert_eq!(took, expected);
    assert_eq!(session.state(), RootsState::Failed(kinds::ROOTS_FAILED));
    // The back-off doubles, up to half a minute.
    let mut waits = Vec::new();
    for _ in 0..8 {
        let start = Instant::now();
        loop {
            let start = Instant::now();
            assert_eq!(code(session.roots(no_answer()).await), Some("roots_timed_out"));
            assert!(start.elapsed() <= LIMIT + Duration::from_millis(10), "{:?}", start.elapsed());
            if start.elapsed() > LIMIT / 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        waits.push(start.elapsed().saturating_sub(LIMIT).as_millis().div_ceil(1000));
    }
    println!("seconds of back-off: {waits:?}");
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
    // A change notification shows that the client is alive, and ends the back-off.
    session.list_changed();
    assert_eq!(session.state(), RootsState::Unknown);
    assert_eq!(served(&tree, &session, source_listing(&tree, &["a"])).await, Ok("a".into()));
}

/// A leader that is cancelled late does not extend the deadlines of the calls that wait for it.
#[tokio::test(start_paused = true)]
async fn a_waiting_call_times_out_at_its_own_deadline() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let leader = session.clone();
    let leader = tokio::spawn(async move { leader.roots(no_answer()).await });
    tokio::task::yield_now().await;
    let waiter = session.clone();
    let waiter = tokio::spawn(async move {
        let start = Instant::now();
        (code(waiter.roots(no_answer()).await), start.elapsed())
    });
    tokio::time::sleep(LIMIT / 10 * 9).await;
    leader.abort();
    let (code, took) = waiter.await.unwrap();
    assert_eq!(code, Some("roots_timed_out"));
    assert!(took <= LIMIT + Duration::from_millis(10), "{took:?}");
    // The waiting call had only a tenth of the limit for its own request, so the client does not
    // count as failed.
    assert_eq!(session.state(), RootsState::Unknown);
    assert_eq!(served(&tree, &session, source_listing(&tree, &["a"])).await, Ok("a".into()));
}

/// The properties of the wire format say which lists exceed a limit.
#[tokio::test]
async fn each_bad_answer_has_its_own_error_and_the_session_recovers() {
    let tree = Tree::new("dir a; dir b");
    let guard = guard(&tree).build().unwrap();
    let page = |cursor: Option<String>| {
        let mut page = list(&tree, &["a"]);
        page.next_cursor = Some(cursor.map_or(String::new(), |cursor| cursor + "x"));
        page
    };
    let cases: Vec<(&str, Source<'_>, &'static str)> = vec![
        ("an error", Box::new(|_| RootsResponse::Failed("-32601".into())), "roots_failed"),
        (
            "an endless pager",
            Box::new(|cursor| RootsResponse::List(page(cursor))),
            "too_many_pages",
        ),
        (
            "a pager that repeats itself",
            Box::new(|_| {
                let mut page = list(&tree, &["a"]);
                page.next_cursor = Some("again".into());
                RootsResponse::List(page)
            }),
            "repeated_cursor",
        ),
        (
            "unsupported, after a page",
            Box::new(|cursor| {
                if cursor.is_none() {
                    RootsResponse::List(page(None))
                } else {
                    RootsResponse::Unsupported
                }
            }),
            "roots_unsupported",
        ),
    ];
    let session = announcing(&guard);
    let checked = async |directory| {
        let roots = session.roots(source_listing(&tree, &[directory])).await.unwrap();
        (roots.check(".").unwrap(), roots)
    };
    let mut earlier = checked("b").await;
    for (name, mut source, expected) in cases {
        session.list_changed();
        let mut requests = 0;
        let counting = |cursor: Option<String>| {
            requests += 1;
            assert!(requests <= ROOT_LIST_PAGES, "{name}");
            std::future::ready(source(cursor))
        };
        let refused = session.roots(counting).await.unwrap_err();
        assert_eq!(refused.code(), expected, "{name}");
        // The next call is refused the same way without a request, and the earlier roots are no
        // longer in force.
        assert_eq!(code(session.roots(no_request_expected()).await), Some(expected), "{name}");
        assert_eq!(session.state(), RootsState::Failed(refused.kind()), "{name}");
        assert_eq!(
            code(session.known_roots().and_then(|roots| roots.still_allows(&earlier.0))),
            Some("roots_stale"),
            "{name}"
        );
        assert_eq!(code(earlier.1.check(".")), Some("roots_stale"), "{name}");
        assert_eq!(code(earlier.0.metadata()), Some("roots_stale"), "{name}");
        session.list_changed();
        assert_eq!(session.state(), RootsState::Unknown, "{name}");
        earlier = checked("a").await;
        assert_eq!(session.state(), RootsState::Available, "{name}");
    }
    // A bad entry does not affect the others.
    session.list_changed();
    let mut one_long = list(&tree, &["a"]);
    let long = "file:///".to_owned() + &"x".repeat(1 << 20);
    one_long.roots.extend(ListRootsResult::from_uris([long]).roots);
    let roots = session.roots(source_of(one_long)).await;
    assert_eq!(roots.as_ref().unwrap().rejected()[0].error().code(), "too_long");
    assert_eq!(outcome(&tree, &roots), Ok("a".into()));
}

/// Every option has an effect or is refused. Options about client lists are refused if no list is
/// ever requested.
#[test]
fn a_guard_that_ignores_client_roots_rejects_options_about_them() {
    let tree = Tree::new("dir a");
    let boundary = Boundary::builder().directory(tree.path(""), Access::ReadWrite);
    let boundary = boundary.build().unwrap();
    let ignore = || Guard::builder(boundary.clone()).client_roots(ClientRoots::Ignore);
    let hour = Duration::from_secs(3600);
    for (builder, name) in [
        (ignore().time_to_live(hour), "time_to_live"),
        (ignore().time_to_live_without_notifications(hour), "time_to_live_without_notifications"),
        (ignore().allow_bare_paths(), "allow_bare_paths"),
    ] {
        let refused = builder.build().unwrap_err();
        assert_eq!(refused.code(), "invalid_options");
        assert!(refused.to_string().ends_with(&format!("leave {name} out")), "{refused}");
    }
    // It limits the wait for an allowed directory.
    ignore().fetch_limit(hour).build().unwrap();
}

/// The number of requests for a list that keeps changing is bounded.
#[tokio::test]
async fn a_list_that_changes_during_its_fetch_is_requested_again() {
    let tree = Tree::new("dir old");
    let session = announcing(&guard(&tree).build().unwrap());
    let mut requests = 0;
    let roots = session.roots(|_: Option<String>| {
        requests += 1;
        session.list_changed();
        std::future::ready(RootsResponse::List(list(&tree, &["old"])))
    });
    assert_eq!(code(roots.await), Some("roots_changing"));
    assert_eq!(requests, 5);
    assert_eq!(session.state(), RootsState::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_used_for_its_time_to_live_unless_it_is_forgotten() {
    let tree = Tree::new("dir a");
    let short = Duration::from_secs(2);
    for (builder, open) in [
        (guard(&tree).time_to_live(short), announcing as fn(&Guard) -> Session),
        (guard(&tree).time_to_live_without_notifications(short), silent),
    ] {
        let guard = builder.build().unwrap();
        let session = open(&guard);
        let client = Client::listing(list(&tree, &["a"]));
        for (seconds, requests, state) in [
            (1, 1, RootsState::Available),
            (1, 1, RootsState::Unknown),
            (0, 2, RootsState::Available),
        ] {
            assert_eq!(served(&tree, &session, client.source()).await, Ok("a".into()));
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!((client.requests(), session.state()), (requests, state));
        }
        // A snapshot that the cache evicts is missing in the same way.
        guard.invalidate_all();
        assert_eq!(session.state(), RootsState::Unknown);
        assert_eq!(served(&tree, &session, client.source()).await, Ok("a".into()));
        assert_eq!(client.requests(), 3);
    }
}

#[tokio::test]
async fn a_proof_is_valid_while_the_current_roots_contain_its_place() {
    let tree = Tree::new("file a/in/f; dir b; file c; dir d");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let roots = session.roots(source_listing(&tree, &["a", "b", "c"])).await.unwrap();
    let places = ["a/in/f", "b", "c"].map(|path| tree.path(path));
    let directly = places.each_ref().map(|path| roots.check(path).unwrap());
    let narrowed = places.each_ref().map(|path| {
        let narrowed = roots.within(path).unwrap();
        narrowed.check(path).unwrap()
    });
    let mut changes = session.changes();
    let assert_codes = |expected: [Option<&'static str>; 3]| {
        for proofs in [&directly, &narrowed] {
            let codes = proofs.each_ref().map(|proof| {
                code(session.known_roots().and_then(|roots| roots.still_allows(proof)))
            });
            assert_eq!(codes, expected);
        }
    };
    assert_codes([None; 3]);
    session.list_changed();
    changes.changed().await.unwrap();
    assert_codes([Some("roots_stale"); 3]);
    let rows: [(&[&str], [Option<&'static str>; 3]); 6] = [
        (&["b", "a"], [None, None, Some("outside_roots")]),
        (&["a/in", "d"], [None, Some("outside_roots"), Some("outside_roots")]),
        (&["a/in/f", "c"], [None, Some("outside_roots"), None]),
        (&[""], [None; 3]),
        (&["d"], [Some("outside_roots"); 3]),
        (&[], [Some("outside_roots"); 3]),
    ];
    for (paths, expected) in rows {
        session.list_changed();
        session.roots(source_listing(&tree, paths)).await.unwrap();
        changes.changed().await.unwrap();
        assert_codes(expected);
    }
    // A proof is a name, so it is valid for another directory that has the name.
    #[cfg(unix)]
    {
        fs::rename(tree.path("b"), tree.path("was")).unwrap();
        tree.add("dir b");
    }
    for paths in [&["b", "c"][..], &[""]] {
        session.list_changed();
        session.roots(source_listing(&tree, paths)).await.unwrap();
        assert_codes([if paths.len() > 1 { Some("outside_roots") } else { None }, None, None]);
    }
    session.close();
    assert_eq!(code(changes.changed().await), Some("session_closed"));
    assert_codes([Some("session_closed"); 3]);
}

/// Narrowed roots are not cached.
#[tokio::test]
async fn narrowing_affects_no_request_without_input() {
    let tree = Tree::new("file a/f = a; file b/f = b");
    let session = announcing(&guard(&tree).build().unwrap());
    let roots = session.roots(source_listing(&tree, &[""])).await.unwrap();
    let [a, b] = ["a", "b"].map(|path| roots.within(path).unwrap().read_only());
    let later = session.roots(no_request_expected()).await.unwrap();
    for (roots, request, expected) in
        [(&a, "f", "a"), (&b, "f", "b"), (&later, "a/f", "a"), (&later, "b/f", "b")]
    {
        assert_eq!(roots.read(request, 9).unwrap(), expected.as_bytes());
    }
    assert_eq!(code(later.write("a/f", "new")), None);
    assert_eq!(code(a.read("../b/f", 9)), Some("outside_roots"));
}

#[test]
fn a_proof_is_invalid_if_a_file_root_has_the_name_of_a_directory_on_its_path() {
    let tree = Tree::new("dir a");
    let boundary = Boundary::builder().directory(tree.path("a"), Access::ReadWrite);
    let write = boundary.build().unwrap().allowed_roots();
    tree.add("file a/in/f");
    let below = write.check("in/f").unwrap();
    fs::remove_dir_all(tree.path("a/in")).unwrap();
    tree.add("file a/in");
    assert_eq!(code(tree.roots(["a/in"]).still_allows(&below)), Some("outside_roots"));
}

#[tokio::test(start_paused = true)]
async fn closing_ends_every_wait() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    // One call asks the client, and the others wait for it.
    let calls = [(); 3].map(|()| {
        let session = session.clone();
        tokio::spawn(async move { code(session.roots(no_answer()).await) })
    });
    let waiting = [(); 2].map(|()| {
        let mut changes = session.changes();
        tokio::spawn(async move { code(changes.changed().await) })
    });
    tokio::task::yield_now().await;
    let start = Instant::now();
    session.close();
    for ended in calls.into_iter().chain(waiting) {
        assert_eq!(ended.await.unwrap(), Some("session_closed"));
    }
    assert!(start.elapsed() < LIMIT / 10, "{:?}", start.elapsed());
    // A closed session stays closed, and closing it again counts once.
    session.list_changed();
    session.close();
    assert_eq!((session.state(), guard.sessions()), (RootsState::Closed, 0));
}

/// A `RootsChanges` does not keep a session open.
#[tokio::test]
async fn dropping_the_last_clone_closes_a_session() {
    let guard = guard(&Tree::new("dir a")).build().unwrap();
    let session = announcing(&guard);
    let mut changes = session.changes();
    drop(session.clone());
    assert_eq!(guard.sessions(), 1);
    drop(session);
    assert_eq!(guard.sessions(), 0);
    assert_eq!(code(changes.changed().await), Some("session_closed"));
}

/// Each session uses its own client's roots, whatever happens in other sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_sessions_roots_never_serve_another() {
    const SESSIONS: u64 = 40;
    // A step is slower on Windows, which opens each name.
    const STEPS: usize = if cfg!(windows) { 30 } else { 300 };
    let tree = Tree::in_memory("");
    for number in 0..SESSIONS {
        tree.add(&format!("file own/{number}/a/f = {number}; file own/{number}/b/f = {number}"));
    }
    let tree = Arc::new(tree);
    let guard = guard(&tree).fetch_limit(Duration::from_secs(60)).build().unwrap();
    let own = async |tree: Arc<Tree>, guard: Guard, number: u64| {
        let mut random = Random(number * 2 + 1);
        let (mut session, mut decided) = (announcing(&guard), 0);
        for _ in 0..STEPS {
            let directory = ["a", "b"][usize::try_from(random.below(2)).unwrap()];
            let mine = source_listing(&tree, &[&format!("own/{number}/{directory}")]);
            match random.below(8) {
                0 => session.list_changed(),
                1 => guard.invalidate_all(),
                2 => session = announcing(&guard),
                3 => {
                    let limit = Duration::from_micros(random.below(300));
                    drop(tokio::time::timeout(limit, session.roots(mine)).await);
                }
                _ => {
                    let roots = session.roots(mine).await.unwrap();
                    assert_eq!(roots.read("f", 99).unwrap(), number.to_string().as_bytes());
                    let foreign = tree.path(format!("own/{}/a/f", (number + 1) % SESSIONS));
                    assert_eq!(code(roots.read(foreign, 99)), Some("outside_roots"));
                    decided += 1;
                }
            }
        }
        assert!(decided > STEPS / 4, "{decided}");
    };
    let tasks: Vec<_> = (0..SESSIONS)
        .map(|number| tokio::spawn(own(tree.clone(), guard.clone(), number)))
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// The call is polled by hand, without a runtime or in a runtime without a timer.
#[test]
fn a_call_without_a_tokio_timer_is_refused() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let poll = || {
        let call = pin!(session.roots(no_answer()));
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(roots) => code(roots),
            std::task::Poll::Pending => panic!("the call waits without a timer"),
        }
    };
    assert_eq!(poll(), Some("no_runtime"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(async { poll() }), Some("no_runtime"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert_eq!(
        outcome(&tree, &runtime.block_on(session.roots(source_listing(&tree, &["a"])))),
        Ok("a".into())
    );
}

/// The longest and the shortest durations work like any other.
#[tokio::test]
async fn extreme_limits_work() {
    let tree = Tree::new("dir a");
    let (most, none) = (Duration::MAX, Duration::ZERO);
    for (time, expected) in [(most, None), (none, Some("roots_timed_out"))] {
        let builder = guard(&tree).fetch_limit(time).time_to_live(time);
        let session =
            announcing(&builder.time_to_live_without_notifications(time).build().unwrap());
        assert_eq!(code(session.roots(source_listing(&tree, &["a"])).await), expected, "{time:?}");
        assert_eq!(code(session.roots(source_listing(&tree, &["a"])).await), expected, "{time:?}");
    }
}

/// A source that is always busy must not starve the timer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_source_times_out() {
    let tree = Tree::new("dir a");
    let limit = Duration::from_millis(100);
    let session = announcing(&guard(&tree).fetch_limit(limit).build().unwrap());
    let busy = |_: Option<String>| async {
        loop {
            tokio::task::consume_budget().await;
        }
    };
    let call = tokio::time::timeout(50 * limit, session.roots(busy)).await;
    assert_eq!(call.map(code), Ok(Some("roots_timed_out")));
}

/// A burst of changes does not count as a list that keeps changing.
#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_refuses_no_call() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    let answer = RootsResponse::List(list(&tree, &["a"]));
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let (session, answer) = (session.clone(), answer.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(10 * number)).await;
                session.list_changed();
                code(session.roots(answer_after(Duration::from_millis(300), answer)).await)
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), None);
    }
}

/// A waiting call does not use an answer that has expired by the time it arrives, because the
/// client may have withdrawn a root since the request.
#[tokio::test(start_paused = true)]
async fn an_answer_that_expires_before_it_arrives_serves_no_later_call() {
    let tree = Tree::new("dir a; dir b");
    let guard =
        guard(&tree).time_to_live_without_notifications(Duration::from_millis(10)).build().unwrap();
    let session = silent(&guard);
    let slow = answer_after(LIMIT / 2, RootsResponse::List(list(&tree, &["a"])));
    let leader = session.clone();
    let leader = tokio::spawn(async move { leader.roots(slow).await });
    tokio::time::sleep(LIMIT / 4).await;
    assert_eq!(served(&tree, &session, source_listing(&tree, &["b"])).await, Ok("b".into()));
    assert_eq!(outcome(&tree, &leader.await.unwrap()), Ok("a".into()));
}

/// Calls that wait while the list of a silent client is requested share the next request.
#[tokio::test(start_paused = true)]
async fn concurrent_calls_of_a_silent_client_share_a_request() {
    let tree = Tree::new("dir a");
    let session = silent(&guard(&tree).build().unwrap());
    let client = Client::listing(list(&tree, &["a"]));
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let (session, client) = (session.clone(), client.clone());
            let slow = move |_: Option<String>| {
                client.requests.fetch_add(1, Ordering::SeqCst);
                let answer = RootsResponse::List(client.list.clone());
                async {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    answer
                }
            };
            tokio::spawn(async move { code(session.roots(slow).await) })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), None);
    }
    assert_eq!(client.requests(), 2);
}

/// The end of a fetch from before a change does not decide the calls that wait for it.
#[tokio::test(start_paused = true)]
async fn a_fetch_from_before_a_change_decides_no_waiting_call() {
    let tree = Tree::new("dir a; dir b");
    for (answer, expected) in [
        (RootsResponse::Failed(String::new()), Err("roots_failed")),
        (RootsResponse::List(list(&tree, &["b"])), Ok("b".into())),
    ] {
        let session = announcing(&guard(&tree).build().unwrap());
        let leader = session.clone();
        let leader = tokio::spawn(async move {
            let ended = leader.roots(answer_after(LIMIT / 4, answer)).await;
            // The change comes before the waiting call is polled.
            leader.list_changed();
            ended
        });
        tokio::task::yield_now().await;
        assert_eq!(served(&tree, &session, source_listing(&tree, &["a"])).await, Ok("a".into()));
        assert_eq!(outcome(&tree, &leader.await.unwrap()), expected);
    }
}

/// A success ends the series of failures that lengthens the back-off.
#[tokio::test(start_paused = true)]
async fn a_success_resets_the_back_off() {
    let tree = Tree::new("dir a");
    let session = silent(&guard(&tree).build().unwrap());
    for _ in 0..3 {
        let failing = answer_after(Duration::ZERO, RootsResponse::Failed(String::new()));
        assert_eq!(code(session.roots(failing).await), Some("roots_failed"));
        assert_eq!(code(session.roots(no_request_expected()).await), Some("roots_failed"));
        tokio::time::advance(Duration::from_millis(1001)).await;
        assert_eq!(served(&tree, &session, source_listing(&tree, &["a"])).await, Ok("a".into()));
    }
}

/// If a leader is neither polled nor dropped, other calls continue without it.
#[tokio::test(start_paused = true)]
async fn a_stalled_leader_is_replaced() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    let mut leader = pin!(session.roots(no_answer()));
    assert!(leader.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tokio::time::sleep(LIMIT / 2).await;
    let start = Instant::now();
    assert_eq!(served(&tree, &session, source_listing(&tree, &["a"])).await, Ok("a".into()));
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    assert_eq!(code(leader.await), None, "it uses the snapshot that the other call obtained");
    assert_eq!(served(&tree, &session, no_request_expected()).await, Ok("a".into()));
}

#[tokio::test(start_paused = true)]
async fn a_call_after_a_change_does_not_wait_for_an_earlier_fetch() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    let leader = session.clone();
    let mut answers = vec![Some(list(&tree, &["a"])), None];
    let leader = tokio::spawn(async move {
        let source = |_: Option<String>| {
            let answer = answers.pop().unwrap();
            async {
                if let Some(list) = answer { RootsResponse::List(list) } else { pending().await }
            }
        };
        leader.roots(source).await
    });
    tokio::task::yield_now().await;
    session.list_changed();
    let start = Instant::now();
    assert_eq!(served(&tree, &session, source_listing(&tree, &["a"])).await, Ok("a".into()));
    assert_eq!(outcome(&tree, &leader.await.unwrap()), Ok("a".into()));
    assert!(start.elapsed() < LIMIT / 10, "{:?}", start.elapsed());
}

/// A panic in a source written by the server's author propagates to the leader's call, which then
/// counts as dropped. A waiting call then leads the next fetch.
#[tokio::test]
async fn a_panicking_source_fails_only_its_own_call() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    #[derive(Clone, Copy, Debug)]
    enum Panics {
        AtOnce,
        Later,
        WhenDropped,
    }
    let tree = Tree::new("dir a");
    let guard = guard(&tree).fetch_limit(Duration::from_secs(2)).build().unwrap();
    for panics in [Panics::AtOnce, Panics::Later, Panics::WhenDropped] {
        let session = announcing(&guard);
        let leader = session.clone();
        let source = move |_: Option<String>| {
            assert!(!matches!(panics, Panics::AtOnce), "at once");
            async move {
                tokio::task::yield_now().await;
                assert!(!matches!(panics, Panics::Later), "later");
                let _bomb = Bomb;
                pending().await
            }
        };
        let leader = tokio::spawn(async move { leader.roots(source).await.is_ok() });
        tokio::task::yield_now().await;
        let next = served(&tree, &session, source_listing(&tree, &["a"])).await;
        assert!(leader.await.unwrap_err().is_panic());
        // The waiting call has no time left if the leader used all of it.
        let may_be_late = matches!(panics, Panics::WhenDropped) && next == Err("roots_timed_out");
        assert!(may_be_late || next == Ok("a".into()), "{panics:?}: {next:?}");
        assert_eq!(served(&tree, &session, source_listing(&tree, &["a"])).await, Ok("a".into()));
    }
}

/// A refusal says why nothing is in force, not that the server has no directories.
#[tokio::test]
async fn known_roots_say_why_there_are_none() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    let roots = session.known_roots().unwrap();
    for (path, code) in [(tree.path("a"), "outside_roots"), ("a".into(), "roots_stale")] {
        let refused = roots.check(path).unwrap_err();
        assert_eq!(refused.code(), code);
        let why = "the client's roots changed or expired; try again";
        assert!(refused.to_string().ends_with(why), "{refused}");
    }
}

/// The debug output of a session reveals nothing about other sessions.
#[tokio::test]
async fn debug_output_of_a_session_reveals_no_other_session() {
    let tree = Tree::new("dir mine; dir secret");
    let guard = guard(&tree).build().unwrap();
    let (mine, other) = (announcing(&guard), announcing(&guard));
    let roots = mine.roots(source_listing(&tree, &["mine"])).await.unwrap();
    other.roots(source_listing(&tree, &["secret"])).await.unwrap();
    assert!(format!("{:?}", mine.changes()).contains(&mine.id().to_string()));
    let shown = format!("{mine:?} {:?} {guard:?} {roots:?}", mine.changes());
    assert!(
        shown.contains("Available") && shown.contains("mine") && !shown.contains("secret"),
        "{shown}"
    );
    assert!(
        !format!("{roots:?}").contains(&format!("{:?}", tree.path("").as_os_str())),
        "{roots:?}"
    );
}

/// A process can end although work hangs: neither the guard nor its runtime waits for it.
#[cfg(target_os = "linux")]
#[test]
fn hung_work_does_not_keep_the_process() {
    let name = "session::calls::hung_work_does_not_keep_the_process";
    let start = std::time::Instant::now();
    if crate::support::is_own_process(name, &[]) {
        let tree = Tree::new("dir a");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let guard = Guard::builder(
            Boundary::builder().directory(tree.path(""), Access::ReadWrite).build().unwrap(),
        );
        let session = announcing(&guard.build().unwrap());
        let (begins, began) = std::sync::mpsc::channel();
        let hung = move || {
            begins.send(()).unwrap();
            loop {
                std::thread::sleep(LIMIT);
            }
        };
        runtime.spawn(async move { session.run::<(), _>(hung).await });
        began.recv().unwrap();
        return;
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Requesting and resolving a list share one time limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fetch_limit_includes_resolving_the_list() {
    let tree = Tree::in_memory("dir op");
    let mut deep = "d/".repeat(300);
    fs::create_dir_all(tree.path("op").join(&deep)).unwrap();
    if symlinks_are_visible() {
        tree.add("link op/l -> .");
        deep.insert_str(0, "l/");
    }
    // Each entry names the same place with a different text. Windows would normalize these to the
    // same path, so different places are used there.
    let entry = |n: usize| match n {
        _ if cfg!(windows) => tree.uri(format!("op/{}", &deep[..deep.len() - 2 * (n % 250)])),
        _ => format!("{}/op/{}{deep}", tree.uri(""), "./".repeat(n)),
    };
    // A list may take half a minute. Wine needs half a second for each entry, and several on a loaded
    // machine.
    let count = match cfg!(windows) {
        true if !symlinks_are_visible() => 2,
        true => 10,
        false => 1_000,
    };
    let entries = || ListRootsResult::from_uris((0..count).map(entry));
    let mut took = Vec::new();
    for (limit, expected) in [(10, Some("roots_timed_out")), (600_000, None)] {
        let limit = Duration::from_millis(limit);
        let session = announcing(&guard(&tree).fetch_limit(limit).build().unwrap());
        let start = std::time::Instant::now();
        assert_eq!(code(session.roots(source_of(entries())).await), expected);
        took.push(start.elapsed());
    }
    assert!(took[0] < took[1], "the limit does not end the wait: {took:?}");
}

/// Resolving a cached list again, because an entry was reached through a symlink, does not extend
/// its time to live. A call that has it resolved is served even if the list expires meanwhile.
#[cfg(unix)]
#[test]
fn a_list_that_is_resolved_again_expires_no_later() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let tree = Tree::new("file a/f = old; file b/f = new; link l -> a");
        let boundary = Boundary::builder().directory(tree.path(""), Access::ReadOnly);
        let guard = Guard::builder(boundary.build().unwrap())
            .time_to_live_without_notifications(2 * SYMLINKED_LIST_TTL)
            .runtime(tokio::runtime::Handle::current())
            .build()
            .unwrap();
        let silent = ClientCapabilities::WithRoots;
        let session = guard.session(silent).unwrap();
        let client = Client::listing(list(&tree, &["l"]));
        session.roots(client.source()).await.unwrap();
        tree.add("link next -> b");
        fs::rename(tree.path("next"), tree.path("l")).unwrap();
        let read = async || session.roots(client.source()).await.unwrap().read("f", 9).unwrap();
        tokio::time::advance(SYMLINKED_LIST_TTL / 2).await;
        assert_eq!(read().await, b"old");
        tokio::time::advance(SYMLINKED_LIST_TTL * 7 / 5).await;
        // The only blocking thread is busy while the list is resolved again.
        let (release, released) = std::sync::mpsc::channel::<()>();
        drop(tokio::task::spawn_blocking(move || released.recv()));
        let (resolving, source) = (session.clone(), client.source());
        let call = tokio::spawn(async move { resolving.roots(source).await.unwrap() });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!call.is_finished());
        tokio::time::advance(SECOND).await;
        drop(release);
        assert_eq!(call.await.unwrap().read("f", 9).unwrap(), b"new");
        assert_eq!(client.requests(), 1);
        assert_eq!(read().await, b"new");
        assert_eq!(client.requests(), 2);
    });
}

/// A proof protects the roots of its own list, even after the client has withdrawn them.
#[tokio::test]
async fn a_kept_proof_removes_no_other_root_of_its_list() {
    let tree = Tree::new("dir a/in");
    let session = announcing(&guard(&tree).build().unwrap());
    let check = async |listed: &[&str]| {
        // Such lists are not withdrawn by a change.
        let roots = session.roots_from_list(list(&tree, listed)).await.unwrap();
        roots.check_entry(tree.path("a")).unwrap()
    };
    let kept = check(&[".", "a/in"]).await;
    let later = check(&["."]).await;
    assert_eq!(code(kept.remove_dir_all()), Some("root_itself"));
    later.remove_dir_all().unwrap();
}

#[cfg(unix)]
const SECOND: Duration = Duration::from_secs(1);
