//! The policy for unusual files, and the access to a root.

use crate::dir::{FileType, Metadata};
use crate::error::{Code, Result};

/// Whether a kind of file or path is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    Allow,
    Refuse,
}

/// The operations that are allowed beneath a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Files and directories can be read, listed and described.
    ReadOnly,
    /// Every operation is allowed.
    ReadWrite,
}

/// Rules for files that may be reachable from elsewhere, or behave in unexpected ways.
/// [`BoundaryBuilder`](crate::BoundaryBuilder) documents each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Policy {
    pub(crate) hard_links: Rule,
    pub(crate) special_files: Rule,
    pub(crate) mounts: Rule,
    /// Whether refusals name the roots in force.
    pub(crate) names_roots: bool,
}

impl Policy {
    pub(crate) fn allow(self, metadata: &Metadata) -> Result<()> {
        match metadata.file_type() {
            FileType::Directory => Err(Code::IsADirectory.into()),
            FileType::File if metadata.hard_links() > 1 && self.hard_links == Rule::Refuse => {
                Err(Code::HardLinked.into())
            }
            FileType::File => Ok(()),
            // Defense: A FIFO, socket or device is refused.
            _ if self.special_files == Rule::Refuse => Err(Code::SpecialFile.into()),
            _ => Ok(()),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            hard_links: Rule::Allow,
            special_files: Rule::Refuse,
            mounts: Rule::Allow,
            names_roots: false,
        }
    }
}
