//! Roots that a handler keeps are valid only until their request ends.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{
    AtomicFile, ChangeSet, CheckedPath, Guard, OpenFile, Precondition, Roots, Session, WriteOptions,
};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::json;
use tokio::sync::mpsc;

use crate::one_step::OneStep as _;
use crate::operations::{OPERATIONS, Way};
use crate::raw_client::{Raw, call, cancelled, in_era, request, tool_text};
use crate::server::{ERAS, Era, Tree};

/// The values that this server keeps after a request ends.
#[derive(Default)]
struct Keeping {
    roots: Vec<Roots>,
    requests: Vec<RequestRoots>,
    proofs: Vec<(CheckedPath, Option<Session>)>,
    /// Writes that were begun and not committed.
    writes: Vec<(AtomicFile, ChangeSet)>,
    files: Vec<OpenFile>,
}

/// A tool that keeps the roots and proofs of its requests.
async fn keep(
    guard: Guard,
    kept: Arc<Mutex<Keeping>>,
    call: CallToolRequestParams,
    ctx: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let (after, way) = (kept.clone(), call.name.to_string());
    if way == "asynchronous" {
        let work = async |roots: RequestRoots| {
            let mut kept = kept.lock().unwrap();
            kept.files.push(roots.open("c/in.txt")?);
            kept.roots.push(Roots::clone(&roots));
            kept.requests.extend([roots.clone(), roots]);
            Ok(String::new())
        };
        let response = guard.respond(&ctx, &call, work).await;
        let kept = after.lock().unwrap();
        kept.requests.iter().for_each(|roots| assert_ended(roots, None, "work that has ended"));
        return response;
    }
    let work = move |roots: RequestRoots| {
        let mut kept = kept.lock().unwrap();
        kept.roots.push(Roots::clone(&roots));
        // Roots with another base end with the request, too.
        kept.roots.push(roots.with_base(roots.iter().next().unwrap().path())?);
        // Narrowed roots, too.
        kept.roots.push(roots.within(".")?);
        kept.roots.push(roots.within(".")?.within(".")?.read_only());
        let proof = roots.check("c/in.txt")?;
        kept.proofs.push((proof, roots.session().cloned()));
        let mut changes = roots.change_set();
        changes.write("c/changed.txt", "new", WriteOptions::default())?;
        kept.writes.push((roots.atomic_file("c/new.txt", WriteOptions::default())?, changes));
        let text = kept.roots[0].read_to_string("c/in.txt", 9);
        if way == "move" {
            kept.requests.push(roots);
        } else if way == "panic" {
            drop(kept);
            panic!("on purpose");
        } else if way == "fail" {
            return Err(HandlerError::new("in my own words"));
        }
        Ok(text?)
    };
    let response = guard.tool(&ctx, &call, work).await;
    // The work is done, but the response has not been sent yet.
    let after = after.lock().unwrap_or_else(PoisonError::into_inner);
    after.requests.iter().for_each(|roots| assert_ended(roots, None, "work that has ended"));
    response
}

/// Asserts that the roots of an ended request refuse every operation.
#[track_caller]
fn assert_ended(roots: &Roots, proof: Option<&CheckedPath>, way: &str) {
    for operation in OPERATIONS {
        let texts = ["c/in.txt", "c/moved.txt"];
        let refused = operation.run(Way::Directly, roots, &texts);
        let code = refused.map_err(|error| error.code());
        assert_eq!(code, Err("roots_stale"), "{} by {way}", operation.name);
    }
    let refused = [
        ("check", roots.check("c/in.txt").map(drop)),
        ("within", roots.within("c").map(drop)),
        ("change_set", roots.change_set().remove_file("c/in.txt", Precondition::Any)),
    ];
    let still_allows = proof.map(|proof| ("still allows", roots.still_allows(proof)));
    for (operation, refused) in refused.into_iter().chain(still_allows) {
        let code = refused.map_err(|error| error.code());
        assert_eq!(code, Err("roots_stale"), "{operation} by {way}");
    }
}

/// Work that waits without a step is answered, with the calls that wait for its slot. Work that
/// advances is not, however long it takes.
#[tokio::test]
async fn a_call_whose_work_makes_no_step_is_answered() {
    const TIME: Duration = Duration::from_millis(400);
    let tree = Tree::new();
    let (go, waits) = std::sync::mpsc::channel::<()>();
    let waits = Arc::new(Mutex::new(waits));
    // The client has one slot.
    let guard = tree.builder().stalled_after(TIME).slots(1).build().unwrap();
    let mut raw = Raw::to_tool(&guard, move |guard, call, ctx| {
        let waits = waits.clone();
        async move {
            let hangs = call.name == "hang";
            let work = move |roots: RequestRoots| {
                if hangs {
                    let _ = waits.lock().unwrap().recv();
                }
                // Three times as long as a call waits, one step at a time.
                for _ in 0..24 {
                    roots.read("c/in.txt", 99)?;
                    std::thread::sleep(TIME / 8);
                }
                Ok("advanced".to_owned())
            };
            guard.tool(&ctx, &call, work).await
        }
    });
    raw.initialize(json!({})).await;
    raw.send(&call(1, "advance", "")).await;
    assert_eq!(tool_text(&raw.receive().await).as_deref(), Ok("advanced"));
    for id in [2, 3] {
        raw.send(&call(id, "hang", "")).await;
    }
    for _ in [2, 3] {
        let text = tool_text(&raw.receive().await).unwrap_err();
        assert!(text.starts_with("the filesystem does not answer: "), "{text}");
        assert!(text.ends_with("; the limit is 400ms"), "{text}");
    }
    // The work continues, so its slot is taken until it ends.
    go.send(()).unwrap();
    drop(go);
    raw.send(&call(4, "advance", "")).await;
    assert_eq!(tool_text(&raw.receive().await).as_deref(), Ok("advanced"));
}

#[tokio::test]
async fn roots_end_with_their_request() {
    let tree = Tree::new();
    for era in ERAS {
        for way in ["clone", "move", "fail", "panic", "asynchronous"] {
            let (guard, kept) = (tree.guard(), Arc::<Mutex<Keeping>>::default());
            let keeping = kept.clone();
            let mut raw = Raw::to_tool(&guard, move |guard, call, ctx| {
                keep(guard, keeping.clone(), call, ctx)
            });
            if era == Era::Sessions {
                raw.initialize(json!({})).await;
            }
            raw.send(&in_era(era, call(1, way, ""), json!({}))).await;
            let answer = raw.receive().await;
            let what = format!("{way} in {era:?}: {answer}");
            if way == "clone" {
                assert_eq!(answer["result"]["content"][0]["text"], "c", "{what}");
            }
            let kept = std::mem::take(&mut *kept.lock().unwrap());
            assert!(!kept.roots.is_empty(), "{what}");
            let proof = kept.proofs.first().map(|(proof, _)| proof);
            for roots in &kept.requests {
                assert_ended(roots, proof, &what);
                let refused = roots.clone().run(|_| Ok(())).await.unwrap_err();
                assert!(refused.to_string().starts_with("the request of these roots"), "{what}");
            }
            kept.roots.iter().for_each(|roots| assert_ended(roots, proof, &what));
            // What the request did not commit is discarded.
            assert_eq!(kept.writes.is_empty(), way == "asynchronous", "{what}");
            for (file, changes) in kept.writes {
                assert_eq!(file.commit().unwrap_err().code(), "roots_stale", "{what}");
                let partial = changes.commit().unwrap_err();
                assert_eq!(partial.error().code(), "roots_stale", "{what}");
                assert!(partial.committed().is_empty(), "{what}");
                drop(partial);
                assert_eq!(std::fs::read_dir(tree.path("op/c")).unwrap().count(), 1, "{what}");
            }
            // An open file stays usable.
            for mut file in kept.files {
                let mut text = String::new();
                std::io::Read::read_to_string(&mut file, &mut text).unwrap();
                assert_eq!(text, "c", "{what}");
            }
            // A subscription keeps the place, not the proof, which ends with its request.
            for (proof, session) in &kept.proofs {
                let refused = proof.read_to_string(9).unwrap_err();
                assert_eq!(refused.code(), "roots_stale", "{what}");
                assert_eq!(session.is_some(), era == Era::Sessions, "{what}");
                if let Some(session) = session {
                    session.known_roots().and_then(|roots| roots.still_allows(proof)).unwrap();
                }
            }
        }
    }
}

/// The handler drops its work, or the client cancels the request. The work continues, but its roots
/// no longer allow anything.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_outlives_its_request_is_refused() {
    let tree = Tree::new();
    for way in ["cancelled", "dropped"] {
        let (opens, gate) = std::sync::mpsc::channel();
        let gate = Arc::new(Mutex::new(gate));
        let (wrote, mut results) = mpsc::unbounded_channel();
        let guard = tree.guard();
        let mut raw = Raw::to_tool(&guard, move |guard, call, ctx| {
            let (gate, wrote) = (gate.clone(), wrote.clone());
            let work = move |roots: RequestRoots| {
                roots.metadata("a/in.txt")?;
                wrote.send(Ok(())).unwrap();
                let _ = gate.lock().unwrap().recv();
                wrote.send(roots.write("a/late.txt", "late")).unwrap();
                Ok(String::new())
            };
            async move {
                let work = guard.tool(&ctx, &call, work);
                if call.name == "cancelled" {
                    return work.await;
                }
                tokio::select! {
                    done = work => done,
                    () = tokio::time::sleep(Duration::from_millis(100)) => {
                        Ok(CallToolResult::success(Vec::new()).into())
                    }
                }
            }
        });
        raw.initialize(json!({})).await;
        raw.send(&call(1, way, "")).await;
        results.recv().await.unwrap().unwrap();
        if way == "cancelled" {
            raw.send(&cancelled(1)).await;
        } else {
            raw.receive().await;
        }
        // The request has ended when a later message is answered.
        raw.send(&request(2, "ping", json!({}))).await;
        while raw.receive().await["id"] != 2 {}
        opens.send(()).unwrap();
        let late = results.recv().await.unwrap();
        let code = if way == "cancelled" { "cancelled" } else { "roots_stale" };
        assert_eq!(late.map_err(|error| error.code()), Err(code), "{way}");
        assert!(!std::path::Path::new(&tree.path("op/a/late.txt")).exists(), "{way}");
    }
}

/// Formatting an author's error runs the author's code, which can panic or never return.
#[tokio::test]
async fn an_error_that_cannot_be_formatted_is_answered() {
    #[derive(Debug)]
    struct Broken(bool);
    impl std::fmt::Display for Broken {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            assert!(!self.0, "on purpose");
            f.write_str("its own cause")
        }
    }
    impl std::error::Error for Broken {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(self)
        }
    }
    let tree = Tree::new();
    let guard = tree.guard();
    let mut raw = Raw::to_tool(&guard, move |guard, call, ctx| {
        let panics = call.name == "panics";
        let work = move |_: RequestRoots| Err::<String, _>(HandlerError::other(Broken(panics)));
        async move { guard.tool(&ctx, &call, work).await }
    });
    raw.initialize(json!({})).await;
    for way in ["panics", "its own cause"] {
        raw.send(&call(1, way, "")).await;
        let answer = raw.receive().await;
        let is_answered = answer["error"]["code"] == -32603 || answer["result"]["isError"] == true;
        assert!(is_answered && !answer.to_string().contains("on purpose"), "{way}: {answer}");
    }
    assert_eq!(format!("{:?}", HandlerError::other("user:password@host")).find("password"), None);
}
