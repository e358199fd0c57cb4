//! A FUSE filesystem that can be slow, and can hang: its server continues to read requests but
//! stops replying.
//!
//! The server is a child process. While it runs, a thread that waits for a reply cannot be killed.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
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

/// A mounted filesystem with one file, `in.txt`. Dropping it fails its pending requests and
/// unmounts it.
pub(crate) struct HungFilesystem {
    at: PathBuf,
    server: Child,
    pending: Arc<AtomicUsize>,
}

/// Runs a test in its own mount namespace, so that no mount remains when the test ends.
pub(crate) fn in_namespace(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let test = scope.spawn(|| {
            let none = None::<&Path>;
            // This fails without privileges. `fusermount3` then mounts the filesystem in the shared
            // namespace.
            let _ = unshare(CloneFlags::CLONE_NEWNS)
                .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none));
            test();
        });
        if let Err(panic) = test.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

impl HungFilesystem {
    /// Mounts a filesystem that still replies. If FUSE is not available, returns `None`, or panics
    /// in CI.
    pub(crate) fn mount(at: &Path) -> Option<Self> {
        let mut server = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "hung_filesystem::child_process_serves_the_filesystem",
                "--nocapture",
            ])
            .env(SERVED, at)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut lines = lines.skip_while(|line| !line.contains(MOUNTED) && !line.contains(FAILED));
        match lines.next().unwrap_or_default() {
            failed if !failed.contains(MOUNTED) => {
                assert!(std::env::var_os("CI").is_none(), "{failed}");
                println!("skipped: {failed}");
                server.wait().unwrap();
                return None;
            }
            _ => {}
        }
        let pending = Arc::new(AtomicUsize::new(0));
        let counted = pending.clone();
        std::thread::spawn(move || lines.for_each(|_| _ = counted.fetch_add(1, SeqCst)));
        Some(Self { at: at.to_owned(), server, pending })
    }

    /// Stops replying to requests. No request that is made after this returns has a reply.
    pub(crate) fn hang(&mut self) {
        self.command(HANG);
    }

    /// Delays each further reply by this time.
    pub(crate) fn delay(&mut self, time: Duration) {
        self.command(&time.as_millis().to_string());
    }

    /// Looks up a name, which the server takes for a command.
    fn command(&self, name: &str) {
        self.at.join(name).symlink_metadata().unwrap_err();
    }

    /// Waits until at least this many requests are pending. Panics if that takes too long.
    pub(crate) async fn wait_for_pending(&self, least: usize) {
        for _ in 0..2000 {
            if self.pending() >= least {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} requests are pending", self.pending());
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.load(SeqCst)
    }
}

impl Drop for HungFilesystem {
    fn drop(&mut self) {
        // Pending requests fail once the server has exited.
        let _ = self.server.kill();
        let _ = self.server.wait();
        if umount2(&self.at, MntFlags::MNT_DETACH).is_err() {
            let _ = Command::new("fusermount3").arg("-uz").arg(&self.at).status();
        }
    }
}

/// The child process. It serves the filesystem until the thread that started it ends.
#[test]
fn child_process_serves_the_filesystem() {
    let Some(at) = std::env::var_os(SERVED) else { return };
    set_pdeathsig(Signal::SIGKILL).unwrap();
    let files = Files { replies: true, delay: Duration::ZERO };
    match fuser::spawn_mount2(files, at, &[MountOption::FSName("hung".into())]) {
        Ok(_session) => {
            println!("{MOUNTED}");
            loop {
                std::thread::park();
            }
        }
        Err(error) => println!("{FAILED}: {error}"),
    }
}

const SERVED: &str = "GUARD_TEST_HUNG_FILESYSTEM";
const MOUNTED: &str = "the filesystem is mounted";
const FAILED: &str = "FUSE cannot be mounted here";

/// The name whose look-up is the last that has a reply. That of a number is a delay.
const HANG: &str = "hang";

struct Files {
    /// Whether the filesystem replies.
    replies: bool,
    /// How long each reply takes.
    delay: Duration,
}

impl Files {
    /// Returns the reply handle if the filesystem still replies. Otherwise reports a pending
    /// request to the parent process and returns `None`.
    fn reply_handle<T>(&self, reply: T) -> Option<T> {
        std::thread::sleep(self.delay);
        if self.replies {
            return Some(reply);
        }
        println!("pending");
        // Dropping the reply handle would send an error.
        std::mem::forget(reply);
        None
    }
}

const TEXT: &[u8] = b"content";

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

/// The kernel must not cache anything, so that every look-up sends a request.
const TIME_TO_LIVE: Duration = Duration::ZERO;

impl Filesystem for Files {
    fn lookup(&mut self, _: &Request<'_>, _: u64, name: &OsStr, reply: ReplyEntry) {
        let Some(reply) = self.reply_handle(reply) else { return };
        match name.to_str().unwrap_or_default() {
            "in.txt" => return reply.entry(&TIME_TO_LIVE, &attributes(2), 0),
            HANG => self.replies = false,
            name => self.delay = name.parse().map_or(self.delay, Duration::from_millis),
        }
        reply.error(2);
    }

    fn getattr(&mut self, _: &Request<'_>, inode: u64, _: Option<u64>, reply: ReplyAttr) {
        let Some(reply) = self.reply_handle(reply) else { return };
        reply.attr(&TIME_TO_LIVE, &attributes(inode));
    }

    fn open(&mut self, _: &Request<'_>, _: u64, _: i32, reply: ReplyOpen) {
        let Some(reply) = self.reply_handle(reply) else { return };
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
        let Some(reply) = self.reply_handle(reply) else { return };
        reply.data(TEXT.get(usize::try_from(offset).unwrap()..).unwrap_or_default());
    }
}
