//! How macOS's own filesystem treats names.

use std::fs;

use mcp_roots_guard::{Access, Boundary, ListRootsResult, Roots};

use crate::support::tree::Tree;

/// Temporary directories are in `/var`, which is a symlink to `/private/var`.
#[test]
fn a_root_can_be_named_with_and_without_private() {
    let tree = Tree::new("file root/f = content");
    let canonical = tree.path("root");
    let alias = std::path::Path::new("/").join(canonical.strip_prefix("/private").unwrap());
    for root in [&canonical, &alias] {
        let operator =
            Boundary::builder().directory(root, Access::ReadOnly).build().unwrap().allowed_roots();
        let list = ListRootsResult::from_uris([format!("file://{}", root.display())]);
        for roots in [operator, crate::support::listed(&list).unwrap()] {
            for request in [&canonical, &alias] {
                assert_eq!(
                    roots.read(request.join("f"), 9).unwrap(),
                    b"content",
                    "{root:?} {request:?}"
                );
                assert_eq!(
                    roots.check(request.join("f")).unwrap().to_unguarded_path(),
                    canonical.join("f")
                );
            }
        }
    }
}

/// The guard ignores case and normal form even if the filesystem does not, which depends on how it
/// was formatted.
#[test]
fn a_root_can_be_named_in_any_case_and_normal_form() {
    let tree = Tree::new("file Root caf\u{e9}/f = content");
    let root = tree.path("Root caf\u{e9}");
    let roots = Roots::from_dirs([&root], Access::ReadWrite).unwrap();
    for name in ["Root cafe\u{301}", "root caf\u{e9}", "ROOT CAFE\u{301}"] {
        let path = tree.path(name).join("f");
        if fs::metadata(&path).is_ok() {
            assert_eq!(roots.read(&path, 9).unwrap(), b"content", "{name}");
        } else {
            assert!(
                roots.read(&path, 9).is_ok(),
                "{name}: accepted as a name of the root, but not served from it"
            );
        }
    }
    assert_eq!(
        roots.read(tree.path("Root cafe").join("f"), 9).unwrap_err().code(),
        "outside_roots"
    );
}
