//! Narrowing the roots for one request.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::boundary::{UniqueRoots, shown};
use crate::check::Proof;
use crate::dir::Budget;
use crate::error::{Code, Error, Result};
use crate::limits::{LIST_LOOKUPS, ROOT_LIST_ENTRIES};
use crate::path::IntoLocation;
use crate::roots::{LastName, Root, Roots, join, kind_of};

impl Roots {
    /// Narrows the roots to a directory or a single file inside them, such as one in a tool
    /// parameter or in the metadata of a request. The result has this root and the roots in force
    /// below it, and relative requests start there.
    ///
    /// A directory outside the roots is refused, and each place in the result keeps the access that
    /// it has in these roots. The rules for unusual files and the [scope](crate::host::Scope) are
    /// the same, too. No other request is affected.
    ///
    /// Pass names that nobody requested, such as those in an archive, as a [`Path`]: text that
    /// begins with `file:` is a URI ([`Location::parse`](crate::Location::parse)).
    ///
    /// Like every root, the result is a name: nothing is held open, and a directory that takes the
    /// place of this one is served. This root can be named by its canonical path, by an absolute
    /// `request`, and by the aliases of the root that contains it.
    /// [`still_allows`](Self::still_allows) accepts a proof from the result as long as a root in
    /// force contains its place.
    ///
    /// # Errors
    ///
    /// - Those of [`check`](Self::check); [`NotFound`](crate::ErrorKind::NotFound).
    /// - [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`) for anything but a
    ///   directory or a regular file.
    ///
    /// ```
    /// # use guarded_fs::{Access, ErrorKind, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(work.path().join("site")).unwrap();
    /// # std::fs::write(work.path().join("site/index.html"), "<h1>").unwrap();
    /// # std::fs::write(work.path().join("notes.txt"), "").unwrap();
    /// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
    /// let site = roots.within("site")?;
    /// assert_eq!(site.read_to_string("index.html", 1 << 20)?, "<h1>");
    /// let refused = site.read("../notes.txt", 1 << 20).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    pub fn within(&self, request: impl IntoLocation) -> Result<Self> {
        let request = self.location(request)?;
        let narrow = |checked: &Proof, _: &mut Budget<'_>| self.narrow(checked);
        Ok(self.narrowed_to(self.run("narrow to", &request, LastName::Existing, narrow)?))
    }

    /// Narrows the roots to several directories inside them, strictly: each must be a directory
    /// that exists in these roots, or nothing is narrowed. Relative requests start at the first
    /// one. A directory can be repeated, or be inside another one. Everything else is as with
    /// [`within`](Self::within).
    ///
    /// Use this for directories that another program requires together, such as `cwd` and
    /// `additionalDirectories` of a session of the Agent Client Protocol. For a list in which a
    /// refused entry affects no other, such as a client's, use
    /// [`Boundary::narrow`](crate::Boundary::narrow).
    ///
    /// # Errors
    ///
    /// - Those of [`within`](Self::within) for the first directory that is refused, which the error
    ///   names.
    /// - [`NotADirectory`](crate::ErrorKind::NotADirectory) for a file.
    /// - [`InvalidPath`](crate::ErrorKind::InvalidPath) (`empty`) without directories.
    /// - [`TooManyRoots`](crate::ErrorKind::TooManyRoots) for more than [`ROOT_LIST_ENTRIES`].
    /// - [`TooCostly`](crate::ErrorKind::TooCostly) (`too_costly`) for more than 400,000 look-ups
    ///   together.
    ///
    /// ```
    /// # use guarded_fs::{Access, ErrorKind, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// # for name in ["app", "docs"] {
    /// #     std::fs::create_dir(work.path().join(name)).unwrap();
    /// # }
    /// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
    /// let session = roots.within_all(["app", "docs"])?;
    /// session.write("main.rs", "fn main() {}")?;
    /// assert!(work.path().join("app/main.rs").exists());
    /// let refused = roots.within_all(["app", "/etc"]).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    pub fn within_all<P: IntoLocation>(
        &self,
        directories: impl IntoIterator<Item = P>,
    ) -> Result<Self> {
        let (mut roots, mut seen, mut work) = (UniqueRoots::default(), HashSet::new(), 0);
        for (count, directory) in directories.into_iter().enumerate() {
            if count >= ROOT_LIST_ENTRIES {
                return Err(self.log_refused(Code::TooManyRoots.into()));
            }
            let request = self.location(directory)?;
            if !seen.insert(request.clone()) {
                continue;
            }
            let narrowed =
                self.run("narrow to", &request, LastName::Existing, |checked, budget| {
                    let narrowed = self.narrow(checked)?;
                    // Copies of the roots below count, because each directory can have many.
                    work += budget.spent() + narrowed.len();
                    match narrowed.first() {
                        // The work for all directories together is bounded.
                        _ if work > LIST_LOOKUPS => Err(Code::TooCostly.into()),
                        Some(root) if root.is_file() => Err(Code::NotADirectory.into()),
                        _ => Ok(narrowed),
                    }
                })?;
            roots.add(narrowed);
        }
        if roots.roots.is_empty() {
            let error = Error::from(Code::Empty).with_text("the list of directories is empty");
            return Err(self.log_refused(error));
        }
        Ok(self.narrowed_to(roots.roots))
    }

    /// Returns the same roots with read-only access.
    #[must_use]
    pub fn read_only(&self) -> Self {
        self.with_read_only_access()
    }

    fn narrow(&self, checked: &Proof) -> Result<Vec<Arc<Root>>> {
        let (outer, relative) = (checked.root(), checked.relative());
        let kind = kind_of(&checked.look()?)?.ok_or(Code::NotFound)?;
        // Defense: Narrowing never raises an access.
        let mut root = Root { access: checked.access(), ..outer.below(relative, kind) };
        let listed = outer.client_path.as_ref().map(|listed| join(Path::new(listed), relative));
        root.client_path = listed.as_deref().and_then(shown);
        root.add_aliases(outer.aliases.iter().map(|alias| join(alias, relative)));
        Ok(self.listed_as(root, checked.request().as_unchecked_path()))
    }
}
