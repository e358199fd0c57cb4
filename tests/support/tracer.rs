//! A ptrace(2) tracer that follows a child process of the suite and checks its system calls.
//!
//! Each call between two stops is checked when it returns. The tracer rejects any path that starts
//! at `/` or at the process's working directory, even if it points inside a root. It also rejects
//! any call that is not in [`takes`] or [`NO_PATH`], so no call can be overlooked. The table lists
//! the accepted uses of paths:
//!
//! | path | why it is accepted |
//! | --- | --- |
//! | one name on a descriptor inside, unless it is a symlink that the call would follow | it looks up a name inside |
//! | anything, by `openat2` with `RESOLVE_BENEATH` on a descriptor inside | the kernel stops at the edge |
//! | plain names inside, by `openat2` with `RESOLVE_BENEATH` and `NO_SYMLINKS` | no symlink is followed |
//! | a directory that contains a root, by name, with `O_PATH`, no symlink followed | after a failure, the names of the roots are verified |
//! | the empty path (`AT_EMPTY_PATH`) on the directory of a file root | it names a directory that the root holds open |
//! | `/proc/self/fd/N`, read as a symlink | it names a file that is already open |
//!
//! The kernel's path of an opened file must be inside a root.
#![cfg(target_arch = "x86_64")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};

use nix::libc::{self, c_long, user_regs_struct};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::kernel::{ENOSYS, block};
use super::traced::{Decision, OneCpu, TracedChild, be_traced, between_stops, signed};

/// The environment variable that selects how the traced child runs.
pub(crate) const TRACED: &str = "GUARD_TEST_TRACED";
pub(crate) const AS_IT_IS: &str = "as it is";
pub(crate) const WITHOUT_OPENAT2: &str = "without openat2";
pub(crate) const LOOKING: &str = "looking";

/// The prefix of a mark, which the child sends by reading a symlink that does not exist. The rest
/// names the row that follows.
const MARK: &str = "/.trace: ";

pub(crate) fn mark(what: &str) {
    let _ = rustix::fs::readlinkat(CWD, format!("{MARK}{what}"), Vec::new());
}

/// Lets the parent trace this process if it is a traced child, and returns how it runs.
pub(crate) fn be_traced_if_child(tree: &Path) -> Option<String> {
    let how = std::env::var(TRACED).ok()?;
    if how == WITHOUT_OPENAT2 {
        block(ENOSYS);
    }
    be_traced(tree);
    Some(how)
}

/// Runs a section that the parent checks, if it traces this process.
pub(crate) fn section<T>(is_traced: bool, work: impl FnOnce() -> T) -> T {
    if is_traced { between_stops(work) } else { work() }
}

pub(crate) fn openat2_is_there() -> bool {
    rustix::fs::openat2(CWD, ".", OFlags::PATH, Mode::empty(), ResolveFlags::empty()).is_ok()
}

/// Whether a path is at or below a denied name, or passes through one.
pub(crate) type IsDenied = fn(&Path) -> bool;

/// Runs a test of this binary in a child process with [`TRACED`] set to `how`, and checks the calls
/// of its sections. With `is_denied`, rejects also each call that names a denied path, and each call
/// that could follow a symlink to one.
pub(crate) fn trace(
    how: &str,
    test: &str,
    roots: &[&str],
    file_root: &str,
    is_denied: Option<IsDenied>,
) -> Seen {
    let _one_cpu = OneCpu::new();
    let mut child = TracedChild::start(test, TRACED, how);
    let roots = roots.iter().map(|root| child.tree.join(root)).collect();
    let (proc, file_root) = (child.proc(), child.tree.join(file_root));
    let memory = File::open(proc.join("mem")).unwrap();
    let mut seen = Seen { proc, roots, file_root, is_denied, ..Seen::default() };
    child.wait_for_stop();
    let mut call = None;
    loop {
        child.follow(|registers, result| {
            match result {
                None => call = seen.begin(&memory, registers),
                Some(result) => call.iter().for_each(|call| seen.judge(call, result)),
            }
            Decision::Make
        });
        if !child.continues() {
            break;
        }
    }
    child.end();
    seen
}

/// The tracer's observations, and the paths that it needs to check a call.
#[derive(Default)]
pub(crate) struct Seen {
    proc: PathBuf,
    roots: Vec<PathBuf>,
    file_root: PathBuf,
    is_denied: Option<IsDenied>,
    /// The last mark.
    row: String,
    /// The calls after each mark.
    pub(crate) made: Vec<(String, Vec<c_long>)>,
    pub(crate) calls: usize,
    pub(crate) judged: usize,
    pub(crate) edge: usize,
    holders: usize,
    /// The number of `openat2` calls that were not refused as unavailable.
    pub(crate) answered: usize,
    pub(crate) refused: Vec<String>,
    /// Files that were opened without being closed on exec.
    pub(crate) inheritable: Vec<String>,
}

/// A system call that has not returned yet.
#[derive(Debug)]
struct Call {
    number: c_long,
    flags: u64,
    resolve: u64,
    paths: Vec<PathArgument>,
}

/// A path argument of a system call.
#[derive(Debug)]
struct PathArgument {
    dir: PathBuf,
    path: PathBuf,
    /// Whether the path is a symlink that the call would follow.
    is_followed_symlink: bool,
}

impl Seen {
    pub(crate) fn counts(&self) -> String {
        let Self { calls, judged, edge, holders, .. } = self;
        format!(
            "{calls} calls, {judged} paths judged, {edge} refused at the edge, \
             {holders} that verified a root's name"
        )
    }

    /// The call that begins, unless it is a mark or ends the section.
    fn begin(&mut self, memory: &File, registers: &user_regs_struct) -> Option<Call> {
        let user_regs_struct { orig_rax, rdi, rsi, rdx, r10, r8, .. } = *registers;
        let (number, args) = (signed(orig_rax), [rdi, rsi, rdx, r10, r8]);
        if number == libc::SYS_tgkill && rdx == bits(libc::SIGSTOP) {
            return None;
        }
        let read = |at: u64, size: usize| {
            let mut bytes = vec![0; size];
            let read = memory.read_at(&mut bytes, at).unwrap_or(0);
            bytes.truncate(read);
            bytes
        };
        let Takes(pairs, flags, follows) =
            takes(number).unwrap_or(Takes(&[], None, Follows::Never));
        let (mut flags, mut resolve) = (flags.map_or(0, |at| args[at]), 0);
        if number == libc::SYS_openat2 {
            let how = read(args[2], 24);
            [flags, _, resolve] =
                [0, 8, 16].map(|at| u64::from_ne_bytes(how[at..at + 8].try_into().unwrap()));
        }
        let follows = match follows {
            Follows::Never => false,
            Follows::With(bit) => flags & bits(bit) != 0,
            Follows::Without(bit) => flags & bits(bit) == 0,
        };
        let argument = |&(dir, path_at): &(usize, usize)| {
            let text = read(args[path_at], 4096);
            let end = text.iter().position(|byte| *byte == 0).expect("a path ends with NUL");
            let path = PathBuf::from(OsStr::from_bytes(&text[..end]));
            // A descriptor is an int: the upper half of the register is undefined.
            let dir = match i32::from_ne_bytes(*args[dir].to_ne_bytes().first_chunk().unwrap()) {
                libc::AT_FDCWD => self.proc.join("cwd"),
                number => self.proc.join("fd").join(number.to_string()),
            };
            let dir = fs::read_link(dir).unwrap_or_default();
            // An open file is linked by the number of its descriptor.
            if number == libc::SYS_linkat && dir.starts_with("/proc") {
                let file = fs::read_link(self.proc.join("fd").join(path)).unwrap_or_default();
                let (dir, path) = (file.parent().unwrap().into(), file.file_name().unwrap().into());
                return PathArgument { dir, path, is_followed_symlink: false };
            }
            // linkat(2) never follows the new name.
            let is_new_name = number == libc::SYS_linkat && path_at == 3;
            let is_followed_symlink = follows
                && !is_new_name
                && fs::symlink_metadata(dir.join(&path)).is_ok_and(|found| found.is_symlink());
            PathArgument { dir, path, is_followed_symlink }
        };
        // Without a path, `utimensat` sets the times of the descriptor itself.
        let has_path =
            |(_, path): &&(usize, usize)| number != libc::SYS_utimensat || args[*path] != 0;
        let paths: Vec<_> = pairs.iter().filter(has_path).map(argument).collect();
        if let Some(row) = paths.first().and_then(|it| it.path.to_str()?.strip_prefix(MARK)) {
            row.clone_into(&mut self.row);
            self.made.push((row.to_owned(), Vec::new()));
            return None;
        }
        Some(Call { number, flags, resolve, paths })
    }

    /// Checks a call against the table at the top of this file.
    fn judge(&mut self, call: &Call, result: i64) {
        self.calls += 1;
        if let Some((_, made)) = self.made.last_mut() {
            made.push(call.number);
        }
        if takes(call.number).is_none() && !NO_PATH.contains(&call.number) {
            self.refused
                .push(format!("{}: {call:?} is not in the list of calls without a path", self.row));
        }
        let is_openat2 = call.number == libc::SYS_openat2;
        if is_openat2 && [-libc::ENOSYS, -libc::EPERM].map(i64::from).contains(&result) {
            return; // The call is unavailable: the kernel is old, or a seccomp filter blocks it.
        }
        self.answered += usize::from(is_openat2);
        let opens = is_openat2 || call.number == libc::SYS_openat;
        if opens && result >= 0 && call.flags & bits(libc::O_CLOEXEC) == 0 {
            self.inheritable.push(format!("{}: {call:?}", self.row));
        }
        let opened = (opens && result >= 0)
            .then(|| fs::read_link(self.proc.join(format!("fd/{result}"))).unwrap());
        for argument in &call.paths {
            self.judged += 1;
            match self.verdict(call, argument, opened.as_deref()) {
                Verdict::Inside if is_openat2 && result == -i64::from(libc::EXDEV) => {
                    self.edge += 1;
                }
                Verdict::Inside => {}
                Verdict::Holder => self.holders += 1,
                Verdict::Outside => {
                    self.refused
                        .push(format!("{}: {call:?} returned {result}, {opened:?}", self.row));
                }
            }
        }
    }

    fn verdict(&self, call: &Call, argument: &PathArgument, opened: Option<&Path>) -> Verdict {
        let PathArgument { dir, path, is_followed_symlink } = argument;
        let text = path.as_os_str().as_bytes();
        // The descriptors of the thread itself.
        if text == b"/proc/thread-self/fd" {
            return Verdict::Inside;
        }
        let own = text
            .strip_prefix(b"/proc/self/fd/")
            .is_some_and(|name| name.iter().all(u8::is_ascii_digit));
        if own && call.number == libc::SYS_readlinkat {
            return Verdict::Inside;
        }
        let beneath = call.resolve & libc::RESOLVE_BENEATH != 0;
        let no_links = beneath && call.resolve & libc::RESOLVE_NO_SYMLINKS != 0;
        let plain =
            path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let one = text != b".." && !text.contains(&b'/') && !is_followed_symlink;
        let (by_name, at) = (plain && no_links || one, dir.join(path));
        let inside = |at: &Path| self.roots.iter().any(|root| at.starts_with(root));
        let holder = |at: &Path| self.roots.iter().any(|root| root.starts_with(at));
        if let Some(is_denied) = self.is_denied {
            let walked = if no_links { dir.join(walked_beneath(path)) } else { at.clone() };
            let names_it = is_denied(dir) || is_denied(&walked) || opened.is_some_and(is_denied);
            if names_it || beneath && !no_links && !one {
                return Verdict::Outside;
            }
        }
        let identity = text.is_empty() && self.file_root.parent() == Some(dir);
        let directory =
            libc::O_PATH | libc::O_DIRECTORY | if no_links { 0 } else { libc::O_NOFOLLOW };
        let directory = bits(directory);
        if (beneath && inside(dir) || by_name && inside(&at)) && opened.is_none_or(inside) {
            Verdict::Inside
        } else if identity
            || by_name
                && holder(&at)
                && call.flags & directory == directory
                && opened.is_none_or(holder)
        {
            Verdict::Holder
        } else {
            Verdict::Outside
        }
    }
}

/// The part of a path that the kernel walks with `RESOLVE_BENEATH` and without symlinks. It stops
/// at the `..` that would leave the directory.
fn walked_beneath(path: &Path) -> PathBuf {
    let mut depth = 0_i32;
    let is_walked = |part: &Component<'_>| {
        depth += match part {
            Component::Normal(_) => 1,
            Component::ParentDir => -1,
            _ => 0,
        };
        depth >= 0
    };
    path.components().take_while(is_walked).collect()
}

enum Verdict {
    Inside,
    Holder,
    Outside,
}

/// The arguments of a system call: its pairs of descriptor and path, its flags, and the flag that
/// decides whether the call follows a symlink in the last component.
struct Takes(&'static [(usize, usize)], Option<usize>, Follows);

enum Follows {
    Never,
    With(i32),
    Without(i32),
}

/// Converts flags to the type of a system call's arguments.
fn bits(flags: i32) -> u64 {
    flags.try_into().unwrap()
}

/// The calls that take a path relative to a descriptor. Calls that take a path without a descriptor
/// are never accepted.
fn takes(number: c_long) -> Option<Takes> {
    use Follows::{Never, With, Without};
    Some(match number {
        libc::SYS_openat | libc::SYS_openat2 => {
            Takes(&[(0, 1)], Some(2), Without(libc::O_NOFOLLOW))
        }
        libc::SYS_newfstatat | libc::SYS_utimensat => {
            Takes(&[(0, 1)], Some(3), Without(libc::AT_SYMLINK_NOFOLLOW))
        }
        libc::SYS_statx => Takes(&[(0, 1)], Some(2), Without(libc::AT_SYMLINK_NOFOLLOW)),
        libc::SYS_readlinkat | libc::SYS_mkdirat | libc::SYS_unlinkat => {
            Takes(&[(0, 1)], None, Never)
        }
        // The text of the symlink is not a path that the call resolves.
        libc::SYS_symlinkat => Takes(&[(1, 2)], None, Never),
        libc::SYS_renameat | libc::SYS_renameat2 => Takes(&[(0, 1), (2, 3)], None, Never),
        libc::SYS_linkat => Takes(&[(0, 1), (2, 3)], Some(4), With(libc::AT_SYMLINK_FOLLOW)),
        _ => return None,
    })
}

/// The accepted calls without a path argument, which are needed to read and write files.
#[rustfmt::skip]
const NO_PATH: &[c_long] = {
    use libc::*;
    &[
        SYS_read, SYS_pread64, SYS_write, SYS_close, SYS_lseek, SYS_fstat, SYS_fstatfs, SYS_getdents64, SYS_fcntl,
        SYS_fsync, SYS_ftruncate, SYS_fchmod, SYS_fchown, SYS_fgetxattr, SYS_fsetxattr, SYS_fremovexattr, SYS_brk, SYS_mmap, SYS_mremap, SYS_munmap, SYS_madvise, SYS_mprotect,
        SYS_copy_file_range, SYS_sendfile, SYS_geteuid, SYS_futex, SYS_getrandom, SYS_clock_gettime, SYS_rt_sigprocmask, SYS_getpid, SYS_gettid, SYS_sched_yield,
    ]
};
