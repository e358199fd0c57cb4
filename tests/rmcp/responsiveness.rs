//! One client's FIFO, slow work or silence does not delay another client.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::raw_client::{Raw, call, cancelled, list, list_changed, tool_text};
use crate::server::{Tree, reason, refusal};

const CALLS: u32 = 64;

/// The maximum time for an answer on a machine that also runs other tests.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn long_work_does_not_delay_fetching_roots() {
    let tree = Tree::new();
    let guard = tree.builder().slots(1).build().unwrap();
    let (mut slow, mut other) = (Raw::undeclared(&guard).await, Raw::announcing(&guard).await);
    for id in 1..=3 {
        slow.send(&call(id, "walk", "")).await;
    }
    assert_eq!(slow.next_report().await.as_deref(), Some("walking"));
    // The client is asked and its list is resolved. Only its work waits for a slot, as do the
    // other walks.
    other.send(&call(1, "write", "new.txt")).await;
    other.answer_next(&list([tree.uri("op/a")])).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    other.ping().await;
    // Cancel the waiting walks first, so that they never get a slot.
    for id in [3, 2, 1] {
        slow.send(&cancelled(id)).await;
    }
    assert_eq!(tool_text(&other.receive().await).as_deref(), Ok("written"));
    assert_eq!(slow.next_report().await.as_deref(), Some("stopped: cancelled"));
    assert_eq!(slow.earlier_report().as_deref(), None, "another walk began");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_client_and_fifos_delay_no_request_without_input() {
    let tree = Tree::new();
    // Windows has no FIFOs.
    let expected = if cfg!(unix) {
        tree.add("fifo op/a/pipe");
        "special_file"
    } else {
        "not_found"
    };
    let guard = tree.guard();
    let (mut silent, mut other) = (Raw::announcing(&guard).await, Raw::undeclared(&guard).await);
    let began = Instant::now();
    // Half of the calls wait for a client, which is asked once. The others name a FIFO without a
    // writer.
    for id in 1..=CALLS {
        silent.send(&call(id, "read", "in.txt")).await;
        other.send(&call(id, "read", "a/pipe")).await;
    }
    let question = silent.receive().await;
    assert_eq!(question["method"], "roots/list");
    silent.ping().await;
    other.send(&call(1001, "read", "b/in.txt")).await;
    let mut answered = 0;
    for _ in 0..=CALLS {
        let answer = other.receive().await;
        if answer["id"] == 1001 {
            assert_eq!(tool_text(&answer).as_deref(), Ok("b"));
        } else {
            assert_eq!(tool_text(&answer), Err(refusal("a/pipe", expected)));
            answered += 1;
        }
    }
    assert_eq!(answered, CALLS);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    // The waiting calls are served when the client answers.
    silent.respond(&question, &list([tree.uri("op/a")])).await;
    for _ in 0..CALLS {
        assert_eq!(tool_text(&silent.receive().await).as_deref(), Ok("a"));
    }
}

/// The roots are withdrawn while the work waits for a slot.
#[tokio::test]
async fn work_queued_before_its_roots_were_withdrawn_never_begins() {
    let tree = Tree::new();
    let guard = tree.builder().slots(1).build().unwrap();
    let (mut slow, mut other) = (Raw::undeclared(&guard).await, Raw::announcing(&guard).await);
    let (a, b) = (list([tree.uri("op/a")]), list([tree.uri("op/b")]));
    assert_eq!(other.read("in.txt", &a).await.as_deref(), Ok("a"));
    slow.send(&call(1, "walk", "")).await;
    assert_eq!(slow.next_report().await.as_deref(), Some("walking"));
    // The client's roots are cached, so the write waits only for a slot.
    other.send(&call(2, "write", "new.txt")).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    other.send(&list_changed()).await;
    other.send(&call(3, "read", "in.txt")).await;
    other.answer_next(&b).await;
    slow.send(&cancelled(1)).await;
    // The write is from before the change, and the read from after it.
    for _ in 0..2 {
        let answer = other.receive().await;
        let expected =
            if answer["id"] == 2 { Err(reason("roots_stale").into()) } else { Ok("b".into()) };
        assert_eq!(tool_text(&answer), expected);
    }
    assert!(!Path::new(&tree.path("op/a/new.txt")).exists());
}
