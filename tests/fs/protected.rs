//! Protected names: each operation is refused on a read-only name, and each request that reaches a
//! denied name is refused. The names are reached directly, through symlinks, in nested roots and in
//! roots at or below them.

use std::fs;

use mcp_roots_guard::{
    Access, Boundary, BoundaryBuilder, DirectoryOptions, ErrorKind, ListRootsResult, OpenMode,
    Precondition, Root, Roots, WriteOptions,
};
#[cfg(unix)]
use mcp_roots_guard::{Attribute, CheckedPath, Result};

use crate::support::one_step::OneStep as _;
use crate::support::operations::{Way, attempts};
use crate::support::proof::Intent;
use crate::support::protection::Protection;
use crate::support::tree::{Tree, symlinks_are_visible};
use crate::support::{code, protecting};

const TREE: &str = "file root/a; dir root/d; file root/.git/config; file root/.git/hooks/h; \
                    file root/sub/.git/config; file root/sub/x; file root/.env; \
                    file root/secret/key; dir root/secret/dir; file root/sub/.env.local; \
                    file root/.github/workflows/w; file root/keep/f";

fn boundary(tree: &Tree, more: impl FnOnce(BoundaryBuilder) -> BoundaryBuilder) -> Boundary {
    let builder = Boundary::builder()
        .directory(tree.path("root"), Access::ReadWrite)
        .protect(".git")
        .protect(".github/workflows")
        .protect("v/w/x.*")
        .deny(".env*")
        .deny("/secret");
    more(builder).build().unwrap()
}

fn protected(tree: &Tree) -> Roots {
    boundary(tree, |builder| builder).allowed_roots()
}

#[test]
fn every_change_at_or_below_a_read_only_name_is_refused() {
    for attempt in attempts().filter(|attempt| attempt.path().is_changed) {
        let name = attempt.name();
        let tree = Tree::new(TREE);
        tree.add("file root/spare = content; dir root/spare-dir");
        if symlinks_are_visible() {
            tree.add("link root/l -> .git; link root/s -> sub/.git/config");
        }
        let roots = protected(&tree);
        let before = tree.snapshot("root");
        let mut requests = vec![
            ".git/config",
            ".git/hooks",
            ".git/hooks/../config",
            "sub/.git/config",
            ".GIT/config",
            ".git./config",
            ".git",
            "d/.git",
            "d/.git/new",
            ".github/workflows/w",
            ".github/workflows/new",
        ];
        if symlinks_are_visible() {
            requests.extend(["l/config", "l/new", "l/hooks"]);
        }
        if !cfg!(target_os = "linux") {
            // A filesystem that ignores case, or a rule of Windows, applies first.
            requests.retain(|request| !request.contains("GIT") && !request.contains("git."));
        }
        for request in requests {
            let refused = code(attempt.run(Way::Directly, &roots, request));
            let is_missing = refused == Some("not_found") || refused == Some("not_a_directory");
            let exists = fs::symlink_metadata(tree.path("root").join(request)).is_ok();
            assert!(
                refused == Some("protected") || (!exists && is_missing),
                "{name} {request}: {refused:?}"
            );
        }
        assert_eq!(tree.snapshot("root"), before, "{name}");
    }
}

/// Creating this many entries takes more than ten minutes under Wine.
#[cfg(unix)]
#[test]
fn directory_with_too_many_entries_to_search_is_neither_renamed_nor_removed() {
    let tree = Tree::in_memory("dir root/d");
    for number in 0..=mcp_roots_guard::limits::WALK_ENTRIES {
        fs::write(tree.path(format!("root/d/{number}")), "").unwrap();
    }
    let roots = protected(&tree);
    for refused in [roots.rename("d", "e", Precondition::Missing), roots.remove_dir_all("d")] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), "too_many_entries");
        assert!(refused.to_string().contains(" 100000 "), "{refused}");
    }
    fs::remove_file(tree.path("root/d/0")).unwrap();
    roots.rename("d", "e", Precondition::Missing).unwrap();
}

/// Neither the code nor the text depends on what exists at the denied name.
#[test]
fn request_at_or_through_a_denied_name_is_refused_whether_or_not_it_exists() {
    let mut first = None;
    for exists in [true, false] {
        let tree = Tree::new(TREE);
        tree.add("file root/spare = content; dir root/spare-dir; file root/.envrc/x");
        if symlinks_are_visible() {
            tree.add(
                "link root/to -> .env; link root/via -> secret/../a; link root/abs -> \
                      $T/root/secret/key; link root/d/up -> ../secret; link root/dir -> d",
            );
        }
        if !exists {
            fs::remove_dir_all(tree.path("root/secret")).unwrap();
            fs::remove_dir_all(tree.path("root/.envrc")).unwrap();
            fs::remove_file(tree.path("root/.env")).unwrap();
            fs::remove_file(tree.path("root/sub/.env.local")).unwrap();
        }
        let roots = protected(&tree);
        let before = tree.snapshot("root");
        let mut requests = vec![
            ".env",
            "./.env",
            "d/../.env",
            ".envrc/x",
            ".env/../a",
            "secret",
            "secret/",
            "secret/..",
            "secret/../a",
            "secret/../../root/a",
            "secret/dir/../key",
            "sub/.env.local",
            "d/../secret/key",
            "d/.env.new",
            "secret/new",
        ];
        if symlinks_are_visible() {
            requests.extend(["via", "abs", "d/up/key", "d/up/../a", "dir/../.env", "dir/.env1"]);
        }
        // Windows removes `..` from the text, so these paths do not go through the denied name.
        requests.retain(|request| {
            !cfg!(windows)
                || !["/..", "../.."].iter().any(|end| request.contains(end))
                || request.starts_with("d/..")
        });
        let absolute = tree.expand("$T/root/.env");
        requests.push(&absolute);
        let mut refusals = Vec::new();
        for attempt in attempts() {
            let name = attempt.name();
            for request in &requests {
                let on_link =
                    attempt.path().intent == Intent::NoFollow && ["via", "abs"].contains(request);
                if on_link {
                    continue;
                }
                let refused = attempt.run(Way::Directly, &roots, request).unwrap_err();
                let found = (refused.kind(), refused.code());
                assert_eq!(found, (ErrorKind::Protected, "protected"), "{name} {request} {exists}");
                refusals.push(refused.to_string().replace(&quoted(&absolute), ""));
            }
        }
        assert_eq!(tree.snapshot("root"), before);
        assert_eq!(first.get_or_insert_with(|| refusals.clone()), &refusals);
    }
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// The attacks that prepare what the first names of a pattern lead to.
#[test]
fn only_a_new_directory_can_have_a_name_that_begins_a_pattern() {
    let tree =
        Tree::new("file root/d/workflows/w = planted; file root/f = planted; dir root/empty");
    let roots = protected(&tree);
    let before = tree.snapshot("root");
    let options = WriteOptions::default().create_parents();
    for name in [".github", "sub/.GitHub.", "d/.github", "v", "v/w"] {
        if !cfg!(target_os = "linux") && name.ends_with('.') {
            continue; // Windows refuses the name.
        }
        for (what, made) in [
            ("symlink", roots.symlink("../d", name)),
            ("symlink", roots.symlink("d", name)),
            ("rename of a directory", roots.rename("d", name, Precondition::Any)),
            ("rename of an empty directory", roots.rename("empty", name, Precondition::Missing)),
            ("rename of a file", roots.rename("f", name, Precondition::Missing)),
            ("hard link", roots.hard_link("f", name)),
            ("write", roots.write_with(name, "planted", options)),
            ("copy", roots.copy("f", name, 99, options).map(drop)),
            ("atomic file", roots.atomic_file(name, options).map(drop)),
            ("open", roots.open_with(name, OpenMode::Create).map(drop)),
        ] {
            assert_eq!(code(made), Some("protected"), "{what} {name}");
        }
        assert_eq!(tree.snapshot("root"), before, "{name}");
    }
    roots.create_dir(".github").unwrap();
    assert_eq!(code(roots.symlink("../d", ".github/workflows")), Some("protected"));
    assert_eq!(code(roots.write(".github/workflows", "planted")), Some("protected"));
    roots.write(".github/other", "content").unwrap();
    roots.rename(".github", "docs", Precondition::Missing).unwrap();
}

/// The name of a temporary file is in no request, and is not changed through a symlink or a listing.
#[test]
fn temporary_file_is_not_used_by_its_name() {
    let tree = Tree::new("dir root/new");
    let roots = tree.roots(["root"]);
    let _temporary = roots.atomic_file("new/f", WriteOptions::default()).unwrap();
    let entry = roots.read_dir("new").unwrap().next().unwrap().unwrap();
    let path = entry.relative().into_os_string().into_string().unwrap();
    for attempt in attempts().filter(|attempt| attempt.position == 0) {
        for request in
            [format!("new/{path}"), format!("new/{path}/below"), tree.uri("root/new") + "/" + &path]
        {
            let refused = attempt.run(Way::Directly, &roots, &request).unwrap_err();
            assert_eq!(refused.code(), "protected", "{} {request}", attempt.name());
        }
    }
    assert_eq!(code(entry.to_entry().remove_file()), Some("protected"));
    if symlinks_are_visible() {
        tree.add(&format!("link root/to -> new/{path}"));
        let link = tree.path("root/to");
        let narrowed = roots.within(link.as_path()).unwrap();
        let in_place = WriteOptions::default().in_place();
        let written = narrowed.write_with(link.as_path(), "no", in_place);
        assert_eq!(code(written), Some("protected"));
        assert_eq!(code(roots.write("to", "no")), Some("protected"));
        assert_eq!(code(roots.open_with("to", OpenMode::Append)), Some("protected"));
    }
    drop(entry);
    // Windows can keep the name of an open file until it is closed. The removal then fails at once.
    let removed = roots.remove_dir_all("new");
    assert!(cfg!(windows) || removed.is_ok(), "{removed:?}");
}

#[test]
fn without_allowed_directories_patterns_match_below_the_filesystem_root() {
    let tree = Tree::new(TREE);
    let boundary = Boundary::any_listed().protect(".git").deny("secret").build().unwrap();
    let uris = ["root", "root/secret", "root/.git"].map(|path| tree.uri(path));
    let roots = boundary.narrow(&ListRootsResult::from_uris(uris).roots).unwrap();
    assert_eq!(roots.iter().count(), 2);
    assert_eq!(code(roots.write(".git/config", "no")), Some("protected"));
    assert_eq!(code(roots.read("secret/key", 9)), Some("protected"));
    let below = roots.with_base(tree.path("root/.git")).unwrap();
    assert_eq!(code(below.write("new", "no")), Some("protected"));
}

/// The directory appears while a snapshot from before is in use.
#[test]
fn anchored_pattern_matches_below_an_optional_directory_that_appears_later() {
    let tree = Tree::new("dir root");
    let optional = DirectoryOptions::from(Access::ReadWrite).optional();
    let boundary = Boundary::builder()
        .directory(tree.path("root"), Access::ReadWrite)
        .directory(tree.path("root/m"), optional)
        .deny("/s")
        .build()
        .unwrap();
    let roots = boundary.allowed_roots();
    tree.add("file root/m/s/x = secret; file root/m/t = text");
    for roots in [roots, boundary.allowed_roots()] {
        assert_eq!(code(roots.read(tree.path("root/m/s/x"), 9)), Some("protected"));
        assert_eq!(roots.read(tree.path("root/m/t"), 9).unwrap(), b"text");
    }
}

/// Who configures a directory consents to the names that lead to it.
#[test]
fn root_at_or_below_a_read_only_name_is_read_only_unless_it_is_configured() {
    let tree = Tree::new(TREE);
    let with_nested =
        boundary(&tree, |builder| builder.directory(tree.path("root/sub/.git"), Access::ReadWrite));
    let list = [tree.uri("root/.git"), tree.uri("root/.git/hooks"), tree.uri("root/sub")];
    let listed = with_nested.narrow(&ListRootsResult::from_uris(list).roots).unwrap();
    let access = |roots: &Roots| roots.iter().map(Root::access).collect::<Vec<_>>();
    let [read, write] = [Access::ReadOnly, Access::ReadWrite];
    assert_eq!(access(&listed), [read, read, write, write]);
    let allowed = with_nested.allowed_roots();
    assert_eq!(access(&allowed), [write, write]);
    assert_eq!(access(&allowed.within(".git/hooks").unwrap()), [Access::ReadOnly]);
    assert_eq!(access(&allowed.within("d").unwrap()), [Access::ReadWrite]);
}

#[test]
fn invalid_configuration_is_refused() {
    let tree = Tree::new("dir root");
    let pattern =
        Boundary::builder().directory(tree.path("root"), Access::ReadWrite).protect("a/../b");
    let refused = pattern.build().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidConfiguration);
    assert_eq!(refused.code(), "invalid_pattern");
    assert!(refused.to_string().starts_with(r#"protect "a/../b": "#), "{refused}");
    let denied = Boundary::builder().directory(tree.path("root"), Access::ReadOnly).deny("a/*/b");
    let refused = denied.build().unwrap_err();
    assert!(refused.to_string().starts_with(r#"deny "a/*/b": "#), "{refused}");
}

/// In either order of the patterns, for a name that matches both and for a name below the other.
#[test]
fn strongest_protection_applies() {
    let tree = Tree::new(TREE);
    for (weak, strong, read_only, denied) in
        [(".git", "hooks", ".git/config", ".git/hooks/h"), (".git", ".g*", "a", ".git/config")]
    {
        let both = [(weak, Protection::ReadOnly), (strong, Protection::Denied)];
        for names in [both, [both[1], both[0]]] {
            let roots = protecting(&tree, "root", &names);
            assert_eq!(code(roots.read(read_only, 99)), None, "{names:?}");
            assert_eq!(code(roots.read(denied, 99)), Some("protected"), "{names:?}");
        }
    }
}

#[test]
fn default_names_are_read_only() {
    let tree = Tree::new("dir root");
    let boundary = Boundary::builder()
        .directory(tree.path("root"), Access::ReadWrite)
        .protect_defaults()
        .build()
        .unwrap();
    let roots = boundary.allowed_roots();
    for name in mcp_roots_guard::PROTECTED_DEFAULTS.iter().map(|pattern| pattern.replace('*', "")) {
        assert_eq!(code(roots.create_dir_all(format!("a/{name}/x"))), Some("protected"), "{name}");
    }
    roots.write(".env", "not protected by default").unwrap();
}

#[test]
fn proof_of_a_place_that_is_now_protected_is_no_longer_allowed() {
    let tree = Tree::new(TREE);
    let all = tree.roots(["root"]);
    let roots = protected(&tree);
    let allows = |path: &str| {
        let proof = all.check(path).unwrap();
        code(roots.still_allows(&proof))
    };
    assert_eq!(allows("a"), None);
    assert_eq!(allows(".git/config"), Some("protected"));
    assert_eq!(allows("secret/key"), Some("protected"));
    let own = roots.check(".git/config").unwrap();
    assert_eq!(code(roots.still_allows(&own)), None);
}

/// Content that moves a directory when the write reads it, which is after the write has opened the
/// directory.
#[cfg(unix)]
#[derive(Clone, Copy)]
struct Moving<'a> {
    from: &'a std::path::Path,
    to: &'a std::path::Path,
}

#[cfg(unix)]
impl AsRef<[u8]> for Moving<'_> {
    fn as_ref(&self) -> &[u8] {
        let _ = fs::rename(self.from, self.to);
        b"planted"
    }
}

#[cfg(unix)]
#[test]
fn write_is_refused_if_its_directory_is_renamed_meanwhile() {
    for (moved, to, root) in
        [("root/d", "root/.git", "root"), ("root/d", "root/.git", "root/d"), ("root/d", "gone", "")]
    {
        for has_patterns in [true, false] {
            let tree = Tree::new("file root/d/config = old; dir root/e");
            let boundary = if has_patterns {
                boundary(&tree, |builder| builder)
            } else {
                let builder = Boundary::builder();
                builder.directory(tree.path("root"), Access::ReadWrite).build().unwrap()
            };
            let roots = if root.is_empty() {
                boundary.allowed_roots()
            } else {
                boundary.narrow(&ListRootsResult::from_uris([tree.uri(root)]).roots).unwrap()
            };
            let (from, to) = (tree.path(moved), tree.path(to));
            let content = Moving { from: &from, to: &to };
            let refused = roots.write(tree.path("root/d/config"), content).unwrap_err();
            let expected = if root == "root/d" { "root_unavailable" } else { "not_found" };
            assert_eq!(refused.code(), expected, "{root} {to:?}");
            assert_eq!(fs::read(to.join("config")).unwrap(), b"old");
            assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
        }
    }
}

/// A root that is moved to a protected name stays open, so the operations that open a file by its
/// path beneath the root verify the root first.
#[cfg(unix)]
#[test]
fn moved_root_is_not_changed_through_its_handle() {
    type Change = fn(&CheckedPath) -> Result<()>;
    let in_place = WriteOptions::default().in_place();
    let changes: [(&str, Change); 5] = [
        ("config", |proof| proof.open_with(OpenMode::ReadWrite).map(drop)),
        ("config", |proof| proof.open_with(OpenMode::Append).map(drop)),
        ("new", |proof| proof.open_with(OpenMode::Create).map(drop)),
        ("config", |proof| proof.write_with("planted", WriteOptions::default().in_place())),
        ("config", |proof| proof.set_attribute(Attribute::Executable)),
    ];
    for (name, change) in changes {
        let tree = Tree::new("file root/d/config = old");
        let boundary = boundary(&tree, |builder| builder);
        let list = ListRootsResult::from_uris([tree.uri("root/d")]);
        let roots = boundary.narrow(&list.roots).unwrap();
        let proof = roots.check(tree.path("root/d").join(name)).unwrap();
        fs::rename(tree.path("root/d"), tree.path("root/.git")).unwrap();
        assert_eq!(code(change(&proof)), Some("root_unavailable"), "{name}");
        assert_eq!(fs::read(tree.path("root/.git/config")).unwrap(), b"old");
        assert_eq!(fs::read_dir(tree.path("root/.git")).unwrap().count(), 1);
    }
    // The controls: without protected names, the moved directory is changed.
    let tree = Tree::new("file root/d/config = old");
    let roots = tree.roots(["root/d"]);
    let proof = roots.check("config").unwrap();
    fs::rename(tree.path("root/d"), tree.path("root/.git")).unwrap();
    proof.open_with(OpenMode::ReadWrite).unwrap();
    proof.write_with("planted", in_place).unwrap();
    assert_eq!(fs::read(tree.path("root/.git/config")).unwrap(), b"planted");
}

/// Like [`Moving`], but then creates another directory at the original path.
#[cfg(unix)]
#[derive(Clone, Copy)]
struct Replacing<'a>(Moving<'a>);

#[cfg(unix)]
impl AsRef<[u8]> for Replacing<'_> {
    fn as_ref(&self) -> &[u8] {
        let content = self.0.as_ref();
        let _ = fs::create_dir(self.0.from);
        content
    }
}

#[cfg(unix)]
#[test]
fn write_goes_to_the_directory_that_is_now_at_its_path() {
    let tree = Tree::new("file root/d/config = old");
    let (from, to) = (tree.path("root/d"), tree.path("root/.git"));
    let content = Replacing(Moving { from: &from, to: &to });
    protected(&tree).write("d/config", content).unwrap();
    assert_eq!(fs::read(to.join("config")).unwrap(), b"old");
    assert_eq!(fs::read(from.join("config")).unwrap(), b"planted");
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1);
}
