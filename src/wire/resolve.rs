//! What a client's root list puts in force: [`Boundary::resolve`].

use crate::boundary::{Boundary, ClientRoots, ListEntry};
use crate::dir::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::roots::Roots;
use crate::wire::ListRootsResult;

impl Boundary {
    /// Returns the roots in force for a client's root list. They are the part of the list inside
    /// the allowed directories, or the whole list if there are none. The directories that are
    /// [always](crate::DirectoryOptions::always) in force come after them. An invalid entry is
    /// [rejected](Roots::rejected) without affecting the others. By default, an empty list grants
    /// nothing ([`ClientRoots::Narrow`]). With [`ClientRoots::Ignore`], the list is not read.
    ///
    /// # Errors
    ///
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_many_roots`) for a list with more
    ///   than [`ROOT_LIST_ENTRIES`](crate::limits::ROOT_LIST_ENTRIES) entries.
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_large`) for a list with more than
    ///   [`ROOT_LIST_BYTES`](crate::limits::ROOT_LIST_BYTES) bytes of text.
    pub fn resolve(&self, list: &ListRootsResult) -> Result<Roots> {
        let _ = self.allowed_roots();
        self.resolve_until(list, &Deadline::default())
    }

    /// Like [`resolve`](Self::resolve), beneath the allowed directories as they were resolved last.
    /// Fails with [`TooCostly`](crate::ErrorKind::TooCostly) if the deadline passes first.
    pub(crate) fn resolve_until(
        &self,
        list: &ListRootsResult,
        deadline: &Deadline,
    ) -> Result<Roots> {
        let allowed = self.last_allowed_roots();
        if self.client_roots() == ClientRoots::Ignore {
            return Ok(allowed);
        }
        if list.roots.is_empty() && self.client_roots() == ClientRoots::NarrowIfListed {
            return Ok(allowed.of_empty_list());
        }
        let entries = list.roots.iter().map(|root| {
            let entry = if root.malformed {
                ListEntry::rejected(&root.uri, malformed())
            } else if self.allows_bare_paths() {
                ListEntry::new(&root.uri)
            } else {
                ListEntry::uri(&root.uri)
            };
            entry.named(root.name.as_deref())
        });
        self.narrow_beneath(allowed, entries, deadline)
    }
}

/// The error for an entry that violates the schema.
fn malformed() -> Error {
    Error::new(ErrorKind::RootRejected, "malformed", "the entry is malformed")
}
