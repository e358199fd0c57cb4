//! How names, symlinks and handles behave on Windows' own filesystem.
//!
//! The rules for names are rows of `data/windows.txt`, which are tested on every system. These
//! tests use real files.

use std::fs;
use std::path::Path;

use mcp_roots_guard::{
    Access, Boundary, DirectoryOptions, ListEntry, ListRootsResult, Result, WalkOptions,
};

use crate::support::code;
use crate::support::one_step::OneStep as _;
use crate::support::operations::{Way, attempts};
use crate::support::proof::Intent;
use crate::support::tree::{Tree, replace_with_symlink, report_not_shown, symlinks_are_visible};
use crate::support::walked;

/// The drive letter, and the rest of the path with forward slashes.
fn drive(path: &Path) -> (char, String) {
    let path = path.to_str().unwrap();
    (path.chars().next().unwrap(), path[2..].replace('\\', "/"))
}

/// Tests the forms of a root URI that VS Code, Claude Code and Cursor are known to send.
#[test]
fn each_clients_form_of_a_root_uri_names_the_root() {
    let tree = Tree::new("file root/f = content");
    let (letter, path) = drive(&tree.path("root"));
    let lower = letter.to_ascii_lowercase();
    let backslashes = path.replace('/', "\\");
    let uris = [
        format!("file:///{letter}:{path}"),
        format!("file:///{lower}%3A{path}"),
        format!("file:///{lower}%3a{path}/"),
        format!("file:/{letter}:{path}"),
        format!("file://localhost/{letter}:{path}"),
        format!("file://{lower}:{backslashes}"),
        format!("file://{letter}:{path}"),
        format!("file:///{letter}:{}", path.to_uppercase()),
    ];
    let bare = [
        format!("{letter}:{backslashes}"),
        format!("{lower}:{path}"),
        format!(r"\\?\{letter}:{backslashes}"),
    ];
    let strict = Boundary::any_listed().build().unwrap();
    for uri in uris.iter().chain(&bare) {
        let roots = strict.narrow([ListEntry::from(uri)]).unwrap();
        assert!(roots.rejected().is_empty(), "{uri}: {:?}", roots.rejected());
        assert_eq!(roots.read("f", 9).unwrap(), b"content", "{uri}");
        assert_eq!(roots.read(tree.path("root").join("f"), 9).unwrap(), b"content", "{uri}");
    }
    for path in bare {
        let rejected = strict.narrow(&ListRootsResult::from_uris([path.clone()]).roots).unwrap();
        assert_eq!(rejected.rejected()[0].error().code(), "not_absolute", "{path}");
    }
    // All forms are one root, with and without allowed directories.
    let operator = Boundary::builder().directory(tree.path(""), Access::ReadOnly).build().unwrap();
    for boundary in [operator, strict] {
        let roots = boundary.narrow(&ListRootsResult::from_uris(uris.clone()).roots).unwrap();
        assert_eq!(roots.iter().count(), 1, "{roots:?}");
        assert!(
            roots.rejected().iter().all(|rejected| rejected.error().code() == "duplicate"),
            "{:?}",
            roots.rejected()
        );
    }
}

#[test]
fn a_request_names_the_same_file_with_any_separator_and_case() {
    let tree = Tree::new("file root/Dir/File.txt = content; file root/ä/ß = other");
    let roots = tree.roots(["root"]);
    let path = tree.path("root").join("Dir").join("File.txt").to_str().unwrap().to_owned();
    let system = fs::canonicalize(&path).unwrap().to_str().unwrap().to_owned();
    let forms = [
        path.clone(),
        path.replace('\\', "/"),
        path.to_uppercase(),
        path.to_lowercase(),
        system,
        tree.uri("root/Dir/File.txt"),
        r"Dir\File.txt".into(),
        "dir/FILE.TXT".into(),
        r".\Dir\..\none\..\Dir\.\File.txt".into(),
        r"..\root\Dir\File.txt".into(),
        r"..\ROOT\Dir\File.txt".into(),
        format!("{}{path}", &path[..2]).replacen(&path[..2], "", 1),
    ];
    for form in &forms {
        assert_eq!(roots.read(form.as_str(), 9).unwrap(), b"content", "{form}");
        let checked = roots.check(form.as_str()).unwrap();
        assert!(
            checked.to_unguarded_path().display().to_string().eq_ignore_ascii_case(&path),
            "{form}: {checked:?}"
        );
        assert!(checked.uri().starts_with("file:///"), "{form}: {}", checked.uri());
    }
    assert_eq!(roots.read("Ä/ß", 9).unwrap(), b"other");
}

/// The name is refused before any system call, with the code that the name rules assign, even if
/// the file exists.
#[test]
fn a_name_that_windows_would_reinterpret_is_refused() {
    let tree = Tree::new(
        "file root/spare = content; dir root/spare-dir; file root/f.txt = content; dir root/d; \
         file root/inside; file out/secret",
    );
    let roots = tree.roots(["root"]);
    let (letter, path) = drive(&tree.path("root"));
    let path = path.replace('/', "\\");
    let rows = [
        ("f.txt:stream".to_owned(), "stream"),
        ("f.txt::$DATA".into(), "stream"),
        ("dir:$I30:$INDEX_ALLOCATION".into(), "stream"),
        ("f.txt.".into(), "trailing_dot"),
        ("f.txt ".into(), "trailing_dot"),
        ("... ".into(), "trailing_dot"),
        ("NUL".into(), "reserved_name"),
        ("d/con.txt".into(), "reserved_name"),
        ("COM\u{b9}".into(), "reserved_name"),
        (r"d\aux\f".into(), "reserved_name"),
        ("FTXT~1".into(), "short_name"),
        ("PROGRA~1/x".into(), "short_name"),
        ("f?.txt".into(), "invalid_name"),
        ("f\u{1}".into(), "invalid_name"),
        (format!("{letter}:f.txt"), "drive_relative"),
        (format!("{letter}:"), "drive_relative"),
        (path.clone(), "drive_relative"),
        (format!(r"\\.\{letter}:{path}\f.txt"), "device_path"),
        (r"\\?\Volume{00000000-0000-0000-0000-000000000000}\f.txt".into(), "device_path"),
        (r"\\?\GLOBALROOT\Device\Null".into(), "device_path"),
        (r"\??\C:\x".into(), "device_path"),
        (r"\\server\pipe\x".into(), "device_path"),
        (r"\\server\share\x".into(), "outside_roots"),
        (format!(r"\\localhost\{letter}$"), "outside_roots"),
        (format!(r"\\127.0.0.1\{letter}${path}\f.txt"), "outside_roots"),
        ("file://server/share/x".into(), "outside_roots"),
        ("file:///f.txt".into(), "drive_relative"),
        (r"..\out\secret".into(), "outside_roots"),
        (r"d\..\..\out\secret".into(), "outside_roots"),
        (r"C:\Windows\win.ini".into(), "outside_roots"),
        (r"Q:\none".into(), "outside_roots"),
    ];
    for (request, expected) in rows {
        for attempt in attempts() {
            let refused = code(attempt.run(Way::Directly, &roots, &request));
            assert_eq!(refused, Some(expected), "{} {request}", attempt.name());
        }
    }
    assert_eq!(fs::read_dir(tree.path("root")).unwrap().count(), 5);
}

/// A path that leads outside through a symlink or a junction is refused, whether or not the system
/// shows it as one. No outside file is read, listed, created or removed.
#[test]
fn a_path_that_points_outside_is_refused_before_any_effect() {
    type Build = fn(&Tree);
    let build: [(&str, Build); 2] = [
        ("symlinks", |tree| {
            tree.add("link root/dir -> ../out; link root/file -> ../out/secret");
            tree.add("link root/d/abs -> $T/out");
        }),
        ("junctions", |tree| {
            for (link, target) in [("root/dir", "out"), ("root/d/abs", "out")] {
                let (link, target) = (tree.path(link), tree.path(target));
                let arguments =
                    ["/c", "mklink", "/J", link.to_str().unwrap(), target.to_str().unwrap()];
                let output = std::process::Command::new("cmd").args(arguments).output().unwrap();
                assert!(output.status.success(), "{output:?}");
            }
        }),
    ];
    for (what, build) in build {
        if what == "junctions" && !symlinks_are_visible() {
            report_not_shown(
                "platform::windows_filesystem::a_path_that_points_outside_is_refused_before_any_effect",
                "Wine has no junctions",
            );
            continue;
        }
        let tree = Tree::new(
            "file root/spare = content; dir root/spare-dir; dir root/d; file out/secret = secret; \
             file out/in/deep = deep",
        );
        build(&tree);
        let before = tree.snapshot("out");
        let roots = tree.roots(["root"]);
        let requests = [
            "dir/secret",
            "dir/in/deep",
            "dir/new",
            "file",
            "d/abs/secret",
            "d/abs/in",
            "dir/in/new/x",
        ];
        for request in requests.iter().filter(|request| what == "symlinks" || **request != "file") {
            for attempt in attempts() {
                let name = attempt.name();
                let refused = code(attempt.run(Way::Directly, &roots, request));
                // Where symlinks are visible, the symlink itself may be described, renamed or
                // removed.
                let is_itself = *request == "file" && attempt.path().intent == Intent::NoFollow;
                assert!(
                    is_itself && symlinks_are_visible() || refused.is_some(),
                    "{what}: {name} {request} succeeded"
                );
                assert_eq!(tree.snapshot("out"), before, "{what}: {name} {request}");
            }
        }
        for entry in walked(roots.walk(".", WalkOptions::default()).unwrap()) {
            let entry = entry.unwrap();
            assert!(
                entry.relative().iter().all(|name| name != "secret" && name != "deep"),
                "{what}: {}",
                entry.relative().display()
            );
        }
        let _ = roots.remove_dir_all("d");
        assert_eq!(
            tree.snapshot("out"),
            before,
            "{what}: changed by removing the directory that contains the link"
        );
    }
}

/// A root list entry is rejected if it leads outside the allowed directory through a symlink,
/// whether or not the system shows it as a symlink.
#[test]
fn a_client_root_that_points_outside_the_allowed_directory_grants_nothing() {
    let tree = Tree::new("dir op/a; file out/secret; link op/l -> ../out");
    let boundary =
        Boundary::builder().directory(tree.path("op"), Access::ReadWrite).build().unwrap();
    let roots = boundary
        .narrow(&ListRootsResult::from_uris([tree.uri("op/l"), tree.uri("op/a")]).roots)
        .unwrap();
    assert_eq!(roots.iter().count(), 1);
    assert_eq!(roots.rejected()[0].error().code(), "outside_roots");
}

#[test]
fn a_removal_affects_the_entry_itself() {
    let tree = Tree::new("file root/d/f; file root/tree/a/b/c; file root/tree/x");
    let roots = tree.roots(["root"]);
    assert_eq!(code(roots.remove_file("d")), Some("is_a_directory"));
    assert_eq!(code(roots.remove_dir("d")), Some("directory_not_empty"));
    assert_eq!(code(roots.remove_dir("d/f")), Some("not_a_directory"));
    roots.remove_file("d/f").unwrap();
    roots.remove_dir("d").unwrap();
    roots.remove_dir_all("tree").unwrap();
    assert_eq!(fs::read_dir(tree.path("root")).unwrap().count(), 0);
}

/// A disk that is not attached or a share that does not exist counts as a missing directory.
#[test]
fn an_absent_volume_counts_as_a_missing_directory() {
    let tree = Tree::new("file root/f");
    for path in [r"Q:\data", r"Q:\"] {
        let with = |builder: mcp_roots_guard::BoundaryBuilder| {
            builder.directory(tree.path("root"), Access::ReadWrite).build()
        };
        assert_eq!(
            code(with(Boundary::builder().directory(path, Access::ReadOnly))),
            Some("not_found"),
            "{path}"
        );
        let roots = with(
            Boundary::builder()
                .directory(path, DirectoryOptions::from(Access::ReadOnly).optional()),
        )
        .unwrap()
        .allowed_roots();
        assert_eq!(
            (roots.iter().count(), roots.rejected()[0].error().code()),
            (1, "not_found"),
            "{path}"
        );
        assert_eq!(roots.read("f", 9).unwrap(), b"root/f");
    }
}

/// An empty directory can become a junction even while it is held open. This test runs only under
/// Wine. The host replaces the open directory with a symlink, which has the same effect: the handle
/// reports the old path, but that path resolves to another directory.
#[test]
fn an_operation_by_path_affects_only_the_open_directory() {
    if symlinks_are_visible() {
        return; // Only the host can replace an open directory.
    }
    for attempt in attempts() {
        let name = attempt.name();
        let tree = Tree::new("dir root; file out/new; file out/inside; file out/d/f");
        let before = tree.snapshot("out");
        let roots = tree.roots(["root"]);
        replace_with_symlink(&tree.path("out"), &tree.path("root"));
        for request in ["new", "newer", "d", "d/newer"] {
            // A check has no effect.
            assert!(
                attempt.run(Way::Directly, &roots, request).is_err()
                    || name.starts_with("check")
                    || name.starts_with("parent"),
                "{name} {request} succeeded"
            );
        }
        assert_eq!(tree.snapshot("out"), before, "{name}");
    }
}

/// Names that differ only in case are the same directory, so they cannot have different access.
#[test]
fn access_does_not_depend_on_the_case_of_a_path() {
    let tree = Tree::new("dir Root/sub");
    let path = tree.path("").join("ROOT").join("SUB");
    let conflict = Boundary::builder()
        .directory(tree.path("Root"), Access::ReadWrite)
        .directory(path, Access::ReadOnly);
    assert_eq!(code(conflict.build()), Some("access_conflict"));
    let list = ListRootsResult::from_uris([tree.uri("root"), tree.uri("ROOT")]);
    let roots = crate::support::listed(&list).unwrap();
    assert_eq!((roots.iter().count(), roots.rejected()[0].error().code()), (1, "duplicate"));
}

/// A name in another case is the inner root only at the beginning of an absolute path, where it names
/// the root. Below the outer one, the lesser access counts.
#[test]
fn a_writable_directory_in_another_case_is_read_only_below_the_outer_one() {
    let tree = Tree::new("file All/Ws/f; file All/Ws/.Env");
    let boundary = Boundary::builder()
        .directory(tree.path("All"), Access::ReadOnly)
        .directory(tree.path("All/Ws"), Access::ReadWrite)
        .deny(".env");
    let roots = boundary.build().unwrap().allowed_roots();
    let denied = [r"Ws\.ENV", r"WS\.env"].map(|path| code(roots.read(path, 9)));
    assert_eq!(denied, [Some("protected"); 2]);
    assert_eq!(code(roots.write(r"WS\f", "no")), Some("read_only"));
    assert_eq!(code(roots.write(r"Ws\f", "yes")), None);
    assert_eq!(code(roots.write(tree.path("ALL").join("WS").join("f"), "yes")), None);
}

/// A volume is a root with nothing above it.
#[test]
fn a_volume_can_be_a_root() {
    let list = ListRootsResult::from_uris(["file:///C:/"]);
    let roots = crate::support::listed(&list).unwrap();
    assert!(roots.metadata(r"C:\windows").unwrap().file_type().is_dir());
    assert!(roots.metadata(r"windows\..\..\..\windows").unwrap().file_type().is_dir());
    assert_eq!(code(roots.metadata(r"Q:\windows")), Some("outside_roots"));
    assert_eq!(code(roots.remove_dir_all(r"C:\")), Some("root_itself"));
}

/// A tree deeper than the longest path that Windows supports by default.
#[test]
fn a_tree_deeper_than_the_longest_path_is_walked_and_removed() {
    if !symlinks_are_visible() {
        let reason = "Wine returns no final path longer than 260 characters";
        return report_not_shown(
            "platform::windows_filesystem::a_tree_deeper_than_the_longest_path_is_walked_and_removed",
            reason,
        );
    }
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let deep = "directory\\".repeat(100);
    roots.create_dir_all(deep.as_str()).unwrap();
    roots.write(format!("{deep}file"), "deep").unwrap();
    assert_eq!(roots.read(format!("{deep}file"), 9).unwrap(), b"deep");
    let walked = walked(roots.walk(".", WalkOptions::default()).unwrap());
    assert!(walked.iter().all(Result::is_ok), "{:?}", walked.iter().find(|entry| entry.is_err()));
    assert_eq!(walked.len(), 101);
    roots.remove_dir_all("directory").unwrap();
    assert_eq!(fs::read_dir(tree.path("root")).unwrap().count(), 0);
}
