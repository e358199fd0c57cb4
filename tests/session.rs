//! Sessions: when the client is asked, what is in force, and what a call costs at most.

use std::fs;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread::sleep;
use std::time::Duration;

use mcp_roots_guard::limits::{FETCH_LIMIT, ROOT_LIST_ENTRIES, ROOT_LIST_PAGES, VERIFY_EVERY};
use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, ClientRoots, ErrorKind, Guard, GuardBuilder, Intent,
    ListRootsResult, Roots, RootsCapability, RootsResponse, RootsSource, RootsState, Rule, Session,
    WithoutClientRoots,
};
use tokio::time::Instant;

#[cfg(windows)]
use crate::support::tree::not_shown;
use crate::support::tree::{Tree, links_are_seen};

type Source<'a> = Box<dyn FnMut(Option<String>) -> RootsResponse + Send + 'a>;

const LIMIT: Duration = FETCH_LIMIT;

/// What clients declare.
const ANNOUNCING: ClientCapabilities =
    ClientCapabilities::with_roots(RootsCapability::announcing());
const WITHOUT: ClientCapabilities = ClientCapabilities::without_roots();

fn guard(tree: &Tree) -> GuardBuilder {
    Guard::builder(Boundary::builder().directory(tree.path(""), Access::ReadWrite).build().unwrap())
}

fn announcing(guard: &Guard) -> Session {
    guard.session(ANNOUNCING).unwrap()
}

fn list(tree: &Tree, paths: &[&str]) -> ListRootsResult {
    ListRootsResult::from_uris(paths.iter().map(|path| tree.uri(path)))
}

/// The roots' paths from the tree's top, or why there are none.
fn told(tree: &Tree, roots: &mcp_roots_guard::Result<Roots>) -> Result<Vec<String>, &'static str> {
    let short = |root: &mcp_roots_guard::Root| {
        let path = root.path().strip_prefix(tree.path("")).unwrap().display().to_string();
        if cfg!(windows) { path.replace('\\', "/") } else { path }
    };
    roots
        .as_ref()
        .map(|roots| roots.roots().map(short).collect())
        .map_err(mcp_roots_guard::Error::code)
}

fn kind<T>(result: mcp_roots_guard::Result<T>) -> Option<&'static str> {
    result.err().map(|error| error.code())
}

/// Waits until `now` gives what is expected: what took long to resolve is not resolved again at once, and how long it took is the
/// machine's.
async fn becomes<T: PartialEq + std::fmt::Debug>(now: impl AsyncFn() -> T, expected: T) {
    let start = std::time::Instant::now();
    while now().await != expected && start.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(50));
    }
    assert_eq!(now().await, expected);
}

/// A client that counts how often it is asked.
#[derive(Clone)]
struct Client {
    answer: Arc<Mutex<RootsResponse>>,
    asked: Arc<AtomicUsize>,
}

impl Client {
    fn telling(list: ListRootsResult) -> Self {
        Self { answer: Arc::new(Mutex::new(RootsResponse::List(list))), asked: Arc::default() }
    }

    fn tells(&self, list: ListRootsResult) {
        *self.answer.lock().unwrap() = RootsResponse::List(list);
    }

    fn fails(&self) {
        *self.answer.lock().unwrap() = RootsResponse::Failed("-32601".into());
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn source(&self) -> impl RootsSource + use<> {
        let Self { answer, asked } = self.clone();
        move |_: Option<String>| {
            asked.fetch_add(1, Ordering::SeqCst);
            let answer = answer.lock().unwrap().clone();
            async {
                tokio::task::yield_now().await;
                answer
            }
        }
    }
}

/// A client that answers with this list, whenever it is asked.
fn tells(list: ListRootsResult) -> impl RootsSource {
    move |_: Option<String>| std::future::ready(RootsResponse::List(list.clone()))
}

fn telling(tree: &Tree, paths: &[&str]) -> impl RootsSource + use<> {
    tells(list(tree, paths))
}

fn never() -> impl RootsSource {
    |_: Option<String>| pending()
}

fn unasked() -> impl RootsSource {
    |_: Option<String>| async { panic!("asked") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_first_calls_make_one_fetch() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    for round in 0..20 {
        let (session, client) = (announcing(&guard), Client::telling(list(&tree, &["a"])));
        let calls: Vec<_> = (0..1000)
            .map(|_| {
                let (session, source) = (session.clone(), client.source());
                tokio::spawn(async move { session.roots(source).await })
            })
            .collect();
        for call in calls {
            assert_eq!(told(&tree, &call.await.unwrap()), Ok(vec!["a".into()]));
        }
        assert_eq!(client.asked(), 1, "round {round}");
    }
}

#[tokio::test]
async fn three_hundred_cancelled_leaders_do_not_harm_the_next_caller() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let leads = Arc::new(AtomicUsize::new(0));
    let calls: Vec<_> = (0..300)
        .map(|_| {
            let (session, leads) = (session.clone(), leads.clone());
            let source = move |_: Option<String>| {
                leads.fetch_add(1, Ordering::SeqCst);
                pending()
            };
            tokio::spawn(async move { session.roots(source).await })
        })
        .collect();
    let client = Client::telling(list(&tree, &["a"]));
    let (last, source) = (session.clone(), client.source());
    let last = tokio::spawn(async move { last.roots(source).await });
    for (number, call) in calls.into_iter().enumerate() {
        while leads.load(Ordering::SeqCst) <= number {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            (leads.load(Ordering::SeqCst), client.asked()),
            (number + 1, 0),
            "one asks at a time"
        );
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert_eq!(told(&tree, &last.await.unwrap()), Ok(vec!["a".into()]));
    assert_eq!(client.asked(), 1);
    assert_eq!(told(&tree, &session.roots(unasked()).await), Ok(vec!["a".into()]));
}

/// A client that declares roots and never answers: nobody waits for longer than the limit, and nothing is granted.
#[tokio::test(start_paused = true)]
async fn a_silent_client_delays_a_call_by_the_limit_and_no_longer() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let call = |after: Duration| {
        let session = session.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let start = Instant::now();
            (kind(session.roots(never()).await), start.elapsed())
        })
    };
    let timed_out = |took| (Some("roots_timed_out"), took);
    // Who waited shares the failure, and who comes then is refused at once, until the client is asked again.
    let calls =
        [Duration::ZERO, LIMIT / 10, LIMIT / 2, LIMIT + Duration::from_millis(500)].map(call);
    let mut took = Vec::new();
    for call in calls {
        took.push(call.await.unwrap());
    }
    let fuzzy =
        |took: Duration| Duration::from_millis(u64::try_from(took.as_millis()).unwrap() / 10 * 10);
    let took: Vec<_> = took.into_iter().map(|(kind, took)| (kind, fuzzy(took))).collect();
    let expected = [LIMIT, LIMIT / 10 * 9, LIMIT / 2, Duration::ZERO].map(timed_out);
    assert_eq!(took, expected);
    assert_eq!(session.state(), RootsState::Failed(ErrorKind::RootsFailed));
    // The back-off doubles, and ends at half a minute.
    let mut waits = Vec::new();
    for _ in 0..8 {
        let start = Instant::now();
        loop {
            let start = Instant::now();
            assert_eq!(kind(session.roots(never()).await), Some("roots_timed_out"));
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
    // A change is a sign of life.
    session.list_changed();
    assert_eq!(session.state(), RootsState::Stale);
    assert_eq!(told(&tree, &session.roots(telling(&tree, &["a"])).await), Ok(vec!["a".into()]));
}

/// Leaders that give up late leave the others no more time than their own.
#[tokio::test(start_paused = true)]
async fn a_call_ends_by_its_own_deadline_whatever_it_waits_for() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let leader = session.clone();
    let leader = tokio::spawn(async move { leader.roots(never()).await });
    tokio::task::yield_now().await;
    let waiter = session.clone();
    let waiter = tokio::spawn(async move {
        let start = Instant::now();
        (kind(waiter.roots(never()).await), start.elapsed())
    });
    tokio::time::sleep(LIMIT / 10 * 9).await;
    leader.abort();
    let (kind, took) = waiter.await.unwrap();
    assert_eq!(kind, Some("roots_timed_out"));
    assert!(took <= LIMIT + Duration::from_millis(10), "{took:?}");
    // It had a tenth of the limit to ask in: that is no failure of the client.
    assert_eq!(session.state(), RootsState::Stale);
    assert_eq!(told(&tree, &session.roots(telling(&tree, &["a"])).await), Ok(vec!["a".into()]));
}

#[tokio::test]
async fn each_bad_answer_is_a_refusal_of_its_kind_and_the_session_goes_on() {
    let tree = Tree::new("dir a; dir b");
    let guard = guard(&tree).build().unwrap();
    let many =
        |count: usize| ListRootsResult::from_uris((0..count).map(|n| format!("file:///{n}")));
    let page = |cursor: Option<String>| {
        let mut page = list(&tree, &["a"]);
        page.next_cursor = Some(cursor.map_or(String::new(), |cursor| cursor + "x"));
        page
    };
    let large = "file:///".to_owned() + &"x".repeat(1 << 20);
    let cases: Vec<(&str, Source<'_>, &'static str)> = vec![
        ("an error", Box::new(|_| RootsResponse::Failed("-32601".into())), "roots_failed"),
        (
            "no list",
            Box::new(|_| RootsResponse::from_result(serde_json::json!({"roots": 7}))),
            "roots_failed",
        ),
        ("100,001 entries", Box::new(|_| RootsResponse::List(many(100_001))), "too_many_roots"),
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
            "pages of many entries",
            Box::new(|cursor| {
                let mut list = many(ROOT_LIST_ENTRIES / 2);
                list.next_cursor = page(cursor).next_cursor;
                RootsResponse::List(list)
            }),
            "too_many_roots",
        ),
        (
            "a long cursor",
            Box::new(|_| {
                let mut page = list(&tree, &["a"]);
                page.next_cursor = Some("c".repeat(1 << 20));
                RootsResponse::List(page)
            }),
            "too_large",
        ),
        (
            "long URIs",
            Box::new(|_| RootsResponse::List(ListRootsResult::from_uris(vec![large.clone(); 10]))),
            "too_large",
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
    let mut kept = session.roots(telling(&tree, &["b"])).await.unwrap();
    for (name, mut source, expected) in cases {
        session.list_changed();
        let mut asked = 0;
        let asking = |cursor: Option<String>| {
            asked += 1;
            assert!(asked <= ROOT_LIST_PAGES, "{name}");
            std::future::ready(source(cursor))
        };
        let refused = session.roots(asking).await.unwrap_err();
        assert_eq!(refused.code(), expected, "{name}");
        // Whoever comes now is not asked for, and is refused the same way; the roots of before are not in force.
        assert_eq!(kind(session.roots(unasked()).await), Some(expected), "{name}");
        assert_eq!(session.state(), RootsState::Failed(refused.kind()), "{name}");
        let checked = kept.check(".", Intent::Existing).unwrap();
        assert_eq!(kind(session.still_allows(&checked)), Some("roots_stale"), "{name}");
        session.list_changed();
        assert_eq!(session.state(), RootsState::Stale, "{name}");
        kept = session.roots(telling(&tree, &["a"])).await.unwrap();
        assert_eq!(session.state(), RootsState::Available, "{name}");
    }
    // One bad entry spoils no other.
    session.list_changed();
    let mut one_long = list(&tree, &["a"]);
    one_long.roots.extend(ListRootsResult::from_uris([large]).roots);
    let roots = session.roots(tells(one_long)).await;
    assert_eq!(roots.as_ref().unwrap().rejected()[0].error().code(), "too_long");
    assert_eq!(told(&tree, &roots), Ok(vec!["a".into()]));
}

#[tokio::test]
async fn pages_are_read_to_their_end() {
    let tree = Tree::new("dir a; dir b; dir c");
    let guard = guard(&tree).build().unwrap();
    let source = |cursor: Option<String>| {
        let (path, next) = match cursor.as_deref() {
            None => ("a", Some("second")),
            Some("second") => ("b", Some("third")),
            Some(_) => ("c", None),
        };
        let mut page = list(&tree, &[path]);
        page.next_cursor = next.map(str::to_owned);
        std::future::ready(RootsResponse::List(page))
    };
    let roots = announcing(&guard).roots(source).await;
    assert_eq!(told(&tree, &roots), Ok(vec!["a".into(), "b".into(), "c".into()]));
}

/// Decisions 1 and 2: what is in force, by what the client declared and told, and by policy.
#[tokio::test]
async fn what_is_in_force_by_policy() {
    let tree = Tree::new("dir op/a; dir out");
    let boundary =
        || Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap();
    let alone = || Boundary::builder().client_roots_only().build().unwrap();
    let (some, without) = (ANNOUNCING, WITHOUT);
    let good = || RootsResponse::List(list(&tree, &["op/a", "out"]));
    let none = || RootsResponse::List(ListRootsResult::default());
    let failed = || RootsResponse::Failed(String::new());
    let (deny, ignore) = (WithoutClientRoots::Deny, ClientRoots::Ignore);
    let ok = |paths: &[&str]| Ok(paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
    let rows = [
        ("narrows", Guard::builder(boundary()), some, good(), ok(&["op/a"]), RootsState::Available),
        ("empty", Guard::builder(boundary()), some, none(), ok(&[]), RootsState::Empty),
        (
            "failed",
            Guard::builder(boundary()),
            some,
            failed(),
            Err("roots_failed"),
            RootsState::Failed(ErrorKind::RootsFailed),
        ),
        (
            "undeclared",
            Guard::builder(boundary()),
            without,
            good(),
            ok(&["op"]),
            RootsState::Unsupported,
        ),
        (
            "declared, and then unsupported",
            Guard::builder(boundary()),
            some,
            RootsResponse::Unsupported,
            Err("roots_unsupported"),
            RootsState::Failed(ErrorKind::RootsUnsupported),
        ),
        (
            "undeclared, deny",
            Guard::builder(boundary()).without_client_roots(deny),
            without,
            good(),
            Err("roots_unsupported"),
            RootsState::Unsupported,
        ),
        (
            "ignored",
            Guard::builder(boundary()).client_roots(ignore),
            some,
            good(),
            ok(&["op"]),
            RootsState::Ignored,
        ),
        (
            "ignored, none",
            Guard::builder(boundary()).client_roots(ignore),
            without,
            good(),
            ok(&["op"]),
            RootsState::Ignored,
        ),
        (
            "alone",
            Guard::builder(alone()),
            some,
            good(),
            ok(&["op/a", "out"]),
            RootsState::Available,
        ),
        ("alone, empty", Guard::builder(alone()), some, none(), ok(&[]), RootsState::Empty),
        (
            "alone, undeclared",
            Guard::builder(alone()),
            without,
            good(),
            Err("roots_unsupported"),
            RootsState::Unsupported,
        ),
    ];
    for (name, builder, declared, answer, expected, state) in rows {
        let session = builder.build().unwrap().session(declared).unwrap();
        let source = |_: Option<String>| std::future::ready(answer.clone());
        for _ in 0..2 {
            let roots = session.roots(source).await;
            assert_eq!(told(&tree, &roots), expected, "{name}");
            let allows = roots.and_then(|roots| roots.check(".", Intent::Existing));
            if let Ok(checked) = allows {
                assert_eq!(kind(session.still_allows(&checked)), None, "{name}");
            }
        }
        assert_eq!(session.state(), state, "{name}");
    }
    // A configuration that would serve what nobody configured is none.
    let operator = WithoutClientRoots::AllowedDirectories;
    assert_eq!(
        kind(Guard::builder(alone()).without_client_roots(operator).build()),
        Some("no_directories")
    );
    assert_eq!(kind(Guard::builder(alone()).client_roots(ignore).build()), Some("no_directories"));
}

/// What is chosen has an effect, or is refused: about lists, where none is ever asked for.
#[test]
fn a_guard_that_ignores_client_roots_takes_no_choice_about_them() {
    let tree = Tree::new("dir a");
    let ignore = || guard(&tree).client_roots(ClientRoots::Ignore);
    let hour = Duration::from_secs(3600);
    for (builder, name) in [
        (ignore().without_client_roots(WithoutClientRoots::Deny), "without_client_roots(Deny)"),
        (ignore().time_to_live(hour), "time_to_live"),
        (ignore().time_to_live_unannounced(hour), "time_to_live_unannounced"),
        (ignore().time_to_idle(hour), "time_to_idle"),
        // In any order.
        (guard(&tree).time_to_idle(hour).client_roots(ClientRoots::Ignore), "time_to_idle"),
    ] {
        let refused = builder.build().unwrap_err();
        assert_eq!(refused.code(), "invalid_options");
        assert!(refused.to_string().ends_with(&format!("leave {name} out")), "{refused}");
    }
    // These have one: they say what is in force anyway, or bound how long an allowed directory is
    // waited for.
    ignore()
        .without_client_roots(WithoutClientRoots::AllowedDirectories)
        .fetch_limit(hour)
        .build()
        .unwrap();
    let narrow = guard(&tree).client_roots(ClientRoots::Narrow);
    narrow.without_client_roots(WithoutClientRoots::Deny).time_to_idle(hour).build().unwrap();
}

/// Decision 9: an answer that was asked for before a change is dropped, and asked for again.
#[tokio::test]
async fn a_list_that_changes_while_it_is_asked_for_is_asked_for_again() {
    let tree = Tree::new("dir old; dir new");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let mut answers = vec![list(&tree, &["new"]), list(&tree, &["old"])];
    let roots = session.roots(|_: Option<String>| {
        let answer = answers.pop().unwrap();
        let session = session.clone();
        let last = answers.is_empty();
        async move {
            if !last {
                session.list_changed();
            }
            RootsResponse::List(answer)
        }
    });
    assert_eq!(told(&tree, &roots.await), Ok(vec!["new".into()]));
    // One that never stays the same is not asked for ever.
    session.list_changed();
    let mut asked = 0;
    let roots = session.roots(|_: Option<String>| {
        asked += 1;
        session.list_changed();
        std::future::ready(RootsResponse::List(list(&tree, &["old"])))
    });
    assert_eq!(kind(roots.await), Some("roots_changing"));
    assert_eq!(asked, 5);
    assert_eq!(session.state(), RootsState::Stale);
}

#[tokio::test]
async fn a_client_that_does_not_announce_changes_is_asked_each_time() {
    let tree = Tree::new("dir a; dir b");
    let client = Client::telling(list(&tree, &["a"]));
    let silent = ClientCapabilities::with_roots(RootsCapability::silent());
    let session = guard(&tree).build().unwrap().session(silent).unwrap();
    for (path, times) in [("a", 1), ("b", 2), ("a", 3)] {
        client.tells(list(&tree, &[path]));
        let roots = session.roots(client.source()).await;
        assert_eq!((told(&tree, &roots), client.asked()), (Ok(vec![path.into()]), times));
        let checked = roots.unwrap().check(".", Intent::Existing).unwrap();
        assert_eq!(kind(session.still_allows(&checked)), Some("roots_stale"));
    }
    // But if the server trusts it for some time.
    let short = Duration::from_secs(2);
    let session =
        guard(&tree).time_to_live_unannounced(short).build().unwrap().session(silent).unwrap();
    assert_eq!(told(&tree, &session.roots(client.source()).await), Ok(vec!["a".into()]));
    client.tells(list(&tree, &["b"]));
    assert_eq!(told(&tree, &session.roots(unasked()).await), Ok(vec!["a".into()]));
    tokio::time::sleep(short).await;
    assert_eq!(session.state(), RootsState::Stale);
    assert_eq!(told(&tree, &session.roots(client.source()).await), Ok(vec!["b".into()]));
}

#[tokio::test]
async fn a_snapshot_is_forgotten_in_time_or_when_told_so() {
    let tree = Tree::new("dir a");
    let client = Client::telling(list(&tree, &["a"]));
    let short = Duration::from_secs(2);
    for (name, builder) in
        [("live", guard(&tree).time_to_live(short)), ("idle", guard(&tree).time_to_idle(short))]
    {
        let guard = builder.build().unwrap();
        let session = announcing(&guard);
        let before = client.asked();
        for _ in 0..3 {
            session.roots(client.source()).await.unwrap();
        }
        assert_eq!(client.asked() - before, 1, "{name}");
        tokio::time::sleep(short + Duration::from_millis(5)).await;
        assert_eq!(session.state(), RootsState::Stale, "{name}");
        session.roots(client.source()).await.unwrap();
        assert_eq!(client.asked() - before, 2, "{name}");
        guard.forget_all();
        assert_eq!(session.state(), RootsState::Stale, "{name}");
        session.roots(client.source()).await.unwrap();
        assert_eq!(client.asked() - before, 3, "{name}");
    }
}

/// A directory that is gone and back is resolved again from the list that was told, and the client is not asked.
#[tokio::test]
async fn a_kept_list_is_resolved_again_when_the_disk_has_changed() {
    let tree = Tree::new("file a/f = old; dir b; link current -> a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let told_now = async || told(&tree, &session.roots(unasked()).await);
    let file = if links_are_seen() { "current/f" } else { "a/f" };
    session.roots(telling(&tree, &["a", "later", file])).await.unwrap();
    assert_eq!(told_now().await, Ok(vec!["a".into(), "a/f".into()]));
    tree.add("dir later");
    becomes(&told_now, Ok(vec!["a".into(), "later".into(), "a/f".into()])).await;
    // On Windows a directory that is held stays.
    #[cfg(unix)]
    {
        fs::rename(tree.path("a"), tree.path("was")).unwrap();
        tree.add("file a/f = new");
        let read = async || session.roots(unasked()).await.unwrap().read(tree.path("a/f"), 9).ok();
        becomes(read, Some(b"new".to_vec())).await;
        fs::remove_dir_all(tree.path("a")).unwrap();
        becomes(&told_now, Ok(vec!["later".into()])).await;
    }
    assert_eq!(session.state(), RootsState::Available);
}

#[tokio::test]
async fn a_proof_stands_as_long_as_its_place_is_in_force() {
    let tree = Tree::new("file a/in/f; dir b; file c; dir d");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let roots = session.roots(telling(&tree, &["a", "b", "c"])).await.unwrap();
    let [f, b, c] =
        ["a/in/f", "b", "c"].map(|path| roots.check(tree.path(path), Intent::Existing).unwrap());
    let mut changes = session.changes();
    let stand = |expected: [Option<&'static str>; 3]| {
        assert_eq!([&f, &b, &c].map(|proof| kind(session.still_allows(proof))), expected);
    };
    stand([None; 3]);
    session.list_changed();
    changes.changed().await.unwrap();
    stand([Some("roots_stale"); 3]);
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
        session.roots(telling(&tree, paths)).await.unwrap();
        changes.changed().await.unwrap();
        stand(expected);
    }
    // The place of a proof is its directory, and not another one of that name.
    session.list_changed();
    #[cfg(unix)]
    {
        fs::rename(tree.path("b"), tree.path("was")).unwrap();
        tree.add("dir b");
    }
    let of_b = if cfg!(unix) { Some("root_unavailable") } else { None };
    for paths in [&["b", "c"][..], &[""]] {
        session.list_changed();
        session.roots(telling(&tree, paths)).await.unwrap();
        assert_eq!(kind(session.still_allows(&b)), of_b, "{paths:?}");
        assert_eq!(kind(session.still_allows(&c)), None, "{paths:?}");
    }
    session.close();
    assert_eq!(kind(changes.changed().await), Some("session_closed"));
    assert_eq!(kind(session.still_allows(&c)), Some("session_closed"));
}

/// A proof that could be written by does not stand where that may only be read by now.
#[test]
fn a_proof_does_not_stand_where_it_says_too_much() {
    let tree = Tree::new("file a/f");
    let boundary = |access| {
        Boundary::builder().directory(tree.path("a"), access).build().unwrap().allowed_roots()
    };
    let (read, write) = (boundary(Access::ReadOnly), boundary(Access::ReadWrite));
    assert_eq!(
        kind(read.still_allows(&write.check("f", Intent::Existing).unwrap())),
        Some("read_only")
    );
    assert_eq!(kind(write.still_allows(&read.check("f", Intent::Existing).unwrap())), None);
    // Nor where a file that is in force has the name of a directory on its way.
    tree.add("file a/in/f");
    let below = write.check("in/f", Intent::Existing).unwrap();
    fs::remove_dir_all(tree.path("a/in")).unwrap();
    tree.add("file a/in");
    assert_eq!(kind(tree.roots(["a/in"]).still_allows(&below)), Some("outside_roots"));
}

#[tokio::test]
async fn changes_wake_whoever_waits_and_closing_ends_them() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    session.roots(telling(&tree, &["a"])).await.unwrap();
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let mut changes = session.changes();
            tokio::spawn(async move {
                [changes.changed().await.is_ok(), changes.changed().await.is_ok()]
            })
        })
        .collect();
    tokio::task::yield_now().await;
    session.list_changed();
    tokio::task::yield_now().await;
    // A call that waits for a client that is gone ends, too.
    let waiter = session.clone();
    let leader = session.clone();
    let leader = tokio::spawn(async move { leader.roots(never()).await });
    tokio::task::yield_now().await;
    let waiter = tokio::spawn(async move { waiter.roots(unasked()).await });
    tokio::task::yield_now().await;
    session.close();
    assert_eq!(kind(waiter.await.unwrap()), Some("session_closed"));
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), [true, false]);
    }
    leader.abort();
    session.list_changed();
    assert_eq!(session.state(), RootsState::Closed);
    assert_eq!(kind(session.roots(unasked()).await), Some("session_closed"));
    assert_eq!(guard.sessions(), 0);
    // Nothing is served by policy either, in one whose client declared nothing.
    let undeclared = guard.session(WITHOUT).unwrap();
    let checked = undeclared.roots(unasked()).await.unwrap().check("a", Intent::Existing).unwrap();
    undeclared.close();
    assert_eq!(kind(undeclared.roots(unasked()).await), Some("session_closed"));
    assert_eq!(kind(undeclared.roots_from_list(list(&tree, &["a"])).await), Some("session_closed"));
    assert_eq!(kind(undeclared.still_allows(&checked)), Some("session_closed"));
    // The last clone that is dropped closes; who waits for changes does not hold it open.
    let session = announcing(&guard);
    let mut changes = session.changes();
    drop(session.clone());
    assert_eq!(guard.sessions(), 1);
    drop(session);
    assert_eq!(guard.sessions(), 0);
    assert_eq!(kind(changes.changed().await), Some("session_closed"));
}

/// Decision 10: whatever happens in the others, a session is decided by its own client's roots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_strangers() {
    const SESSIONS: usize = 40;
    // A step is slower where each name is opened.
    const STEPS: usize = if cfg!(windows) { 30 } else { 300 };
    let tree = Tree::in_memory("");
    for number in 0..SESSIONS {
        tree.add(&format!("file own/{number}/a/f = {number}; file own/{number}/b/f = {number}"));
    }
    let tree = Arc::new(tree);
    let guard = guard(&tree).fetch_limit(Duration::from_secs(60)).build().unwrap();
    let decided = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..SESSIONS)
        .map(|number| {
            let (tree, guard, decided) = (tree.clone(), guard.clone(), decided.clone());
            tokio::spawn(async move {
                let mut random = number as u64 * 2 + 1;
                let mut next = |below: u64| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    random % below
                };
                let own = |path: &str| format!("own/{number}/{path}");
                let mut session = announcing(&guard);
                for _ in 0..STEPS {
                    let mine = list(&tree, &[&own(["a", "b"][usize::try_from(next(2)).unwrap()])]);
                    match next(8) {
                        0 => session.list_changed(),
                        1 => guard.forget_all(),
                        2 => session = announcing(&guard),
                        3 => drop(
                            tokio::time::timeout(
                                Duration::from_micros(next(300)),
                                session.roots(tells(mine)),
                            )
                            .await,
                        ),
                        _ => {
                            let roots = session.roots(tells(mine)).await.unwrap();
                            assert!(
                                roots
                                    .roots()
                                    .all(|root| root.path().starts_with(tree.path(own(""))))
                            );
                            assert_eq!(roots.read("f", 99).unwrap(), number.to_string().as_bytes());
                            let other = (number + 1) % SESSIONS;
                            let strange = tree.path(format!("own/{other}/a/f"));
                            assert_eq!(kind(roots.read(strange, 99)), Some("outside_roots"));
                            decided.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    println!(
        "{SESSIONS} sessions, {STEPS} steps each: {} decisions",
        decided.load(Ordering::Relaxed)
    );
    assert!(decided.load(Ordering::Relaxed) > SESSIONS * STEPS / 4);
}

#[tokio::test]
async fn bare_paths_are_roots_only_where_the_operator_says_so() {
    let tree = Tree::new("dir a%20b; dir a b");
    let bare = ListRootsResult::from_uris([
        tree.path("a%20b").display().to_string(),
        "relative".into(),
        r"Q:\x".into(),
        String::new(),
        "ftp://host/x".into(),
        tree.uri("a%20b"),
    ]);
    for (rule, expected) in [(Rule::Refuse, vec!["a b"]), (Rule::Allow, vec!["a%20b", "a b"])] {
        let boundary = Boundary::builder()
            .directory(tree.path(""), Access::ReadOnly)
            .bare_paths(rule)
            .build()
            .unwrap();
        let roots = announcing(&Guard::new(boundary)).roots(tells(bare.clone())).await;
        let kinds: Vec<_> = roots
            .as_ref()
            .unwrap()
            .rejected()
            .iter()
            .map(|rejected| rejected.error().code())
            .collect();
        let expected: Vec<_> = expected.into_iter().map(str::to_owned).collect();
        let drive =
            if cfg!(windows) && rule == Rule::Allow { "outside_roots" } else { "not_absolute" };
        assert_eq!(
            kinds[kinds.len() - 4..],
            ["not_absolute", drive, "empty", "foreign_scheme"],
            "{rule:?}"
        );
        assert_eq!(told(&tree, &roots), Ok(expected), "{rule:?}");
    }
}

/// Polled by hand, outside any runtime, or in one without a timer.
#[test]
fn without_a_runtime_with_a_timer_a_call_is_refused() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let poll = || {
        let call = pin!(session.roots(never()));
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(roots) => kind(roots),
            std::task::Poll::Pending => panic!("waits for ever"),
        }
    };
    assert_eq!(poll(), Some("no_runtime"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(async { poll() }), Some("no_runtime"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert_eq!(
        told(&tree, &runtime.block_on(session.roots(telling(&tree, &["a"])))),
        Ok(vec!["a".into()])
    );
}

/// The longest times are as good as any.
#[tokio::test]
async fn absurd_limits_are_limits() {
    let tree = Tree::new("dir a");
    let (most, none) = (Duration::MAX, Duration::ZERO);
    for (time, expected) in [(most, None), (none, Some("roots_timed_out"))] {
        let builder = guard(&tree).fetch_limit(time).time_to_live(time).time_to_idle(time);
        let session = announcing(&builder.time_to_live_unannounced(time).build().unwrap());
        assert_eq!(kind(session.roots(telling(&tree, &["a"])).await), expected, "{time:?}");
        assert_eq!(kind(session.roots(telling(&tree, &["a"])).await), expected, "{time:?}");
    }
}

#[tokio::test]
async fn a_failed_client_is_asked_again_after_the_back_off() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let client = Client::telling(list(&tree, &["a"]));
    client.fails();
    tokio::time::pause();
    for times in [1, 1, 1] {
        assert_eq!(kind(session.roots(client.source()).await), Some("roots_failed"));
        assert_eq!(client.asked(), times);
    }
    client.tells(list(&tree, &["a"]));
    tokio::time::advance(Duration::from_millis(1001)).await;
    tokio::time::resume();
    assert_eq!(told(&tree, &session.roots(client.source()).await), Ok(vec!["a".into()]));
    assert_eq!(client.asked(), 2);
}

/// Watching takes no turn to verify from those who then would, and is told in the end that a root is gone.
#[cfg(unix)]
#[tokio::test]
async fn a_watch_does_not_keep_a_replaced_directory_in_force() {
    let tree = Tree::new("file top/op/f = old; dir top/op/a");
    let boundary =
        Boundary::builder().directory(tree.path("top/op"), Access::ReadWrite).build().unwrap();
    let guard = Guard::new(boundary);
    let watch = guard.session(WITHOUT).unwrap();
    let narrow = announcing(&guard);
    let of_allowed = watch.roots(never()).await.unwrap().check("f", Intent::Existing).unwrap();
    let narrowed = narrow
        .roots(telling(&tree, &["top/op/a"]))
        .await
        .unwrap()
        .check(".", Intent::Existing)
        .unwrap();
    fs::rename(tree.path("top/op"), tree.path("trash")).unwrap();
    tree.add("file top/op/f = new; dir top/op/a");
    let start = std::time::Instant::now();
    while start.elapsed() < 3 * VERIFY_EVERY {
        let _ = watch.still_allows(&of_allowed);
        let _ = narrow.still_allows(&narrowed);
        sleep(Duration::from_millis(1));
    }
    becomes(async || kind(watch.still_allows(&of_allowed)), Some("root_unavailable")).await;
    becomes(async || kind(narrow.still_allows(&narrowed)), Some("root_unavailable")).await;
    assert_eq!(watch.roots(never()).await.unwrap().read("f", 9).unwrap(), b"new");
    let other = announcing(&guard).roots(telling(&tree, &["top/op"])).await.unwrap();
    assert_eq!(other.read("f", 9).unwrap(), b"new");
}

/// An allowed directory that was not there when the list was told, in a deploy or for the first time.
#[cfg(unix)]
#[tokio::test]
async fn an_operator_directory_that_comes_back_is_in_force_for_kept_lists() {
    let tree = Tree::new("dir op/a; dir x");
    let boundary = Boundary::builder()
        .directory(tree.path("op"), Access::ReadWrite)
        .optional_directory(tree.path("later"), Access::ReadWrite)
        .build()
        .unwrap();
    let guard = Guard::new(boundary);
    let (inside, around) = (announcing(&guard), announcing(&guard));
    inside.roots(telling(&tree, &["op/a", "later/b"])).await.unwrap();
    around.roots(telling(&tree, &[""])).await.unwrap();
    let in_force = async |session: &Session| told(&tree, &session.roots(unasked()).await).unwrap();
    let both = async || (in_force(&inside).await, in_force(&around).await);
    let paths = |paths: &[&str]| paths.iter().copied().map(String::from).collect::<Vec<_>>();
    fs::rename(tree.path("op"), tree.path("was")).unwrap();
    becomes(&both, (vec![], vec![])).await;
    fs::rename(tree.path("was"), tree.path("op")).unwrap();
    tree.add("dir later/b");
    becomes(&both, (paths(&["op/a", "later/b"]), paths(&["op", "later"]))).await;
}

/// A source that is busy all the time: what waits for it must not starve the time limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_source_is_ended_by_the_time_limit() {
    let tree = Tree::new("dir a");
    let limit = Duration::from_millis(100);
    let session = announcing(&guard(&tree).fetch_limit(limit).build().unwrap());
    let busy = |_: Option<String>| async {
        loop {
            tokio::task::consume_budget().await;
        }
    };
    let call = tokio::time::timeout(50 * limit, session.roots(busy)).await;
    assert_eq!(call.map(kind), Ok(Some("roots_timed_out")));
}

/// A leader that is neither polled nor dropped: others go on without it.
#[tokio::test(start_paused = true)]
async fn a_stalled_leader_is_passed_over() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    let mut leader = pin!(session.roots(never()));
    assert!(leader.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tokio::time::sleep(LIMIT / 2).await;
    let start = Instant::now();
    assert_eq!(told(&tree, &session.roots(telling(&tree, &["a"])).await), Ok(vec!["a".into()]));
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    assert_eq!(kind(leader.await), None, "it finds what the others asked for");
    assert_eq!(told(&tree, &session.roots(unasked()).await), Ok(vec!["a".into()]));
}

#[tokio::test(start_paused = true)]
async fn a_call_after_a_change_does_not_wait_for_what_was_asked_before() {
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
    assert_eq!(told(&tree, &session.roots(telling(&tree, &["a"])).await), Ok(vec!["a".into()]));
    assert_eq!(told(&tree, &leader.await.unwrap()), Ok(vec!["a".into()]));
    assert!(start.elapsed() < LIMIT / 10, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn closing_ends_the_call_that_asks() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    let leader = session.clone();
    let leader = tokio::spawn(async move {
        let start = Instant::now();
        (kind(leader.roots(never()).await), start.elapsed())
    });
    tokio::task::yield_now().await;
    session.close();
    assert_eq!(leader.await.unwrap(), (Some("session_closed"), Duration::ZERO));
}
/// A call in a task of its own.
type PanickingCall = fn(Session) -> tokio::task::JoinHandle<bool>;

/// A panic of the author's source is the panic of the call that asks, as if that were dropped: a call
/// that waits asks next.
#[tokio::test]
async fn a_source_that_panics_harms_its_own_call_only() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    fn at_once(_: Option<String>) -> std::future::Ready<RootsResponse> {
        panic!("at once")
    }
    async fn later(_: Option<String>) -> RootsResponse {
        tokio::task::yield_now().await;
        panic!("later")
    }
    async fn when_dropped(_: Option<String>) -> RootsResponse {
        let _bomb = Bomb;
        pending().await
    }
    let tree = Tree::new("dir a");
    let guard = guard(&tree).fetch_limit(Duration::from_secs(2)).build().unwrap();
    let ok = Ok(vec!["a".to_owned()]);
    // A call that waited for one that took all of its time has none left.
    let calls: [(PanickingCall, _); 3] = [
        (|session| tokio::spawn(async move { session.roots(at_once).await.is_ok() }), ok.clone()),
        (|session| tokio::spawn(async move { session.roots(later).await.is_ok() }), ok.clone()),
        (
            |session| tokio::spawn(async move { session.roots(when_dropped).await.is_ok() }),
            Err("roots_timed_out"),
        ),
    ];
    for (call, expected) in calls {
        let session = announcing(&guard);
        let leader = call(session.clone());
        tokio::task::yield_now().await;
        let next = session.roots(telling(&tree, &["a"])).await;
        assert!(leader.await.unwrap_err().is_panic());
        let next = told(&tree, &next);
        assert!(next == expected || next == ok, "{next:?}");
        assert_eq!(told(&tree, &session.roots(telling(&tree, &["a"])).await), ok);
    }
}

/// What is shown of one session tells nothing of the others.
#[tokio::test]
async fn what_is_shown_of_a_session_is_its_own() {
    let tree = Tree::new("dir mine; dir secret");
    let guard = guard(&tree).build().unwrap();
    let (mine, other) = (announcing(&guard), announcing(&guard));
    let roots = mine.roots(telling(&tree, &["mine"])).await.unwrap();
    other.roots(telling(&tree, &["secret"])).await.unwrap();
    assert!(format!("{:?}", mine.changes()).contains(&mine.id().to_string()));
    let shown = format!("{mine:?} {:?} {guard:?} {:?} {roots:?}", mine.changes(), guard.boundary());
    assert!(
        shown.contains("Available") && shown.contains("mine") && !shown.contains("secret"),
        "{shown}"
    );
    assert!(
        !format!("{roots:?}").contains(&format!("{:?}", tree.path("").as_os_str())),
        "{roots:?}"
    );
}

/// A directory that an operation finds replaced is resolved again for the next call, and not only when names are verified in their turn.
#[cfg(unix)]
#[tokio::test]
async fn what_an_operation_finds_gone_is_resolved_again_at_once() {
    let tree = Tree::new("file d/f = one");
    let session = announcing(&guard(&tree).build().unwrap());
    let roots = session.roots(telling(&tree, &["d"])).await.unwrap();
    fs::rename(tree.path("d"), tree.path("was")).unwrap();
    tree.add("file d/f = two");
    assert_eq!(roots.read("none", 9).unwrap_err().code(), "root_unavailable");
    let again = session.roots(unasked()).await.unwrap();
    assert_eq!(again.read("f", 9).unwrap(), b"two");
}

/// Verifying a list that takes long takes a small share of the time, one at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_costly_list_is_verified_a_twentieth_of_the_time() {
    #[cfg(windows)]
    if !links_are_seen() {
        return not_shown(
            "session::a_costly_list_is_verified_a_twentieth_of_the_time",
            "roots through links",
        );
    }
    let tree = Tree::in_memory("link op/l -> .");
    let deep = "d/".repeat(150);
    fs::create_dir_all(tree.path("op").join(&deep)).unwrap();
    let boundary =
        Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap();
    let session = announcing(&Guard::builder(boundary).build().unwrap());
    let paths: Vec<_> = (0..100).map(|n| format!("op/l/{}", &deep[..deep.len() - 2 * n])).collect();
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    session.roots(telling(&tree, &paths)).await.unwrap();
    let start = std::time::Instant::now();
    let mut late = 0;
    while start.elapsed() < 6 * VERIFY_EVERY {
        late += usize::from(session.roots(unasked()).await.is_err());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(late, 0);
}

/// Whatever else is kept, a session that is forgotten for want of room is asked again; and nothing else happens.
#[tokio::test]
async fn a_snapshot_that_is_forgotten_for_want_of_room_is_asked_for_again() {
    let tree = Tree::new("dir a");
    // Nothing here is about time.
    let guard = guard(&tree).fetch_limit(Duration::from_secs(120)).build().unwrap();
    let session = announcing(&guard);
    let client = Client::telling(list(&tree, &["a"]));
    session.roots(client.source()).await.unwrap();
    let large = || {
        ListRootsResult::from_uris(
            (0..ROOT_LIST_ENTRIES).map(|n| format!("x://{n}/{}", "y".repeat(700))),
        )
    };
    let mut others = Vec::new();
    // A look is a use, and keeps it from being the least recently used.
    while others.len() < 80 {
        let other = announcing(&guard);
        other.roots(tells(large())).await.unwrap();
        others.push(other);
    }
    assert_eq!(session.state(), RootsState::Stale);
    assert_eq!(told(&tree, &session.roots(client.source()).await), Ok(vec!["a".into()]));
    assert_eq!(client.asked(), 2);
}

/// A list that came with a request is for that request: it is not kept, and a change has nothing to do with it.
#[tokio::test]
async fn a_list_that_came_with_a_request_decides_that_alone() {
    let tree = Tree::new("dir a; dir b; dir op");
    let guard = guard(&tree).build().unwrap();
    let session = announcing(&guard);
    let asking = session.clone();
    let leader = tokio::spawn(async move { asking.roots(never()).await });
    tokio::task::yield_now().await;
    let call = session.roots_from_list(list(&tree, &["a"]));
    session.list_changed();
    assert_eq!(told(&tree, &call.await), Ok(vec!["a".into()]));
    assert_eq!(session.state(), RootsState::Stale);
    leader.abort();
    assert_eq!(told(&tree, &session.roots(telling(&tree, &["b"])).await), Ok(vec!["b".into()]));
    assert_eq!(
        told(&tree, &guard.session(WITHOUT).unwrap().roots_from_list(list(&tree, &["a"])).await),
        Ok(vec![String::new()])
    );
    session.close();
    assert_eq!(kind(session.roots_from_list(list(&tree, &["a"])).await), Some("session_closed"));
}

/// Calls that come and end all the time, behind a leader that was cancelled late: each waits for the one before, and has no time left.
#[tokio::test(start_paused = true)]
async fn leaders_with_too_little_time_do_not_ask_for_ever() {
    let tree = Tree::new("dir a");
    let limit = Duration::from_millis(5005);
    let session = announcing(&guard(&tree).fetch_limit(limit).build().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let told = list(&tree, &["a"]);
    let source = || {
        let (asked, told) = (asked.clone(), told.clone());
        move |_: Option<String>| {
            asked.fetch_add(1, Ordering::SeqCst);
            let told = told.clone();
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                RootsResponse::List(told)
            }
        }
    };
    let first = session.clone();
    let first = tokio::spawn(async move { first.roots(never()).await });
    let calls: Vec<_> = (1..2000)
        .map(|number| {
            let (session, source) = (session.clone(), source());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(10 * number)).await;
                session.roots(source).await.is_ok()
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(4810)).await;
    first.abort();
    let mut served = 0;
    for call in calls {
        served += usize::from(call.await.unwrap());
    }
    println!("{} questions, {served} calls of 1999 served", asked.load(Ordering::SeqCst));
    assert!(asked.load(Ordering::SeqCst) < 20 && served > 500);
}

/// A burst of changes is no list that keeps changing.
#[tokio::test(start_paused = true)]
async fn a_burst_of_changes_and_calls_refuses_none() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    let told = list(&tree, &["a"]);
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let (session, told) = (session.clone(), told.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(10 * number)).await;
                session.list_changed();
                let source = |_: Option<String>| {
                    let told = told.clone();
                    async {
                        tokio::time::sleep(Duration::from_millis(300)).await;
                        RootsResponse::List(told)
                    }
                };
                kind(session.roots(source).await)
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), None);
    }
}

/// Who takes the turn to verify and can not use it gives it back.
#[cfg(unix)]
#[test]
fn a_turn_to_verify_that_is_lost_is_taken_by_the_next() {
    let tree = Tree::new("file op/f = old");
    let boundary =
        Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap();
    let session = Guard::new(boundary.clone()).session(WITHOUT).unwrap();
    fs::rename(tree.path("op"), tree.path("was")).unwrap();
    tree.add("file op/f = new");
    sleep(VERIFY_EVERY);
    let call = pin!(session.roots(never()));
    let std::task::Poll::Ready(roots) = call.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("waits")
    };
    assert_eq!(kind(roots), Some("no_runtime"));
    assert_eq!(boundary.allowed_roots().read("f", 9).unwrap(), b"new");
}

/// Who waits for an answer takes none that is too old by the time it comes: the client may have withdrawn a root since it was asked.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_old_when_it_comes_decides_no_later_call() {
    let tree = Tree::new("dir a; dir b");
    let guard = guard(&tree).time_to_live_unannounced(Duration::from_millis(10)).build().unwrap();
    let session = guard.session(ClientCapabilities::with_roots(RootsCapability::silent())).unwrap();
    let (slow, told_first) = (session.clone(), list(&tree, &["a"]));
    let leader = tokio::spawn(async move {
        let source = |_: Option<String>| {
            let told = told_first.clone();
            async {
                tokio::time::sleep(LIMIT / 2).await;
                RootsResponse::List(told)
            }
        };
        slow.roots(source).await
    });
    tokio::time::sleep(LIMIT / 4).await;
    assert_eq!(told(&tree, &session.roots(telling(&tree, &["b"])).await), Ok(vec!["b".into()]));
    assert_eq!(told(&tree, &leader.await.unwrap()), Ok(vec!["a".into()]));
}

/// An optional allowed directory that is made later: nobody else looks for it, and nothing of the list says that it may come.
#[tokio::test]
async fn an_operator_directory_that_is_made_later_is_looked_for() {
    let tree = Tree::new("dir op");
    let boundary = Boundary::builder().directory(tree.path("op"), Access::ReadWrite);
    let boundary =
        boundary.optional_directory(tree.path("later"), Access::ReadWrite).build().unwrap();
    let session = announcing(&Guard::new(boundary));
    let roots = session.roots(telling(&tree, &["later/b"])).await.unwrap();
    assert_eq!(roots.rejected()[0].error().code(), "outside_roots");
    tree.add("dir later/b");
    becomes(async || told(&tree, &session.roots(unasked()).await), Ok(vec!["later/b".into()]))
        .await;
}

/// What a client says of its failure goes to the operator's log, and is as long as the client likes.
#[tokio::test]
async fn a_clients_error_is_kept_shortened() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    let why = "x".repeat(1 << 20);
    let error = session
        .roots(|_: Option<String>| std::future::ready(RootsResponse::Failed(why.clone())))
        .await
        .unwrap_err();
    assert_eq!((error.code(), error.operator_detail().map(str::len)), ("roots_failed", Some(1024)));
}

/// To resolve a list takes of the same time as to ask for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_takes_long_to_resolve_is_late() {
    let tree = Tree::in_memory("dir op");
    let mut deep = "d/".repeat(300);
    fs::create_dir_all(tree.path("op").join(&deep)).unwrap();
    if links_are_seen() {
        tree.add("link op/l -> .");
        deep.insert_str(0, "l/");
    }
    let limit = Duration::from_millis(100);
    let session = announcing(&guard(&tree).fetch_limit(limit).build().unwrap());
    // The same place by another text; on Windows, where that would be the same path, another place.
    let entries = (0..1000).map(|n| match n {
        _ if cfg!(windows) => tree.uri(format!("op/{}", &deep[..deep.len() - 2 * (n % 250)])),
        _ => format!("{}/op/{}{deep}", tree.uri(""), "./".repeat(n)),
    });
    let start = std::time::Instant::now();
    assert_eq!(
        kind(session.roots(tells(ListRootsResult::from_uris(entries))).await),
        Some("roots_timed_out")
    );
    assert!(start.elapsed() < 20 * limit, "{:?}", start.elapsed());
}

/// What failed before the list changed says nothing of the list: neither who asked nor who waited is refused by it.
#[tokio::test(start_paused = true)]
async fn a_failure_from_before_a_change_refuses_nobody() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    let mut answers =
        vec![RootsResponse::List(list(&tree, &["a"])), RootsResponse::Failed("-32601".into())];
    let roots = session.roots(|_: Option<String>| {
        if answers.len() > 1 {
            session.list_changed();
        }
        std::future::ready(answers.pop().unwrap())
    });
    assert_eq!(told(&tree, &roots.await), Ok(vec!["a".into()]));
    session.list_changed();
    let (leader, waiter, now) = (session.clone(), session.clone(), list(&tree, &["a"]));
    let leader = tokio::spawn(async move {
        let fails = |_: Option<String>| async {
            tokio::time::sleep(LIMIT / 4).await;
            RootsResponse::Failed("-32601".into())
        };
        let failed = kind(leader.roots(fails).await);
        // Before the other is polled that waits for the same answer.
        leader.list_changed();
        failed
    });
    tokio::task::yield_now().await;
    let waiter = tokio::spawn(async move { waiter.roots(tells(now)).await });
    assert_eq!(leader.await.unwrap(), Some("roots_failed"));
    assert_eq!(told(&tree, &waiter.await.unwrap()), Ok(vec!["a".into()]));
}

/// A session begins only with capabilities that were read, so what cannot be read opens nothing:
/// not even what a client gets that declares no roots.
#[tokio::test]
async fn what_a_client_declares_is_read_or_there_is_no_session() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let begin = |capabilities: &str| -> Result<Session, Box<dyn std::error::Error>> {
        let declared = serde_json::from_str::<ClientCapabilities>(capabilities)?;
        Ok(guard.session(declared)?)
    };
    for unreadable in ["", "null", "5", "[]", "[null]", r#""{}""#, "true", r#"{"roots":"#] {
        assert!(begin(unreadable).is_err(), "{unreadable}");
    }
    assert_eq!(guard.sessions(), 0);
    for (none, some) in [("{}", r#"{"roots":5}"#), (r#"{"roots":null}"#, r#"{"roots":false}"#)] {
        let (none, some) = (begin(none).unwrap(), begin(some).unwrap());
        let silent =
            || |_: Option<String>| std::future::ready(RootsResponse::Failed(String::new()));
        assert_eq!(told(&tree, &none.roots(silent()).await), Ok(vec![String::new()]));
        assert_eq!(told(&tree, &some.roots(silent()).await), Err("roots_failed"));
    }
}

/// By policy nothing is in force for it, and so nothing stands either.
#[tokio::test]
async fn no_proof_stands_for_a_client_that_is_denied() {
    let tree = Tree::new("file a/f");
    let proof = tree.roots(["a"]).check("f", Intent::Existing).unwrap();
    let guard = guard(&tree).without_client_roots(WithoutClientRoots::Deny).build().unwrap();
    let undeclared = guard.session(WITHOUT).unwrap();
    assert_eq!(kind(undeclared.still_allows(&proof)), Some("roots_unsupported"));
    let declared = announcing(&guard);
    assert_eq!((undeclared.declared(), declared.declared()), (WITHOUT, ANNOUNCING));
    assert_eq!(kind(declared.still_allows(&proof)), Some("roots_stale"));
}

/// The same list is the same snapshot only if it led to the same, also where it led nowhere.
#[tokio::test]
async fn what_an_equal_list_led_to_earlier_is_not_told_of_a_later_one() {
    let tree = Tree::new("dir a");
    let guard = guard(&tree).build().unwrap();
    let mut kept = Vec::new();
    #[cfg(unix)]
    let rows = [("dir c", Some("not_found")), ("fifo b", Some("special_file")), ("dir b", None)];
    #[cfg(windows)]
    let rows = [("dir c", Some("not_found")), ("dir b", None)];
    for (line, expected) in rows {
        if cfg!(unix) && expected.is_none() {
            fs::remove_file(tree.path("b")).unwrap();
        }
        tree.add(line);
        let session = announcing(&guard);
        let roots = session.roots(tells(list(&tree, &["a", "b"]))).await.unwrap();
        let rejected: Vec<_> = roots
            .rejected()
            .iter()
            .map(|rejected| (rejected.index(), rejected.error().code()))
            .collect();
        assert_eq!(rejected, expected.map(|kind| (1, kind)).into_iter().collect::<Vec<_>>());
        kept.push((session, roots));
    }
}

/// A call counts as use of the snapshot, whatever the time to idle is.
#[tokio::test]
async fn a_snapshot_in_use_outlives_a_short_time_to_idle() {
    let idle = Duration::from_secs(1);
    let tree = Tree::new("dir a");
    let guard = guard(&tree).time_to_idle(idle).build().unwrap();
    // Once more if this machine paused for so long that the time was right to end.
    for _ in 0..20 {
        let client = Client::telling(list(&tree, &["a"]));
        let session = announcing(&guard);
        let (start, mut last) = (std::time::Instant::now(), std::time::Instant::now());
        let mut longest = Duration::ZERO;
        while start.elapsed() < 3 * idle {
            session.roots(client.source()).await.unwrap();
            longest = longest.max(last.elapsed());
            last = std::time::Instant::now();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if longest < idle / 2 {
            assert_eq!(client.asked(), 1);
            return;
        }
    }
    panic!("this machine pauses all the time");
}

/// Who verifies a shared snapshot takes the news from nobody who shares it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_directory_is_found_by_each_session_that_shares_the_snapshot() {
    for optional in [false, true] {
        let tree = Tree::new("dir a");
        let boundary = Boundary::builder();
        let boundary = if optional {
            boundary
                .directory(tree.path("a"), Access::ReadOnly)
                .optional_directory(tree.path("b"), Access::ReadOnly)
        } else {
            boundary.directory(tree.path(""), Access::ReadOnly)
        };
        let guard = Guard::new(boundary.build().unwrap());
        let listed = list(&tree, &["a", "b"]);
        let (one, other) = (announcing(&guard), announcing(&guard));
        let held = one.roots(tells(listed.clone())).await.unwrap();
        other.roots(tells(listed)).await.unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let verifier = std::thread::spawn({
            let ends = ends.clone();
            move || {
                while !ends.load(Ordering::SeqCst) {
                    let _ = held.verify();
                    sleep(Duration::from_millis(1));
                }
            }
        });
        tree.add("dir b");
        let count = async || other.roots(unasked()).await.unwrap().roots().count();
        becomes(count, 2).await;
        ends.store(true, Ordering::SeqCst);
        verifier.join().unwrap();
    }
}

/// Looking for a directory that stays missing is no change.
#[tokio::test]
async fn a_renewal_that_changes_nothing_wakes_nobody() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    session.roots(telling(&tree, &["a", "missing"])).await.unwrap();
    let mut changes = session.changes();
    let start = std::time::Instant::now();
    while start.elapsed() < 4 * VERIFY_EVERY {
        session.roots(unasked()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(tokio::time::timeout(Duration::ZERO, changes.changed()).await.is_err());
    tree.add("dir missing");
    becomes(async || session.roots(unasked()).await.unwrap().roots().count(), 2).await;
    changes.changed().await.unwrap();
}

/// The text names the limit for the call that asked, for those that waited, and in the back-off.
#[tokio::test]
async fn a_failure_keeps_its_text() {
    let tree = Tree::new("dir a");
    let session = announcing(&guard(&tree).build().unwrap());
    let large = ListRootsResult::from_uris(["file:///".to_owned() + &"x".repeat(8_000_001)]);
    for _ in 0..2 {
        let refused = session.roots(tells(large.clone())).await.unwrap_err();
        assert_eq!(refused.to_string(), "the root list is larger than 8000000 bytes");
    }
}

/// Resolving a cached list again does not prolong its time.
// What is held open is not moved away on Windows.
#[cfg(unix)]
#[test]
fn a_list_that_expires_while_it_is_resolved_again_is_requested() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let tree = Tree::new("file a/f = old");
        let guard = guard(&tree)
            .time_to_live_unannounced(Duration::from_secs(10))
            .fetch_limit(Duration::from_secs(60))
            .build()
            .unwrap();
        let session = guard.session(ClientCapabilities::with_roots(RootsCapability::silent()));
        let session = session.unwrap();
        let client = Client::telling(list(&tree, &["a"]));
        let roots = session.roots(client.source()).await.unwrap();
        fs::rename(tree.path("a"), tree.path("was")).unwrap();
        tree.add("file a/f = new");
        assert_eq!(roots.read("none", 9).unwrap_err().code(), "root_unavailable");
        // The only thread is held while the list is resolved again.
        let (release, held) = std::sync::mpsc::channel::<()>();
        drop(tokio::task::spawn_blocking(move || held.recv()));
        let (session, source) = (session.clone(), client.source());
        let call = tokio::spawn(async move { session.roots(source).await.unwrap() });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!call.is_finished());
        tokio::time::advance(Duration::from_secs(11)).await;
        drop(release);
        assert_eq!(call.await.unwrap().read("f", 9).unwrap(), b"new");
        assert_eq!(client.asked(), 2);
    });
}
