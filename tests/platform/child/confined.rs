//! Attempts of a confined program, and of the programs that it starts, to leave the roots.
//!
//! Each attempt also runs unconfined, where it must succeed. Attempts that a shell cannot make are
//! made by this test binary, which the confined program runs ([`probe`]).

use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use mcp_roots_guard::{
    Access, Boundary, Channel, ChildCommand, ChildOutput, Confinement, ExitReason, ExtraAccess,
    ListRootsResult, Roots,
};
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::{command, executable, sh, text};
use crate::TO_CHILD;
use crate::support::tree::{Tree, uri};
use crate::support::{code, is_own_process};

const TREE: &str = "file r/f = inside; dir r/d; file ro/f = read-only; file out/secret = SECRET; \
                    dir out/dir; file out/victim = victim; file out/gone = gone";

fn confined(command: ChildCommand) -> ChildCommand {
    command.confined(Confinement::default().programs())
}

fn roots(tree: &Tree) -> Roots {
    let boundary = Boundary::builder()
        .directory(tree.path("r"), Access::ReadWrite)
        .directory(tree.path("ro"), Access::ReadOnly);
    boundary.build().unwrap().allowed_roots()
}

/// Whether an attempt succeeded: it printed the secret, or changed something outside.
fn escaped(tree: &Tree, before: &[String], output: &ChildOutput) -> bool {
    text(output.stdout()).contains("SECRET") || outside(tree) != before
}

fn outside(tree: &Tree) -> Vec<String> {
    [tree.snapshot("out"), tree.snapshot("ro")].concat()
}

#[test]
fn confined_program_and_its_children_stay_inside() {
    let attempts = [
        "cat ../out/secret",
        "cat $T/out/secret",
        "cat d/../../out/secret",
        "cd .. && cat out/secret",
        "ln -s ../out/secret l && cat l",
        "ln $T/out/secret h && cat h",
        "cp $T/out/secret copy && cat copy",
        "cat /proc/self/root$T/out/secret",
        "cat /proc/self/cwd/../out/secret",
        "cat /proc/thread-self/root$T/out/secret",
        "tr '\\0' '\\n' </proc/$SERVER/environ",
        "cat /proc/$SERVER/root$T/out/secret",
        "ls $T/out && echo SECRET",
        "test -n \"$(find $T/out -name victim -printf %f)\" && ls $T/out/dir && echo SECRET",
        "echo new >$T/out/new",
        ": >$T/out/victim",
        "echo more >>$T/out/victim",
        "rm $T/out/gone",
        "rmdir $T/out/dir",
        "mkdir $T/out/more",
        "mv f $T/out/f",
        "mv $T/out/gone .",
        "mv d $T/out/d",
        "ln f $T/out/hard",
        "ln -s f $T/out/soft",
        "mkfifo $T/out/fifo",
        "echo new >$T/ro/new",
        "echo new >$T/ro/f",
        "mv $T/ro/f here",
        "printf '#!/bin/sh\\ncat $T/out/secret' >run; chmod +x run; ./run || sh ./run",
        "setsid cat $T/out/secret",
        "nohup cat $T/out/secret",
        "cat $T/out/secret | cat",
    ];
    for attempt in attempts {
        for level in ["", "sh -c \"$SCRIPT\"", "(sh -c \"sh -c \\\"\\$SCRIPT\\\"\" & wait $!)"] {
            let mut is_escape = [false, true].map(|is_confined| {
                let tree = Tree::new(TREE);
                let roots = roots(&tree);
                let before = outside(&tree);
                let script = tree.expand(attempt);
                let run = sh(&roots, ".", if level.is_empty() { &script } else { level });
                let server = std::process::id().to_string();
                let run = run.env("SCRIPT", &script).env("SERVER", server);
                let run = if is_confined { confined(run) } else { run.keep_privileges() };
                escaped(&tree, &before, &run.output().unwrap())
            });
            // The server's environment contains no secret here.
            is_escape[0] |= attempt.contains("/environ");
            assert_eq!(is_escape, [true, false], "{attempt} {level}");
        }
    }
}

/// A documented limit, because Landlock does not restrict these changes.
#[test]
fn confined_program_can_change_modes_and_times_outside() {
    let tree = Tree::new(TREE);
    let script = tree.expand("chmod 600 $T/out/victim && touch -c -d 2000-01-01 $T/out/victim");
    let output = confined(sh(&roots(&tree), ".", &script)).output().unwrap();
    assert!(output.success(), "{output:?}");
}

#[test]
fn confined_program_works_inside_its_roots() {
    let tree = Tree::new(TREE);
    let roots = roots(&tree);
    let script = "set -e; cat f; echo new >d/new; mv d/new new; cat new; mkdir e; ln new hard; \
                  ln -s new soft; cat soft; rm new; cat ../ro/f; ls .. >/dev/null || echo refused";
    let output = confined(sh(&roots, ".", script)).output().unwrap();
    let expected = "insidenew\nnew\nread-onlyrefused\n";
    assert_eq!((text(output.stdout()), output.success()), (expected, true), "{output:?}");
    let report = output.report().unwrap();
    assert_eq!(report.not_enforced().next(), None);
    let shown = report.to_string();
    assert!(shown.contains("enforced, 1 thread\n"), "{shown}");
    assert_eq!(shown.matches("\n  denied: ").count(), 4, "{shown}");
    assert_eq!(shown.matches("\n  directory, ").count(), 2, "{shown}");
    assert_eq!(report.paths().nth(1).map(|(_, access)| access), Some(ExtraAccess::ReadOnly));
    // A kernel that enforces everything also enforces it if it need not.
    let partial = Confinement::default().programs().allow_partial();
    let output = sh(&roots, ".", "cat ../out/secret").confined(partial).output().unwrap();
    assert_eq!((output.stdout(), output.success()), (&b""[..], false));
    assert_eq!(output.report().unwrap().not_enforced().next(), None);
    // The server and its other threads are not confined.
    assert_eq!(fs::read(tree.path("out/secret")).unwrap(), b"SECRET");
    let secret = tree.path("out/secret");
    thread::spawn(move || fs::read(secret).unwrap()).join().unwrap();
    // Without the extras, the program cannot load its libraries.
    let output = sh(&roots, ".", "true").confined(Confinement::default()).output();
    assert!(output.is_err() || !output.unwrap().success());
}

/// What only the guard knows or hides does not reach a program.
#[test]
fn patterns_do_not_reach_a_confined_program() {
    let tree = Tree::new("file r/.env = KEY; file r/.git/config = [core]; file out/secret");
    let boundary = Boundary::builder().directory(tree.path("r"), Access::ReadWrite);
    let boundary = boundary.deny(".env*").protect(".git").build().unwrap();
    let roots = boundary.allowed_roots();
    assert_eq!(code(roots.read(".env", 9)), Some("protected"));
    assert_eq!(code(roots.write(".git/config", "")), Some("protected"));
    assert_eq!(code(roots.check("../out/secret")), code(roots.check("../out/none")));
    let script = "cat .env && echo new >.git/config && test -e ../out/secret -a ! -e ../out/none";
    let output = confined(sh(&roots, ".", script)).output().unwrap();
    assert!(output.success() && output.stdout() == b"KEY", "{output:?}");
    assert_eq!(fs::read(tree.path("r/.git/config")).unwrap(), b"new\n");
}

/// As with pyenv and nvm, whose programs are in the home directory.
#[test]
fn refusal_to_run_an_interpreter_outside_says_how_to_allow_it() {
    let tree = Tree::new("dir r; dir out");
    let roots = tree.roots(["r"]);
    // Another process writes them, because a file that is open for writing cannot be run.
    let install = "cp /bin/sh sh && printf '#!%s -e\necho ran\n' $PWD/sh >tool && chmod +x tool";
    let out = tree.path("out");
    let installed = Command::new("sh").args(["-c", install]).current_dir(&out).status();
    assert!(installed.unwrap().success());
    let [tool, interpreter] = ["out/tool", "out/sh"].map(|name| tree.path(name));
    let tool = tool.to_str().unwrap();
    let programs = Confinement::default().programs();
    let run = |program: &str, confinement: &Confinement| {
        let run = command(&roots, ".", program).unwrap().args(["-c", tool]);
        run.confined(confinement.clone()).output()
    };
    let refused = run(tool, &programs).unwrap_err();
    assert_eq!(refused.code(), "permission_denied");
    let (shown, detail) = (refused.to_string(), refused.operator_detail().unwrap());
    assert!(shown.starts_with(&format!("run {tool:?}: permission denied; ")), "{shown}");
    assert!(shown.contains("`Confinement::extra` with `ExtraAccess::Execute`"), "{shown}");
    assert!(!shown.contains(interpreter.to_str().unwrap()), "{shown}");
    assert_eq!(detail, format!("the first line of the program names {interpreter:?}"));
    // A shell reports that it could not run the tool.
    let refused = run("sh", &programs).unwrap().into_stdout().unwrap_err().to_string();
    assert!(refused.contains("status: 126, ") && refused.contains("Confinement::ex"), "{refused}");
    let unconfined = sh(&roots, ".", "exit 126").output().unwrap().into_stdout().unwrap_err();
    assert!(!unconfined.to_string().contains("confine"), "{unconfined}");
    let allowed = programs.extra(interpreter, ExtraAccess::Execute);
    assert_eq!(run(tool, &allowed).unwrap().into_stdout().unwrap(), b"ran\n");
}

#[test]
fn roots_in_force_limit_a_confined_program() {
    let tree = Tree::new("file w/a/f = A; file w/b/f = B; file w/one = ONE; file w/two = TWO");
    let boundary = Boundary::builder().directory(tree.path("w"), Access::ReadWrite).build();
    let boundary = boundary.unwrap();
    let of = |paths: &[&str]| {
        let list = ListRootsResult::from_uris(paths.iter().map(|path| uri(&tree.path(path))));
        boundary.narrow(&list.roots).unwrap()
    };
    let script = tree.expand(
        "cat $T/w/a/f; cat $T/w/b/f; cat $T/w/one; cat $T/w/two; echo x >$T/w/b/n && echo N",
    );
    let run = |roots: &Roots, directory: &str| {
        let output = confined(sh(roots, directory, &script)).output().unwrap();
        let _ = fs::remove_file(tree.path("w/b/n"));
        text(output.stdout()).to_owned()
    };
    let all = boundary.allowed_roots();
    assert_eq!(run(&all, "."), "ABONETWON\n");
    assert_eq!(run(&all.read_only(), "."), "ABONETWO");
    assert_eq!(run(&all.within("a").unwrap(), "."), "A");
    assert_eq!(run(&of(&["w/a"]), "."), "A");
    assert_eq!(run(&of(&["w/b"]), "."), "BN\n");
    // A file root grants the file and not its parent.
    assert_eq!(run(&of(&["w/a", "w/one"]), "."), "AONE");
    // A root that is gone grants nothing, and does not affect the others.
    let two = of(&["w/a", "w/b"]);
    fs::rename(tree.path("w/b"), tree.path("w/moved")).unwrap();
    assert_eq!(run(&two, "."), "A");
    fs::rename(tree.path("w/moved"), tree.path("w/b")).unwrap();
    // Two clients' programs at the same time.
    thread::scope(|scope| {
        for (directory, expected) in [("w/a", "A"), ("w/b", "BN\n")] {
            let (of, run) = (&of, &run);
            scope.spawn(move || {
                for _ in 0..20 {
                    assert_eq!(run(&of(&[directory]), "."), expected);
                }
            });
        }
    });
}

/// The attempts that only a program can make, by name. Each returns whether it succeeded.
fn probe(name: &str, argument: &str, server: Pid, threads: &[Pid]) -> bool {
    match name {
        "ptrace" => ptrace::seize(server, ptrace::Options::empty()).is_ok(),
        // The numbers of the server's threads are between its own and the one of this program.
        "signal-thread" => {
            threads.iter().any(|thread| nix::sys::signal::kill(*thread, None).is_ok())
        }
        "ptrace-thread" => {
            threads.iter().any(|thread| ptrace::seize(*thread, ptrace::Options::empty()).is_ok())
        }
        "limit" => {
            use rustix::process::{Resource, getrlimit, prlimit};
            let server = rustix::process::Pid::from_raw(server.as_raw());
            prlimit(server, Resource::Nofile, getrlimit(Resource::Nofile)).is_ok()
        }
        "group" => {
            let group = nix::unistd::getpgid(Some(server)).unwrap();
            nix::unistd::setpgid(Pid::from_raw(0), group).unwrap();
            thread::sleep(Duration::from_secs(60));
            false
        }
        "signal" => nix::sys::signal::kill(server, nix::sys::signal::Signal::SIGCONT).is_ok(),
        "tcp-connect" => TcpStream::connect(argument).is_ok(),
        "tcp-listen" => TcpListener::bind("127.0.0.1:0").is_ok(),
        "abstract-socket" => {
            let address = SocketAddr::from_abstract_name(argument).unwrap();
            UnixStream::connect_addr(&address).is_ok()
        }
        "udp" => UdpSocket::bind("127.0.0.1:0")
            .is_ok_and(|socket| socket.send_to(b"x", argument).is_ok()),
        "unix-stream" => UnixStream::connect(argument).is_ok(),
        "unix-datagram" => {
            UnixDatagram::unbound().is_ok_and(|socket| socket.send_to(b"x", argument).is_ok())
        }
        "unix-pair" => {
            UnixDatagram::pair().is_ok_and(|(socket, _)| socket.connect(argument).is_ok())
        }
        "io_uring" => io_uring::IoUring::new(1).is_ok(),
        "watch" => match watch(argument) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error, rustix::io::Errno::ACCESS);
                false
            }
        },
        "fanotify" => {
            use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags};
            // Without a capability, a group must report handles of files (fanotify_init(2)).
            let flags = InitFlags::from_bits_retain(nix::libc::FAN_REPORT_FID);
            Fanotify::init(flags, EventFFlags::O_RDONLY).is_ok()
        }
        "descriptor" => {
            // A directory of the server that this program inherited.
            (3..64)
                .any(|number| fs::read_to_string(format!("/proc/self/fd/{number}/secret")).is_ok())
        }
        _ => panic!("{name}"),
    }
}

/// Watches a directory until another process creates the entry [`WATCHED`].
fn watch(directory: &str) -> rustix::io::Result<()> {
    use rustix::fs::inotify;
    let instance = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&instance, directory, inotify::WatchFlags::CREATE)?;
    let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
    let mut events = inotify::Reader::new(instance, &mut buffer);
    while events.next()?.file_name().is_none_or(|name| name.to_bytes() != WATCHED.as_bytes()) {}
    Ok(())
}

const WATCHED: &str = "watched";

/// This process and its other threads. A confined program cannot list them.
fn own_threads() -> String {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
    let first = std::process::id().to_string();
    let others: Vec<_> = names.filter(|name| *name != first).collect();
    format!("{first} {}", others.join(" "))
}

const PROBE: &str = "platform::child::confined::probes_of_a_confined_program_are_refused";

#[test]
fn probes_of_a_confined_program_are_refused() {
    if let Ok(told) = std::env::var(TO_CHILD) {
        let [name, argument, threads] = told.split('\n').collect::<Vec<_>>()[..] else {
            panic!("{told}")
        };
        let threads = threads.split_whitespace().map(|it| Pid::from_raw(it.parse().unwrap()));
        let threads: Vec<_> = threads.collect();
        let succeeded = probe(name, argument, threads[0], &threads[1..]);
        println!("{}", if succeeded { "SUCCEEDED" } else { "REFUSED" });
        return;
    }
    if !is_own_process(PROBE, &[]) {
        return;
    }
    // Any process of the user may trace this one (ptrace(2), Yama).
    let _ = rustix::process::set_ptracer(rustix::process::PTracer::Any);
    let tree = Tree::new(TREE);
    let roots = roots(&tree);
    let leaked = rustix::io::dup(fs::File::open(tree.path("out")).unwrap()).unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp_address = tcp.local_addr().unwrap().to_string();
    let name = format!("guard-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_address = udp.local_addr().unwrap().to_string();
    let [stream, datagram] = ["out/stream", "out/datagram"].map(|name| tree.path(name));
    let _stream = UnixListener::bind(&stream).unwrap();
    let _datagram = UnixDatagram::bind(&datagram).unwrap();
    let [stream, datagram] = [&stream, &datagram].map(|path| path.to_str().unwrap());
    let exe = std::env::current_exe().unwrap();
    let probe = |probe: &str, argument: &str| {
        let run = command(&roots, ".", exe.to_str().unwrap()).unwrap();
        let run = run.args(["--exact", PROBE, "--nocapture", "--test-threads=1"]);
        run.env(TO_CHILD, [probe, argument, &own_threads()].join("\n"))
    };
    let run = |name: &str, argument: &str, choose: &dyn Fn(ChildCommand) -> ChildCommand| {
        let output = choose(probe(name, argument)).output().unwrap();
        let shown = text(output.stdout());
        assert!(output.success(), "{shown} {}", text(output.stderr()));
        assert_ne!(shown.contains("SUCCEEDED"), shown.contains("REFUSED"), "{shown}");
        shown.contains("SUCCEEDED")
    };
    let (outside, inside) = (tree.path("out"), tree.path("r"));
    let [outside, inside] = [&outside, &inside].map(|path| path.to_str().unwrap());
    // Another process of the user works in both directories.
    let (stop, stopped) = mpsc::channel::<()>();
    let works = [outside, inside].map(|directory| Path::new(directory).join(WATCHED));
    let worker = thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout) {
            for path in &works {
                fs::write(path, "").unwrap();
                fs::remove_file(path).unwrap();
            }
        }
    });
    let channels = [Channel::Network, Channel::Signals, Channel::UnixSockets, Channel::Watches];
    for (probe, argument, channel) in [
        ("ptrace", "", None),
        ("ptrace-thread", "", None),
        ("signal", "", Some(Channel::Signals)),
        ("signal-thread", "", Some(Channel::Signals)),
        ("limit", "", Some(Channel::Signals)),
        ("tcp-connect", tcp_address.as_str(), Some(Channel::Network)),
        ("tcp-listen", "", Some(Channel::Network)),
        ("udp", udp_address.as_str(), Some(Channel::Network)),
        ("abstract-socket", name.as_str(), Some(Channel::UnixSockets)),
        ("unix-stream", stream, Some(Channel::UnixSockets)),
        ("unix-datagram", datagram, Some(Channel::UnixSockets)),
        ("unix-pair", datagram, Some(Channel::UnixSockets)),
        // Landlock restricts no watch, so an allowed one shows names outside.
        ("watch", outside, Some(Channel::Watches)),
        ("watch", inside, Some(Channel::Watches)),
    ] {
        // The ptrace of a program without capabilities is refused by a server that has some.
        assert!(run(probe, argument, &|run| run.keep_privileges()), "{probe}");
        assert!(!run(probe, argument, &confined), "{probe}");
        for allowed in channels {
            let allow = |run: ChildCommand| {
                run.confined(Confinement::default().programs().allow(allowed)).keep_privileges()
            };
            assert_eq!(run(probe, argument, &allow), Some(allowed) == channel, "{probe}");
        }
        println!("{probe}: denied, unless {channel:?} is allowed");
    }
    // A ring creates sockets by itself. Some kernels and containers do not permit one.
    let has_ring = run("io_uring", "", &|run| run);
    println!("io_uring is {}", if has_ring { "denied" } else { "not available here" });
    assert!(!run("io_uring", "", &confined));
    let all = |run: ChildCommand| {
        let confinement = Confinement::default().programs();
        run.confined(channels.into_iter().fold(confinement, Confinement::allow))
    };
    assert_eq!(run("io_uring", "", &all), has_ring);
    // Some kernels have no fanotify. It stays denied when every channel is allowed.
    let has_fanotify = run("fanotify", "", &|run| run);
    println!("fanotify is {}", if has_fanotify { "denied" } else { "not available here" });
    assert!(!run("fanotify", "", &confined) && !run("fanotify", "", &all));
    drop(stop);
    worker.join().unwrap();
    // A program that has moved to the server's process group.
    let output = confined(probe("group", "")).time_limit(Duration::from_secs(1)).output().unwrap();
    assert_eq!(output.exit_reason(), ExitReason::TimedOut);
    assert!(!run("descriptor", "", &|run| run));
    assert!(!run("descriptor", "", &confined));
    // The control: a program of `std::process` inherits it.
    let mut control = Command::new("sh");
    let script = "for fd in /proc/self/fd/*; do cat $fd/secret; done";
    let control = control.args(["-c", script]).output().unwrap();
    assert!(text(&control.stdout).contains("SECRET"));
    drop(leaked);
}

/// A hook and a configured program of the repository are started by git, and stay inside.
#[test]
fn git_commits_inside_and_its_hooks_stay_inside() {
    let tree = Tree::new("file r/repo/f = text; file out/secret = SECRET");
    let roots = tree.roots(["r"]);
    let steal = tree.expand("cat $T/out/secret >$T/r/stolen; echo x >$T/out/new; true");
    let git = |arguments: &[&str]| {
        command(&roots, "repo", "git")
            .unwrap()
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "a")
            .env("GIT_AUTHOR_EMAIL", "a@example.com")
            .env("GIT_COMMITTER_NAME", "a")
            .env("GIT_COMMITTER_EMAIL", "a@example.com")
    };
    let done = |output: &ChildOutput| {
        assert!(output.success(), "{} {}", text(output.stdout()), text(output.stderr()));
    };
    done(&confined(git(&["init", "-q"])).output().unwrap());
    let hook = tree.path("r/repo/.git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\n{steal}\n")).unwrap();
    fs::set_permissions(&hook, executable()).unwrap();
    let monitor = tree.path("r/repo/monitor");
    fs::write(&monitor, format!("#!/bin/sh\ntouch {}\n{steal}\n", tree.expand("$T/r/ran")))
        .unwrap();
    fs::set_permissions(&monitor, executable()).unwrap();
    done(&git(&["config", "core.fsmonitor", monitor.to_str().unwrap()]).output().unwrap());
    // Programs in the roots run only if the server allows it.
    let refused = confined(git(&["commit", "-q", "-m", "none"])).output().unwrap();
    assert!(text(refused.stderr()).contains("cannot exec"), "{}", text(refused.stderr()));
    assert!(!tree.path("r/ran").exists());
    let in_roots = Confinement::default().programs().allow_programs_in_roots();
    let with_programs = |command: ChildCommand| command.confined(in_roots.clone());
    done(&with_programs(git(&["add", "f"])).output().unwrap());
    done(&with_programs(git(&["commit", "-q", "-m", "first"])).output().unwrap());
    let log = confined(git(&["log", "--format=%s"])).output().unwrap();
    assert_eq!(text(log.stdout()), "first\n");
    // The programs ran, but got nothing.
    assert!(tree.path("r/ran").exists() && tree.path("r/stolen").exists());
    assert_eq!(fs::read_to_string(tree.path("r/stolen")).unwrap_or_default(), "");
    assert!(!tree.path("out/new").exists());
    // The control: without the confinement, the hook steals the file.
    done(&git(&["commit", "-q", "--allow-empty", "-m", "second"]).output().unwrap());
    assert_eq!(fs::read_to_string(tree.path("r/stolen")).unwrap(), "SECRET");
    assert!(tree.path("out/new").exists());
}

#[test]
fn a_program_writes_the_writable_directory_in_a_readable_one() {
    let tree = Tree::new("file all/a; file all/ws/b; dir all/ws2; dir all/tmp");
    let boundary = Boundary::builder()
        .directory(tree.path("all/ws"), Access::ReadWrite)
        .directory(tree.path("all/ws2"), Access::ReadWrite)
        .directory(tree.path("all"), Access::ReadOnly);
    let boundary = boundary.build().unwrap();
    let roots = boundary.allowed_roots();
    let run = |roots: &Roots, script: &str| {
        let output = confined(sh(roots, ".", script)).output().unwrap();
        (output.success(), text(output.stdout()).to_owned())
    };
    assert_eq!(run(&roots, "cat ../a && echo x > b && echo x > ../ws2/c").1, "all/a");
    for path in ["../a", "../new", "../tmp/new"] {
        assert!(!run(&roots, &format!("echo x > {path}")).0, "{path}");
    }
    // Only what is in force is writable.
    let list = ListRootsResult::from_uris([uri(&tree.path("all/ws"))]);
    let listed = boundary.narrow(&list.roots).unwrap();
    assert!(run(&listed, "echo x > b").0 && !run(&listed, "echo x > ../ws2/c").0);
    assert!(!run(&roots.read_only(), "echo x > b").0);
    let extra =
        Confinement::default().programs().extra(tree.path("all/tmp"), ExtraAccess::ReadWrite);
    let output = sh(&roots, ".", "echo x > ../tmp/new").confined(extra).output().unwrap();
    assert!(output.success() && tree.path("all/tmp/new").exists());
    assert_eq!(fs::read_to_string(tree.path("all/a")).unwrap(), "all/a");
}

#[test]
fn confinement_that_would_widen_access_is_refused() {
    let tree =
        Tree::new("dir r; dir ro/sub; dir extra; link r/planted -> $T/extra; link l -> extra");
    let roots = roots(&tree);
    for (extra, access, expected) in [
        ("ro/sub", ExtraAccess::ReadWrite, None),
        ("ro", ExtraAccess::ReadWrite, Some("access_conflict")),
        (".", ExtraAccess::ReadWrite, Some("access_conflict")),
        ("r/planted", ExtraAccess::ReadOnly, Some("through_link")),
        ("none", ExtraAccess::ReadOnly, Some("not_found")),
        ("l", ExtraAccess::ReadWrite, None),
    ] {
        let extras = Confinement::default().programs().extra(tree.path(extra), access);
        let run = sh(&roots, ".", "true").confined(extras).output();
        assert_eq!(code(run), expected, "{extra} {access:?}");
    }
    // A read-only directory that the client's roots do not include.
    let boundary = Boundary::builder()
        .directory(tree.path("r"), Access::ReadWrite)
        .directory(tree.path("ro"), Access::ReadOnly);
    let list = ListRootsResult::from_uris([uri(&tree.path("r"))]);
    let roots = boundary.build().unwrap().narrow(&list.roots).unwrap();
    let extras = Confinement::default().programs().extra(tree.path("ro"), ExtraAccess::ReadWrite);
    let run = sh(&roots, ".", "true").confined(extras).output();
    assert_eq!(code(run), Some("access_conflict"));
}
