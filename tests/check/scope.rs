//! Roots that end: when their program stops them, and with a scope of another crate.

use std::fs;
use std::io::Read as _;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use guarded_fs::host::{self, Scope};
use mcp_roots_guard::{
    Access, Boundary, ContentHash, Error, ErrorKind, Precondition, Result, Roots, WalkOptions,
    WriteOptions,
};

use crate::support::ended::{assert_all_refused, attempts, create};
use crate::support::operations::CONTENT;
use crate::support::tree::Tree;

const ENDED: ErrorKind = ErrorKind::Other("turn_ended");

struct Turn {
    number: NonZeroU64,
    has_ended: AtomicBool,
}

impl Turn {
    fn new(number: u64) -> Arc<Self> {
        let number = NonZeroU64::new(number).unwrap();
        Arc::new(Self { number, has_ended: AtomicBool::new(false) })
    }

    fn end(&self) {
        self.has_ended.store(true, SeqCst);
    }
}

impl Scope for Turn {
    fn number(&self) -> NonZeroU64 {
        self.number
    }

    fn share(&self) -> &str {
        if self.number.get() == 1 { "one" } else { "other" }
    }

    fn ensure_usable(&self) -> Result<()> {
        let ended = Error::new(ENDED, "turn_ended", "the turn has ended");
        if self.has_ended.load(SeqCst) { Err(ended) } else { Ok(()) }
    }
}

fn boundary(tree: &Tree) -> Boundary {
    Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap()
}

fn roots(tree: &Tree) -> Roots {
    boundary(tree).allowed_roots()
}

/// The table of the documentation of `Scope`: what asks, and so begins nothing after the end.
#[test]
fn nothing_begins_through_what_is_over() {
    for (how, reason) in [
        ("stopped", "the user ended this turn"),
        ("dropped", "its handle was dropped"),
        ("a scope", "the turn has ended"),
    ] {
        let tree = Tree::new("dir op");
        create(&tree.path("op"));
        let (turn, (roots, handle)) = (Turn::new(1), roots(&tree).stoppable());
        let roots = if how == "a scope" { boundary(&tree).allowed_roots() } else { roots };
        let roots = if how == "a scope" { host::in_scope(roots, turn.clone()) } else { roots };
        let attempts = attempts(&roots);
        let mut open = roots.open("f").unwrap();
        match how {
            "stopped" => handle.stop(reason),
            "dropped" => drop(handle),
            _ => turn.end(),
        }
        let code = if how == "a scope" { "turn_ended" } else { "stopped" };
        assert_all_refused(attempts, &tree.path("op"), code, reason, how);
        let refused = roots.ensure_usable().unwrap_err();
        assert_eq!(refused.code(), code);
        // What is open stays open.
        let mut text = String::new();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, CONTENT);
        assert!(open.read_range(0, 3).is_ok());
    }
}

#[test]
fn a_refusal_names_the_request_and_the_reason() {
    let tree = Tree::new("file op/a/f = text");
    let (roots, turn) = roots(&tree).stoppable();
    let narrowed = roots.within("a").unwrap();
    let entry = roots.read_dir("a").unwrap().next().unwrap().unwrap();
    let listed = format!("read {:?}", entry.path());
    turn.stop("the user ended this turn");
    turn.stop("only the first reason counts");
    for (refused, request) in [
        (narrowed.read("f", 9).map(drop), r#"read "f""#),
        (roots.read_only().read_dir("a").map(drop), r#"list "a""#),
        (roots.write("new", ""), r#"write "new""#),
        (entry.read(9).map(drop), &*listed),
        (roots.rename("a", "b", Precondition::Missing), r#"rename "a" to "b""#),
        (roots.check_entry("a").map(drop), r#"check "a""#),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Stopped);
        let expected = format!("{request}: stopped; the user ended this turn");
        assert_eq!(refused.to_string(), expected);
    }
}

/// A caller who is handed the roots of a request cannot lift their end with a scope of his own.
#[test]
fn roots_of_two_scopes_end_with_either() {
    let tree = Tree::new("file op/f = text");
    for ends_first in [1, 2] {
        let (outer, inner) = (Turn::new(1), Turn::new(2));
        let roots = host::in_scope(roots(&tree), outer.clone());
        let roots = host::in_scope(roots, inner.clone());
        let scope = host::scope(&roots).unwrap();
        // The work is charged to whom the roots belonged to first.
        assert_eq!((scope.number().get(), scope.share()), (1, "one"));
        assert!(roots.read("f", 9).is_ok());
        if ends_first == 1 {
            outer.end();
        } else {
            inner.end();
        }
        assert_eq!(roots.read("f", 9).unwrap_err().kind(), ENDED, "{ends_first}");
        assert_eq!(roots.ensure_usable().unwrap_err().kind(), ENDED);
    }
    let (outer, (roots, handle)) = (Turn::new(1), roots(&tree).stoppable());
    let (narrower, _kept) = host::in_scope(roots.clone(), outer).stoppable();
    handle.stop("for all");
    assert_eq!(narrower.read("f", 9).unwrap_err().kind(), ErrorKind::Stopped);
    assert!(host::scope(&boundary(&tree).allowed_roots()).is_none());
}

/// Is over after it was asked so many times.
struct EndsAfter {
    left: AtomicUsize,
}

impl Scope for EndsAfter {
    fn number(&self) -> NonZeroU64 {
        NonZeroU64::MIN
    }

    fn share(&self) -> &'static str {
        ""
    }

    fn ensure_usable(&self) -> Result<()> {
        let left = self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| Error::new(ENDED, "turn_ended", "the turn has ended"))
    }
}

/// A set asks for the last time before its first change, so no end leaves it half made.
#[test]
fn a_change_set_is_not_interrupted_by_an_end() {
    let (mut whole, mut asked) = (false, 0);
    while !whole {
        let tree = Tree::new("file op/a = a; file op/b = b; file op/c = c");
        let version = ContentHash::of(b"a");
        let scope = Arc::new(EndsAfter { left: AtomicUsize::new(usize::MAX) });
        let roots = host::in_scope(roots(&tree), scope.clone());
        let mut set = roots.change_set();
        let if_unchanged = WriteOptions::default().precondition(Precondition::Unchanged(version));
        set.write("a", "A", if_unchanged).unwrap();
        set.write("d/e/new", "new", WriteOptions::default().create_parents()).unwrap();
        set.remove_file("b", Precondition::Any).unwrap();
        set.rename("c", "moved", Precondition::Missing).unwrap();
        scope.left.store(asked, SeqCst);
        let made = set.commit();
        let now = fs::read_to_string(tree.path("op/a")).unwrap();
        whole = made.is_ok();
        assert_eq!(now, if whole { "A" } else { "a" }, "asked {asked} times");
        for (path, is_new) in [("d/e/new", true), ("d", true), ("b", false), ("c", false)] {
            let is_there = tree.path("op").join(path).exists();
            assert_eq!(is_there == is_new, whole, "{path}, asked {asked} times");
        }
        if let Err(partial) = made {
            assert_eq!(partial.error().kind(), ENDED);
            assert!(partial.committed().is_empty(), "asked {asked} times");
        }
        asked += 1;
    }
    assert!(asked > 4, "the verification asks for each change");
}

/// Two proofs of an operation can be of two snapshots, and either can be over.
#[test]
fn an_operation_begins_neither_from_nor_to_what_is_over() {
    let tree = Tree::new("file op/f = text; dir op/d");
    let live = roots(&tree);
    let (ended, turn) = live.clone().stoppable();
    turn.stop("now");
    drop(turn);
    let (again, turn) = live.clone().stoppable();
    let entries = ["new", "d", "none/new", "f"].map(|to| again.check_entry(to).unwrap());
    let paths = ["new", "d", "none/new", "f"].map(|to| again.check(to).unwrap());
    turn.stop("now");
    let (file, entry) = (live.check("f").unwrap(), live.check_entry("f").unwrap());
    let stopped = |done: Result<()>| assert_eq!(done.unwrap_err().kind(), ErrorKind::Stopped);
    for to in &entries {
        stopped(entry.rename(to, Precondition::Missing));
        stopped(entry.hard_link(to));
        stopped(to.rename(&entry, Precondition::Any));
        stopped(to.hard_link(&entry));
    }
    for to in &paths {
        stopped(file.copy(to, 99, WriteOptions::default()).map(drop));
        stopped(to.copy(&file, 99, WriteOptions::default().in_place()).map(drop));
    }
    stopped(ended.exists("f").map(drop));
    assert_eq!(fs::read_dir(tree.path("op")).unwrap().count(), 2);
}

/// An end never makes a complete copy an error, in place or not.
#[test]
fn a_copy_that_is_complete_succeeds() {
    for options in [WriteOptions::default().into(), WriteOptions::default().in_place()] {
        let (mut is_made, mut asked) = (false, 0);
        while !is_made {
            let tree = Tree::new("file op/from = new; file op/to = old old old");
            let scope = Arc::new(EndsAfter { left: AtomicUsize::new(asked) });
            let copied = host::in_scope(roots(&tree), scope).copy("from", "to", 99, options);
            is_made = copied.is_ok();
            let now = fs::read_to_string(tree.path("op/to")).unwrap();
            assert_eq!(now, if is_made { "new" } else { "old old old" }, "asked {asked} times");
            asked += 1;
        }
        assert!(asked > 1);
    }
}

/// Cleaning up asks nobody.
#[test]
fn what_an_ended_request_did_not_commit_is_removed() {
    let tree = Tree::new("dir op");
    let (roots, turn) = roots(&tree).stoppable();
    let parents = WriteOptions::default().create_parents();
    let file = roots.check("a/b/new").unwrap().atomic_file(parents).unwrap();
    let mut set = roots.change_set();
    set.write("c/d/new", "new", parents).unwrap();
    turn.stop("now");
    assert_eq!(file.commit().unwrap_err().kind(), ErrorKind::Stopped);
    drop(set);
    assert_eq!(fs::read_dir(tree.path("op")).unwrap().count(), 0);
}

/// The end of a scope is never taken for a failure of the operation, whatever error the scope makes.
#[test]
fn the_error_of_a_scope_is_its_own() {
    struct Gone;
    impl Scope for Gone {
        fn number(&self) -> NonZeroU64 {
            NonZeroU64::MIN
        }

        fn share(&self) -> &'static str {
            "one"
        }

        fn ensure_usable(&self) -> Result<()> {
            // A tired author passes on the error of something else.
            Err(std::io::Error::from(std::io::ErrorKind::NotFound).into())
        }
    }
    let tree = Tree::new("file op/a/f = text");
    let ended = host::in_scope(roots(&tree), Arc::new(Gone));
    assert_eq!(ended.read("a/f", 9).unwrap_err().code(), "not_found");
    assert_eq!(ended.remove_dir_all("a").unwrap_err().code(), "not_found");
    assert!(tree.path("op/a/f").exists());
    let turn = Turn::new(1);
    let roots = host::in_scope(roots(&tree), turn.clone());
    let mut walk = roots.walk(".", WalkOptions::default().skip_unreadable()).unwrap();
    let ends_at_once = host::in_scope(roots, Arc::new(Gone));
    assert_eq!(ends_at_once.exists("a").unwrap_err().code(), "not_found");
    turn.end();
    assert_eq!(walk.next_entry().unwrap_err().kind(), ENDED);
    assert_eq!(walk.next_entry().unwrap_err().kind(), ENDED);
    assert!(walk.unreadable().is_empty());
}

/// Calls a function each time that it is asked.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync + 'static> Scope for Calls<F> {
    fn number(&self) -> NonZeroU64 {
        NonZeroU64::MIN
    }

    fn share(&self) -> &'static str {
        ""
    }

    fn ensure_usable(&self) -> Result<()> {
        (self.0)();
        Ok(())
    }
}

/// What watches for progress must see that of a commit, which no end interrupts. A tree is there
/// complete, or not at all.
#[test]
fn a_change_set_asks_while_it_removes_a_tree_that_nobody_sees() {
    let tree = Tree::new("dir op/t");
    for number in 0..100 {
        fs::write(tree.path("op/t").join(number.to_string()), "").unwrap();
    }
    let (directory, seen) = (tree.path("op/t"), Arc::new(Mutex::new(Vec::new())));
    let looks = seen.clone();
    let scope = Arc::new(Calls(move || looks.lock().unwrap().push(directory.exists())));
    let mut set = host::in_scope(roots(&tree), scope).change_set();
    set.remove_dir_all("t").unwrap();
    set.commit().unwrap();
    let seen = seen.lock().unwrap();
    let (there, gone) = seen.split_at(seen.iter().position(|is_there| !is_there).unwrap());
    assert!(gone.len() >= 100 && gone.iter().all(|is_there| !is_there), "{seen:?}");
    assert!(there.len() < 50, "{seen:?}");
}

#[test]
fn a_change_set_removes_no_directory_that_took_the_temporary_name() {
    let tree = Tree::new("file op/t/f; dir kept");
    let (directory, kept) = (tree.path("op"), tree.path("kept"));
    let exchange = move || {
        let renamed = fs::read_dir(&directory).unwrap().next().unwrap().unwrap();
        if renamed.file_name() != "t" && !kept.join("t").exists() {
            fs::rename(renamed.path(), kept.join("t")).unwrap();
            fs::create_dir(renamed.path()).unwrap();
            fs::write(renamed.path().join("theirs"), "").unwrap();
        }
    };
    let mut set = host::in_scope(roots(&tree), Arc::new(Calls(exchange))).change_set();
    set.remove_dir_all("t").unwrap();
    let partial = set.commit().unwrap_err();
    assert_eq!(partial.error().code(), "changed");
    assert!(tree.path("kept/t/f").exists() && tree.path("op/t/theirs").exists());
}
