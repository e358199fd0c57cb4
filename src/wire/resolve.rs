//! What a client's root list puts in force: [`Boundary::resolve`].

use crate::boundary::{Boundary, ClientRoots, ListEntry};
use crate::dir::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::path::Location;
use crate::roots::Roots;
use crate::wire::{ListRootsResult, RootEntry};

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
        self.resolve_until(list, &Deadline::default())
    }

    /// Like [`resolve`](Self::resolve), and fails with
    /// [`TooCostly`](crate::ErrorKind::TooCostly) if the deadline passes first.
    pub(crate) fn resolve_until(
        &self,
        list: &ListRootsResult,
        deadline: &Deadline,
    ) -> Result<Roots> {
        if self.client_roots() == ClientRoots::Ignore {
            return Ok(self.allowed_roots());
        }
        list.is_bounded()?;
        if list.roots.is_empty() && self.client_roots() == ClientRoots::NarrowIfListed {
            return Ok(self.allowed_roots().of_empty_list());
        }
        let parse = if self.allows_bare_paths() { Location::parse } else { Location::from_uri };
        let location =
            |root: &RootEntry| if root.malformed { Err(malformed()) } else { parse(&root.uri) };
        let entries = list.roots.iter().map(|root| ListEntry {
            text: &root.uri,
            name: root.name.as_deref(),
            location: location(root),
        });
        self.narrow(&entries.collect::<Vec<_>>(), deadline)
    }
}

/// The error for an entry that violates the schema.
fn malformed() -> Error {
    Error::new(ErrorKind::RootRejected, "malformed", "the entry is malformed")
}
