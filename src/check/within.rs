//! Narrowing the roots for one request: [`Roots::within`] and [`Roots::read_only`].

use std::path::Path;

use crate::boundary::{alias_of, shown};
use crate::check::CheckedPath;
use crate::dir::Access;
use crate::error::{Code, Result};
use crate::limits::ALIASES;
use crate::path::IntoLocation;
use crate::path::index::Origin;
use crate::roots::{Intent, Roots, join, kind_of};

impl Roots {
    /// Narrows the roots to a directory or a single file inside them. The result has this one root,
    /// and relative requests start there.
    ///
    /// Use this for a directory that a model, a client or another program names, for example in a
    /// tool parameter or in the metadata of a request. It can only narrow the roots: a directory
    /// outside them is refused, and the result has the same access, rules for unusual files and
    /// session. Nothing is cached, so no other request is affected. With the feature `rmcp`, the
    /// result is valid until the request ends, like the roots that it came from.
    ///
    /// Like every root, the result is a name: nothing is held open, and if another directory takes
    /// the place of this one, that one is served. The root can be named by its canonical path, by
    /// an absolute `request`, and by the aliases of the root that contains it.
    /// [`Session::still_allows`](crate::Session::still_allows) accepts a proof from the result as
    /// long as a root in force contains its place.
    ///
    /// # Errors
    ///
    /// - The errors of [`check`](Self::check) with [`Intent::Existing`].
    /// - [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`) if the request names
    ///   neither a directory nor a regular file.
    ///
    /// ```
    /// # use mcp_roots_guard::{ErrorKind, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(work.path().join("site")).unwrap();
    /// # std::fs::write(work.path().join("site/index.html"), "<h1>").unwrap();
    /// # std::fs::write(work.path().join("notes.txt"), "").unwrap();
    /// let roots = Roots::from_dirs([work.path()])?;
    /// let site = roots.within("site")?;
    /// assert_eq!(site.read_to_string("index.html", 1 << 20)?, "<h1>");
    /// let refused = site.read("../notes.txt", 1 << 20).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    pub fn within(&self, request: impl IntoLocation) -> Result<Self> {
        let request = self.location(request)?;
        self.run("narrow to", &request, Intent::Existing, |checked, _| self.narrow(checked))
    }

    /// Returns the same roots with read-only access. Directories that are already read-only stay
    /// read-only.
    ///
    /// ```
    /// # use mcp_roots_guard::{ErrorKind, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// let roots = Roots::from_dirs([work.path()])?;
    /// let refused = roots.read_only().write("a.txt", "a").unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    #[must_use]
    pub fn read_only(&self) -> Self {
        self.with_read_only_access()
    }

    fn narrow(&self, checked: &CheckedPath) -> Result<Self> {
        let (outer, relative) = (&checked.root, &*checked.relative);
        let (handle, place) = checked.place()?;
        let found = handle.look(&place, self.policy().mounts)?;
        let kind = kind_of(&found)?.ok_or(Code::NotFound)?;
        let mut root = outer.below(relative, kind);
        if checked.protection().is_some() {
            root.access = Access::ReadOnly;
        }
        let request = checked.request.as_unchecked_path();
        let index = self.index();
        let requested = index
            .is_absolute(request.as_os_str())
            .then(|| alias_of(request, &root.canonical))
            .flatten();
        let listed = || Some(join(Path::new(outer.listed.as_ref()?), relative));
        root.listed = requested.clone().or_else(listed).as_deref().map(shown);
        // The index already contains the declared aliases.
        let requested =
            requested.filter(|alias| index.declared(alias.as_os_str(), Origin::Request).is_none());
        let aliases = outer.aliases.iter().map(|alias| join(alias, relative)).chain(requested);
        for alias in aliases {
            if root.aliases.len() < ALIASES && !root.aliases.contains(&alias) {
                root.aliases.push(alias);
            }
        }
        Ok(self.narrowed_to(root))
    }
}
