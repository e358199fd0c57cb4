//! Asynchronous handlers. `GUARD_TEST_ASYNC=1` runs the other tests of this program with them, too.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{Guard, Intent, Roots};
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::raw_client::{Raw, announcing, call, cancelled, list_changed, tool_text};
use crate::server::Tree;

#[derive(Clone)]
struct Server {
    guard: Guard,
    reporter: mpsc::UnboundedSender<String>,
    /// Each call waits for a permit, which it takes.
    gate: Arc<Semaphore>,
    kept: Arc<Mutex<Vec<RequestRoots>>>,
}

/// Reports that a future was dropped.
struct Dropped(mpsc::UnboundedSender<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped".into());
    }
}

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

impl ServerHandler for Server {
    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Self { guard, reporter, gate, kept } = self.clone();
        let pass = async move || gate.acquire_owned().await.unwrap().forget();
        let report = |text: &str| reporter.send(text.to_owned()).unwrap();
        let read = |roots: RequestRoots| Ok(roots.read_to_string("in.txt", 99)?);
        match &*call.name {
            "wait" => {
                let work = async |roots: RequestRoots| {
                    let path = call.arguments.as_ref().unwrap()["path"].as_str().unwrap();
                    let path = path.to_owned();
                    report("waiting");
                    pass().await;
                    roots.run(move |roots| Ok(roots.write(path, "new")?)).await?;
                    Ok("written".to_owned())
                };
                guard.tool_async(&ctx, &call, work).await
            }
            "read" => guard.tool_async(&ctx, &call, async |roots| roots.run(read).await).await,
            "twice" => {
                let work = async |roots: RequestRoots| {
                    let first = roots.run(read).await?;
                    report("waiting");
                    pass().await;
                    let second = roots.run(read).await.unwrap_err();
                    // The work itself continues, and the roots that it obtained are unchanged.
                    let code = roots.ensure_active().unwrap_err().code();
                    Ok(format!("{first}, then {second} ({code})"))
                };
                guard.tool_async(&ctx, &call, work).await
            }
            "forever" => {
                let work = async |roots: RequestRoots| {
                    let _dropped = Dropped(reporter.clone());
                    roots.check("in.txt", Intent::Existing)?;
                    report("waiting");
                    std::future::pending::<Result<String, HandlerError>>().await
                };
                guard.tool_async(&ctx, &call, work).await
            }
            // Runs a program that writes its process number to a file and never ends.
            #[cfg(unix)]
            "program" => {
                let work = async |roots: RequestRoots| {
                    let prepare = |roots: RequestRoots| {
                        Ok(roots.check(".", Intent::Existing)?.command("sh")?)
                    };
                    let program = roots.run(prepare).await?.unguarded_dir();
                    report("waiting");
                    let program = program.args(["-c", "echo $$ >pid; exec sleep 1000"]);
                    program.output_async().await?;
                    Ok("the program ended".to_owned())
                };
                guard.tool_async(&ctx, &call, work).await
            }
            "panic" => {
                let work = async |roots: RequestRoots| -> Result<String, HandlerError> {
                    roots.run(read).await?;
                    panic!("on purpose")
                };
                guard.tool_async(&ctx, &call, work).await
            }
            "panic in a piece" => {
                let work = async |roots: RequestRoots| {
                    roots.run(|_| -> Result<String, HandlerError> { panic!("on purpose") }).await
                };
                guard.tool_async(&ctx, &call, work).await
            }
            "panic in drop" => {
                let work = |roots: RequestRoots| {
                    let first = PanicsOnDrop;
                    async move {
                        let _first = &first;
                        roots.run(read).await
                    }
                };
                guard.tool_async(&ctx, &call, work).await
            }
            "move" => {
                let work = async |roots: RequestRoots| {
                    kept.lock().unwrap().push(roots);
                    Ok("moved".to_owned())
                };
                let response = guard.tool_async(&ctx, &call, work).await;
                // The response has not been sent yet.
                for roots in &*self.kept.lock().unwrap() {
                    assert!(roots.ensure_active().is_err());
                    assert!(roots.read("in.txt", 99).is_err());
                }
                response
            }
            "many" => guard.tool_async(&ctx, &call, many_pieces).await,
            other => panic!("{other}"),
        }
    }
}

/// Starts 3,000 pieces at once, and returns how many succeeded and how many were refused because
/// too many are waiting.
async fn many_pieces(roots: RequestRoots) -> Result<String, HandlerError> {
    let roots = Arc::new(roots);
    let mut pieces = tokio::task::JoinSet::new();
    for _ in 0..3_000 {
        let roots = roots.clone();
        let slow = |roots: RequestRoots| {
            std::thread::sleep(Duration::from_millis(1));
            Ok(roots.read_to_string("in.txt", 99)?)
        };
        pieces.spawn(async move { roots.run(slow).await });
    }
    let mut counts = [0, 0];
    for done in pieces.join_all().await {
        match done.map_err(|error| error.to_string()) {
            Ok(_) => counts[0] += 1,
            Err(error) if error.contains("too many requests") => counts[1] += 1,
            Err(error) => return Err(HandlerError::new(error)),
        }
    }
    Ok(format!("{counts:?}"))
}

struct Setup {
    tree: Tree,
    raw: Raw,
    gate: Arc<Semaphore>,
    kept: Arc<Mutex<Vec<RequestRoots>>>,
}

/// A client with the root `op/a`, which declared that it announces changes.
async fn setup(guard: impl FnOnce(&Tree) -> Guard) -> Setup {
    let tree = Tree::new();
    let guard = guard(&tree);
    let (reporter, reports) = mpsc::unbounded_channel();
    let (gate, kept) = (Arc::new(Semaphore::new(0)), Arc::default());
    let server =
        Server { guard: guard.clone(), reporter, gate: gate.clone(), kept: Arc::clone(&kept) };
    let mut raw = Raw::to(server, reports, |far| guard.wrap(far));
    raw.initialize(announcing()).await;
    Setup { tree, raw, gate, kept }
}

fn roots_of(tree: &Tree) -> Value {
    json!({ "roots": [{ "uri": tree.uri("op/a") }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_waits_holds_no_slot() {
    let Setup { tree, mut raw, gate, .. } =
        setup(|tree| tree.builder().work_at_once(4).build().unwrap()).await;
    let roots = roots_of(&tree);
    for number in 0..50 {
        raw.send(&call(number, "wait", &format!("new-{number}.txt"))).await;
        if number == 0 {
            // Answers the request for the roots, without which no work starts.
            raw.answer_next(&roots).await;
        }
    }
    for _ in 0..50 {
        assert_eq!(raw.next_report().await.as_deref(), Some("waiting"));
    }
    raw.send(&call(99, "read", "")).await;
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
    let Setup { tree, mut raw, gate, .. } = setup(Tree::guard).await;
    let roots = roots_of(&tree);
    raw.send(&call(1, "twice", "")).await;
    raw.answer_next(&roots).await;
    assert_eq!(raw.next_report().await.as_deref(), Some("waiting"));
    raw.send(&list_changed()).await;
    raw.ping().await;
    gate.add_permits(1);
    let text = "a, then the client's roots changed or expired; try again (roots_stale)";
    assert_eq!(tool_text(&raw.receive().await), Ok(text.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_request_drops_its_work() {
    let Setup { tree, mut raw, .. } = setup(Tree::guard).await;
    raw.send(&call(1, "forever", "")).await;
    raw.answer_next(&roots_of(&tree)).await;
    assert_eq!(raw.next_report().await.as_deref(), Some("waiting"));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(raw.earlier_report(), None);
    raw.send(&cancelled(1)).await;
    assert_eq!(raw.next_report().await.as_deref(), Some("dropped"));
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_of_the_work_fails_only_its_call() {
    let Setup { tree, mut raw, .. } = setup(Tree::guard).await;
    let roots = roots_of(&tree);
    for panics in ["panic", "panic in a piece", "panic in drop"] {
        raw.send(&call(1, panics, "")).await;
        let response = raw.answer(&roots).await;
        assert_eq!(response["error"]["code"], -32603, "{panics}: {response}");
        assert_eq!(response["error"]["message"], "the handler panicked", "{panics}");
        assert_eq!(raw.read("", &roots).await, Ok("a".into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roots_end_with_asynchronous_work() {
    let Setup { tree, mut raw, kept, .. } = setup(Tree::guard).await;
    raw.send(&call(1, "move", "")).await;
    assert_eq!(tool_text(&raw.answer(&roots_of(&tree)).await), Ok("moved".into()));
    let kept = kept.lock().unwrap().pop().unwrap();
    let clone: Roots = (*kept).clone();
    assert_eq!(clone.read("in.txt", 99).unwrap_err().code(), "roots_stale");
    let refused = kept.run(|roots| Ok(roots.read("in.txt", 99)?)).await.unwrap_err();
    assert_eq!(refused.to_string(), "the request was cancelled");
}

/// The pieces of one request wait in the queue of its client, which is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_one_request_are_queued_and_bounded() {
    let Setup { tree, mut raw, .. } =
        setup(|tree| tree.builder().work_at_once(4).build().unwrap()).await;
    raw.send(&call(1, "many", "")).await;
    let text = tool_text(&raw.answer(&roots_of(&tree)).await).unwrap();
    let counts: Vec<usize> = serde_json::from_str(&text).unwrap();
    assert_eq!(counts.iter().sum::<usize>(), 3_000);
    assert!(counts[0] >= 1_024 && counts[1] > 0, "{counts:?}");
    assert_eq!(raw.read("", &Value::Null).await, Ok("a".into()));
}

/// The program is killed when its request is cancelled, and when the client changes its roots.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn program_ends_with_the_roots_of_its_request() {
    for message in [cancelled(1), list_changed()] {
        let Setup { tree, mut raw, .. } = setup(Tree::guard).await;
        raw.send(&call(1, "program", "")).await;
        raw.answer_next(&roots_of(&tree)).await;
        assert_eq!(raw.next_report().await.as_deref(), Some("waiting"));
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
