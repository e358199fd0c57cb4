//! The command-line program, which serves over stdio or streamable HTTP.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use filesystem_server::audit::AuditLog;
use filesystem_server::http::{STOP, serve_http};
use filesystem_server::listen::{Address, Bound, Listener};
use filesystem_server::log;
use filesystem_server::options::{Demand, Empty, Options};
use filesystem_server::own_files::{OwnFile, with_own_files};
use filesystem_server::programs::Programs;
use filesystem_server::replaced::ConfinedDirectories;
use filesystem_server::server::Server;
use filesystem_server::stdio::Stdio;
use filesystem_server::threads::Threads;
use filesystem_server::{allowed_directories, limits};
use mcp_roots_guard::{Access, Boundary, Channel, Error, Root, Roots, kinds};
use rmcp::service::{ServerInitializeError, ServiceExt as _};
use tokio::runtime::Builder;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The name of the program, as a prefix of what it prints.
const NAME: &str = env!("CARGO_BIN_NAME");

/// How long a directory may take to open before the program says so. A local one takes less than a
/// millisecond, and a disk that spins up a few seconds.
const OPENING: Duration = Duration::from_secs(3);

/// How long an idle thread for blocking work stays. Threads take turns, so with few calls a second
/// none would be idle for tokio's ten seconds.
const IDLE: Duration = Duration::from_millis(200);

/// How many milliseconds a thread that was joined may take to end. It takes microseconds.
#[cfg(target_os = "linux")]
const THREAD_ENDS: u32 = 5_000;

/// musl's own allocator is slow while several threads allocate.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Sets when mimalloc returns free memory to the system. By default, it does so after a second, and
/// under load asks for it again, which can take a tenth of the processor time of listings. By
/// default, a thread also takes a full page back when another thread frees something in it, and
/// keeps it when all is free: 80 MB after 1,000 sessions.
#[cfg(target_env = "musl")]
#[expect(unsafe_code, reason = "no crate offers mi_option_set as safe")]
fn tune_allocator() {
    use libmimalloc_sys::{mi_option_set, mi_option_t};
    // The numbers of the options in mimalloc.h, for which this version of the crate has no names.
    const PURGE_DELAY: mi_option_t = 15;
    const PAGE_RECLAIM_ON_FREE: mi_option_t = 35;
    // SAFETY: Both options exist, and can be set at any time.
    unsafe {
        mi_option_set(PURGE_DELAY, 10_000);
        mi_option_set(PAGE_RECLAIM_ON_FREE, -1);
    }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    #[cfg(target_env = "musl")]
    tune_allocator();
    let options = Options::read();
    let done = match options.generate {
        Some(kind) => kind.write_to(&mut std::io::stdout()).map_err(Into::into),
        None => run(&options),
    };
    if let Err(error) = done {
        say(&error);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Prints a line to standard error. A client may have closed it, which is no reason to stop.
fn say(what: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{NAME}: {what}");
}

/// Raises the limit of open files to what the system allows (setrlimit(2)), which is often a thousand
/// for programs that wait for them with select(2).
#[cfg(unix)]
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // The system may have a lower limit for all.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Confines the process before the runtime starts. A thread that already exists would not be
/// confined.
fn run(options: &Options) -> Outcome {
    #[cfg(unix)]
    if !options.run.is_empty() && !options.run_as_root && rustix::process::geteuid().is_root() {
        return Err("--run as root requires --run-as-root; run the server as another user".into());
    }
    #[cfg(unix)]
    raise_file_limit();
    if let Some(remark) = options.remark() {
        say(remark);
    }
    // The threads on which the guard works. They start on demand.
    let work = Builder::new_current_thread().thread_keep_alive(IDLE).build()?;
    let boundary = opened(options)?;
    let is_everything =
        |root: &&Root| root.access() == Access::ReadWrite && root.path().parent().is_none();
    let allowed = boundary.allowed_roots();
    if let Some(everything) = allowed.iter().find(is_everything) {
        let path = everything.client_path();
        say(format_args!("clients may write wherever this user may, because {path} is writable"));
    }
    let own_files = options.own_files();
    own_files.iter().try_for_each(|file| file.verify(&allowed))?;
    let audit = options.audit_log()?;
    log::init(options.log_format, audit.clone());
    let bound = options.http.as_ref().map(Address::bind).transpose()?;
    let threads = Threads::open();
    let programs = options.programs();
    // Before the kernel confines the process, so that nothing is replaced in between.
    let mut confined = ConfinedDirectories::to(&allowed);
    if options.no_confine || !confine(options, &boundary, &programs, &own_files)? {
        confined = ConfinedDirectories::default();
    }
    programs.verify(&boundary)?;
    let guard = options.guard(boundary).runtime(work.handle().clone()).build()?;
    let mut server =
        Server::new(guard, programs).search_entries(options.search_entries).confined(confined);
    let has_directories = allowed.iter().len() > 0;
    if has_directories && allowed.iter().all(|root| root.access() == Access::ReadOnly) {
        server = server.read_only();
    }
    let server = server.without_tools(&options.disable_tools)?;
    if options.check {
        return report(options, &allowed, &server, bound.as_ref());
    }
    let runtime = Builder::new_multi_thread().enable_all().thread_keep_alive(IDLE).build()?;
    let outcome = runtime.block_on(serve(options, server, bound, threads, audit));
    // Work that has begun finishes, so that no temporary file stays. A filesystem may never answer.
    work.shutdown_timeout(STOP);
    // A thread may still read standard input.
    runtime.shutdown_background();
    outcome
}

/// Prints what would be in force, for `--check`.
fn report(options: &Options, allowed: &Roots, server: &Server, bound: Option<&Bound>) -> Outcome {
    let mut out = std::io::stdout().lock();
    if allowed.iter().len() == 0 {
        writeln!(out, "No directories: each client can access the roots that it lists")?;
    } else {
        writeln!(out, "{}", allowed_directories(allowed, &ConfinedDirectories::default()))?;
        let on_empty = match options.empty_list {
            Empty::Deny => "only the directories that are always in force",
            Empty::Allow => "all allowed directories",
        };
        writeln!(out, "For a client that lists no roots: {on_empty}")?;
    }
    let lists = [
        ("Protected (read-only) names", &options.protect),
        ("Denied names", &options.deny),
        ("Exempt names", &options.exempt),
        ("Programs", &options.run),
        ("Further hosts", &options.allow_host),
        ("Further origins", &options.allow_origin),
    ];
    for (what, names) in lists.iter().filter(|(_, names)| !names.is_empty()) {
        writeln!(out, "{what}: {}", names.join(", "))?;
    }
    let protects = if options.no_protect { "no" } else { "yes" };
    writeln!(out, "Default protection (.git, editors, agents): {protects}")?;
    writeln!(out, "Tools: {}", server.tools().join(", "))?;
    for (what, value) in limits(options.search_entries) {
        writeln!(out, "Limit: {what}: {value}")?;
    }
    match bound {
        Some(bound) => writeln!(
            out,
            "Transport: {bound}, at most {} connections and {} sessions",
            options.max_connections, options.max_sessions
        )?,
        None => writeln!(out, "Transport: stdio")?,
    }
    Ok(())
}

/// Opens the directories. Prints a line if one takes long, because its filesystem can hang.
fn opened(options: &Options) -> Result<Boundary, Box<dyn std::error::Error>> {
    let (opening, directories) = mpsc::channel::<PathBuf>();
    let watching = thread::spawn(move || {
        let mut current = None;
        loop {
            match directories.recv_timeout(OPENING) {
                Ok(directory) => current = Some(directory),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let Some(directory) = current.take() else { continue };
                    let directory = directory.display();
                    say(format_args!("still opening {directory}: its filesystem does not answer"));
                }
            }
        }
    });
    let boundary = options.boundary(move |directory| _ = opening.send(directory.to_owned()));
    let _ = watching.join();
    // A process with another thread cannot be confined, and the kernel removes one only after it was
    // joined.
    #[cfg(target_os = "linux")]
    for _ in 0..THREAD_ENDS {
        #[expect(clippy::disallowed_methods, reason = "the process's own threads")]
        let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if threads == 1 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    boundary
}

/// Confines the process, or prints why it is not confined. Returns whether it is.
fn confine(
    options: &Options,
    boundary: &Boundary,
    programs: &Programs,
    own_files: &[OwnFile],
) -> Result<bool, Box<dyn std::error::Error>> {
    // The server itself reaches no other process: it listens already, and may accept connections.
    let confinement = with_own_files(programs.process_confinement(boundary), own_files);
    let confinement = confinement.deny(Channel::Signals).deny(Channel::UnixSockets);
    match confinement.deny(Channel::Network).confine_process(boundary) {
        Ok(confined) => {
            for demand in &options.confine {
                let (name, channel) = match demand {
                    Demand::Available => continue,
                    Demand::Files => ("files", None),
                    Demand::Network => ("network", Some(Channel::Network)),
                    Demand::Sockets => ("sockets", Some(Channel::UnixSockets)),
                };
                let of_demand = confined.not_enforced().filter(|(of, _)| *of == channel);
                let gaps: Vec<_> = of_demand.map(|(_, what)| what).collect();
                if !gaps.is_empty() {
                    let (abi, gaps) = (confined.abi(), gaps.join("; "));
                    let error = format!(
                        "--confine={name}: this kernel (Landlock {abi}) does not enforce all: {gaps}"
                    );
                    return Err(error.into());
                }
            }
            say(confined);
            return Ok(true);
        }
        Err(error) if !options.confine.is_empty() => return Err(with_detail(&error).into()),
        Err(error) if error.code() == "no_directories" => {
            say("not confined: without a directory, a client can access the roots that it lists");
        }
        Err(error) if error.kind() == kinds::CONFINEMENT_UNAVAILABLE => {
            say(format_args!("not confined by the kernel: {}", with_detail(&error)));
        }
        Err(error) => {
            let error = with_detail(&error);
            return Err(format!("cannot confine (see --no-confine): {error}").into());
        }
    }
    Ok(false)
}

/// An error with what only the operator may read.
fn with_detail(error: &Error) -> String {
    let detail = error.operator_detail().map(|detail| format!(" ({detail})"));
    format!("{error}{}", detail.unwrap_or_default())
}

async fn serve(
    options: &Options,
    server: Server,
    bound: Option<Bound>,
    threads: Threads,
    audit: Option<Arc<AuditLog>>,
) -> Outcome {
    #[cfg(unix)]
    survive_large_writes()?;
    #[cfg(not(unix))]
    drop(audit);
    // A service that is told to reload does not end, whether or not it has a log.
    #[cfg(unix)]
    if bound.is_some() || audit.is_some() {
        let mut reload = signal(SignalKind::hangup())?;
        tokio::spawn(async move {
            while reload.recv().await.is_some() {
                if let Some(audit) = &audit {
                    audit.reopen();
                }
            }
        });
    }
    if let Some(bound) = bound {
        let line = bound.to_string();
        let listener = Listener::new(bound)?;
        let (limits, names, stop) = (options.limits(), options.names(), stop()?);
        say(line);
        serve_http(listener, server, limits, names, threads, stop).await;
        return Ok(());
    }
    // A large response needs fewer writes if the pipe, if it is one, takes more than 64 KiB. The
    // system limits how much all pipes of a user take (pipe(7)).
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(std::io::stdout(), 256 << 10);
    let mut interrupts = Interrupts::new()?;
    let transport = server.guard().wrap(Stdio::new(stop()?));
    let service = match server.serve(transport).await {
        Err(ServerInitializeError::ConnectionClosed(_)) => tokio::select! {
            biased;
            // The transport ends, too, when the server is told to stop.
            () = interrupts.next() => return Ok(()),
            () = std::future::ready(()) => {
                return Err("standard input ended before the client's first request".into());
            }
        },
        service => service?,
    };
    service.waiting().await?;
    Ok(())
}

/// Handles `SIGXFSZ`, so that a write beyond the process's file size limit (`RLIMIT_FSIZE`,
/// setrlimit(2)) fails with `EFBIG` instead of terminating the process.
#[cfg(unix)]
fn survive_large_writes() -> std::io::Result<()> {
    let number = rustix::process::Signal::XFSZ.as_raw();
    // The handler stays installed after the stream is dropped.
    signal(SignalKind::from_raw(number)).map(drop)
}

/// Completes when the server is told to stop. If it is told again, it does not wait for requests in
/// flight. It can be told from this call on.
fn stop() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut interrupts = Interrupts::new()?;
    Ok(async move {
        interrupts.next().await;
        tokio::spawn(async move {
            interrupts.next().await;
            std::process::exit(1);
        });
    })
}

/// Receives Ctrl-C and, on Unix, `SIGTERM`.
#[cfg(unix)]
struct Interrupts([Signal; 2]);

#[cfg(unix)]
impl Interrupts {
    fn new() -> std::io::Result<Self> {
        Ok(Self([signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]))
    }

    async fn next(&mut self) {
        let Self([interrupt, terminate]) = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// Receives Ctrl-C.
#[cfg(windows)]
struct Interrupts(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Interrupts {
    fn new() -> std::io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}
