//! Repositories that name places outside, and what git then does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::served::ServedDirectory;
use crate::client::{Client, Declares, Era, PROGRAM};
use crate::skip::skip;

const TOOLS: [&str; 3] = ["git_status", "git_diff", "git_log"];

/// Pairs of places outside: the first exists, and the second does not.
const PLACES: [[&str; 2]; 2] = [["$O/there", "$O/never"], ["/usr/include", "/usr/no-such"]];

/// A row of `data/planted.txt`, set up twice.
struct Planted {
    expected: &'static str,
    setup: &'static str,
    /// The names of the repositories, and what each names outside.
    repositories: [(String, String); 2],
}

/// `data/planted.txt` describes the rows.
#[test]
fn a_planted_repository_shows_nothing_outside() {
    let served = ServedDirectory::with(&["$D", "--git"]);
    let rows = planted(&served);
    assert!(!rows.is_empty(), "no row contains the text in GUARD_PLANTED");
    let log = served.outside.join("trace");
    let mut client = traced(&served, &log);
    for Planted { expected, setup, repositories } in &rows {
        for tool in TOOLS {
            let answers = repositories.each_ref().map(|(name, place)| {
                let answer = client.call(tool, &json!({ "path": name }));
                let hide = |text: String| text.replace(place, "OUT").replace(name, "IT");
                answer.map(hide).map_err(hide)
            });
            assert_eq!(answers[0], answers[1], "{tool} tells whether the place exists: {setup}");
            let (tools, expected) = expected.split_once(": ").unwrap_or(("git_", expected));
            let is_named = tools.split(' ').any(|name| tool.contains(name));
            let works = expected == "works" || !is_named;
            match &answers[0] {
                Ok(_) => assert!(works, "{tool} is not refused: {setup}"),
                Err(error) => {
                    assert!(!works && error.contains(expected), "{tool}: {setup}: {error}");
                }
            }
        }
    }
    let process = client.process.id();
    client.close_input();
    client.process.wait().unwrap();
    if log.exists() {
        let paths = looked_up(&log, process);
        let strays = paths.iter().filter(|path| !is_expected(path, &served.directory));
        assert_eq!(strays.collect::<Vec<_>>(), Vec::<&PathBuf>::new());
        println!("{} planted repositories, {} paths", 2 * rows.len(), paths.len());
    }
}

/// A text in the rows to try. CONTRIBUTING.md describes the variable.
fn only() -> String {
    std::env::var("GUARD_PLANTED").unwrap_or_default()
}

/// Sets up the rows.
fn planted(served: &ServedDirectory) -> Vec<Planted> {
    sh("repo; mv .git ../there; mv f ../there/objects", &served.outside, &[]);
    let outside = served.outside.to_str().unwrap();
    let to_root = "../".repeat(served.directory.components().count());
    let only = only();
    let rows = include_str!("../data/planted.txt").lines();
    let rows = rows.filter(|row| !row.starts_with('#') && row.contains(&only));
    let mut planted = Vec::new();
    for (number, row) in rows.enumerate() {
        let (expected, setup) = row.split_once(" | ").unwrap();
        // Without git, it does not matter where the place is.
        let pairs = if expected == "works" { PLACES.len() } else { 1 };
        for (pair, places) in PLACES.iter().enumerate().take(pairs) {
            let repositories = [0, 1].map(|which| {
                let name = format!("{number}-{pair}-{which}");
                let place = places[which].replace("$O", outside);
                let relative = format!("{to_root}{}", &place[1..]);
                let script = format!("repo; cd ..; mv repo {name}; cd {name}\n{setup}");
                sh(&script, &served.directory, &[("OUT", &place), ("REL", &relative)]);
                (name, place)
            });
            planted.push(Planted { expected, setup, repositories });
        }
    }
    planted
}

/// Runs a script after the functions of the data. All commits have the same time.
fn sh(script: &str, at: &Path, variables: &[(&str, &str)]) {
    let date = "2001-02-03T04:05:06Z";
    let fixed = [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_AUTHOR_DATE", date),
        ("GIT_COMMITTER_DATE", date),
    ];
    let functions = include_str!("../data/functions.sh");
    let mut shell = Command::new("sh");
    shell.args(["-ec", &format!("{functions}\n{script}")]).current_dir(at);
    let output = shell.envs(fixed).envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A client of a server whose programs strace(1) traces.
fn traced(served: &ServedDirectory, log: &Path) -> Client {
    let mut program = if Command::new("strace").arg("--version").output().is_ok() {
        let mut strace = Command::new("strace");
        strace.args(["-D", "-f", "-y", "-q", "--seccomp-bpf", "-e", "signal=none"]);
        strace.args(["-e", &format!("trace={CALLS}"), "-o"]);
        strace.arg(log).arg(PROGRAM);
        strace
    } else {
        skip("what git looks up in planted repositories: strace is missing");
        Command::new(PROGRAM)
    };
    program.arg(&served.directory).arg("--git");
    Client::of(program, Era::Session, Declares::Nothing)
}

/// The absolute paths that git, and what it starts, passed to the kernel, and those that the kernel
/// opened for them.
fn looked_up(log: &Path, server: u32) -> BTreeSet<PathBuf> {
    // The process ids are padded.
    let end = |line: &str| line.split_whitespace().take(2).eq([&server.to_string(), "+++"]);
    let begin = Instant::now();
    let mut text = String::new();
    while !text.lines().any(end) {
        assert!(begin.elapsed() < Duration::from_secs(60), "strace does not end");
        sleep(Duration::from_millis(100));
        text = fs::read_to_string(log).unwrap();
    }
    let mut directories = BTreeMap::<&str, PathBuf>::new();
    let (mut paths, mut commands) = (BTreeSet::new(), 0);
    for line in text.lines() {
        let (process, call) = line.split_once(' ').unwrap();
        let call = call.trim_start();
        let quoted: Vec<_> = call.split('"').skip(1).step_by(2).collect();
        let result = call.rsplit_once(" = ").map_or("", |(_, result)| result);
        // When the server starts, it asks for git's version.
        let is_call = call.starts_with("execve(") && quoted.get(2) != Some(&"--version");
        let succeeds = result == "0" || call.ends_with("<unfinished ...>");
        if is_call && quoted[0].ends_with("/git") && succeeds {
            commands += 1;
            directories.insert(process, PathBuf::new());
        }
        // The number of a process that ended can become another's.
        if call.starts_with("+++") {
            directories.remove(process);
        }
        let Some(directory) = directories.get(process).cloned() else { continue };
        let named = |text: &str| Some(PathBuf::from(text.split_once('<')?.1.split_once('>')?.0));
        if call.contains("clone") || call.contains("fork") {
            directories.insert(result.split(' ').next().unwrap(), directory.clone());
        } else if call.starts_with("chdir(") {
            directories.insert(process, directory.join(quoted[0]));
        }
        // A path is relative to the directory of the descriptor before it.
        let before = call.split('"').next().and_then(named);
        if let Some(before) = before.as_ref().filter(|_| call.contains("AT_FDCWD<")) {
            directories.insert(process, before.clone());
        }
        if let Some(path) = quoted.first().filter(|path| !path.is_empty()) {
            let path = before.unwrap_or(directory).join(path);
            assert!(path.is_absolute(), "the directory is not known: {line}");
            let is_followed = !["NOFOLLOW", "lstat(", "readlink", "unlink"]
                .iter()
                .any(|unfollowed| call.contains(unfollowed));
            paths.insert(resolved(&path, is_followed));
        }
        paths.extend(named(result).filter(|path| path.is_absolute()));
    }
    let least = if only().is_empty() { 300 } else { 0 };
    assert!(commands > least && paths.len() > least, "{commands} commands, {} paths", paths.len());
    paths
}

/// The place to which the path leads now, whether it exists or not. A symlink at its end is not
/// always followed.
fn resolved(path: &Path, is_followed: bool) -> PathBuf {
    let mut place = PathBuf::from("/");
    let mut rest: Vec<_> =
        path.components().rev().map(|part| part.as_os_str().to_owned()).collect();
    for _ in 0..1000 {
        let Some(part) = rest.pop() else { return place };
        let next = place.join(&part);
        match fs::read_link(&next) {
            _ if part == ".." => drop(place.pop()),
            Ok(target) if is_followed || !rest.is_empty() => {
                rest.extend(target.components().rev().map(|part| part.as_os_str().to_owned()));
            }
            _ => place = next,
        }
    }
    panic!("too many symlinks in {}", path.display());
}

/// Whether a path is in the directory, leads to it, or is one of git's own.
fn is_expected(path: &Path, directory: &Path) -> bool {
    let is_library = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    let is_charset = path.components().any(|part| part.as_os_str() == "gconv");
    path.starts_with(directory)
        || directory.starts_with(path)
        || (is_library || is_charset)
            && ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].iter().any(|top| path.starts_with(top))
        || OWN.iter().any(|own| path.starts_with(own))
}

/// The system calls of git that take paths, and those that start programs. Those of the server, such
/// as openat2, would take most of the time.
const CALLS: &str = "execve,clone,?clone3,?fork,?vfork,?open,openat,?access,faccessat,?faccessat2,\
                     ?readlink,readlinkat,?stat,?lstat,newfstatat,?unlink,unlinkat,chdir";

/// Files that git and its libraries need (ld.so(8), locale(7), tzset(3)).
const OWN: &[&str] = &[
    "/dev/null",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/localtime",
    "/usr/bin/git",
    "/usr/lib/locale",
    "/usr/local/bin/git",
    "/usr/share/locale",
    "/usr/share/zoneinfo",
];
