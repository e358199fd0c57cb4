//! The privileges of a program, on Linux.

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

use crate::error::{Code, Error, Result};

/// Drops all capabilities of the calling thread, and of the programs that it starts from now on.
/// With `no_new_privs`, a program gets none back by its owner, its set-user-ID bit or its file
/// capabilities, even if the user is root (execve(2), capabilities(7)).
pub(super) fn drop_all() -> Result<()> {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // Defense: A program of a server that runs as root cannot use root's powers.
    set_no_new_privs(true).and_then(|()| set_capabilities(None, none)).map_err(|error| {
        Error::io(Code::Io, error.into()).detail("the program's privileges could not be dropped")
    })
}
