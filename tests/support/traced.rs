//! A child process of the suite that is stopped at each system call of its operations. The child
//! makes an operation between two SIGSTOPs ([`between_stops`]), and [`TracedChild::trace`] decides
//! what becomes of each system call between them.
#![cfg(target_arch = "x86_64")]

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::errno::Errno;
use nix::libc::{self, c_long, user_regs_struct};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, alarm, gettid};

/// Precedes the traced thread's number and the tree's path in the child's output.
const THREAD: &str = "traced thread ";

/// Lets the parent process trace this thread, which uses this tree. A child that hangs is killed.
pub(crate) fn be_traced(tree: &Path) {
    alarm::set(60);
    ptrace::traceme().unwrap();
    println!("{THREAD}{} {}", gettid(), tree.display());
}

/// Runs the operation that the parent process traces.
pub(crate) fn between_stops<T>(operation: impl FnOnce() -> T) -> T {
    stop();
    let result = operation();
    stop();
    result
}

pub(crate) fn stop() {
    raise(Signal::SIGSTOP).unwrap();
}

/// Ends the trace of a child that makes several operations.
pub(crate) fn end_trace() {
    raise(Signal::SIGUSR1).unwrap();
}

/// Decides about a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Make,
    /// The call is not made, and returns this error.
    Fail(Errno),
    /// The process is killed before the call.
    Kill,
}

pub(crate) struct TracedChild {
    child: Child,
    thread: Pid,
    /// The tree that the child uses.
    pub(crate) tree: PathBuf,
    requests: ChildStdin,
    last_request: String,
    lines: Lines<BufReader<ChildStdout>>,
}

impl TracedChild {
    /// Runs a test of this binary, which calls [`be_traced`], with an environment variable.
    pub(crate) fn start(test: &str, variable: &str, value: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(variable, value);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.find_map(|line| Some(line.unwrap().split_once(THREAD)?.1.to_owned()));
        let ready = ready.expect("the child reports that it is ready");
        let (thread, tree) = ready.split_once(' ').unwrap();
        let (thread, tree) = (Pid::from_raw(thread.parse().unwrap()), tree.into());
        let requests = child.stdin.take().unwrap();
        Self { child, thread, tree, requests, last_request: String::new(), lines }
    }

    /// Sends a line to the child's standard input.
    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.requests, "{line}").unwrap();
        line.clone_into(&mut self.last_request);
    }

    /// Decides about each system call up to the next SIGSTOP. The child must be stopped. Returns
    /// whether it is still alive, and then stopped again.
    pub(crate) fn trace(&mut self, mut decide: impl FnMut(c_long) -> Decision) -> bool {
        self.follow(|at_entry, result| match result {
            None => decide(signed(at_entry.orig_rax)),
            Some(_) => Decision::Make,
        })
    }

    /// Like [`trace`](Self::trace), with the registers before each call, and then with its result.
    pub(crate) fn follow(
        &mut self,
        mut decide: impl FnMut(&user_regs_struct, Option<i64>) -> Decision,
    ) -> bool {
        let thread = self.thread;
        loop {
            ptrace::syscall(thread, None).unwrap();
            let status = self.wait();
            if status == self.stopped() {
                return true;
            }
            let expected = WaitStatus::PtraceSyscall(thread);
            assert_eq!(status, expected, "the operation did not end: {:?}", self.last_request);
            let mut at_entry = ptrace::getregs(thread).unwrap();
            let before = at_entry;
            let decision = decide(&before, None);
            match decision {
                Decision::Make => {}
                // The kernel closes the descriptor even if it returns an error (close(2)).
                Decision::Fail(_) if signed(before.orig_rax) == libc::SYS_close => {}
                Decision::Fail(_) => {
                    at_entry.orig_rax = u64::MAX;
                    ptrace::setregs(thread, at_entry).unwrap();
                }
                Decision::Kill => {
                    let process = Pid::from_raw(self.child.id().try_into().unwrap());
                    kill(process, Signal::SIGKILL).unwrap();
                    while !matches!(self.wait(), WaitStatus::Signaled(..)) {}
                    self.child.wait().unwrap();
                    return false;
                }
            }
            ptrace::syscall(thread, None).unwrap();
            assert_eq!(self.wait(), WaitStatus::PtraceSyscall(thread));
            let mut at_exit = ptrace::getregs(thread).unwrap();
            decide(&before, Some(signed(at_exit.rax)));
            if let Decision::Fail(errno) = decision {
                at_exit.rax = u64::from_ne_bytes((-i64::from(errno as i32)).to_ne_bytes());
                ptrace::setregs(thread, at_exit).unwrap();
            }
        }
    }

    /// Continues the child after a trace, and returns the next line that it prints.
    pub(crate) fn answer(&mut self) -> String {
        ptrace::cont(self.thread, None).unwrap();
        self.lines.next().expect("the child answers").unwrap()
    }

    /// What the kernel shows about the traced thread.
    pub(crate) fn proc(&self) -> PathBuf {
        Path::new("/proc").join(self.thread.to_string())
    }

    /// Waits for a SIGSTOP.
    pub(crate) fn wait_for_stop(&self) {
        assert_eq!(self.wait(), self.stopped());
        let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(self.thread, options).unwrap();
    }

    /// Continues the child after a trace, to its next SIGSTOP. Returns false at the end.
    pub(crate) fn continues(&self) -> bool {
        ptrace::cont(self.thread, None).unwrap();
        self.wait() == self.stopped()
    }

    /// Continues a stopped child, which must then succeed.
    pub(crate) fn end(self) {
        let Self { mut child, thread, requests, lines, .. } = self;
        drop(requests);
        let _ = ptrace::detach(thread, None);
        let rest: Vec<String> = lines.map(Result::unwrap).collect();
        assert!(child.wait().is_ok_and(|status| status.success()), "{}", rest.join("\n"));
    }

    fn wait(&self) -> WaitStatus {
        waitpid(self.thread, Some(WaitPidFlag::__WALL)).unwrap()
    }

    fn stopped(&self) -> WaitStatus {
        WaitStatus::Stopped(self.thread, Signal::SIGSTOP)
    }
}

/// Reinterprets a register as a signed number.
pub(crate) fn signed(register: u64) -> i64 {
    i64::from_ne_bytes(register.to_ne_bytes())
}

/// Keeps this thread, and the children that it starts, on one CPU. A tracer and its child alternate
/// at each call, and waking an idle CPU takes longer than the call.
pub(crate) struct OneCpu(CpuSet);

impl OneCpu {
    pub(crate) fn new() -> Self {
        let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let mut one = CpuSet::new();
        one.set((0..CpuSet::count()).find(|cpu| before.is_set(*cpu).unwrap()).unwrap()).unwrap();
        sched_setaffinity(Pid::from_raw(0), &one).unwrap();
        Self(before)
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        sched_setaffinity(Pid::from_raw(0), &self.0).unwrap();
    }
}
