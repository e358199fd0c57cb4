//! Programs that the server cannot reap at once, or at all, and what they cost it.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mcp_roots_guard::{Channel, ChildCommand, ChildOutput, Confinement, ExitReason, Roots};
use nix::libc;
use rustix::process::Pid;

use super::{command, text};
use crate::TO_CHILD;
use crate::support::is_own_process;
use crate::support::tree::Tree;

/// How a program tries to outlive its limit. Each runs confined and not confined.
struct Attempt {
    name: &'static str,
    /// For Perl, which can make any system call. `None`: the name is one of [`probe`].
    script: Option<&'static str>,
    /// Whether it cannot be reaped as long as the thread that started it or its tracer exists.
    is_kept: bool,
}

const fn script(name: &'static str, script: &'static str) -> Attempt {
    Attempt { name, script: Some(script), is_kept: false }
}

const fn probe_named(name: &'static str) -> Attempt {
    Attempt { name, script: None, is_kept: false }
}

/// The children that are left behind end by themselves, two or three seconds later.
const ATTEMPTS: [Attempt; 8] = [
    probe_named("second thread is traced"),
    Attempt { is_kept: true, ..probe_named("second thread is traced, in another group") },
    Attempt {
        is_kept: true,
        ..script(
            "traced by a process that is left behind",
            "syscall($prctl, 0x59616d61, -1, 0, 0, 0);
             $program = $$; sleep 60 if fork; setsid;
             syscall($ptrace, 0x4206, $program, 0, 0) == 0 or exit; sleep 3",
        )
    },
    script("forks twice", "exit if fork; setsid; exit if fork; sleep 2"),
    script(
        "has children of the server",
        "for (1..8) { if (syscall($clone, $parent, 0, 0, 0, 0) == 0) { sleep 60 if $_ % 2; exit } }
         sleep 60",
    ),
    script("stops itself", "kill STOP => $$; sleep 60"),
    script("ignores signals", "$SIG{$_} = 'IGNORE' for keys %SIG; sleep 60 while 1"),
    script("is traced by the server and stops", "syscall($ptrace, 0, 0, 0, 0); kill STOP => $$"),
];

const PROBES: &str = "platform::child::unreaped::programs_that_cannot_be_reaped_cost_nothing";

/// What a program does in which [`ATTEMPTS`] has no script.
fn probe(name: &str) {
    // Its leader leaves the group of the program, for that of another process.
    if name.ends_with("in another group") {
        let mut other = std::process::Command::new("sleep");
        std::os::unix::process::CommandExt::process_group(&mut other, 0);
        let other = Pid::from_child(&other.arg("3").spawn().unwrap());
        rustix::process::setpgid(None, Some(other)).unwrap();
    }
    // Its tracer is the thread of the server that started the program (ptrace(2)).
    thread::spawn(|| nix::sys::ptrace::traceme().unwrap()).join().unwrap();
    thread::sleep(Duration::from_secs(60));
}

fn start(roots: &Roots, attempt: &Attempt, is_confined: bool) -> ChildOutput {
    let run = if let Some(script) = attempt.script {
        let numbers = format!(
            "use POSIX; my ($clone, $parent, $ptrace, $prctl) = ({}, {}, {}, {});",
            libc::SYS_clone,
            libc::CLONE_PARENT | libc::SIGCHLD,
            libc::SYS_ptrace,
            libc::SYS_prctl
        );
        command(roots, ".", "perl")
            .unwrap()
            .arg("-e")
            .arg(format!("{numbers} {script}"))
            .env("LC_ALL", "C")
    } else {
        let exe = std::env::current_exe().unwrap();
        let run = command(roots, ".", exe.to_str().unwrap()).unwrap();
        run.args(["--exact", PROBES, "--nocapture"]).env(TO_CHILD, attempt.name)
    };
    confined(run.time_limit(LIMIT), is_confined).output().unwrap()
}

fn confined(run: ChildCommand, is_confined: bool) -> ChildCommand {
    if is_confined { run.confined(Confinement::default().programs()) } else { run }
}

/// Each program has begun its attempt by then.
const LIMIT: Duration = Duration::from_secs(1);

/// How many of them run at the same time, fewer than a client may start.
const THREADS: usize = 32;

/// `GUARD_CHILD_STARTS` is the number of starts.
#[test]
fn programs_that_cannot_be_reaped_cost_nothing() {
    if let Ok(name) = std::env::var(TO_CHILD) {
        return probe(&name);
    }
    if !is_own_process(PROBES, &[]) {
        return;
    }
    let starts = std::env::var("GUARD_CHILD_STARTS").map_or(128, |starts| starts.parse().unwrap());
    let tree = Tree::new("dir r");
    let roots = tree.roots(["r"]);
    assert!(command(&roots, ".", "true").unwrap().output().unwrap().success());
    let before = held();
    let next = AtomicUsize::new(0);
    let (slowest, kept) = (Mutex::new(Duration::ZERO), Mutex::new(Vec::new()));
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= starts {
            break;
        }
        let attempt = &ATTEMPTS[number / 2 % ATTEMPTS.len()];
        let started = Instant::now();
        let output = start(&roots, attempt, number % 2 == 0);
        let (name, took) = (attempt.name, started.elapsed());
        let late = took.saturating_sub(LIMIT);
        let mut slowest = slowest.lock().unwrap();
        *slowest = late.max(*slowest);
        drop(slowest);
        // At most three on a machine that is not slow. Without the defense, it is ten.
        assert!(late < Duration::from_secs(6), "{name}: {late:?}");
        let is_ended = matches!(output.exit_reason(), ExitReason::Exited(_));
        assert!(is_ended || output.exit_reason() == ExitReason::TimedOut, "{name}: {output:?}");
        assert!(text(output.stderr()).is_empty(), "{name}: {}", text(output.stderr()));
        if attempt.is_kept && late >= Duration::from_secs(2) {
            kept.lock().unwrap().push(name);
        }
    };
    thread::scope(|scope| {
        for worker in (0..THREADS).map(|_| scope.spawn(work)).collect::<Vec<_>>() {
            worker.join().unwrap();
        }
    });
    let (slowest, kept) = (slowest.into_inner().unwrap(), kept.into_inner().unwrap());
    let number = kept.len();
    println!("{starts} starts, {number} not reaped in time, results up to {slowest:?} late");
    for attempt in ATTEMPTS.iter().filter(|attempt| attempt.is_kept) {
        assert!(kept.contains(&attempt.name), "{}", attempt.name);
    }
    let until = Instant::now() + Duration::from_secs(60);
    while held() != before {
        assert!(Instant::now() < until, "{before:?}, now {:?}", held());
        thread::sleep(Duration::from_millis(100));
        // A later start reaps what could not be reaped.
        assert!(command(&roots, ".", "true").unwrap().output().unwrap().success());
    }
}

/// A sibling that leaves the group could not be found to reap it.
#[test]
fn confined_program_cannot_create_children_of_the_server() {
    let tree = Tree::new("dir r");
    let roots = tree.roots(["r"]);
    let (call, flags) = (libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD);
    let script = format!(
        "$sibling = syscall({call}, {flags}, 0, 0, 0, 0); exit if $sibling == 0; print $! + 0, q( );
         syscall({}, 0, 0); print $! + 0",
        libc::SYS_clone3,
    );
    let channels = [Channel::Network, Channel::Signals, Channel::UnixSockets];
    let all = channels.into_iter().fold(Confinement::default().programs(), Confinement::allow);
    let run = || command(&roots, ".", "perl").unwrap().args(["-e", &script]);
    for (run, expected) in [
        (run(), format!("0 {}", libc::EINVAL)),
        (confined(run(), true), format!("{} {}", libc::EACCES, libc::ENOSYS)),
        (run().confined(all), format!("{} {}", libc::EACCES, libc::ENOSYS)),
    ] {
        let output = run.output().unwrap();
        assert_eq!(text(output.stdout()), expected, "{}", text(output.stderr()));
    }
}

/// The numbers of threads, descriptors, and children of this process.
fn held() -> [usize; 3] {
    let count = |path| fs::read_dir(path).unwrap().count();
    let is_child = |process: &fs::DirEntry| {
        let status = fs::read_to_string(process.path().join("status")).unwrap_or_default();
        status.contains(&format!("\nPPid:\t{}\n", std::process::id()))
    };
    let children =
        fs::read_dir("/proc").unwrap().filter(|process| is_child(process.as_ref().unwrap()));
    [count("/proc/self/task"), count("/proc/self/fd"), children.count()]
}
