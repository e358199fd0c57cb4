//! Confined programs.

use super::{ChildCommand, ChildOutput};
use crate::confine::{Confinement, ConfinementReport};

impl ChildCommand {
    /// Confines the program and everything that it starts to the roots in force, with their access,
    /// and to the extras of the confinement. The server is not affected. If it is itself
    /// [confined](Confinement::confine_process), the program can use only what both allow. The
    /// program may run, but it also needs its libraries ([`Confinement::programs`]).
    ///
    /// - Executing files in the roots (execve(2)) is denied unless it is
    ///   [allowed](Confinement::allow_programs_in_roots). An interpreter, such as a shell or the
    ///   dynamic loader, can still read a file in the roots and run what it says, in the same
    ///   confinement.
    /// - Each [`Channel`](crate::Channel) to processes outside the confinement is denied unless the
    ///   confinement [allows](Confinement::allow) it. Watches of files are denied even in the roots.
    /// - A seccomp filter (on x86-64, AArch64 and RISC-V) kills a 32-bit program, refuses clone(2)
    ///   with `CLONE_PARENT` and fanotify(7), and refuses io_uring(7) to a program without sockets.
    /// - Patterns for denied and protected names do not reach the program. It can read and change
    ///   these names wherever it can read and change files.
    ///
    /// The other restrictions and gaps are those of [`Confinement::confine_process`].
    /// [`output`](Self::output) fails if the kernel does not enforce all of this, unless
    /// [`Confinement::allow_partial`] is called.
    ///
    /// # Permission denied
    ///
    /// If a program that works elsewhere reports "Permission denied" here, or misses its own files
    /// ("error while loading shared libraries"), it needs a path that is neither in the roots nor in
    /// [`Confinement::programs`]: the interpreter that the first line of a script names, a library,
    /// or a further program. This concerns all that is installed in the home directory, such as
    /// pyenv's `python3` in `~/.pyenv`, nvm's `node` in `~/.nvm`, Rust in `~/.cargo/bin` and
    /// `~/.rustup`, and the interpreter of a virtual environment, which is a symlink to another one.
    /// A program that creates temporary files may do so only in the roots: give it a directory of
    /// its own, as a writable extra and as `TMPDIR`. Add the directory of the installation:
    ///
    /// ```
    /// use guarded_process::{Confinement, ExtraAccess};
    ///
    /// # let home = std::path::Path::new("/home/user");
    /// let confinement = Confinement::default()
    ///     .programs()
    ///     .optional_extra(home.join(".pyenv"), ExtraAccess::Execute);
    /// ```
    ///
    /// The program itself needs no extra. If its start is denied, the error of
    /// [`output`](Self::output) says what may be missing, and so does
    /// [`ChildOutput::into_stdout`] for a program that reports that it could not run another one.
    pub fn confined(mut self, confinement: Confinement) -> Self {
        self.confinement = Some(confinement);
        self
    }
}

impl ChildOutput {
    /// The restrictions of a confined program. `None` if it was not confined.
    #[must_use]
    pub fn report(&self) -> Option<&ConfinementReport> {
        self.confined.as_ref()
    }
}
