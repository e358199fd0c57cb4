//! Compares walks that omit ignored entries with those of the crate `ignore`, and attacks the
//! reading of the rule files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use ignore::WalkBuilder;
use mcp_roots_guard::limits::IGNORE_BYTES;
use mcp_roots_guard::{Access, Roots, WalkOptions};

use super::{paths, within_seconds};
use crate::support::protection::Protection;
use crate::support::random::Random;
use crate::support::tree::Tree;
use crate::support::{code, protecting};

const OPTIONS: fn() -> WalkOptions = || WalkOptions::default().git_ignore();

fn walked(roots: &Roots, directory: &str, options: WalkOptions) -> Vec<String> {
    let (paths, errors) = paths(roots.walk(directory, options).unwrap());
    assert!(errors.is_empty(), "{errors:?}");
    paths
}

/// The entries that a walk of the crate `ignore` yields, sorted.
fn oracle(directory: &Path, is_repository: bool, skips_dot_files: bool) -> Vec<String> {
    let walk = WalkBuilder::new(directory)
        .hidden(skips_dot_files)
        .git_global(false)
        // The crate looks for the `.git` of nested repositories only with this option. With it, a
        // tree without a repository has no rules.
        .require_git(is_repository)
        .ignore(true)
        .git_exclude(true)
        .parents(true)
        .follow_links(false)
        // The crate leaves this to its callers.
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    let below = |entry: ignore::DirEntry| {
        entry.path().strip_prefix(directory).unwrap().to_str().unwrap().to_owned()
    };
    // The crate yields the rules that it skips as errors.
    let mut found: Vec<_> = walk.filter_map(|entry| Some(below(entry.ok()?))).collect();
    found.retain(|path| !path.is_empty());
    found.sort();
    found
}

const NAMES: [&str; 10] = ["a", "b", "c", "ab", "x.o", ".h", ".k", "#a", "a b", "!c"];

const RULES: [&str; 56] = [
    "a", "b", "c", "*.o", "/a", "/b", "a/", "/b/", ".h", ".h/", "!.h", "!.k", "!.*", "!a", "!/a",
    "!b/", "!*.o", "!x.o", "a/b", "a/b/", "/a/b", "b/c", "!a/b", "**/c", "**/a/b", "a/**",
    "a/**/b", "!a/**", "**", "/**", "**/", "a**b", "*", "/*", "!*/", "!/*/", "?", "[ab]", "[!a]",
    "b*", "#a", "\\#a", "\\!c", "!\\!c", "a b", "a\\ b", "c ", "c\\ ", "", "   ", "[", "a[",
    "{a,b}", "a\\", "/", "!",
];

fn rules(random: &mut Random) -> String {
    let mut text = String::new();
    if random.below(12) == 0 {
        text.push('\u{feff}');
    }
    let end = if random.below(8) == 0 { "\r\n" } else { "\n" };
    for _ in 0..=random.below(4) {
        let rule = RULES[usize::try_from(random.below(56)).unwrap()];
        write!(text, "{rule}{end}").unwrap();
    }
    if random.below(3) == 0 {
        text.truncate(text.trim_end_matches(['\r', '\n']).len());
    }
    text
}

/// Builds a random tree. Returns its directories.
fn build(random: &mut Random, top: &Path, is_repository: bool) -> Vec<String> {
    let mut directories = BTreeSet::from([String::new()]);
    for _ in 0..18 {
        let parents: Vec<_> = directories.iter().cloned().collect();
        let parent = &parents[usize::try_from(random.below(parents.len() as u64)).unwrap()];
        let name = NAMES[usize::try_from(random.below(10)).unwrap()];
        let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") };
        let at = top.join(&path);
        if at.symlink_metadata().is_ok() {
            continue;
        }
        match random.below(5) {
            0 => std::os::unix::fs::symlink("a", at).unwrap(),
            1 | 2 => fs::write(at, "").unwrap(),
            _ => {
                fs::create_dir(at).unwrap();
                directories.insert(path);
            }
        }
    }
    for directory in &directories {
        let at = top.join(directory);
        for (name, chance) in [(".gitignore", 2), (".ignore", 6)] {
            if random.below(chance) == 0 {
                fs::write(at.join(name), rules(random)).unwrap();
            }
        }
        let has_git = if directory.is_empty() { is_repository } else { random.below(5) == 0 };
        if is_repository && has_git {
            match random.below(4) {
                // The `.git` of a worktree or of a submodule is a file.
                0 => fs::write(at.join(".git"), "").unwrap(),
                1 => fs::create_dir(at.join(".git")).unwrap(),
                _ => {
                    fs::create_dir_all(at.join(".git/info")).unwrap();
                    fs::write(at.join(".git/info/exclude"), rules(random)).unwrap();
                }
            }
        }
    }
    directories.into_iter().collect()
}

#[test]
fn walk_omits_the_same_entries_as_the_crate_ignore() {
    const CASES: u64 = 200;
    let seed = Random::seed();
    let mut random = Random(seed);
    let (mut ignored, mut below) = (0, 0);
    for case in 0..CASES {
        let tree = Tree::in_memory("dir r");
        let top = tree.path("r");
        let is_repository = random.below(2) == 0;
        let directories = build(&mut random, &top, is_repository);
        let roots = Roots::from_dirs([&top], Access::ReadWrite).unwrap();
        let all = walked(&roots, ".", WalkOptions::default()).len();
        for _ in 0..3 {
            let start =
                &directories[usize::try_from(random.below(directories.len() as u64)).unwrap()];
            let request = if start.is_empty() { "." } else { start };
            for skips_dot_files in [false, true] {
                let options = if skips_dot_files { OPTIONS().skip_dot_files() } else { OPTIONS() };
                let mut found = walked(&roots, request, options);
                found.sort();
                let expected = oracle(&top.join(start), is_repository, skips_dot_files);
                assert_eq!(
                    found,
                    expected,
                    "seed {seed}, case {case}, walk {request:?}, {skips_dot_files}: {:#?}",
                    tree.snapshot("r")
                );
                if start.is_empty() {
                    ignored += usize::from(!skips_dot_files && found.len() < all);
                } else {
                    below += usize::from(!found.is_empty());
                }
            }
        }
    }
    // The trees have entries that are ignored, and entries that are not.
    assert!(ignored > 30 && below > 30, "{ignored} {below}");
}

/// Without a repository around it, a nested repository still ends the rules above it, as in git.
#[test]
fn rules_above_a_nested_repository_do_not_apply_in_it() {
    let tree = Tree::new(
        "file r/.gitignore = *.o; file r/x.o; dir r/n/.git; file r/n/x.o; file r/n/y; \
         file r/.ignore = y; file r/w/.git = gitdir: $T/out; file r/w/x.o; \
         file out/info/exclude = z; file r/w/z; dir r/s; link r/s/.git -> ../n/.git; file r/s/x.o",
    );
    let roots = tree.roots(["r"]);
    let found = walked(&roots, ".", OPTIONS().skip_dot_files());
    // A `.git` that is a symlink is no repository, and the file `.git` is not followed.
    assert_eq!(found, ["n", "n/x.o", "s", "w", "w/x.o", "w/z"]);
}

#[test]
fn rules_above_the_root_are_not_read() {
    let tree = Tree::new(
        "file .gitignore = *; file .ignore = *; file .git/info/exclude = *; file r/d/e/f; \
         file r/d/g; file r/d/.gitignore = g",
    );
    for directory in [".", "d", "d/e"] {
        assert!(!walked(&tree.roots(["r"]), directory, OPTIONS()).is_empty(), "{directory}");
    }
    // Neither are rules above a narrowed root, or above the innermost root.
    let narrowed = tree.roots(["r"]).within("d").unwrap();
    assert_eq!(walked(&narrowed, ".", OPTIONS().skip_dot_files()), ["e", "e/f"]);
    let narrowed = tree.roots(["."]).within("r/d/e").unwrap();
    assert_eq!(walked(&narrowed, ".", OPTIONS()), ["f"]);
    let roots = tree.roots([".", "r"]);
    let found = walked(&roots, tree.path("r/d/e").to_str().unwrap(), OPTIONS());
    assert_eq!(found, ["f"]);
    assert!(walked(&roots, ".", OPTIONS()).is_empty());
}

#[test]
fn rule_file_that_is_not_a_regular_file_is_not_read() {
    for file in [
        "fifo r/d/.gitignore",
        "fifo r/d/.ignore",
        "socket r/d/.gitignore",
        "dir r/d/.gitignore",
        "link r/d/.gitignore -> ../all",
        "link r/d/.gitignore -> $T/out",
        "link r/d/.gitignore -> missing",
        "link r/d/.ignore -> /dev/zero",
        "dir r/d/.git; link r/d/.git/info -> $T/info",
        "dir r/d/.git/info; fifo r/d/.git/info/exclude",
        "link r/d/.git -> $T/git",
    ] {
        let tree = Tree::new(
            "file r/d/f; file r/all = *; file out = *; file info/exclude = *; \
             file git/info/exclude = *",
        );
        tree.add(file);
        let roots = tree.roots(["r"]);
        let options = OPTIONS().skip_dot_files();
        let found =
            within_seconds(move || (walked(&roots, "d", options), walked(&roots, ".", options)));
        assert_eq!(found.0, ["f"], "{file}");
        assert_eq!(found.1, ["all", "d", "d/f"], "{file}");
    }
}

#[test]
fn denied_rule_file_is_not_read() {
    for (name, file) in [
        (".gitignore", "r/.gitignore"),
        (".ignore", "r/.ignore"),
        (".git", "r/.git/info/exclude"),
        ("/.git/info", "r/.git/info/exclude"),
        ("exclude", "r/.git/info/exclude"),
    ] {
        let tree = Tree::new("file r/d/f; file r/g");
        tree.add(&format!("file {file} = *"));
        assert!(walked(&tree.roots(["r"]), ".", OPTIONS()).is_empty(), "{file}");
        let options = OPTIONS().skip_dot_files();
        let roots = protecting(&tree, "r", &[(name, Protection::Denied)]);
        assert_eq!(walked(&roots, ".", options), ["d", "d/f", "g"], "{name}");
        assert_eq!(walked(&roots, "d", options), ["f"], "{name}");
        // A name that is only read-only is read.
        let roots = protecting(&tree, "r", &[(name, Protection::ReadOnly)]);
        assert!(walked(&roots, ".", options).is_empty(), "{name}");
    }
}

#[test]
fn rule_with_invalid_text_does_not_affect_the_other_rules() {
    let tree = Tree::new("file r/a; file r/b; file r/c; file r/d");
    fs::write(tree.path("r/.gitignore"), b"a\n\xff\xfe\n[\nb\0b\nc\n").unwrap();
    assert_eq!(walked(&tree.roots(["r"]), ".", OPTIONS().skip_dot_files()), ["b", "d"]);
}

#[test]
fn ignored_entries_do_not_count() {
    let tree = Tree::new("file r/.gitignore = *.o; file r/a; file r/z");
    for number in 0..50 {
        tree.add(&format!("file r/{number}.o"));
    }
    let roots = tree.roots(["r"]);
    assert_eq!(walked(&roots, ".", OPTIONS().max_entries(3)), [".gitignore", "a", "z"]);
    assert_eq!(code(roots.walk(".", OPTIONS().max_entries(2))), None);
}

#[test]
fn too_large_rule_file_makes_its_directory_unreadable() {
    let tree = Tree::new("file r/a/f; file r/b/f; file r/b/c/f; file r/z");
    let large = fs::File::create(tree.path("r/b/.gitignore")).unwrap();
    let roots = tree.roots(["r"]);
    // A comment of exactly the limit is read.
    large.set_len(0).unwrap();
    fs::write(tree.path("r/b/.gitignore"), vec![b'#'; usize::try_from(IGNORE_BYTES).unwrap()])
        .unwrap();
    assert_eq!(walked(&roots, ".", OPTIONS().skip_dot_files()).len(), 7);
    for size in [IGNORE_BYTES + 1, 1 << 40] {
        large.set_len(size).unwrap();
        let start = Instant::now();
        let (found, errors) = paths(roots.walk(".", OPTIONS()).unwrap());
        assert_eq!(
            (found, errors),
            (["a", "a/f", "b"].map(str::to_owned).to_vec(), vec!["too_large"])
        );
        let (found, errors) = paths(roots.walk(".", OPTIONS().skip_unreadable()).unwrap());
        assert_eq!(found, ["a", "a/f", "b", "z"]);
        assert_eq!(errors, ["too_large"]);
        // The same for the walked directory and for one above it.
        for directory in ["b", "b/c"] {
            let options = OPTIONS().skip_unreadable();
            let error = roots.walk(directory, options).unwrap_err();
            assert_eq!(error.code(), "too_large", "{directory}");
            assert!(error.to_string().contains(&format!(" {IGNORE_BYTES} ")), "{error}");
        }
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

/// The bound applies to all rule files of a walk together, and a file that exceeds it is not read.
#[test]
fn rule_files_of_a_hostile_tree_are_bounded_in_total() {
    let tree = Tree::in_memory("dir r");
    let limit = usize::try_from(IGNORE_BYTES).unwrap();
    for number in 0..30 {
        tree.add(&format!("dir r/{number:02}"));
        // The first files exceed the limit alone, and of the others, ten are within it.
        let size = if number < 10 { limit + 1 } else { limit / 10 };
        fs::write(tree.path(format!("r/{number:02}/.gitignore")), vec![b'#'; size]).unwrap();
    }
    let roots = tree.roots(["r"]);
    let before = bytes_read();
    let (_, errors) = paths(roots.walk(".", OPTIONS().skip_unreadable()).unwrap());
    let read = bytes_read() - before;
    assert_eq!(errors, ["too_large"; 20]);
    assert!(read < IGNORE_BYTES + 1_000, "{read}");
}

/// The bytes that this thread has read (proc_pid_io(5)).
fn bytes_read() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Rules with several wildcards can take time in proportion to their length for each byte of a
/// name, so their work is bounded.
#[test]
fn rules_that_take_too_long_to_match_end_the_walk() {
    let work = tempfile::tempdir().unwrap();
    let rule = |number: usize| format!("*{}*{number}\n", "a".repeat(240));
    let rules: String = (0..120).map(rule).collect();
    fs::write(work.path().join(".gitignore"), rules).unwrap();
    for number in 0..400 {
        fs::write(work.path().join(format!("{number:0200}")), "").unwrap();
    }
    let roots = Roots::from_dirs([work.path()], Access::ReadWrite).unwrap();
    let walk = |options: WalkOptions| roots.walk(".", options.git_ignore());
    assert_eq!(walk(WalkOptions::default()).unwrap_err().code(), "too_costly");
    // Ordinary rules count little: extensions and names without wildcards.
    let rules = "*.log\n!*.rs\nnode_modules/\n/build\n**/target\n".repeat(2000) + "/out*\n";
    fs::write(work.path().join(".gitignore"), rules).unwrap();
    assert_eq!(paths(walk(WalkOptions::default()).unwrap()).0.len(), 401);
    // But many of them do, and so do names that are ignored.
    let deep = work.path().join(format!("{:0250}/", 0).repeat(12));
    fs::create_dir_all(&deep).unwrap();
    fs::write(work.path().join(".gitignore"), "*.c\n".repeat(64_000)).unwrap();
    (0..200).for_each(|number| fs::write(deep.join(format!("{number}.c")), "").unwrap());
    let mut walk = walk(WalkOptions::default()).unwrap();
    let error = std::iter::from_fn(|| walk.next_entry().transpose()).find_map(Result::err);
    assert_eq!(error.unwrap().code(), "too_costly");
}

/// In the worst case, the matcher takes memory in proportion to the product of the number of rules
/// and their length. 20,000 short rules would take 70 GB, and the process would be killed.
#[test]
fn rules_that_take_too_much_memory_to_match_are_not_read() {
    let work = tempfile::tempdir().unwrap();
    let rule = |number: usize| format!("*a{number}\n");
    let rules = |count: usize| (0..count).map(rule).collect::<String>();
    for number in 0..20_u32 {
        // Names of different letters, which fill the cache of the regular expression.
        let letter =
            |at: u32| char::from_u32(u32::from(b'a') + (number * 7 + at * at) % 26).unwrap();
        let name: String = (0..240).map(letter).collect();
        fs::write(work.path().join(name), "").unwrap();
    }
    let roots = Roots::from_dirs([work.path()], Access::ReadWrite).unwrap();
    let walk = || roots.walk(".", WalkOptions::default().git_ignore());
    for count in [1_000, 20_000] {
        fs::write(work.path().join(".gitignore"), rules(count)).unwrap();
        let error = walk().unwrap_err();
        assert_eq!(error.code(), "too_large");
    }
    fs::write(work.path().join(".gitignore"), rules(400)).unwrap();
    assert_eq!(paths(walk().unwrap()).0.len(), 21);
    // These look like extensions or names, but become regular expressions too.
    for rule in [
        "/*.c", "//*.c", " *.c", "!!*.c", "!/*.c", "/*.", "*.c//", "*.c/d", "**/*.c/d", "**//",
        "!", "/", "!/", "//",
    ] {
        fs::write(work.path().join(".gitignore"), format!("{rule}\n").repeat(1_000)).unwrap();
        assert_eq!(walk().map(drop).unwrap_err().code(), "too_large", "{rule}");
    }
}
