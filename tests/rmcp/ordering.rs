//! A call received after a change never uses the list from before the change. `.ci/sabotage` shows
//! that this test fails if the change is recorded later, in a task. `http` tests the changes that
//! HTTP accepts.

use crate::raw_client::{Raw, announcing, call, list, list_changed, tool_text};
use crate::server::{Tree, refusal};

const ROUNDS: usize = if cfg!(windows) { 500 } else { 2_000 };

/// Each round sends a change, followed by a call in the withdrawn root.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_on_a_pipe_never_use_a_list_from_before_a_change() {
    let tree = Tree::new();
    let mut raw = Raw::connect(&tree.guard());
    let lists = [list([tree.uri("op/a")]), list([tree.uri("op/b")])];
    let paths = [tree.path("op/a/in.txt"), tree.path("op/b/in.txt")];
    raw.initialize(announcing()).await;
    assert_eq!(raw.read(&paths[0], &lists[0]).await.as_deref(), Ok("a"));
    for round in 0..ROUNDS {
        let (old, new) = (round % 2, (round + 1) % 2);
        raw.write(&format!("{}\n{}\n", list_changed(), call(7, "read", &paths[old]))).await;
        let read = tool_text(&raw.answer(&lists[new]).await);
        assert_eq!(read, Err(refusal(&paths[old], "outside_roots")), "round {round}");
    }
}
