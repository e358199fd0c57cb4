//! Child processes: which programs start, where they start, what they inherit, and how they end.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mcp_roots_guard::limits::CHILDREN;
use mcp_roots_guard::{
    Access, Boundary, CHILD_ENVIRONMENT, ChildCommand, ChildOutput, ClientCapabilities, ErrorKind,
    ExitReason, Guard, ListRootsResult, Result, Roots, RootsResponse,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, test_kill_process};

use crate::TO_CHILD;
use crate::support::tree::{Tree, uri};
use crate::support::{code, is_own_process};

#[cfg(feature = "process")]
mod confined;
#[cfg(all(target_os = "linux", feature = "process"))]
mod unreaped;

fn command(roots: &Roots, directory: &str, program: &str) -> Result<ChildCommand> {
    ChildCommand::new(&roots.check(directory)?, program)
}

fn sh(roots: &Roots, directory: &str, script: &str) -> ChildCommand {
    command(roots, directory, "sh").unwrap().arg("-c").arg(script)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn program_starts_in_the_checked_directory_with_its_input() {
    let tree = Tree::new("file r/d/f = content; link r/l -> d");
    let roots = tree.roots(["r"]);
    let expected = format!("{}\ncontentin", tree.path("r/d").display());
    for directory in ["d", "l", "./d/../d"] {
        let run = sh(&roots, directory, "pwd -P; cat f -; echo problem >&2; exit 3").stdin("in");
        let output = run.output().unwrap();
        assert_eq!(text(output.stdout()), expected, "{directory}");
        assert_eq!(text(output.stderr()), "problem\n");
        assert!(
            matches!(output.exit_reason(), ExitReason::Exited(status) if status.code() == Some(3))
        );
        assert!(!output.success());
        let error = output.into_stdout().unwrap_err();
        assert_eq!(error.code(), "program_failed");
        let expected = r#"run "sh": the program failed; exit status: 3, standard error: "problem""#;
        assert_eq!(error.to_string(), expected);
    }
    let output = sh(&roots, "d", "kill -TERM $$").output().unwrap();
    let error = output.into_stdout().unwrap_err().to_string();
    let expected = r#"run "sh": the program failed; signal: 15 (SIGTERM), standard error: """#;
    assert_eq!(error, expected);
    let output = sh(&roots, "d", "printf ok").output().unwrap();
    assert_eq!(output.into_stdout().unwrap(), b"ok");
    // The path is by name only if the caller says so.
    let output = sh(&roots, "l", "pwd -P").unguarded_dir().output().unwrap();
    assert_eq!(text(output.stdout()), format!("{}\n", tree.path("r/d").display()));
}

#[cfg(target_os = "linux")]
#[test]
fn program_starts_in_a_directory_that_the_application_has_opened() {
    let tree = Tree::new("dir r; file scratch/f = content");
    let roots = tree.roots(["r"]);
    let scratch = fs::File::open(tree.path("scratch")).unwrap();
    fs::rename(tree.path("scratch"), tree.path("moved")).unwrap();
    let run = sh(&roots, ".", "pwd -P; cat f").unguarded_open_dir(scratch);
    let expected = format!("{}\ncontent", tree.path("moved").display());
    assert_eq!(text(&run.output().unwrap().into_stdout().unwrap()), expected);
    let file = fs::File::open(tree.path("moved/f")).unwrap();
    let refused = sh(&roots, ".", "true").unguarded_open_dir(file).output().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotADirectory);
}

#[test]
fn error_of_a_failed_program_ends_with_its_own_words() {
    let tree = Tree::new("dir r");
    let roots = tree.roots(["r"]);
    let run = |run: ChildCommand| run.output().unwrap().into_stdout().unwrap_err().to_string();
    // Git looks for a repository above, too.
    let git = command(&roots, ".", "git").unwrap().arg("status");
    let git = run(git.env("GIT_CEILING_DIRECTORIES", tree.path("")));
    assert!(git.starts_with(r#"run "git": "#) && git.contains("128"), "{git}");
    assert!(git.contains(r#": "fatal: not a git repository"#), "{git}");
    // Only the end, escaped. Its first character may be incomplete.
    for shift in ["", "a", "aa", "aaa"] {
        let script =
            format!("printf '%s' '{shift}' >&2; yes '\u{1f980}' | head -n 1000 >&2; exit 1");
        let error = run(sh(&roots, ".", &script));
        let (start, end) = error.rsplit_once(": ").unwrap();
        assert!(start.starts_with(r#"run "sh": "#) && start.contains(": 1, "), "{start}");
        let words = end.trim_matches('"').trim_start_matches('\u{fffd}').replace("\\n", "\n");
        assert!((2040..=2048).contains(&words.len()), "{}", words.len());
        assert!(words.chars().all(|c| c == '\u{1f980}' || c == '\n'), "{words}");
    }
    // The other errors have it, too.
    let late = sh(&roots, ".", "printf 'still \\033[1mhere' >&2; exec sleep 1000");
    let late = run(late.time_limit(Duration::from_millis(500)));
    assert!(late.starts_with(r#"run "sh": "#), "{late}");
    assert!(late.ends_with(r#": "still \u{1b}[1mhere""#), "{late}");
}

#[test]
fn refused_programs_name_their_reason() {
    let tree = Tree::new("file r/d/f; dir r/gone; file r/tool; link r/link -> /bin/sh; dir out");
    let roots = tree.roots(["r"]);
    fs::set_permissions(tree.path("r/tool"), executable()).unwrap();
    let in_root = tree.expand("$T/r/tool");
    let link = tree.expand("$T/r/link");
    for (program, expected) in [
        ("", "invalid_program"),
        ("./tool", "invalid_program"),
        ("d/tool", "invalid_program"),
        (".", "invalid_program"),
        ("..", "invalid_program"),
        ("a\0b", "invalid_program"),
        ("tool", "no_such_program"),
        ("no-such-program", "no_such_program"),
        ("/no/such/program", "no_such_program"),
        ("/etc/passwd", "no_such_program"),
        ("/etc", "no_such_program"),
        (&in_root, "program_inside_roots"),
        (&link, "program_inside_roots"),
    ] {
        assert_eq!(code(command(&roots, ".", program)), Some(expected), "{program:?}");
    }
    let error = command(&roots, ".", "no-such-program").unwrap_err().to_string();
    assert!(error.starts_with(r#"run "no-such-program": "#), "{error}");
    // A read-only root holds only what its operator put there, unless others can write to it.
    let read_only = Boundary::builder().directory(tree.path("r"), Access::ReadOnly).build();
    let read_only = read_only.unwrap().allowed_roots();
    assert!(command(&read_only, ".", &in_root).is_ok());
    assert_eq!(code(command(&roots.read_only(), ".", &in_root)), Some("program_inside_roots"));
    // The directory is opened when the program starts.
    let file = command(&roots, "d/f", "sh").unwrap();
    assert_eq!(code(file.output()), Some("not_a_directory"));
    let gone = command(&roots, "gone", "sh").unwrap();
    fs::remove_dir(tree.path("r/gone")).unwrap();
    assert_eq!(code(gone.output()), Some("not_found"));
    // The kernel reports an interpreter that does not exist like a program that does not exist.
    let script = tree.path("out/script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, executable()).unwrap();
    let error = command(&roots, ".", script.to_str().unwrap()).unwrap().output().unwrap_err();
    assert_eq!(error.code(), "no_such_program");
}

fn executable() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}

/// A client whose roots are one directory must not start a program that another client of the same
/// server wrote to an allowed directory.
#[test]
fn program_in_an_allowed_directory_of_others_is_refused() {
    let tree = Tree::new("dir work/own; file work/other/tool; link bin/tool -> ../work/other/tool");
    fs::set_permissions(tree.path("work/other/tool"), executable()).unwrap();
    let boundary = Boundary::builder().directory(tree.path("work"), Access::ReadWrite).build();
    let boundary = boundary.unwrap();
    let list = ListRootsResult::from_uris([uri(&tree.path("work/own"))]);
    let roots = boundary.narrow(&list.roots).unwrap();
    let narrowed = roots.within(".").unwrap();
    for program in ["work/other/tool", "bin/tool"] {
        let program = tree.path(program);
        for roots in [&roots, &narrowed, &roots.read_only(), &boundary.allowed_roots().read_only()]
        {
            let refused = code(command(roots, ".", program.to_str().unwrap()));
            assert_eq!(refused, Some("program_inside_roots"), "{program:?} {roots:?}");
        }
    }
}

#[test]
fn search_path_omits_relative_directories_and_writable_roots() {
    let tree = Tree::new(
        "file r/bin/tool = r; dir r/rel; file outside/tool = outside; file outside/own = own; \
         link by-link -> r/bin; link r/back -> ../outside; file f",
    );
    for tool in ["r/bin/tool", "outside/tool", "outside/own"] {
        fs::write(tree.path(tool), format!("#!/bin/sh\necho {tool}; echo \"$PATH\"\n")).unwrap();
        fs::set_permissions(tree.path(tool), executable()).unwrap();
    }
    let top = tree.expand("$T");
    let path = "bin::.:$T/r/bin:$T/by-link:$T/r/back:$T/none:$T/f:$T/outside:/usr/bin:/bin";
    let path = path.replace("$T", std::env::var(TO_CHILD).as_deref().unwrap_or(&top));
    let test = "platform::child::search_path_omits_relative_directories_and_writable_roots";
    if !is_own_process(test, &[("PATH", &path), (TO_CHILD, &top)]) {
        return;
    }
    let top = std::env::var(TO_CHILD).unwrap();
    std::env::set_current_dir(Path::new(&top).join("r")).unwrap();
    let roots = Roots::from_dirs([format!("{top}/r")], Access::ReadWrite).unwrap();
    for tool in ["tool", "own"] {
        let output = command(&roots, ".", tool).unwrap().output().unwrap();
        // A file in `PATH` contains no program, and is passed on.
        let kept = format!("outside/{tool}\n{top}/f:{top}/outside:/usr/bin:/bin\n");
        assert_eq!(text(output.stdout()), kept);
    }
}

#[test]
fn descriptors_and_environment_of_the_server_are_not_inherited() {
    let tree = Tree::new("dir r");
    let test = "platform::child::descriptors_and_environment_of_the_server_are_not_inherited";
    if !is_own_process(test, &[("SECRET_TOKEN", "secret"), ("LANG", "C.UTF-8")]) {
        return;
    }
    let roots = tree.roots(["r"]);
    // A descriptor without FD_CLOEXEC.
    let leaked = rustix::io::dup(fs::File::open(tree.path("r")).unwrap()).unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let script = "readlink /proc/self/fd/* | sort -u; env | cut -d= -f1 | sort; cat";
    // The control inherits all of these.
    let control = std::process::Command::new("sh").args(["-c", script]).output().unwrap();
    let inherited = text(&control.stdout);
    assert!(inherited.contains("SECRET_TOKEN") && inherited.contains("/r\n"), "{inherited}");
    let before = fs::read_dir("/proc/self/fd").unwrap().count();
    let output = sh(&roots, ".", script).env("ADDED", "x").env_remove("LANG").output().unwrap();
    let lines: Vec<_> = text(output.stdout()).lines().collect();
    assert!(!lines.iter().any(|line| line.contains("/r") || *line == "LANG"), "{lines:?}");
    let names =
        lines.iter().filter(|line| line.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
    for name in names.clone() {
        assert!(
            CHILD_ENVIRONMENT.contains(name)
                || ["ADDED", "PWD", "_", "OLDPWD", "SHLVL"].contains(name)
        );
    }
    assert!(names.count() >= 3 && lines.contains(&"ADDED"), "{lines:?}");
    // The server's own descriptors are still open, and none was added.
    assert_eq!(fs::read_dir("/proc/self/fd").unwrap().count(), before);
    assert!(rustix::io::fcntl_getfd(&leaked).is_ok());
}

/// Old kernels do not have close_range(2), and some containers forbid it.
#[test]
fn descriptors_are_not_inherited_without_close_range() {
    let tree = Tree::new("file r/d/f = content");
    let roots = tree.roots(["r"]);
    let test = "platform::child::descriptors_are_not_inherited_without_close_range";
    if !is_own_process(test, &[]) {
        return;
    }
    crate::support::kernel::block_call(nix::libc::SYS_close_range, 1);
    let leaked = rustix::io::dup(fs::File::open(tree.path("r")).unwrap()).unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let output = sh(&roots, "d", "cat f; ls /proc/self/fd").stdin("").output().unwrap();
    // The last one is the listing itself.
    assert_eq!(text(output.stdout()), "content0\n1\n2\n3\n");
    drop(leaked);
}

/// The server does not stop the program, because it is killed.
#[test]
fn program_ends_with_the_server() {
    if let Some(top) = std::env::var_os(TO_CHILD) {
        let roots = Roots::from_dirs([top], Access::ReadWrite).unwrap();
        let run = sh(&roots, ".", "echo $$ >starting; mv starting pid; exec sleep 60");
        let _ = run.output();
        return;
    }
    let tree = Tree::new("dir r");
    let mut server = std::process::Command::new(std::env::current_exe().unwrap());
    let test = "platform::child::program_ends_with_the_server";
    server.args(["--exact", test]).env(TO_CHILD, tree.path("r"));
    let mut server = server.stdout(std::process::Stdio::null()).spawn().unwrap();
    while !tree.path("r/pid").exists() {
        assert!(server.try_wait().unwrap().is_none(), "the server ended");
        thread::sleep(Duration::from_millis(10));
    }
    let program = fs::read_to_string(tree.path("r/pid")).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_gone(&program);
}

/// Waits until a process has ended.
fn assert_gone(pid: &str) {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    // The process that takes over orphans reaps them.
    let is_alive = || {
        test_kill_process(pid).is_ok()
            && !fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()))
                .is_ok_and(|stat| stat.contains(") Z "))
    };
    while is_alive() {
        assert!(Instant::now() < until, "{pid:?} is still running");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a command whose first line of output is the number of a process that must be gone
/// afterwards.
fn run_and_assert_gone(command: ChildCommand) -> ChildOutput {
    let started = Instant::now();
    let output = command.output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(200), "{:?}", started.elapsed());
    for pid in text(output.stdout()).split_whitespace().take(2) {
        assert_gone(pid);
    }
    output
}

#[test]
fn limits_end_the_program_and_its_group() {
    let tree = Tree::new("dir r");
    let roots = tree.roots(["r"]);
    let short = Duration::from_millis(500);
    let run = |script: &str| sh(&roots, ".", script);
    let output = run_and_assert_gone(run("sleep 1000 & echo $$ $!; wait").time_limit(short));
    assert_eq!(output.exit_reason(), ExitReason::TimedOut);
    assert_eq!(code(output.into_stdout()), Some("program_timed_out"));
    // It ignores every signal that can be ignored.
    let output = run_and_assert_gone(
        run("trap '' TERM INT HUP; echo $$; while :; do sleep 1; done").time_limit(short),
    );
    assert_eq!(output.exit_reason(), ExitReason::TimedOut);
    for endless in [
        "echo $$ $$; exec yes",
        "echo $$ $$; exec yes >&2",
        "(echo $$ $$; exec yes) & wait",
        // It does not notice that nobody reads its output any longer.
        "echo $$ $$; trap '' PIPE; while :; do echo yes; done 2>/dev/null",
    ] {
        let output = run_and_assert_gone(run(endless).output_limit(1000));
        assert_eq!(output.exit_reason(), ExitReason::OutputLimit);
        assert_eq!(output.stdout().len() + output.stderr().len(), 1000);
        assert_eq!(code(output.into_stdout()), Some("program_output_too_large"));
    }
    let endless = run("printf ok").time_limit(Duration::MAX).output_limit(usize::MAX);
    assert_eq!(endless.output().unwrap().into_stdout().unwrap(), b"ok");
    let exact = run("printf 12345; printf 67890 >&2").output_limit(10).output().unwrap();
    assert_eq!(
        (exact.success(), exact.stdout(), exact.stderr()),
        (true, &b"12345"[..], &b"67890"[..])
    );
    let over = run("printf 12345; printf 67890 >&2").output_limit(9).output().unwrap();
    assert_eq!(over.exit_reason(), ExitReason::OutputLimit);
    // A process that is left behind ends with the program.
    let output = run_and_assert_gone(run("sleep 1000 & echo $$ $!"));
    assert!(output.success());
    // Input that is never read.
    let output = run("echo done").stdin(vec![b'x'; 10 << 20]).output().unwrap();
    assert_eq!(output.stdout(), b"done\n");
    // Processes that keep forking.
    let forks = "echo $$ $$; f() { while :; do (f) & sleep 0.1; done; }; f";
    let output = run_and_assert_gone(run(forks).time_limit(short));
    assert_eq!(output.exit_reason(), ExitReason::TimedOut);
    let left = std::process::Command::new("pgrep").args(["-f", "f() { while"]).output();
    assert!(left.is_err() || left.is_ok_and(|left| left.stdout.is_empty()));
}

/// One thread writes the input and reads both outputs.
#[test]
fn no_pipe_delays_another_or_the_end() {
    let tree = Tree::new("dir r");
    let roots = tree.roots(["r"]);
    let large: Vec<u8> = (0..3 << 20).map(|number: u32| number.to_le_bytes()[0]).collect();
    let both = sh(&roots, ".", "tee /dev/stderr").stdin(large.clone()).output_limit(usize::MAX);
    let both = both.output().unwrap();
    assert!(both.success() && both.stdout() == large && both.stderr() == large);
    // It neither reads its input nor ends.
    let silent = sh(&roots, ".", "echo $$ $$; exec sleep 1000").stdin(large.clone());
    let silent = run_and_assert_gone(silent.time_limit(Duration::from_millis(500)));
    assert_eq!(silent.exit_reason(), ExitReason::TimedOut);
    // It always has output.
    let endless = sh(&roots, ".", "echo $$ $$; while :; do echo; done").output_limit(usize::MAX);
    let endless = run_and_assert_gone(endless.time_limit(Duration::from_millis(500)));
    assert_eq!(endless.exit_reason(), ExitReason::TimedOut);
    // It closes its input and continues to write.
    let closed = sh(&roots, ".", "exec <&-; sleep 0.2; printf ok").stdin(large);
    assert_eq!(closed.output().unwrap().into_stdout().unwrap(), b"ok");
}

/// The end of a pipe is always ready, and must not keep the thread busy.
#[test]
fn program_that_closes_its_output_and_continues_costs_no_processor_time() {
    let test =
        "platform::child::program_that_closes_its_output_and_continues_costs_no_processor_time";
    if !is_own_process(test, &[]) {
        return;
    }
    let tree = Tree::new("dir r");
    let roots = tree.roots(["r"]);
    let used = || {
        let used = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
        Duration::from(used)
    };
    let before = used();
    for script in ["exec >&- 2>&-; sleep 1; echo >f", "exec >&-; sleep 1", "exec <&-; sleep 1"] {
        let output = sh(&roots, ".", script).stdin(vec![b'x'; 1 << 20]).output().unwrap();
        assert!(output.success(), "{script}");
    }
    let used = used().checked_sub(before).unwrap();
    assert!(tree.path("r/f").exists());
    assert!(used < Duration::from_millis(500), "{used:?}");
}

/// It leaves the group, so it is not killed. The caller does not wait for it, and it does not count
/// as a child process, although it holds the input and the output open.
#[test]
fn process_that_escapes_its_group_delays_nobody() {
    const THREADS: usize = 16;
    let tree = Tree::new("dir r");
    let roots = tree.roots(["r"]);
    let started = Instant::now();
    let script = "exec 3<&0; setsid sh -c 'echo $$ >$0; exec sleep 300' $$ <&3 &
        while [ ! -s $$ ]; do sleep 0.01; done; cat $$";
    // The threads notice soon after the call has ended.
    let escape = || loop {
        match sh(&roots, ".", script).stdin(vec![0; 1 << 20]).output() {
            Err(error) if error.code() == "too_many_children" => {
                assert!(started.elapsed() < Duration::from_secs(250));
                thread::sleep(Duration::from_millis(10));
            }
            output => {
                let output = output.unwrap();
                assert!(output.success());
                break Pid::from_raw(text(output.stdout()).trim().parse().unwrap()).unwrap();
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| (0..=CHILDREN / THREADS).map(|_| escape()).collect::<Vec<_>>()))
            .collect();
        for escaped in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
            rustix::process::kill_process(escaped, rustix::process::Signal::KILL).unwrap();
        }
    });
    assert!(started.elapsed() < Duration::from_secs(290), "{:?}", started.elapsed());
}

/// The controls keep their privileges. Those that need root run only if the user is root.
#[test]
#[cfg(target_os = "linux")]
fn program_has_no_capabilities_and_gains_none() {
    let tree = Tree::new("file r/f; dir r/d");
    let roots = tree.roots(["r"]);
    let both = |script: &str| {
        let run = || sh(&roots, ".", script);
        [run(), run().keep_privileges()].map(|run| run.output().unwrap())
    };
    let status = "grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs):' /proc/self/status";
    let [dropped, _] = both(status);
    let values = text(dropped.stdout()).lines().map(|line| line.split_whitespace().last().unwrap());
    let values: Vec<_> = values.map(|value| u64::from_str_radix(value, 16).unwrap()).collect();
    assert_eq!(values, [0, 0, 0, 0, 1], "{}", text(dropped.stdout()));
    // The thread that starts a program is the only one that loses them.
    assert!(!nix::sys::prctl::get_no_new_privs().unwrap());
    if !rustix::process::geteuid().is_root() {
        println!("not tested: the powers of root require a server that runs as root");
        return;
    }
    fs::copy("/usr/bin/id", tree.path("r/id")).unwrap();
    std::os::unix::fs::chown(tree.path("r/id"), Some(65_534), None).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    fs::set_permissions(tree.path("r/id"), mode).unwrap();
    for (script, with, without) in [
        ("chown 1 f && echo changed", "changed\n", ""),
        ("mknod n c 1 3 && echo made", "made\n", ""),
        ("./id -u", "65534\n", "0\n"),
    ] {
        let [dropped, kept] = both(script);
        assert_eq!([text(kept.stdout()), text(dropped.stdout())], [with, without], "{script}");
    }
}

#[test]
fn a_program_is_stopped_with_its_roots() {
    let tree = Tree::new("dir r");
    let (roots, turn) = tree.roots(["r"]).stoppable();
    let run = sh(&roots, ".", "echo $$ >pid; sleep 1000");
    let later = sh(&roots, ".", "echo $$ >pid");
    let running = thread::spawn(move || run.output());
    let pid = wait_for_file(&tree.path("r/pid"));
    assert!(!running.is_finished());
    turn.stop("the turn has ended");
    assert_eq!(code(running.join().unwrap()), Some("stopped"));
    assert_gone(&pid);
    // One that was prepared before does not start.
    fs::remove_file(tree.path("r/pid")).unwrap();
    assert_eq!(code(later.output()), Some("stopped"));
    assert!(!tree.path("r/pid").exists());
}

/// Returns the line in a file once it has been written.
fn written(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().filter(|line| line.ends_with('\n'))
}

fn wait_for_file(path: &Path) -> String {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(line) = written(path) {
            return line;
        }
        assert!(Instant::now() < until, "{} was not written", path.display());
        thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn dropped_future_stops_the_program() {
    let tree = Tree::new("dir r");
    let roots = tree.roots(["r"]);
    let output = sh(&roots, ".", "cat").stdin("in").output_async().await.unwrap();
    assert_eq!(output.stdout(), b"in");
    let run = sh(&roots, ".", "echo $$ >pid; sleep 1000").output_async();
    let wait = async {
        while written(&tree.path("r/pid")).is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = run => panic!("the program is expected to run"),
        () = wait => {}
    }
    assert_gone(&wait_for_file(&tree.path("r/pid")));
}

/// Each client gets a share, and the next one gets a program, too.
#[test]
fn running_programs_are_limited_for_each_client() {
    let test = "platform::child::running_programs_are_limited_for_each_client";
    if !is_own_process(test, &[]) {
        return;
    }
    let tree = Tree::new("dir r");
    // A stopped turn belongs to no client.
    let roots = tree.roots(["r"]);
    let (in_turn, turn) = roots.clone().stoppable();
    let running: Vec<_> = (0..CHILDREN)
        .map(|_| {
            let run = sh(&in_turn, ".", "sleep 1000");
            thread::spawn(move || code(run.output()))
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(60);
    let refused = || running.iter().filter(|run| run.is_finished()).count();
    // These roots belong to no client, which counts as one client.
    let share = CHILDREN * 2 / 3 + 1;
    while refused() < CHILDREN - share {
        assert!(Instant::now() < until, "{} were refused", refused());
        thread::sleep(Duration::from_millis(10));
    }
    let boundary = Boundary::builder().directory(tree.path("r"), Access::ReadWrite).build();
    let guard = Guard::new(boundary.unwrap());
    let other = guard.session(ClientCapabilities::WithoutRoots).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = |_: Option<String>| async { RootsResponse::Unsupported };
    let other = runtime.block_on(other.roots(answer)).unwrap();
    assert_eq!(sh(&other, ".", "printf other").output().unwrap().stdout(), b"other");
    turn.stop("the turn has ended");
    let codes: Vec<_> = running.into_iter().map(|run| run.join().unwrap()).collect();
    let count = |code| codes.iter().filter(|found| **found == Some(code)).count();
    assert_eq!(count("stopped"), share);
    assert_eq!(count("too_many_children"), CHILDREN - share);
    // The permits are returned.
    assert!(sh(&roots, ".", "true").output().unwrap().success());
}

/// While the directory is exchanged with a symlink to the outside, the program starts in the root
/// or not at all. The control sets the directory by the checked path. `GUARD_CHILD_STARTS` is the
/// number of starts.
#[test]
fn program_never_starts_outside_while_its_directory_is_swapped() {
    let starts: usize =
        std::env::var("GUARD_CHILD_STARTS").map_or(200, |starts| starts.parse().unwrap());
    let tree = Tree::new("file r/d/mark = inside; file out/mark = outside; link swap -> $T/out");
    let roots = tree.roots(["r"]);
    let is_done = AtomicBool::new(false);
    let (mut guarded, mut control) = ([0; 2], [0; 2]);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (one, two) = (tree.path("r/d"), tree.path("swap"));
            while !is_done.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).unwrap();
                // A program takes about a millisecond to start.
                thread::sleep(Duration::from_millis(1));
            }
        });
        let until = Instant::now() + Duration::from_secs(600);
        let enough = |[inside, outside]: [usize; 2], control: [usize; 2]| {
            inside + outside >= starts && control[1] > 0
        };
        while !enough(guarded, control) && Instant::now() < until {
            let command = || command(&roots, "d", "/bin/cat").map(|command| command.arg("mark"));
            count_start(&mut guarded, command().and_then(ChildCommand::output));
            let by_path = command().map(ChildCommand::unguarded_dir);
            count_start(&mut control, by_path.and_then(ChildCommand::output));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    println!("started [inside, outside] {guarded:?}, and by path {control:?}");
    assert!(guarded[0] >= starts && control[1] > 0, "the race is expected to be seen");
    assert_eq!(guarded[1], 0);
}

/// Counts in which directory a program started, if it did.
fn count_start(counts: &mut [usize; 2], run: Result<ChildOutput>) {
    if let Ok(output) = run {
        let mark = text(output.stdout());
        let number = ["inside", "outside"].iter().position(|known| *known == mark);
        counts[number.unwrap()] += 1;
    }
}
