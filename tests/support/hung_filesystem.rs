//! A real filesystem that stops answering: FUSE, whose server reads requests and never replies.
//!
//! The server is a child process: threads that wait for it could not be killed as long as it lives.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    FileAttr, FileType, Filesystem, MountOption, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen,
    Request,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

/// A mounted filesystem of one file, `in.txt`. Dropping it fails what hangs in it, and unmounts it.
pub(crate) struct Dead {
    at: PathBuf,
    server: Child,
    say: ChildStdin,
    hanging: Arc<AtomicUsize>,
}

/// Runs a test in a mount namespace of its own, so that nothing is left behind, whatever happens.
pub(crate) fn in_namespace(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let test = scope.spawn(|| {
            let none = None::<&Path>;
            // Who may not do that mounts where all can see it, by `fusermount3`.
            let _ = unshare(CloneFlags::CLONE_NEWNS)
                .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none));
            test();
        });
        if let Err(panic) = test.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

impl Dead {
    /// Mounts it, alive so far; none where that cannot be done. In CI it must be.
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        let mut server = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hung_filesystem::server", "--nocapture"])
            .env(SERVED, at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let say = server.stdin.take().unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut told = lines.skip_while(|line| !line.contains(MOUNTED) && !line.contains(FAILED));
        match told.next().unwrap_or_default() {
            failed if !failed.contains(MOUNTED) => {
                assert!(std::env::var_os("CI").is_none(), "{failed}");
                println!("rejected: {failed}");
                server.wait().unwrap();
                return None;
            }
            _ => {}
        }
        let hanging = Arc::new(AtomicUsize::new(0));
        let counted = hanging.clone();
        std::thread::spawn(move || {
            told.for_each(|_| {
                counted.fetch_add(1, SeqCst);
            });
        });
        Some(Self { at: at.to_owned(), server, say, hanging })
    }

    /// From now on nothing is answered.
    pub(crate) fn die(&mut self) {
        self.say.write_all(b"die\n").unwrap();
    }

    /// Waits until at least this many requests hang.
    pub(crate) async fn hangs(&self, least: usize) {
        for _ in 0..2000 {
            if self.hanging() >= least {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} requests hang", self.hanging());
    }

    pub(crate) fn hanging(&self) -> usize {
        self.hanging.load(SeqCst)
    }
}

impl Drop for Dead {
    fn drop(&mut self) {
        // What waits for it fails when it is gone.
        let _ = self.server.kill();
        let _ = self.server.wait();
        if umount2(&self.at, MntFlags::MNT_DETACH).is_err() {
            let _ = Command::new("fusermount3").arg("-uz").arg(&self.at).status();
        }
    }
}

/// The child process: serves until it is told to die, or its parent's thread ends.
#[test]
fn server() {
    let Some(at) = std::env::var_os(SERVED) else { return };
    set_pdeathsig(Signal::SIGKILL).unwrap();
    let hanging = Arc::new(State(AtomicUsize::new(ALIVE)));
    let session = match fuser::spawn_mount2(
        Files(hanging.clone()),
        at,
        &[MountOption::FSName("dead".into())],
    ) {
        Ok(session) => session,
        Err(error) => return println!("{FAILED}: {error}"),
    };
    println!("{MOUNTED}");
    for line in std::io::stdin().lines() {
        if line.unwrap() == "die" {
            hanging.0.store(0, SeqCst);
        }
    }
    drop(session);
}

const SERVED: &str = "GUARD_TEST_DEAD";
const MOUNTED: &str = "it is mounted";
const FAILED: &str = "FUSE cannot be mounted here";

/// Whether it answers.
struct State(AtomicUsize);

const ALIVE: usize = 1;

impl State {
    /// The reply, if this request is answered.
    fn answers<T>(&self, reply: T) -> Option<T> {
        if self.0.load(SeqCst) == ALIVE {
            return Some(reply);
        }
        println!("hangs");
        // A reply that is dropped is an error.
        std::mem::forget(reply);
        None
    }
}

struct Files(Arc<State>);

const TEXT: &[u8] = b"alive";

fn attributes(inode: u64) -> FileAttr {
    let (kind, perm, size) = if inode == 1 {
        (FileType::Directory, 0o755, 0)
    } else {
        (FileType::RegularFile, 0o644, TEXT.len() as u64)
    };
    FileAttr {
        ino: inode,
        size,
        blocks: 1,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 512,
        flags: 0,
    }
}

/// Nothing may be kept by the kernel: it asks each time.
const TIME_TO_LIVE: Duration = Duration::ZERO;

impl Filesystem for Files {
    fn lookup(&mut self, _: &Request<'_>, _: u64, name: &OsStr, reply: ReplyEntry) {
        let Some(reply) = self.0.answers(reply) else { return };
        if name == "in.txt" {
            reply.entry(&TIME_TO_LIVE, &attributes(2), 0);
        } else {
            reply.error(2);
        }
    }

    fn getattr(&mut self, _: &Request<'_>, inode: u64, _: Option<u64>, reply: ReplyAttr) {
        let Some(reply) = self.0.answers(reply) else { return };
        reply.attr(&TIME_TO_LIVE, &attributes(inode));
    }

    fn open(&mut self, _: &Request<'_>, _: u64, _: i32, reply: ReplyOpen) {
        let Some(reply) = self.0.answers(reply) else { return };
        reply.opened(0, 0);
    }

    fn read(
        &mut self,
        _: &Request<'_>,
        _: u64,
        _: u64,
        offset: i64,
        _: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyData,
    ) {
        let Some(reply) = self.0.answers(reply) else { return };
        reply.data(TEXT.get(usize::try_from(offset).unwrap()..).unwrap_or_default());
    }
}
