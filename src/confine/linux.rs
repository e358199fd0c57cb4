//! By Landlock (landlock(7)).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, Errno, LandlockStatus, PathBeneath,
    RestrictSelfAttr as _, RestrictionStatus, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, make_bitflags,
};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};

use super::{Confined, ConfinedPath, Confinement, Enforced, Extra, Missing, Named, SINCE};
use crate::beneath::{is_proc, name_of};
use crate::boundary::Boundary;
use crate::error::{Error, ErrorKind, Result};
use crate::metadata::{FileType, Metadata};
use crate::policy::Access;
use crate::roots::Root;

/// Everything before the last call changes nothing, so that a refusal leaves the process as it was.
pub(super) fn confine(boundary: &Boundary, confinement: &Confinement) -> Result<Confined> {
    if !boundary.has_operator_directories() {
        return Err(Error::new(ErrorKind::NoDirectories).detail("there is nothing to confine the process to"));
    }
    let threads = threads()?;
    let mut rules = Rules { ruleset: ruleset()?, read_only: Vec::new(), paths: Vec::new(), missing: Vec::new() };
    let roots = boundary.operator_roots();
    for skipped in roots.skipped() {
        let Some((path, access)) = boundary.configured(skipped) else { continue };
        if boundary.demands(skipped) {
            return Err(Error::new(skipped.error().kind()).at("confine", path.as_os_str()));
        }
        if skipped.error().kind() == ErrorKind::NotFound {
            rules.read_only.extend(Some(planned(path)).filter(|_| access == Access::ReadOnly));
            rules.missing.push(path.to_owned());
        }
    }
    for root in roots.roots() {
        rules = rules.with_root(root).map_err(|error| error.at("confine", root.path().as_os_str()))?;
    }
    for named in &confinement.extras {
        rules = rules.with_extra(named).map_err(|error| error.at("confine", named.path.as_os_str()))?;
    }
    let Rules { ruleset, paths, missing, .. } = rules;
    let status = restrict(ruleset, threads)?;
    let abi = match status.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => kernel_abi.unwrap_or(effective_abi as i32),
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
    };
    let abi = u32::try_from(abi).unwrap_or(0);
    let is_full = status.ruleset == RulesetStatus::FullyEnforced && SINCE.iter().all(|(since, _)| abi >= *since);
    // It was asked for as a requirement; that it came to nothing is not reported as anything else.
    if abi == 0 || status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(ErrorKind::ConfinementUnavailable.into());
    }
    let enforced = if is_full { Enforced::Fully } else { Enforced::Partly };
    Ok(Confined { abi, enforced, threads, paths, missing })
}

/// What is to be enforced, and its report.
struct Rules {
    ruleset: RulesetCreated,
    /// The operator directories that nothing may lend more access, also those that are missing.
    read_only: Vec<PathBuf>,
    paths: Vec<ConfinedPath>,
    missing: Vec<PathBuf>,
}

impl Rules {
    /// An operator directory, or the single file that one is: by the handle that the guard holds, if its names still lead there.
    fn with_root(mut self, root: &Root) -> Result<Self> {
        if !root.verify_all() {
            return Err(ErrorKind::RootUnavailable.into());
        }
        self.read_only.extend(Some(root.path().to_owned()).filter(|_| root.access() == Access::ReadOnly));
        let extra = match root.access() {
            Access::ReadOnly => Extra::ReadOnly,
            Access::ReadWrite => Extra::ReadWrite,
        };
        let handle = root.handle()?;
        match &root.leaf {
            None => self.ruleset = add(self.ruleset, &*handle, extra)?,
            // The file alone: it is written in place.
            Some(leaf) => {
                let file = open(&*handle, Path::new(leaf), OFlags::NOFOLLOW)?;
                if Metadata::of_file(&file)?.file_type() != FileType::File {
                    return Err(ErrorKind::RootUnavailable.into());
                }
                self.ruleset = add(self.ruleset, &file, extra)?;
            }
        }
        self.paths.push(ConfinedPath { path: root.path().to_owned(), extra, is_operators: true });
        Ok(self)
    }

    fn with_extra(mut self, named: &Named) -> Result<Self> {
        let file = match open(CWD, &named.path, OFlags::empty()) {
            Err(error) if named.missing != Missing::Refused && error.kind() == ErrorKind::NotFound => {
                if named.missing == Missing::Reported {
                    self.missing.push(named.path.clone());
                }
                return Ok(self);
            }
            opened => opened?,
        };
        // Removed just now.
        let path = name_of(&file).ok_or(ErrorKind::NotFound)?;
        // Rules add up: one around a read-only directory would lend it its own.
        let lends = |read_only: &PathBuf| read_only.starts_with(&path) || path.starts_with(read_only);
        if named.extra == Extra::ReadWrite && self.read_only.iter().any(lends) {
            return Err(ErrorKind::AccessConflict.into());
        }
        self.ruleset = add(self.ruleset, &file, named.extra)?;
        self.paths.push(ConfinedPath { path, extra: named.extra, is_operators: false });
        Ok(self)
    }
}

/// Where a directory would be made that is missing.
fn planned(path: &Path) -> PathBuf {
    let there = |above: &Path| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?));
    path.ancestors().find_map(there).unwrap_or_else(|| path.to_owned())
}

/// A ruleset that denies all that it has no rule for: every right of the first version, which the kernel must have, and of the
/// later ones what it has.
fn ruleset() -> Result<RulesetCreated> {
    let wanted = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let wanted = wanted.handle_access(AccessFs::from_all(ABI::V1)).map_err(|_| {
        Error::new(ErrorKind::ConfinementUnavailable).detail("the kernel has no Landlock, or it is not enabled")
    })?;
    let wanted = wanted.set_compatibility(CompatLevel::BestEffort);
    wanted.handle_access(AccessFs::from_all(KNOWN)).and_then(Ruleset::create).map_err(told)
}

/// The last version that adds a right over files, as opposed to sockets.
const KNOWN: ABI = ABI::V5;

fn add<F: AsFd>(ruleset: RulesetCreated, object: F, extra: Extra) -> Result<RulesetCreated> {
    let stat = fstat(&object).map_err(io::Error::from)?;
    let is_directory = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    // The kernel takes no rule that gives a file what only a directory has (EINVAL, landlock_add_rule(2)).
    let rights = if is_directory { rights(extra) } else { rights(extra) & AccessFs::from_file(KNOWN) };
    ruleset.add_rule(PathBeneath::new(object, rights)).map_err(told)
}

/// To rename a link, a FIFO or a socket is to make one (landlock(7)), and the guard renames what is there. Device nodes it does not.
fn rights(extra: Extra) -> BitFlags<AccessFs> {
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    match extra {
        Extra::ReadOnly => read,
        Extra::Execute => read | AccessFs::Execute,
        Extra::ReadWrite => {
            let make = make_bitflags!(AccessFs::{MakeReg | MakeDir | MakeSym | MakeFifo | MakeSock});
            read | make | make_bitflags!(AccessFs::{WriteFile | Truncate | RemoveFile | RemoveDir | Refer})
        }
    }
}

fn restrict(ruleset: RulesetCreated, threads: usize) -> Result<RestrictionStatus> {
    let ruleset = ruleset.set_compatibility(CompatLevel::HardRequirement);
    // A single thread has nobody who could start another meanwhile.
    let ruleset = if threads == 1 {
        ruleset
    } else {
        let detail = format!("{threads} threads, and a kernel that confines one");
        let all = ruleset.all_threads(true);
        all.map_err(|_| Error::new(ErrorKind::ThreadsRunning).detail(detail))?
    };
    ruleset.restrict_self().map_err(told)
}

/// How many threads this process has now: `/proc/self/task` has a link for itself, one of its parent, and one of each thread
/// (`proc_task_getattr` in Linux's fs/proc/base.c). It is not listed, as that is what a process that is confined already can not do.
fn threads() -> Result<usize> {
    let unknown = |error: Error| Error::new(ErrorKind::ThreadsRunning).detail(format!("/proc/self/task: {error}"));
    let tasks = open(CWD, Path::new("/proc/self/task"), OFlags::DIRECTORY).map_err(unknown)?;
    let links = Metadata::of_file(&tasks).map_err(|error| unknown(error.into()))?.hard_links();
    match usize::try_from(links).unwrap_or(0).checked_sub(2) {
        Some(threads @ 1..) if is_proc(&tasks).map_err(unknown)? => Ok(threads),
        _ => Err(Error::new(ErrorKind::ThreadsRunning).detail("/proc is not what it should be")),
    }
}

/// Opens a place for its metadata, and to make a rule of it.
fn open<F: AsFd>(at: F, path: &Path, flags: OFlags) -> Result<File> {
    let opened = openat(at, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty());
    Ok(File::from(opened.map_err(io::Error::from)?))
}

fn told(error: RulesetError) -> Error {
    let detail = error.to_string();
    Error::io(ErrorKind::Io, io::Error::from_raw_os_error(*Errno::from(error))).detail(detail)
}
