//! Roots that belong to a scope, as a program without MCP uses them: an agent's turns.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use mcp_roots_guard::{Access, Boundary, Error, ErrorKind, Result, Scope, Use, WalkOptions};

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

    fn ensure_usable(&self, _: Use) -> Result<()> {
        let ended = Error::new(ENDED, "turn_ended", "the turn has ended");
        if self.has_ended.load(SeqCst) { Err(ended) } else { Ok(()) }
    }
}

fn boundary(tree: &Tree) -> Boundary {
    Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap()
}

/// Every check of a request and every change ends with the scope, also by what was made from the
/// roots before. A proof that was made before can still be read.
#[test]
fn what_was_made_from_roots_ends_with_their_scope() {
    let tree = Tree::new("file op/a/f = text; dir op/b");
    let turn = Turn::new(1);
    let roots = boundary(&tree).allowed_roots().in_scope(turn.clone());
    let narrowed = roots.within("a").unwrap();
    let read_only = roots.read_only();
    let place = roots.check("a/new").unwrap();
    let (entry, file) = (roots.check_entry("a/f").unwrap(), roots.check("a/f").unwrap());
    let mut walk = roots.walk(".", WalkOptions::default()).unwrap();
    assert_eq!(narrowed.read("f", 9).unwrap(), b"text");
    turn.end();
    let refused = [
        roots.read("a/f", 9).map(drop),
        roots.write("a/f", "changed"),
        narrowed.read("f", 9).map(drop),
        read_only.read("a/f", 9).map(drop),
        place.write("new"),
        entry.remove_file(),
        std::iter::from_fn(|| walk.next_entry().transpose())
            .find_map(Result::err)
            .map_or(Ok(()), Err),
    ];
    assert_eq!(roots.ensure_usable(Use::Work).unwrap_err().kind(), ENDED);
    assert_eq!(file.read(9).unwrap(), b"text");
    for (number, refused) in refused.into_iter().enumerate() {
        assert_eq!(refused.map_err(|error| error.kind()), Err(ENDED), "{number}");
    }
    assert_eq!(std::fs::read(tree.path("op/a/f")).unwrap(), b"text");
    assert!(!tree.path("op/a/new").exists());
}

/// A caller who is handed the roots of a request cannot lift their end with a scope of his own.
#[test]
fn roots_of_two_scopes_end_with_either() {
    let tree = Tree::new("file op/f = text");
    for ends_first in [1, 2] {
        let (outer, inner) = (Turn::new(1), Turn::new(2));
        let roots = boundary(&tree).allowed_roots().in_scope(outer.clone()).in_scope(inner.clone());
        let scope = roots.scope().unwrap();
        // The work is charged to whom the roots belonged to first.
        assert_eq!((scope.number().get(), scope.share()), (1, "one"));
        assert!(roots.read("f", 9).is_ok());
        if ends_first == 1 {
            outer.end();
        } else {
            inner.end();
        }
        assert_eq!(roots.read("f", 9).unwrap_err().kind(), ENDED, "{ends_first}");
        assert_eq!(roots.ensure_usable(Use::Work).unwrap_err().kind(), ENDED);
    }
    assert!(boundary(&tree).allowed_roots().scope().is_none());
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

        fn ensure_usable(&self, _: Use) -> Result<()> {
            // A tired author passes on the error of something else.
            Err(std::io::Error::from(std::io::ErrorKind::NotFound).into())
        }
    }
    let tree = Tree::new("file op/a/f = text");
    let ended = boundary(&tree).allowed_roots().in_scope(Arc::new(Gone));
    assert_eq!(ended.read("a/f", 9).unwrap_err().code(), "not_found");
    assert_eq!(ended.remove_dir_all("a").unwrap_err().code(), "not_found");
    let turn = Turn::new(1);
    let roots = boundary(&tree).allowed_roots().in_scope(turn.clone());
    let mut walk = roots.walk(".", WalkOptions::default().skip_unreadable()).unwrap();
    let ends_at_once = roots.in_scope(Arc::new(Gone));
    assert_eq!(ends_at_once.exists("a").unwrap_err().code(), "not_found");
    turn.end();
    let end = std::iter::from_fn(|| walk.next_entry().transpose()).find_map(Result::err);
    assert_eq!(end.map(|error| error.kind()), Some(ENDED));
}
