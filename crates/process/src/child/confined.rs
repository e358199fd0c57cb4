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
    ///   [allowed](Self::allow_programs_in_roots). An interpreter, such as a shell or the dynamic
    ///   loader, can still read a file in the roots and run what it says, in the same confinement.
    /// - Each [`Channel`](crate::Channel) to processes outside the confinement is denied unless the
    ///   confinement [allows](Confinement::allow) it.
    /// - A seccomp filter (on x86-64, AArch64 and RISC-V) kills a 32-bit program, refuses clone(2)
    ///   with `CLONE_PARENT`, and refuses io_uring(7) to a program without sockets.
    ///
    /// The other restrictions and gaps are those of [`Confinement::confine_process`].
    /// [`output`](Self::output) fails if the kernel does not enforce all of this, unless
    /// [`allow_partial_confinement`](Self::allow_partial_confinement) is called.
    pub fn confined(mut self, confinement: Confinement) -> Self {
        self.confinement = Some(confinement);
        self
    }

    /// Lets a confined program run files in the roots, such as tests that it has just built.
    pub fn allow_programs_in_roots(mut self) -> Self {
        self.allowed.programs = true;
        self
    }

    /// Runs a confined program even if the kernel cannot enforce all restrictions.
    /// [`ChildOutput::confined`] reports those that it does not enforce.
    pub fn allow_partial_confinement(mut self) -> Self {
        self.allowed.partial = true;
        self
    }
}

impl ChildOutput {
    /// The restrictions of a confined program. `None` if it was not confined.
    #[must_use]
    pub fn confined(&self) -> Option<&ConfinementReport> {
        self.confined.as_ref()
    }
}
