//! What confinement prevents, what it permits, and when it is refused.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind as Io, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;

use guarded_fs::internals::trust_links_until;
use mcp_roots_guard::{
    Access, Boundary, Channel, ChildCommand, Confinement, ConfinementReport, DirectoryOptions,
    ExtraAccess, ListRootsResult,
};
use nix::libc;

use crate::Case;
use crate::operations::{CONTENT, Target, Way, attempts};
use crate::seccomp::block_call;

macro_rules! cases {
    ($($name:ident $(= $case:expr)?;)*) => { &[$(case!($name $(= $case)?)),*] };
}

macro_rules! case {
    ($name:ident) => {
        (stringify!($name), $name)
    };
    ($name:ident = $case:expr) => {
        (stringify!($name), $case)
    };
}

pub(crate) const CASES: &[(&str, Case)] = cases! {
    operations_without_the_guard_are_stopped;
    an_existing_thread_is_confined_or_confinement_is_refused;
    confinement_is_refused_if_threads_cannot_be_counted;
    later_threads_and_programs_are_confined;
    each_operation_of_the_guard_works;
    each_operation_of_the_guard_works_without_openat2 = |top| {
        block_call(libc::SYS_openat2, libc::ENOSYS);
        each_operation_of_the_guard_works(top);
    };
    extras_have_the_declared_paths_and_access;
    an_invalid_extra_is_refused;
    an_extra_through_a_symlink_that_a_tool_can_create_is_refused;
    a_bind_mount_of_a_read_only_directory_is_refused_as_a_writable_extra;
    a_file_root_grants_only_that_file;
    a_writable_directory_in_a_readable_one_is_exact;
    a_swapped_directory_widens_nothing;
    a_replaced_directory_needs_a_restart;
    each_call_narrows_the_confinement;
    confinement_without_allowed_directories_or_with_options_of_programs_is_refused;
    confinement_is_unavailable_without_landlock =
        |top| is_refused(top, CREATE_RULESET, libc::ENOSYS, UNAVAILABLE);
    confinement_is_unavailable_if_landlock_is_disabled =
        |top| is_refused(top, CREATE_RULESET, libc::EOPNOTSUPP, UNAVAILABLE);
    confinement_is_unavailable_if_a_filter_forbids_landlock =
        |top| is_refused(top, CREATE_RULESET, libc::EPERM, UNAVAILABLE);
    an_error_of_the_last_step_enforces_nothing =
        |top| is_refused(top, RESTRICT_SELF, libc::E2BIG, "io");
    a_filter_that_fakes_success_is_detected = |top| is_refused(top, RESTRICT_SELF, 0, UNAVAILABLE);
    denied_channels_are_closed_to_the_process;
    a_confined_program_leaves_the_server_unconfined;
    a_confined_program_does_not_start_without_landlock =
        |top| program_does_not_start(top, CREATE_RULESET, libc::ENOSYS);
    a_confined_program_does_not_start_if_a_filter_fakes_success =
        |top| program_does_not_start(top, RESTRICT_SELF, 0);
    a_confined_program_does_not_start_if_its_sockets_cannot_be_denied =
        |top| program_needs_its_filter(top, libc::EPERM);
    a_confined_program_does_not_start_if_denying_its_sockets_is_faked =
        |top| program_needs_its_filter(top, 0);
};

fn configured(top: &Path) -> Boundary {
    let boundary = Boundary::builder().directory(top.join("rw"), Access::ReadWrite);
    // The symlinks of the tree are older than the server.
    let boundary = trust_links_until(boundary, std::time::SystemTime::now());
    boundary.directory(top.join("ro"), Access::ReadOnly).build().unwrap()
}

/// Confines this process and prints the result. Panics if the kernel cannot confine it, so that no
/// case passes without confinement.
fn threads(confined: &ConfinementReport) -> usize {
    let shown = confined.to_string();
    let (_, count) = shown.lines().next().unwrap().rsplit_once(", ").unwrap();
    count.split(' ').next().unwrap().parse().unwrap()
}

fn confine(boundary: &Boundary, confinement: &Confinement) -> ConfinementReport {
    let confined = confinement.confine_process(boundary).unwrap_or_else(|error| {
        panic!("{error}; {:?}; {:?}", error.operator_detail(), std::error::Error::source(&error));
    });
    println!("{confined}");
    confined
}

fn denied<T>(done: io::Result<T>) -> bool {
    matches!(done, Err(error) if error.kind() == Io::PermissionDenied)
}

fn outside_is_open(top: &Path) -> bool {
    fs::read_to_string(top.join("out/secret")).is_ok_and(|secret| secret == "secret")
        && fs::write(top.join("out/new"), "new").is_ok()
}

/// An operation by a tool that does not use the guard.
type Attempt = fn(&Path) -> io::Result<()>;

/// The same, with what it needs.
type Try<'a> = &'a dyn Fn() -> io::Result<()>;

fn operations_without_the_guard_are_stopped(top: &Path) {
    let (secret, dev) = (top.join("out/secret"), Path::new("/dev/null"));
    symlink(&secret, top.join("rw/link")).unwrap();
    symlink("../out", top.join("rw/up")).unwrap();
    let open_before = File::open(&secret).unwrap();
    assert!(outside_is_open(top));
    fs::write(top.join("ro/g"), "before").unwrap();
    let ioctl = || rustix::fs::ioctl_blksszget(File::open(dev).unwrap()).unwrap_err();
    assert_eq!(ioctl(), rustix::io::Errno::NOTTY);

    let confined =
        confine(&configured(top), &Confinement::default().extra(dev, ExtraAccess::ReadWrite));

    assert_eq!((threads(&confined), confined.missing().len(), confined.paths().len()), (1, 0, 3));
    assert_eq!(confined.not_enforced().next().is_none(), confined.abi() >= 5);
    let outside: [(&str, Attempt); 10] = [
        ("read", |top| fs::read(top.join("out/secret")).map(drop)),
        ("through ..", |top| fs::read(top.join("rw/../out/secret")).map(drop)),
        ("through a symlink to a file", |top| fs::read(top.join("rw/link")).map(drop)),
        ("through a symlink to a directory", |top| fs::read(top.join("rw/up/secret")).map(drop)),
        ("through /proc", |top| {
            fs::read(
                Path::new("/proc/self/root")
                    .join(top.join("out/secret").strip_prefix("/").unwrap()),
            )
            .map(drop)
        }),
        ("list", |top| fs::read_dir(top.join("out")).map(drop)),
        ("overwrite", |top| fs::write(top.join("out/secret"), "")),
        ("create", |top| fs::create_dir(top.join("out/made"))),
        ("remove", |top| fs::remove_file(top.join("out/secret"))),
        ("hard link into a root", |top| fs::hard_link(top.join("out/secret"), top.join("rw/hard"))),
    ];
    for (what, outside) in outside {
        let done = outside(top);
        // If only the `REFER` right is missing, linking or renaming across directories fails with
        // EXDEV (landlock(7)).
        let crosses = what == "hard link into a root"
            && matches!(&done, Err(error) if error.kind() == Io::CrossesDevices);
        assert!(crosses || denied(done), "{what}");
    }
    for moved in
        [fs::rename(&secret, top.join("rw/taken")), fs::rename(top.join("rw/f"), top.join("out/f"))]
    {
        assert!(moved.is_err_and(|error| {
            [Io::PermissionDenied, Io::CrossesDevices].contains(&error.kind())
        }));
    }
    // Inside the allowed directories, the configured access of each directory applies.
    assert_eq!(fs::read_to_string(top.join("ro/f")).unwrap(), "read");
    assert_eq!(fs::read_dir(top.join("ro")).unwrap().count(), 3);
    let cut = || OpenOptions::new().write(true).truncate(true).open(top.join("ro/f")).map(drop);
    assert!(
        denied(fs::write(top.join("ro/f"), ""))
            && denied(cut())
            && denied(fs::write(top.join("ro/new"), ""))
    );
    assert!(denied(fs::create_dir(top.join("ro/d"))) && denied(fs::remove_dir(top.join("ro/sub"))));
    assert!(denied(fs::rename(top.join("ro/g"), top.join("ro/h"))));
    if confined.abi() >= 3 {
        // truncate(2) takes a path and does not open the file.
        assert_eq!(nix::unistd::truncate(&top.join("ro/f"), 0), Err(nix::errno::Errno::EACCES));
        assert_eq!(nix::unistd::truncate(&secret, 0), Err(nix::errno::Errno::EACCES));
    }
    fs::write(top.join("rw/f"), "cut").unwrap();
    fs::rename(top.join("rw/f"), top.join("rw/a/g"))
        .unwrap_or_else(|_| assert_eq!(confined.abi(), 1));
    fs::create_dir_all(top.join("rw/x/y")).unwrap();
    fs::remove_dir_all(top.join("rw/x")).unwrap();
    if confined.abi() >= 5 {
        assert_eq!(ioctl(), rustix::io::Errno::ACCESS);
    }
    // As documented, open files stay open, and metadata stays readable.
    assert_eq!(io::read_to_string(open_before).unwrap(), "secret");
    assert_eq!(fs::metadata(&secret).unwrap().len(), 6);
    assert!(nix::sys::prctl::get_no_new_privs().unwrap());
}

fn an_existing_thread_is_confined_or_confinement_is_refused(top: &Path) {
    let (request, requests) = channel::<()>();
    let (reply, replies) = channel();
    let secret = top.join("out/secret");
    let older = thread::spawn(move || {
        for () in requests {
            reply.send(fs::read(&secret).map_err(|error| error.kind())).unwrap();
        }
    });
    let read_there = || {
        request.send(()).unwrap();
        replies.recv().unwrap()
    };
    assert!(read_there().is_ok() && outside_is_open(top));
    let boundary = configured(top);
    match Confinement::default().confine_process(&boundary) {
        Ok(confined) => {
            println!("this kernel confines all threads at once: {confined}");
            assert!(confined.abi() >= 8 && threads(&confined) == 2);
            assert_eq!(read_there(), Err(Io::PermissionDenied));
            assert!(denied(fs::read(top.join("out/secret"))));
            return;
        }
        Err(refused) => assert_eq!(refused.code(), "threads_running", "{refused}"),
    }
    // A refusal enforces nothing.
    assert!(
        read_there().is_ok()
            && outside_is_open(top)
            && !nix::sys::prctl::get_no_new_privs().unwrap()
    );
    drop(request);
    older.join().unwrap();
    // A joined thread may remain listed for a moment.
    while fs::read_dir("/proc/self/task").unwrap().count() > 1 {
        thread::yield_now();
    }
    let confined = confine(&boundary, &Confinement::default());
    println!(
        "this kernel (ABI {}) confines one thread: with two threads, confinement was refused \
         and nothing enforced",
        confined.abi()
    );
    assert!(confined.abi() < 8 && denied(fs::read(top.join("out/secret"))));
}

fn confinement_is_refused_if_threads_cannot_be_counted(top: &Path) {
    let boundary = configured(top);
    block_call(libc::SYS_fstatfs, libc::ENOSYS);
    let refused = Confinement::default().confine_process(&boundary).unwrap_err();
    assert_eq!(refused.code(), "threads_running");
    assert!(outside_is_open(top));
}

fn later_threads_and_programs_are_confined(top: &Path) {
    let secret = top.join("out/secret");
    let programs =
        ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/nix/store"];
    let extras = programs.iter().fold(Confinement::default().runtime_files(), |extras, path| {
        extras.optional_extra(path, ExtraAccess::Execute)
    });
    let cat = |path: &Path| Command::new("/bin/cat").arg(path).output().unwrap();
    assert_eq!(cat(&secret).stdout, b"secret");
    fs::copy("/bin/cat", top.join("rw/cat")).unwrap();
    let _ = confine(&configured(top), &extras);
    let (inside, outside) = (cat(&top.join("rw/f")), cat(&secret));
    assert!(inside.status.success() && inside.stdout == b"inside");
    assert!(!outside.status.success() && outside.stdout.is_empty());
    println!("{}", String::from_utf8_lossy(&outside.stderr).trim());
    // `cat` could load its libraries, but the kernel does not execute a file that a tool could have
    // written.
    assert!(denied(Command::new(top.join("rw/cat")).arg(&secret).output()));
    thread::spawn(move || assert!(denied(fs::read(secret)))).join().unwrap();
    // Without the extras, no program starts.
    let _ = confine(&configured(top), &Confinement::default());
    assert!(denied(Command::new("/bin/cat").stdin(Stdio::inherit()).output()));
}

fn each_operation_of_the_guard_works(top: &Path) {
    symlink("../out/secret", top.join("rw/link")).unwrap();
    symlink("a/deep", top.join("rw/in")).unwrap();
    fs::create_dir(top.join("rw/a/deep")).unwrap();
    let boundary = configured(top);
    let confined = confine(&boundary, &Confinement::default());
    let roots = boundary.allowed_roots();
    // Without the right `REFER`, nothing is renamed or linked in another directory.
    let below = if confined.abi() >= 2 { "in/" } else { "" };
    for attempt in attempts() {
        fs::write(top.join("rw/spare"), CONTENT).unwrap();
        fs::create_dir(top.join("rw/spare-dir")).unwrap();
        let request = format!("{below}given");
        let given = top.join("rw").join(&request);
        match attempt.path().target {
            Target::Any | Target::File | Target::FileOrNew => fs::write(given, CONTENT),
            Target::Directory | Target::EmptyDirectory => fs::create_dir(given),
            Target::Tree => fs::create_dir_all(given.join("sub")),
            Target::Symlink => symlink("f", given),
            Target::Missing | Target::MissingTree => Ok(()),
        }
        .unwrap();
        // A conditional rename replaces an existing file.
        if attempt.operation.paths.iter().all(|path| matches!(path.target, Target::File)) {
            fs::write(top.join("rw/fresh"), CONTENT).unwrap();
        }
        let done = attempt.run(Way::Directly, &roots, &request);
        assert!(done.is_ok(), "{}: {done:?}", attempt.name());
        for used in ["spare", "spare-dir", "fresh", &request] {
            let used = top.join("rw").join(used);
            let _ = fs::remove_file(&used).or_else(|_| fs::remove_dir_all(&used));
        }
    }
    let refused =
        |done: mcp_roots_guard::Result<()>| done.map_err(|error| error.code()).unwrap_err();
    assert_eq!(refused(roots.read("link", 9).map(drop)), "outside_roots");
    assert_eq!(refused(roots.read("../out/secret", 9).map(drop)), "outside_roots");
    assert_eq!(refused(roots.write(top.join("ro/f"), "")), "read_only");
    assert_eq!(roots.read_to_string(top.join("ro/f"), 99).unwrap(), "read");

    // Client lists still narrow the roots, and a directory that takes the place of a root is
    // served, because the rule is for the allowed directory above it.
    let uri = |path: &str| format!("file://{}", top.join(path).display());
    let list = ListRootsResult::from_uris([uri("rw/a"), uri("rw/in"), uri("out"), uri("ro/sub")]);
    let narrowed = boundary.narrow(&list.roots).unwrap();
    let paths: Vec<_> =
        narrowed.iter().map(|root| root.path().strip_prefix(top).unwrap().to_owned()).collect();
    assert_eq!(paths, ["rw/a", "rw/a/deep", "ro/sub"].map(Path::new));
    narrowed.write("kept", "kept").unwrap();
    fs::rename(top.join("rw/a"), top.join("rw/was")).unwrap();
    fs::create_dir(top.join("rw/a")).unwrap();
    narrowed.write("again", "again").unwrap();
    assert!(top.join("rw/a/again").exists());
    assert!(denied(fs::read(top.join("out/secret"))));
}

fn extras_have_the_declared_paths_and_access(top: &Path) {
    symlink("extra", top.join("link")).unwrap();
    let extras = Confinement::default()
        .extra(top.join("link"), ExtraAccess::ReadOnly)
        .extra(top.join("scratch"), ExtraAccess::ReadWrite);
    let runtime = mcp_roots_guard::RUNTIME_FILES.iter().chain(&["/dev/null"]);
    let runtime: HashSet<_> = runtime.filter_map(|path| fs::canonicalize(path).ok()).collect();
    let confined = confine(
        &configured(top),
        &extras.runtime_files().optional_extra(top.join("none"), ExtraAccess::ReadOnly),
    );
    let shown = confined.to_string();
    let directories = shown.matches("\n  directory, ").count();
    let extras: Vec<_> = confined.paths().skip(directories).collect();
    assert_eq!(
        extras[2..].iter().map(|(path, _)| (*path).to_owned()).collect::<HashSet<_>>(),
        runtime
    );
    assert_eq!(extras[0], (&*top.join("extra"), ExtraAccess::ReadOnly));
    assert_eq!(extras[1], (&*top.join("scratch"), ExtraAccess::ReadWrite));
    assert_eq!(confined.missing(), [top.join("none")]);
    assert_eq!(fs::read_to_string(top.join("extra/f")).unwrap(), "extra");
    assert!(denied(fs::write(top.join("extra/f"), "")));
    fs::write(top.join("scratch/f"), "scratch").unwrap();
    fs::write("/dev/null", "nothing").unwrap();
    File::open("/dev/urandom").unwrap();
    assert!(denied(fs::read("/etc/passwd")) && denied(fs::read("/proc/self/environ")));
    // An optional extra that was missing cannot be created by the confined process.
    assert!(denied(fs::create_dir(top.join("none"))));
}

fn an_invalid_extra_is_refused(top: &Path) {
    let boundary = configured(top);
    let extra = |path: &Path, extra| Confinement::default().extra(path, extra);
    for (path, access, expected) in [
        ("none", ExtraAccess::ReadOnly, "not_found"),
        ("rw/f/g", ExtraAccess::ReadOnly, "not_a_directory"),
        ("", ExtraAccess::ReadWrite, "access_conflict"),
        ("ro", ExtraAccess::ReadWrite, "access_conflict"),
    ] {
        let path = top.join(path);
        let refused = extra(&path, access).confine_process(&boundary).unwrap_err();
        assert_eq!(refused.code(), expected, "{}", path.display());
        assert!(refused.to_string().starts_with("confine "), "{refused}");
    }
    // A writable extra is also refused if it conflicts with an optional read-only directory that
    // does not exist yet, whichever of its paths is used.
    symlink("scratch", top.join("by link")).unwrap();
    let later = Boundary::builder().directory(top.join("rw"), Access::ReadWrite);
    let later = later
        .directory(
            top.join("by link/later/ro"),
            DirectoryOptions::from(Access::ReadOnly).optional(),
        )
        .build()
        .unwrap();
    for path in ["", "scratch"] {
        let refused = extra(&top.join(path), ExtraAccess::ReadWrite).confine_process(&later);
        assert_eq!(refused.unwrap_err().code(), "access_conflict", "{path}");
    }
    // An optional extra may be missing, but confinement fails on any other error.
    let refused = Confinement::default()
        .optional_extra(top.join("rw/f/g"), ExtraAccess::ReadOnly)
        .confine_process(&boundary);
    assert_eq!(refused.unwrap_err().code(), "not_a_directory");
    assert!(outside_is_open(top));
    let around = extra(top, ExtraAccess::ReadOnly).extra(top.join("rw/a"), ExtraAccess::ReadWrite);
    let _ = confine(&boundary, &around);
    assert!(denied(fs::write(top.join("ro/f"), "")));
}

fn an_extra_through_a_symlink_that_a_tool_can_create_is_refused(top: &Path) {
    fs::create_dir(top.join("extra/sub")).unwrap();
    for link in ["rw/cache", "ro/cache", "extra/sub/cache", "operators"] {
        symlink(top.join("out"), top.join(link)).unwrap();
    }
    symlink("rw/cache", top.join("twice")).unwrap();
    let boundary = configured(top);
    // The last symlink is in the extra `extra`, which is added before or after the path through the
    // symlink.
    for link in ["rw/cache", "rw/cache/dir", "twice", "extra/sub/cache"] {
        let link = top.join(link);
        let (before, after) = (
            Confinement::default().extra(top.join("extra"), ExtraAccess::ReadWrite),
            Confinement::default(),
        );
        for extras in [
            before.extra(&link, ExtraAccess::ReadWrite),
            after
                .optional_extra(&link, ExtraAccess::ReadOnly)
                .extra(top.join("extra"), ExtraAccess::ReadWrite),
        ] {
            let refused = extras.confine_process(&boundary).unwrap_err();
            assert_eq!(refused.code(), "through_link", "{}", link.display());
        }
    }
    assert!(outside_is_open(top));
    // The operator's own symlinks are followed, and so are symlinks where no tool can write.
    let extras = Confinement::default().extra(top.join("extra"), ExtraAccess::ReadOnly);
    let extras = extras
        .extra(top.join("operators"), ExtraAccess::ReadOnly)
        .extra(top.join("ro/cache"), ExtraAccess::ReadOnly)
        .extra(top.join("extra/sub/cache"), ExtraAccess::ReadOnly);
    let confined = confine(&boundary, &extras);
    assert_eq!(confined.paths().last().map(|(path, _)| path), Some(&*top.join("out")));
}

/// Uses a bind mount. If this user cannot create one in a namespace, skips the case, or panics in
/// CI.
fn a_bind_mount_of_a_read_only_directory_is_refused_as_a_writable_extra(top: &Path) {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    let none = None::<&str>;
    let bound = unshare(CloneFlags::CLONE_NEWNS)
        .or_else(|_| unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS))
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))
        .and_then(|()| {
            mount(Some(&top.join("ro")), &top.join("scratch"), none, MsFlags::MS_BIND, none)
        });
    if let Err(error) = bound {
        assert!(std::env::var_os("CI").is_none(), "mounts must be possible in CI: {error}");
        println!("skipped: no mount can be created here: {error}");
        return;
    }
    let extras = Confinement::default().extra(top.join("scratch"), ExtraAccess::ReadWrite);
    assert_eq!(extras.confine_process(&configured(top)).unwrap_err().code(), "access_conflict");
    let _ = confine(
        &configured(top),
        &Confinement::default().extra(top.join("scratch"), ExtraAccess::ReadOnly),
    );
    assert!(denied(fs::write(top.join("scratch/f"), "")));
}

fn a_file_root_grants_only_that_file(top: &Path) {
    let boundary = Boundary::builder().directory(top.join("single/one"), Access::ReadWrite);
    let boundary = boundary.directory(top.join("out/secret"), Access::ReadOnly).build().unwrap();
    let _ = confine(&boundary, &Confinement::default());
    let roots = boundary.allowed_roots();
    for content in ["longer than it was", "short"] {
        let mode = mcp_roots_guard::OpenMode::Truncate;
        let mut file = roots.open_with(top.join("single/one"), mode).unwrap();
        file.write_all(content.as_bytes()).unwrap();
    }
    assert_eq!(roots.write(top.join("single/one"), "").unwrap_err().code(), "root_itself");
    assert_eq!(roots.read_to_string(top.join("single/one"), 99).unwrap(), "short");
    assert_eq!(roots.read_to_string(top.join("out/secret"), 99).unwrap(), "secret");
    assert_eq!(roots.read(top.join("single/other"), 99).unwrap_err().code(), "outside_roots");
    assert!(
        denied(fs::read(top.join("single/other"))) && denied(fs::write(top.join("single/new"), ""))
    );
    assert!(
        denied(fs::read_dir(top.join("single"))) && denied(fs::write(top.join("out/secret"), ""))
    );
}

/// Landlock only adds rights, so it needs no rule for what remains read-only.
fn a_writable_directory_in_a_readable_one_is_exact(top: &Path) {
    let boundary = Boundary::builder()
        .directory(top.join("rw"), Access::ReadWrite)
        .directory("/", Access::ReadOnly);
    let boundary = boundary.build().unwrap();
    // So is a writable extra in it.
    let extras = Confinement::default().extra(top.join("scratch"), ExtraAccess::ReadWrite);
    let _ = confine(&boundary, &extras);
    fs::write(top.join("rw/f"), "written").unwrap();
    fs::write(top.join("scratch/f"), "written").unwrap();
    assert_eq!(fs::read_to_string(top.join("out/secret")).unwrap(), "secret");
    for path in ["out/secret", "ro/f", "rw-new", "single/one"] {
        assert!(denied(fs::write(top.join(path), "")), "{path}");
    }
    assert!(denied(fs::rename(top.join("ro/f"), top.join("rw/f"))));
}

fn a_swapped_directory_widens_nothing(top: &Path) {
    let boundary = configured(top);
    fs::rename(top.join("rw"), top.join("moved")).unwrap();
    symlink("out", top.join("rw")).unwrap();
    let refused = Confinement::default().confine_process(&boundary).unwrap_err();
    println!("{refused}");
    assert_eq!(refused.code(), "root_unavailable");
    assert!(outside_is_open(top));
    // The directory is now missing.
    fs::remove_file(top.join("rw")).unwrap();
    let refused = Confinement::default().confine_process(&boundary).unwrap_err();
    println!("{refused}");
    assert_eq!(refused.code(), "root_unavailable");
    assert!(outside_is_open(top));
    fs::rename(top.join("moved"), top.join("rw")).unwrap();
    let _ = confine(&boundary, &Confinement::default());
    assert!(denied(fs::read(top.join("out/secret"))));
}

fn a_replaced_directory_needs_a_restart(top: &Path) {
    let boundary = Boundary::builder().directory(top.join("rw/a"), Access::ReadWrite);
    let boundary = boundary
        .directory(top.join("scratch/later"), DirectoryOptions::from(Access::ReadWrite).optional())
        .build()
        .unwrap();
    // A child process deploys a new directory on request.
    let deploys = "read go; mv rw/a rw/was; mkdir rw/a scratch/later; \
        echo new >rw/a/f; echo new >scratch/later/f; echo done";
    let mut deploy = Command::new("/bin/sh");
    deploy.args(["-c", deploys]).current_dir(top).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut deploy = deploy.spawn().unwrap();
    let confined = confine(&boundary, &Confinement::default());
    assert_eq!(confined.missing(), [top.join("scratch/later")]);
    boundary.allowed_roots().write(top.join("rw/a/f"), "old").unwrap();
    deploy.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(io::read_to_string(deploy.stdout.take().unwrap()).unwrap(), "done\n");
    thread::sleep(2 * mcp_roots_guard::limits::VERIFY_EVERY);
    let roots = boundary.allowed_roots();
    assert_eq!(roots.iter().count(), 2);
    for path in ["rw/a/f", "scratch/later/f"] {
        assert_eq!(
            roots.read(top.join(path), 99).unwrap_err().code(),
            "permission_denied",
            "{path}"
        );
        assert!(denied(fs::read(top.join(path))), "{path}");
    }
    // The old directory stays accessible under its new name, but not through the guard.
    assert_eq!(fs::read_to_string(top.join("rw/was/f")).unwrap(), "old");
    assert_eq!(roots.read(top.join("rw/was/f"), 99).unwrap_err().code(), "outside_roots");
    deploy.wait().unwrap();
}

fn each_call_narrows_the_confinement(top: &Path) {
    let boundary = configured(top);
    let inner = Boundary::builder().directory(top.join("rw/a"), Access::ReadOnly).build().unwrap();
    let _ = confine(&boundary, &Confinement::default());
    assert!(fs::write(top.join("rw/a/f"), "f").is_ok() && denied(fs::read(top.join("out/secret"))));
    let _ =
        confine(&inner, &Confinement::default().extra(top.join("rw/b"), ExtraAccess::ReadWrite));
    assert!(fs::read(top.join("rw/a/f")).is_ok() && denied(fs::write(top.join("rw/a/f"), "")));
    assert!(denied(fs::read(top.join("rw/f"))) && fs::write(top.join("rw/b/f"), "").is_ok());
    // A later layer cannot restore access that an earlier one removed.
    let _ = confine(&inner, &Confinement::default().extra(top.join("out"), ExtraAccess::ReadWrite));
    assert!(denied(fs::read(top.join("out/secret"))));
    // Threads are counted inside the confinement, too. The kernel limits the number of layers.
    let (stop, stopped) = channel::<()>();
    let other = thread::spawn(move || stopped.recv());
    match Confinement::default().confine_process(&inner) {
        Ok(confined) => assert!(confined.abi() >= 8 && threads(&confined) == 2),
        Err(refused) => assert_eq!(refused.code(), "threads_running", "{refused}"),
    }
    drop(stop);
    other.join().unwrap().unwrap_err();
    let more =
        (0..1_000).map(|_| Confinement::default().confine_process(&inner)).filter_map(Result::err);
    let full = more.map(|error| error.code()).find(|kind| *kind != "threads_running");
    assert_eq!(full, Some("io"));
    assert!(fs::read(top.join("rw/a/f")).is_ok() && denied(fs::read(top.join("rw/f"))));
}

fn confinement_without_allowed_directories_or_with_options_of_programs_is_refused(top: &Path) {
    let confinement = Confinement::default().extra(top.join("rw"), ExtraAccess::ReadWrite);
    for boundary in [Boundary::any_listed().build().unwrap(), Boundary::nothing()] {
        let refused = confinement.confine_process(&boundary).unwrap_err();
        println!("{refused}: {:?}", refused.operator_detail());
        assert_eq!(refused.code(), "no_directories");
    }
    let boundary =
        Boundary::builder().directory(top.join("rw"), Access::ReadWrite).build().unwrap();
    for confinement in
        [Confinement::default().allow_programs_in_roots(), Confinement::default().allow_partial()]
    {
        let refused = confinement.confine_process(&boundary).unwrap_err();
        assert_eq!(refused.code(), "invalid_options");
    }
    assert!(outside_is_open(top));
}

/// Each denied channel is closed if the kernel's version of Landlock can do so, and reported as not
/// enforced if not. No channel is denied by default.
fn denied_channels_are_closed_to_the_process(top: &Path) {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp, udp) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    let _socket = UnixListener::bind(top.join("rw/socket")).unwrap();
    let name = SocketAddr::from_abstract_name(top.as_os_str().as_bytes()).unwrap();
    let _abstract = UnixListener::bind_addr(&name).unwrap();
    let send = || UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", udp).map(drop);
    let signal = || nix::sys::signal::kill(nix::unistd::getppid(), None).map_err(io::Error::from);
    let attempts: [(&str, u32, &str, Try); 5] = [
        ("TCP", 4, "TCP connections are", &|| TcpStream::connect(tcp).map(drop)),
        ("UDP", 10, "UDP, and", &send),
        ("signals", 6, "signals reach", &signal),
        ("abstract sockets", 6, "abstract", &|| UnixStream::connect_addr(&name).map(drop)),
        ("sockets by path", 9, "by path", &|| UnixStream::connect(top.join("rw/socket")).map(drop)),
    ];
    let boundary = configured(top);
    let _ = confine(&boundary, &Confinement::default());
    for (what, _, _, attempt) in attempts {
        attempt().unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let channels = [Channel::Network, Channel::Signals, Channel::UnixSockets, Channel::Watches];
    let confined =
        confine(&boundary, &channels.into_iter().fold(Confinement::default(), Confinement::deny));
    for (what, since, gap, attempt) in attempts {
        let is_enforced = confined.abi() >= since;
        let is_reported = confined.not_enforced().any(|(_, text)| text.contains(gap));
        let is_denied = attempt().is_err_and(|error| error.kind() == Io::PermissionDenied);
        assert_eq!((is_denied, is_reported), (is_enforced, !is_enforced), "{what}");
        if !is_enforced {
            println!("not tested: denying {what} requires Landlock {since}");
        }
    }
    // Only a child process is denied watches, so this is reported.
    let of_watches = confined.not_enforced().filter(|(of, _)| *of == Some(Channel::Watches));
    assert_eq!(of_watches.count(), 1);
    let instance = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap();
    let flags = rustix::fs::inotify::WatchFlags::CREATE;
    rustix::fs::inotify::add_watch(&instance, top.join("out"), flags).unwrap();
    // Its own sockets, which it creates from now on, are not restricted.
    let own = UnixListener::bind(top.join("rw/own")).unwrap();
    UnixStream::connect(top.join("rw/own")).unwrap();
    drop(own);
}

const UNAVAILABLE: &str = "confinement_unavailable";

/// If a system call returns an error, or only claims to succeed, confinement is refused and nothing
/// is enforced.
fn is_refused(top: &Path, call: i64, errno: i32, code: &str) {
    block_call(call, errno);
    let refused = Confinement::default().confine_process(&configured(top)).unwrap_err();
    println!("{refused}: {:?}", refused.operator_detail());
    assert_eq!(refused.code(), code);
    let is_text = refused.to_string() == "process confinement is not available here";
    assert_eq!(is_text, code == UNAVAILABLE, "{refused}");
    let reason = match errno {
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::ENOSYS | libc::EPERM => "ENOSYS",
        0 => "claims to have confined",
        _ => "",
    };
    assert!(refused.operator_detail().unwrap_or_default().contains(reason), "{refused:?}");
    assert!(outside_is_open(top));
}

/// Runs `cat out/secret` in `rw`, confined or not. Returns its output.
fn cat_secret(top: &Path, is_confined: bool) -> mcp_roots_guard::Result<String> {
    let roots = configured(top).allowed_roots();
    let directory = roots.check(top.join("rw")).unwrap();
    let mut command = ChildCommand::new(&directory, "cat").unwrap().arg(top.join("out/secret"));
    if is_confined {
        command = command.confined(Confinement::default().programs());
    }
    Ok(String::from_utf8_lossy(command.output()?.stdout()).into_owned())
}

fn a_confined_program_leaves_the_server_unconfined(top: &Path) {
    assert_eq!(cat_secret(top, false).unwrap(), "secret");
    assert_eq!(cat_secret(top, true).unwrap(), "");
    assert!(outside_is_open(top) && !nix::sys::prctl::get_no_new_privs().unwrap());
    assert_eq!(cat_secret(top, false).unwrap(), "secret");
}

fn program_does_not_start(top: &Path, call: i64, errno: i32) {
    assert_eq!(cat_secret(top, true).unwrap(), "");
    block_call(call, errno);
    assert_eq!(cat_secret(top, false).unwrap(), "secret");
    assert_eq!(cat_secret(top, true).unwrap_err().code(), UNAVAILABLE);
}

/// No version of Landlock denies all sockets.
fn program_needs_its_filter(top: &Path, errno: i32) {
    block_call(libc::SYS_seccomp, errno);
    assert_eq!(cat_secret(top, false).unwrap(), "secret");
    let roots = configured(top).allowed_roots();
    let directory = roots.check(top.join("rw")).unwrap();
    let command =
        ChildCommand::new(&directory, "true").unwrap().confined(Confinement::default().programs());
    let refused = command.output().unwrap_err();
    println!("{refused}: {:?}", refused.operator_detail());
    assert_eq!(refused.code(), UNAVAILABLE);
}

/// The system calls `landlock_create_ruleset` and `landlock_restrict_self`, which have the same
/// number on every architecture.
const CREATE_RULESET: i64 = 444;
const RESTRICT_SELF: i64 = 446;
