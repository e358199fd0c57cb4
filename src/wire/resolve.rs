//! What a client's root list puts in force: [`Boundary::resolve`].

use crate::boundary::{Boundary, ClientRoots, Entry};
use crate::dir::Effort;
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
        self.resolve_within(list, &Effort::default())
    }

    /// Like [`resolve`](Self::resolve), for a session, which has already resolved the configured
    /// paths again. Fails with `TooCostly` if the effort is exhausted.
    pub(crate) fn resolve_within(&self, list: &ListRootsResult, effort: &Effort) -> Result<Roots> {
        if self.client_roots() == ClientRoots::Ignore {
            return Ok(self.last_allowed_roots());
        }
        list.is_bounded()?;
        if list.roots.is_empty() && self.client_roots() == ClientRoots::NarrowIfListed {
            return Ok(self.last_allowed_roots().of_empty_list());
        }
        let entries = list.roots.iter().map(|root| Entry {
            text: &root.uri,
            name: root.name.as_deref(),
            is_malformed: root.malformed,
        });
        let entries: Vec<_> = entries.collect();
        let text = "resolving the list took too long";
        self.narrow(&entries, effort)
            .ok_or_else(|| Error::new(ErrorKind::TooCostly, "too_costly", text))
    }
}
