//! Confining the whole process.

use guarded_fs::{Boundary, Error, ErrorKind, Result};

use super::{Confinement, ConfinementReport};

impl Confinement {
    /// Restricts the whole process, also code that does not use the guard, to the allowed
    /// directories of a boundary, with their configured access, and to the extras. Neither this
    /// process nor a program that it starts can undo this. Each further call, up to 16 in total,
    /// narrows the confinement (landlock(7)).
    ///
    /// Call this right after the boundary is built, before any thread or runtime exists. From Linux
    /// 7.0 on, the kernel confines all threads at once. An older kernel confines only the calling
    /// thread and those that it starts later, so the call is refused without any effect if
    /// `/proc/self/task` has more than one thread. One that was just joined can still be counted
    /// for an instant. A restriction that an old kernel cannot enforce is
    /// [reported](ConfinementReport::not_enforced), and not an error.
    ///
    /// ```no_run
    /// use guarded_fs::{Access, Boundary};
    /// use guarded_process::{Confinement, ExtraAccess};
    ///
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let boundary = Boundary::builder().directory("/srv/projects", Access::ReadWrite).build()?;
    ///     let cache = "/var/cache/server";
    ///     let extras = Confinement::default().runtime_files();
    ///     let extras = extras.extra(cache, ExtraAccess::ReadWrite);
    ///     eprintln!("{}", extras.confine_process(&boundary)?); // first, while there is no other thread
    ///     let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    ///     runtime.block_on(async { /* serve */ });
    ///     Ok(())
    /// }
    /// ```
    ///
    /// This is a second line of defense and does not replace the guard, because Landlock applies
    /// the same rules to all clients. **It does not restrict**, on any kernel:
    ///
    /// - descriptors that are already open, including standard input and output;
    /// - existence checks, and reads of metadata, extended attributes and the targets of symlinks
    ///   (`stat`, `getxattr`, `readlink`), in the whole filesystem;
    /// - watches of files and directories (inotify(7)), which tell the names of entries that others
    ///   use. Only a child process is denied them ([`Channel::Watches`](super::Channel::Watches));
    /// - changes to modes, owners, times and extended attributes that the user may make, even
    ///   outside the accessible paths;
    /// - the network, signals, and Unix sockets, by which a service such as a session bus or a
    ///   container daemon executes requests unconfined, unless they are
    ///   [denied](Confinement::deny); and protocols other than TCP and UDP, such as Multipath TCP,
    ///   which reaches TCP servers;
    /// - other privileges: a process that runs as root can set the clock and the host's name;
    /// - limits, priority and processors of other processes of the same user (prlimit(2));
    /// - other names of the same object, by bind mounts and hard links. A file in a read-only
    ///   directory can be written through a name in a writable one, and a file inside can also have
    ///   a name outside.
    ///
    /// The rules are tied to the objects that exist now. A directory that is moved away stays
    /// accessible under its new name. One that **replaces it or is created later is not
    /// accessible**: operations there are refused
    /// ([`PermissionDenied`](guarded_fs::ErrorKind::PermissionDenied)) until the process is
    /// restarted. The same applies to a file that replaces a single-file root. So a deployment that
    /// replaces an allowed directory requires a restart, but one that replaces only its content
    /// does not.
    ///
    /// Only a file in an extra with [`Execute`](super::ExtraAccess::Execute) can be run as a
    /// program, except one that exists only in memory (memfd_create(2)), which is also confined.
    /// The dynamic loader, where it can be run, runs any readable file. Device nodes cannot be
    /// created except whiteouts, and a device that is opened later accepts none of its own ioctls.
    /// `no_new_privs` is set (prctl(2)), so programs that are started later gain no privileges from
    /// a set-user-ID bit.
    ///
    /// # Errors
    ///
    /// - [`InvalidConfiguration`](guarded_fs::ErrorKind::InvalidConfiguration):
    ///   - `no_directories` for a boundary without directories: what its clients will list
    ///     ([`any_listed`](Boundary::any_listed)) is not known yet, and a process that may access
    ///     [`nothing`](Boundary::nothing) could not work.
    ///   - `invalid_options` for an option that only a program has
    ///     ([`allow_programs_in_roots`](Self::allow_programs_in_roots),
    ///     [`allow_partial`](Self::allow_partial)).
    ///   - `access_conflict` for a writable extra that is a read-only allowed directory, also under
    ///     another name, or contains one. One inside a read-only allowed directory is granted.
    /// - [`CONFINEMENT_UNAVAILABLE`](crate::kinds::CONFINEMENT_UNAVAILABLE):
    ///   - `confinement_unavailable` on other systems, on kernels before 5.13 or where Landlock is
    ///     not built in or not enabled (`lsm=`), and under a seccomp filter that blocks it or only
    ///     reports success.
    ///   - `threads_running` if the kernel would not confine other threads, or, on any kernel, if
    ///     the threads cannot be counted.
    /// - [`RootUnavailable`](guarded_fs::ErrorKind::RootUnavailable) and similar errors for an
    ///   allowed directory that is gone.
    /// - [`RootRejected`](guarded_fs::ErrorKind::RootRejected) (`through_link`) for an extra that
    ///   is named through a symlink in a writable allowed directory or in a writable extra.
    /// - The error from opening an extra that is not optional.
    /// - [`Io`](guarded_fs::ErrorKind::Io) for other kernel errors. `no_new_privs` may then be set,
    ///   but nothing else changes.
    pub fn confine_process(&self, boundary: &Boundary) -> Result<ConfinementReport> {
        if self.has_programs_in_roots || self.is_partial_allowed {
            let text = "this option is for programs, and the whole process has no such choice";
            return Err(Error::new(ErrorKind::InvalidInput, "invalid_options", text));
        }
        super::system::confine(boundary, self)
    }
}
