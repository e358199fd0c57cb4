//! The system calls of requests around an allowed directory inside a denied place. The names that
//! lead to it are looked up only to open that directory.

use std::path::Path;

use mcp_roots_guard::{Access, Boundary, Roots, WalkOptions};

use super::on_one_path;
use crate::support::code;
use crate::support::operations::Way;
use crate::support::proof::Proof;
use crate::support::traced::{end_trace, stop};
use crate::support::tracer::{AS_IT_IS, be_traced_if_child, mark, openat2_is_there, trace};
use crate::support::tree::Tree;

const TEST: &str =
    "fs::protected_attacks::nested_trace::requests_around_an_inner_directory_under_a_tracer";

const TREE: &str = "file all/.hid/key = SECRET; file all/.hid/pub/f; file all/x; dir all/o; dir all/.hid/other; \
                    link all/to -> .hid/key; link all/back -> $T/all/.hid/pub/up; \
                    link all/.hid/pub/up -> ../key; link all/.hid/pub/abs -> $T/all/.hid/key";

/// Whether a path is in the denied place, and not in the allowed directory inside it.
fn is_denied(path: &Path) -> bool {
    let mut names = path.iter().skip_while(|name| *name != ".hid");
    names.next().is_some() && names.next().is_none_or(|name| name != "pub")
}

#[test]
fn no_system_call_looks_up_a_denied_name_around_an_allowed_directory() {
    if !openat2_is_there() {
        return println!(
            "skipped: without openat2, opening the inner directory looks up each name"
        );
    }
    let seen = trace(AS_IT_IS, TEST, &["all"], "none/such", Some(is_denied));
    println!("around an inner directory: {}", seen.counts());
    assert!(seen.refused.is_empty(), "{}", seen.refused.join("\n"));
    assert!(seen.made.len() > 300 && seen.judged > 100, "{}", seen.counts());
}

/// The traced child runs this test. Without a tracer, it verifies that nothing denied is served.
#[test]
fn requests_around_an_inner_directory_under_a_tracer() {
    let tree = Tree::new(TREE);
    let inner = tree.path("all/.hid/pub");
    let boundary = Boundary::builder()
        .directory(tree.path("all"), Access::ReadOnly)
        .directory(&inner, Access::ReadWrite)
        .deny(".hid*");
    let roots = boundary.build().unwrap().allowed_roots();
    let is_traced = be_traced_if_child(&tree.path("")).is_some();
    if is_traced {
        stop();
    }
    let attempt = |roots: &Roots, texts: &[&str]| {
        for text in texts {
            let text = &*tree.expand(text);
            for operation in on_one_path() {
                mark(&format!("{} {text}", operation.name));
                let done = operation.run(Way::Directly, roots, &[text]);
                assert_eq!(code(done), Some("protected"), "{} {text}", operation.name);
            }
        }
    };
    attempt(
        &roots,
        &[
            ".hid",
            ".hid/key",
            ".hid/none",
            ".hid/pub/f",
            ".hid/..",
            "o/../.hid",
            "$T/all/.hid/key",
            "$T/all/.hid/pub/../key",
            "$T/all/.hid/pub/..",
            "$T/all/.hid/pub/../pub/f",
        ],
    );
    let below = roots.with_base(&inner).unwrap();
    attempt(&below, &["..", "../key", "../../.hid/key", "../pub/f", "../../o/../.hid/pub/f"]);
    for read in ["to", "back", ".hid/pub/up", ".hid/pub/abs"] {
        mark(&format!("read {read}"));
        assert!(roots.read(tree.path("all").join(read), 99).is_err(), "{read}");
    }
    mark("list and walk");
    let walk = roots.walk(".", WalkOptions::default()).unwrap();
    for entry in crate::support::walked(walk) {
        assert!(!is_denied(&Proof::Entry(entry.unwrap().to_entry()).canonical()));
    }
    mark("outermost");
    assert_eq!(roots.check_all().unwrap().len(), 2);
    if is_traced {
        stop();
        end_trace();
    }
}
