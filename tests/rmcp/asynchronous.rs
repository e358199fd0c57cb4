//! Asynchronous handlers.

use std::sync::Arc;
use std::time::Duration;

use mcp_roots_guard::Guard;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::raw_client::{Raw, announcing, call, cancelled, list, list_changed, tool_text};
use crate::server::{Tree, Unwritable, next_report, path_of};

type Worked = Result<String, HandlerError>;

/// Connects a client that announces changes to a server whose tool runs this work with the roots and
/// the path of the call.
async fn connect<W, R>(guard: &Guard, work: W) -> Raw
where
    W: Fn(RequestRoots, String) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Worked> + Send + 'static,
{
    let mut raw = Raw::to_tool(guard, move |guard, call, ctx| {
        let (work, path) = (work.clone(), path_of(&call));
        async move { guard.respond(&ctx, &call, move |roots| work(roots, path)).await }
    });
    raw.initialize(announcing()).await;
    raw
}

fn read(roots: RequestRoots) -> Worked {
    Ok(roots.read_to_string("in.txt", 99)?)
}

fn roots_of(tree: &Tree) -> Value {
    list([tree.uri("op/a")])
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_waits_holds_no_slot() {
    let tree = Tree::new();
    let guard = tree.builder().slots(4).build().unwrap();
    let (waiting, mut reports) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let mut raw = connect(&guard, move |roots, path| {
        let (waiting, gate) = (waiting.clone(), opened.clone());
        async move {
            if path.is_empty() {
                return roots.run(read).await;
            }
            waiting.send("waiting".to_owned()).unwrap();
            gate.acquire_owned().await.unwrap().forget();
            roots.run(move |roots| Ok(roots.write(path, "new")?)).await?;
            Ok("written".to_owned())
        }
    })
    .await;
    for number in 0..50 {
        raw.send(&call(number, "any", &format!("new-{number}.txt"))).await;
        if number == 0 {
            // Without the roots, no work starts.
            raw.answer_next(&roots_of(&tree)).await;
        }
    }
    for _ in 0..50 {
        assert_eq!(next_report(&mut reports).await.as_deref(), Some("waiting"));
    }
    raw.send(&call(99, "any", "")).await;
    let read = raw.receive().await;
    assert_eq!((read["id"].clone(), tool_text(&read)), (json!(99), Ok("a".into())));
    gate.add_permits(50);
    for _ in 0..50 {
        assert_eq!(tool_text(&raw.receive().await), Ok("written".into()));
    }
    for number in 0..50 {
        let path = tree.path(&format!("op/a/new-{number}.txt"));
        assert_eq!(std::fs::read(path).unwrap(), b"new");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn piece_that_follows_a_change_is_refused() {
    let tree = Tree::new();
    let (waiting, mut reports) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let mut raw = connect(&tree.guard(), move |roots, _| {
        let (waiting, gate) = (waiting.clone(), opened.clone());
        async move {
            let first = roots.run(read).await?;
            waiting.send("waiting".to_owned()).unwrap();
            gate.acquire_owned().await.unwrap().forget();
            let second = roots.run(read).await.unwrap_err();
            // The work itself continues, without roots.
            let code = roots.ensure_usable().unwrap_err().code();
            Ok(format!("{first}, then {second} ({code})"))
        }
    })
    .await;
    raw.send(&call(1, "any", "")).await;
    raw.answer_next(&roots_of(&tree)).await;
    assert_eq!(next_report(&mut reports).await.as_deref(), Some("waiting"));
    raw.send(&list_changed()).await;
    raw.ping().await;
    gate.add_permits(1);
    let text = "a, then the client's roots changed or expired; try again (roots_stale)";
    assert_eq!(tool_text(&raw.receive().await), Ok(text.into()));
}

/// Reports that a future was dropped.
struct Dropped(mpsc::UnboundedSender<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped".into());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_request_drops_its_work() {
    let tree = Tree::new();
    let (reporter, mut reports) = mpsc::unbounded_channel();
    let mut raw = connect(&tree.guard(), move |roots, _| {
        let dropped = Dropped(reporter.clone());
        async move {
            roots.check("in.txt")?;
            dropped.0.send("waiting".to_owned()).unwrap();
            std::future::pending().await
        }
    })
    .await;
    raw.send(&call(1, "any", "")).await;
    raw.answer_next(&roots_of(&tree)).await;
    assert_eq!(next_report(&mut reports).await.as_deref(), Some("waiting"));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(reports.try_recv().is_err());
    raw.send(&cancelled(1)).await;
    assert_eq!(next_report(&mut reports).await.as_deref(), Some("dropped"));
}

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_of_the_work_fails_only_its_call() {
    let tree = Tree::new();
    let mut raw = connect(&tree.guard(), async |roots: RequestRoots, way: String| {
        let _panics = (way == "in drop").then(|| PanicsOnDrop);
        if way == "in a piece" {
            return roots.run(|_| -> Worked { panic!("on purpose") }).await;
        }
        let text = roots.run(read).await;
        assert_ne!(way, "between pieces", "on purpose");
        text
    })
    .await;
    let roots = roots_of(&tree);
    for way in ["between pieces", "in a piece", "in drop"] {
        raw.send(&call(1, "any", way)).await;
        let response = raw.answer(&roots).await;
        assert_eq!(response["error"]["code"], -32603, "{way}: {response}");
        assert_eq!(response["error"]["message"], "the handler panicked", "{way}");
        assert_eq!(raw.read("", &roots).await, Ok("a".into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_of_the_conversion_fails_only_its_call() {
    let tree = Tree::new();
    let mut raw = Raw::to_tool(&tree.guard(), |guard, call, ctx| async move {
        guard.respond(&ctx, &call, async |_: RequestRoots| Ok(Unwritable)).await
    });
    raw.initialize(announcing()).await;
    for number in 1..3 {
        raw.send(&call(number, "any", "")).await;
        let response = raw.answer(&roots_of(&tree)).await;
        assert_eq!(response["error"]["code"], -32603, "{response}");
    }
}

/// The program writes its process number to a file and never ends. It is killed when its request is
/// cancelled, and when the client changes its roots.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn program_ends_with_the_roots_of_its_request() {
    for message in [cancelled(1), list_changed()] {
        let tree = Tree::new();
        let mut raw = connect(&tree.guard(), async |roots: RequestRoots, _| {
            let prepare = |roots: RequestRoots| {
                Ok(mcp_roots_guard::ChildCommand::new(&roots.check(".")?, "sh")?)
            };
            let program = roots.run(prepare).await?.unguarded_dir();
            program.args(["-c", "echo $$ >pid; exec sleep 1000"]).output_async().await?;
            Ok("the program ended".to_owned())
        })
        .await;
        raw.send(&call(1, "any", "")).await;
        raw.answer_next(&roots_of(&tree)).await;
        let file = tree.path("op/a/pid");
        let pid = loop {
            match std::fs::read_to_string(&file) {
                Ok(pid) if pid.ends_with('\n') => break pid.trim().parse().unwrap(),
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        raw.send(&message).await;
        if message["method"] == "notifications/roots/list_changed" {
            let text = "run \"sh\": the client's roots changed or expired; try again";
            assert_eq!(tool_text(&raw.receive().await), Err(text.into()));
        }
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(20);
        // This process reaps the program, so its number is free as soon as it has ended.
        while rustix::process::test_kill_process(pid).is_ok() {
            assert!(std::time::Instant::now() < until, "{message}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
