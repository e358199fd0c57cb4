//! When two proofs are equal.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

#[cfg(unix)]
use mcp_roots_guard::ListRootsResult;
use mcp_roots_guard::{Access, Boundary, CheckedPath, Location, Roots, WalkOptions};

use crate::support::tree::Tree;

fn check(roots: &Roots, request: impl AsRef<Path>) -> CheckedPath {
    roots.check(Location::try_from(request.as_ref()).unwrap()).unwrap()
}

fn hash(checked: &CheckedPath) -> u64 {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(checked.place_key())
}

#[track_caller]
fn assert_equal(one: &CheckedPath, other: &CheckedPath, equal: bool) {
    assert_eq!(one.place_key() == other.place_key(), equal, "{one:?} and {other:?}");
    assert!(
        !equal || hash(one) == hash(other),
        "{one:?} and {other:?} are equal but have different hashes"
    );
}

#[test]
fn proofs_of_the_same_place_are_equal() {
    let tree = Tree::new("file root/d/f; dir root/e; file other/d/f");
    let roots = tree.roots(["root", "other"]);
    let proof = check(&roots, "d/f");
    for request in ["d/f", "./d/f", "e/../d/f", "../root/d/f"] {
        assert_equal(&proof, &check(&roots, request), true);
        let entry = roots.check_entry(request).unwrap();
        assert_eq!(entry.place_key(), proof.entry().unwrap().place_key());
        assert_equal(&proof, &entry.follow().unwrap(), true);
    }
    assert_equal(&proof, &check(&roots, tree.path("root/d/f")), true);
    // Proofs are equal even if their snapshots differ in access or in the order of the roots.
    let boundary =
        Boundary::builder().directory(tree.path("root"), Access::ReadOnly).build().unwrap();
    assert_equal(&proof, &check(&boundary.allowed_roots(), "d/f"), true);
    let reversed = tree.roots(["other", "root"]);
    assert_equal(&proof, &check(&reversed, tree.path("root/d/f")), true);
    // They are also equal if the file was created between the two checks.
    let missing = check(&roots, "e/new");
    roots.write("e/new", "").unwrap();
    assert_equal(&missing, &check(&roots, "e/new"), true);
    // The same path in another root is a different place, and so are other paths in the same root.
    assert_equal(&proof, &check(&reversed, "d/f"), false);
    for request in ["d", "e", "."] {
        assert_equal(&proof, &check(&roots, request), false);
    }
}

#[test]
fn proofs_of_a_file_from_different_roots_are_equal() {
    let tree = Tree::new("file root/d/f; file root/d/g");
    let at = tree.path("root/d/f");
    let all = ["root", "root/d", "root/d/f"].map(|root| tree.roots([root]));
    let proofs = all.each_ref().map(|roots| check(roots, &at));
    assert_eq!(proofs.iter().map(|proof| proof.place_key()).collect::<HashSet<_>>().len(), 1);
    let other = tree.roots(["root/d/g"]);
    assert_equal(&proofs[2], &check(&other, tree.path("root/d/g")), false);
}

#[track_caller]
fn assert_is_named(roots: &Roots, text: &str, place: &CheckedPath) {
    assert_eq!(roots.check(text).unwrap().place_key(), place.place_key(), "{text:?}");
}

/// The text of a place is a request for it, whatever the root where requests start.
#[test]
fn client_path_is_a_request_for_the_same_place() {
    let tree = Tree::new("file a/f; file a/d/g; file a/d/in/h; file b/f; file c");
    let odd = ["-x", "~", "a b", "..x", "#", "%2e", "C:x", "file:x", "a://b", "n\\n", "l\nl"];
    let odd = if cfg!(windows) { &odd[..6] } else { &odd[..] };
    for name in odd {
        let path = name.split('/').filter(|name| !name.is_empty());
        let path = path.fold(tree.path("a/d"), |path, name| path.join(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let roots = tree.roots(["a", "b", "a/d/in", "c"]);
    let mut places = 0;
    for base in ["a", "b", "a/d/in"] {
        let roots = roots.with_base(tree.path(base)).unwrap();
        let of_file = roots.check(tree.path("c")).unwrap();
        assert_is_named(&roots, &of_file.client_path(), &of_file);
        for top in ["a", "b", "a/d/in"] {
            let mut walk = roots.walk(tree.path(top), WalkOptions::default()).unwrap();
            let mut checked = vec![roots.check(tree.path(top)).unwrap()];
            while let Some(entry) = walk.next_entry().unwrap() {
                checked.push(entry.follow().unwrap());
            }
            for place in checked {
                let text = place.client_path();
                assert_is_named(&roots, &text, &place);
                let is_short = !Path::new(&text).is_absolute();
                let is_plain = !text.contains(':');
                let is_base = place.root().path() == tree.path(base);
                assert_eq!(is_short, is_base && is_plain, "{text:?} from {base}");
                places += 1;
            }
        }
    }
    assert!(places > 40, "{places}");
    // A path that the client listed is kept.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("a", tree.path("listed")).unwrap();
        let uris = [tree.uri("b"), tree.uri("listed")];
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
        let boundary = guarded_fs::internals::trust_links_until(Boundary::any_listed(), later);
        let boundary = boundary.build().unwrap();
        let roots = boundary.narrow(&ListRootsResult::from_uris(uris).roots).unwrap();
        let place = roots.check(tree.path("a/d/g")).unwrap();
        assert_eq!(place.client_path(), tree.path("listed/d/g").to_str().unwrap());
        assert_is_named(&roots, &place.client_path(), &place);
    }
    // Names that are not UTF-8 are named by a URI.
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let name = std::ffi::OsStr::from_bytes(b"\xff");
        fs::write(tree.path("a").join(name), "").unwrap();
        let place = roots.check(tree.path("a").join(name)).unwrap();
        assert_is_named(&roots, &place.client_path(), &place);
    }
}

#[test]
fn a_place_starts_with_the_directories_that_contain_it() {
    let tree = Tree::new("file a/d/f; dir a/dd; file b/f");
    let roots = tree.roots(["a", "b"]);
    let place = |path: &str| roots.check(tree.path(path)).unwrap();
    for (path, directory, expected) in [
        ("a/d/f", "a/d", true),
        ("a/d/f", "a", true),
        ("a/d", "a/d", true),
        ("a/dd", "a/d", false),
        ("a/d", "a/d/f", false),
        ("b/f", "a", false),
    ] {
        assert_eq!(place(path).starts_with(&place(directory)), expected, "{path} {directory}");
    }
    let entry = roots.check_entry("d/f").unwrap();
    assert!(entry.starts_with(&place("a/d")) && place("a/d/f").starts_with(&entry));
}

/// Whether something is there is looked up when it is asked.
#[test]
fn existence_is_that_of_now() {
    let tree = Tree::new("file a/f");
    let roots = tree.roots(["a"]);
    let [file, new] = ["f", "new"].map(|path| roots.check(path).unwrap());
    assert!(file.exists() && !new.exists());
    new.write("x").unwrap();
    file.entry().unwrap().remove_file().unwrap();
    assert!(!file.exists() && new.exists());
    assert!(roots.exists("new").unwrap() && !roots.exists("none/f").unwrap());
    assert!(roots.exists("../b").is_err());
}
