//! Confinement by Landlock (landlock(7)).

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use guarded_fs::host::{self, ProgramPaths};
use guarded_fs::{Access, Boundary, Error, ErrorKind, Proof, Result, Root, Roots};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, Errno,
    LandlockStatus, PathBeneath, RestrictSelfAttr as _, RestrictionStatus, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
    make_bitflags,
};
use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, fstatfs, openat, readlinkat};

use super::filter::Filter;
use super::{
    Channel, ConfinedPath, Confinement, ConfinementReport, Extra, ExtraAccess, IfMissing,
    unavailable,
};
use crate::kinds;

/// Nothing changes before [`restrict`] is called, so an earlier refusal leaves the process as it
/// was.
pub(super) fn confine(boundary: &Boundary, confinement: &Confinement) -> Result<ConfinementReport> {
    let directories = boundary.directories();
    if directories.is_empty() {
        let text = "no allowed directory is configured";
        return Err(Error::new(ErrorKind::InvalidConfiguration, "no_directories", text)
            .with_operator_detail("there is nothing to confine the process to"));
    }
    let threads = threads()?;
    let denied = denied(confinement, true);
    let roots = boundary.allowed_roots();
    let mut rules = Rules::new(&roots, ruleset(&denied)?);
    for rejected in roots.rejected() {
        let Some((path, _)) = directories.get(rejected.index()) else { continue };
        let error = rejected.error();
        if error.kind() == ErrorKind::NotFound {
            rules.missing.push(path.clone());
        } else if error.kind() != ErrorKind::Overlap {
            return Err(error.clone().with_request("confine", path.as_os_str()));
        }
    }
    let Rules { ruleset, paths, missing, .. } =
        rules.with_roots(IfMissing::Refused)?.with_extras(&confinement.extras)?;
    let report = ConfinementReport { abi: 0, threads, paths, missing, denied, is_filtered: None };
    report.after(&restrict(ruleset, threads)?)
}

pub(crate) struct ChildConfinement {
    ruleset: RulesetCreated,
    report: ConfinementReport,
    is_partial_allowed: bool,
}

/// Enforced by the new process.
pub(crate) struct Restriction {
    ruleset: Option<RulesetCreated>,
    filter: Option<Filter>,
}

pub(crate) fn prepare(
    directory: &Proof,
    confinement: &Confinement,
    program: &Path,
) -> Result<ChildConfinement> {
    let denied = denied(confinement, false);
    let roots = directory.roots();
    let mut rules = Rules::new(roots, ruleset(&denied)?);
    rules.has_programs = confinement.has_programs_in_roots;
    let program = Extra {
        path: program.to_owned(),
        access: ExtraAccess::Execute,
        missing: IfMissing::Refused,
    };
    let extras: Vec<_> = confinement.extras.iter().cloned().chain([program]).collect();
    let Rules { ruleset, paths, missing, .. } =
        rules.with_roots(IfMissing::Ignored)?.with_extras(&extras)?;
    let report =
        ConfinementReport { abi: 0, threads: 1, paths, missing, denied, is_filtered: None };
    Ok(ChildConfinement { ruleset, report, is_partial_allowed: confinement.is_partial_allowed })
}

impl ChildConfinement {
    /// Confines a thread that then ends, to learn what the kernel enforces.
    pub(crate) fn verified(self) -> Result<(ConfinementReport, Restriction)> {
        let (ruleset, report) = (self.ruleset.try_clone()?, self.report);
        let trial = move || -> Result<_> {
            let mut confined = report.after(&restrict(ruleset, 1)?)?;
            let filter = Filter::new(&confined.denied, confined.abi < UNIX_SOCKETS as u32);
            // On an architecture without filters, what only a filter denies is not enforced.
            let is_missing = (!confined.denied.is_empty()).then_some(false);
            confined.is_filtered = filter.as_ref().map(Filter::is_enforced_here).or(is_missing);
            Ok((confined, filter))
        };
        let thread = thread::Builder::new().name("guarded-confine".into()).spawn(trial);
        let busy = |error: io::Error| host::with_raw_os_error(kinds::busy(), error.raw_os_error());
        let thread = thread.map_err(busy)?;
        let panicked = |_| kinds::panicked("the thread panicked");
        let (confined, filter) = thread.join().map_err(panicked)??;
        let gaps: Vec<_> = confined.not_enforced().map(|(_, what)| what).collect();
        // Defense: A child process runs only if the kernel confines it.
        let is_sufficient = gaps.is_empty() || self.is_partial_allowed;
        if !is_sufficient {
            let gaps = gaps.join("; ");
            let text = "this kernel cannot enforce all restrictions of the program";
            let (kind, code) = (kinds::CONFINEMENT_UNAVAILABLE, "confinement_unavailable");
            return Err(Error::new(kind, code, text).with_operator_detail(gaps));
        }
        let filter = filter.filter(|_| confined.is_filtered == Some(true));
        Ok((confined, Restriction { ruleset: Some(self.ruleset), filter }))
    }
}

impl Restriction {
    /// Confines the calling thread and everything that it starts from now on, with system calls
    /// only, so that a new process can call it before it executes a program.
    pub(crate) fn enforce(&mut self) -> io::Result<()> {
        if let Some(ruleset) = self.ruleset.take() {
            ruleset
                .restrict_self()
                .map_err(|error| io::Error::from_raw_os_error(*Errno::from(error)))?;
        }
        self.filter.as_ref().map_or(Ok(()), Filter::apply)
    }
}

impl ConfinementReport {
    fn after(mut self, status: &RestrictionStatus) -> Result<Self> {
        let abi = match status.landlock {
            LandlockStatus::Available { effective_abi, kernel_abi } => {
                kernel_abi.unwrap_or(effective_abi as i32)
            }
            LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
        };
        self.abi = u32::try_from(abi).unwrap_or(0);
        // The first version of Landlock is required, so it is an error if nothing is enforced.
        if self.abi == 0
            || status.ruleset == RulesetStatus::NotEnforced
            || !status.no_new_privs
            || !is_enforced(&self.paths)
        {
            let detail =
                "the kernel claims to have confined the process, and allows what it denied";
            return Err(unavailable().with_operator_detail(detail));
        }
        Ok(self)
    }
}

/// Tests whether the kernel now denies what it must deny, because a seccomp filter can report
/// success without doing anything. If access to `/` is allowed, nothing can be tested, and the
/// result is true.
fn is_enforced(paths: &[ConfinedPath]) -> bool {
    let root_dir =
        openat(CWD, "/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    // Any other error, such as a full descriptor table, shows nothing.
    paths.iter().any(|confined| confined.path == Path::new("/"))
        || root_dir.is_err_and(|error| error == rustix::io::Errno::ACCESS)
}

struct OpenExtra<'a> {
    named: &'a Extra,
    /// With all symlinks resolved.
    path: PathBuf,
    file: File,
}

fn find<'a>(named: &'a Extra, paths: &ProgramPaths<'_>) -> Result<OpenExtra<'a>> {
    let path = paths.resolve(&std::path::absolute(&named.path)?)?;
    let file = open(CWD, &path, OFlags::NOFOLLOW)?;
    // If the names differ, a directory on the path has just become a symlink, or the file was
    // removed.
    if name_of(&file).as_ref() != Some(&path) {
        let text = "the path was changed by another process";
        return Err(Error::new(ErrorKind::Changed, "changed", text));
    }
    Ok(OpenExtra { named, path, file })
}

struct Rules<'a> {
    roots: &'a Roots,
    ruleset: RulesetCreated,
    has_programs: bool,
    paths: Vec<ConfinedPath>,
    /// The optional paths that do not exist.
    missing: Vec<PathBuf>,
}

impl<'a> Rules<'a> {
    fn new(roots: &'a Roots, ruleset: RulesetCreated) -> Self {
        Self { roots, ruleset, has_programs: false, paths: Vec::new(), missing: Vec::new() }
    }

    /// Adds the roots in force. One that is not there grants nothing, or is an error.
    fn with_roots(self, if_missing: IfMissing) -> Result<Self> {
        let is_ignored = |error: &Error| {
            if_missing == IfMissing::Ignored && error.kind() == ErrorKind::RootUnavailable
        };
        let roots = self.roots;
        let paths = ProgramPaths::new(roots, []);
        roots.iter().try_fold(self, |rules, root| match paths.open_root(root) {
            Err(error) if is_ignored(&error) => Ok(rules),
            opened => opened
                .and_then(|file| rules.with_root(root, &file.into()))
                .map_err(|error| error.with_request("confine", root.path().as_os_str())),
        })
    }

    /// Adds the extras, unless a symlink on the path of one is where a tool could have planted it.
    fn with_extras(mut self, extras: &[Extra]) -> Result<Self> {
        // A writable extra can contain a symlink that a tool created, even in an earlier run.
        let own = extras.iter().filter(|extra| extra.access == ExtraAccess::ReadWrite);
        let own: Vec<_> = own.filter_map(|extra| extra.path.canonicalize().ok()).collect();
        let roots = self.roots;
        let paths = ProgramPaths::new(roots, own.iter().map(PathBuf::as_path));
        for named in extras {
            let found = match find(named, &paths) {
                Ok(extra) => self.with_extra(extra, &paths),
                Err(error)
                    if named.missing != IfMissing::Refused
                        && error.kind() == ErrorKind::NotFound =>
                {
                    let is_reported = named.missing == IfMissing::Reported;
                    self.missing.extend(is_reported.then(|| named.path.clone()));
                    Ok(self)
                }
                Err(error) => Err(error),
            };
            self = found.map_err(|error| error.with_request("confine", named.path.as_os_str()))?;
        }
        Ok(self)
    }

    fn with_root(mut self, root: &Root, file: &File) -> Result<Self> {
        let access = match root.access() {
            Access::ReadOnly => ExtraAccess::ReadOnly,
            Access::ReadWrite => ExtraAccess::ReadWrite,
        };
        let execute = self.has_programs.then_some(rights(ExtraAccess::Execute));
        self.ruleset = add(self.ruleset, file, rights(access) | execute.unwrap_or_default())?;
        let (path, is_allowed_directory) = (root.path().to_owned(), true);
        self.paths.push(ConfinedPath { path, access, is_allowed_directory });
        Ok(self)
    }

    fn with_extra(mut self, extra: OpenExtra<'_>, paths: &ProgramPaths<'_>) -> Result<Self> {
        let OpenExtra { named, path, file } = extra;
        // Rules are cumulative, so a rule for the read-only directory or a parent would add its
        // access there. A writable extra inside it is granted, as a writable directory is.
        if named.access == ExtraAccess::ReadWrite && paths.read_only_at_or_below(&file, &path)? {
            let text = "a writable path contains a read-only directory, or is one";
            return Err(Error::new(ErrorKind::InvalidConfiguration, "access_conflict", text));
        }
        self.ruleset = add(self.ruleset, &file, rights(named.access))?;
        self.paths.push(ConfinedPath { path, access: named.access, is_allowed_directory: false });
        Ok(self)
    }
}

fn denied(confinement: &Confinement, is_allowed_by_default: bool) -> Vec<Channel> {
    let is_denied = |channel: &Channel| {
        let choice = confinement.choices.iter().rev().find(|(of, _)| of == channel);
        !choice.map_or(is_allowed_by_default, |(_, is_allowed)| *is_allowed)
    };
    let channels = [Channel::Network, Channel::Signals, Channel::UnixSockets, Channel::Watches];
    channels.into_iter().filter(is_denied).collect()
}

/// Denies these channels, and every access to files that no rule allows. This covers every right of
/// the first version of Landlock, which the kernel must support, and those of later versions that
/// it supports.
fn ruleset(denied: &[Channel]) -> Result<RulesetCreated> {
    let wanted = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let wanted = wanted
        .handle_access(AccessFs::from_all(ABI::V1))
        .map_err(|_| unavailable().with_operator_detail(why_unavailable()))?;
    let mut wanted = wanted.set_compatibility(CompatLevel::BestEffort);
    let mut files = AccessFs::from_all(KNOWN);
    let mut scopes = BitFlags::<Scope>::empty();
    // Sockets that the process itself creates later stay accessible to it.
    files.remove(AccessFs::ResolveUnix);
    for channel in denied {
        match channel {
            Channel::Network => {
                let network = AccessNet::from_all(KNOWN);
                wanted = wanted.handle_access(network).map_err(io_error)?;
            }
            Channel::Signals => scopes |= Scope::Signal,
            Channel::UnixSockets => {
                scopes |= Scope::AbstractUnixSocket;
                files |= AccessFs::ResolveUnix;
            }
            // Only the filter of a child process denies them.
            Channel::Watches => {}
        }
    }
    let wanted = wanted.handle_access(files).map_err(io_error)?;
    let wanted = if scopes.is_empty() { wanted } else { wanted.scope(scopes).map_err(io_error)? };
    wanted.create().map_err(io_error)
}

/// Why the kernel has no Landlock (landlock_create_ruleset(2)). Only a restricted thread learns it,
/// so a thread that ends then asks.
fn why_unavailable() -> &'static str {
    let ask = || {
        let best_effort = Ruleset::default().handle_access(AccessFs::Execute)?.create()?;
        best_effort.restrict_self()
    };
    match thread::Builder::new().spawn(ask).map(JoinHandle::join) {
        Ok(Ok(Ok(RestrictionStatus { landlock: LandlockStatus::NotEnabled, .. }))) => {
            "Landlock is not enabled (EOPNOTSUPP): add it to the kernel's parameter lsm="
        }
        _ => {
            "the kernel was built without Landlock (ENOSYS), or a container's system call filter \
             refuses it"
        }
    }
}

/// The latest version of Landlock that the dependency knows.
const KNOWN: ABI = ABI::V10;

/// The first version of Landlock that can deny Unix sockets by path.
const UNIX_SOCKETS: ABI = ABI::V9;

fn add(
    ruleset: RulesetCreated,
    object: &File,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated> {
    // The kernel rejects a rule that gives a file the rights of a directory (EINVAL,
    // landlock_add_rule(2)).
    let is_directory = object.metadata()?.is_dir();
    let rights = if is_directory { rights } else { rights & AccessFs::from_file(KNOWN) };
    ruleset.add_rule(PathBeneath::new(object, rights)).map_err(io_error)
}

/// Read-write access includes the rights to create symlinks, FIFOs and sockets, because renaming
/// one requires them (landlock(7)), and the guard renames these, but not device nodes.
fn rights(access: ExtraAccess) -> BitFlags<AccessFs> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    match access {
        ExtraAccess::ReadOnly => read,
        ExtraAccess::Execute => read | AccessFs::Execute,
        ExtraAccess::ReadWrite => {
            let make =
                make_bitflags!(AccessFs::{MakeReg | MakeDir | MakeSym | MakeFifo | MakeSock});
            read | make
                | make_bitflags!(AccessFs::{WriteFile | Truncate | RemoveFile | RemoveDir | Refer})
        }
    }
}

fn restrict(ruleset: RulesetCreated, threads: usize) -> Result<RestrictionStatus> {
    let ruleset = ruleset.set_compatibility(CompatLevel::HardRequirement);
    // This is the only thread, so no other thread can be started in the meantime.
    // Defense: Every thread is confined, not only the calling one.
    let ruleset = if threads == 1 {
        ruleset
    } else {
        let detail = format!("{threads} threads, but the kernel confines only the calling one");
        let all = ruleset.all_threads(true);
        all.map_err(|_| threads_running(RUNNING, detail))?
    };
    ruleset.restrict_self().map_err(io_error)
}

/// Counts the threads of this process: `/proc/self/task` has one hard link for itself, one for its
/// parent, and one for each thread (`proc_task_getattr` in Linux's fs/proc/base.c). A process that
/// is already confined could not list it.
fn threads() -> Result<usize> {
    let unknown = |error: Error| threads_running(UNKNOWN, format!("/proc/self/task: {error}"));
    let tasks = open(CWD, Path::new("/proc/self/task"), OFlags::DIRECTORY).map_err(unknown)?;
    let links = tasks.metadata().map_err(|error| unknown(error.into()))?.nlink();
    let is_proc = fstatfs(&tasks).is_ok_and(|filesystem| filesystem.f_type == PROC_SUPER_MAGIC);
    match usize::try_from(links).unwrap_or(0).checked_sub(2) {
        Some(threads @ 1..) if is_proc => Ok(threads),
        _ => {
            let detail = "/proc/self/task does not report the number of threads";
            Err(threads_running(UNKNOWN, detail.to_owned()))
        }
    }
}

fn threads_running(text: &'static str, detail: String) -> Error {
    Error::new(kinds::CONFINEMENT_UNAVAILABLE, "threads_running", text).with_operator_detail(detail)
}

const RUNNING: &str =
    "the process has other threads; confine it before any thread or runtime is started";
const UNKNOWN: &str = "the process's threads cannot be counted: is /proc mounted?";

fn open<F: AsFd>(at: F, path: &Path, flags: OFlags) -> Result<File> {
    let opened = openat(at, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty());
    Ok(File::from(opened.map_err(io::Error::from)?))
}

/// The path of an open file as the kernel reports it now (proc(5), `/proc/PID/fd`), or `None` if
/// the file was removed or has none.
fn name_of(file: &File) -> Option<PathBuf> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let text = readlinkat(CWD, link, Vec::with_capacity(256)).ok()?.into_bytes();
    // Either the file was removed, or its real name ends in this suffix.
    if text.ends_with(b" (deleted)") { None } else { Some(PathBuf::from(OsString::from_vec(text))) }
}

fn io_error(error: RulesetError) -> Error {
    let detail = error.to_string();
    let error = io::Error::from_raw_os_error(*Errno::from(error));
    Error::from(error).with_operator_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel appends a suffix to the name of a removed file. That of an existing one can end
    /// in it, too. Both are refused.
    #[test]
    fn names_with_the_suffix_of_removed_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap().join("f");
        let file = File::create(&path).unwrap();
        assert_eq!(name_of(&file), Some(path.clone()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(name_of(&file), None);
        let odd = path.with_file_name("f (deleted)");
        assert_eq!(name_of(&File::create(odd).unwrap()), None);
    }
}
