//! The configured directories as last resolved: [`Configuration`].

use std::path::Path;

use super::aliases;
use super::directory::Directory;
use super::listed::{UniqueRoots, writable};
use super::resolved::ResolvedRoots;
use super::volumes::Filesystem;
use crate::dir::{Policy, Rule};
use crate::error::{Code, Result};
use crate::path::protect::{Pattern, ProtectedNames};
use crate::roots::{DeclaredAlias, RejectedEntry, Root, Roots, Snapshot, WhyNone};

pub(super) struct Configuration {
    pub(super) directories: Vec<Directory>,
    /// The allowed directories, for the operator.
    pub(super) roots: Roots,
    /// The same for clients, who see no rejected entries: these are paths of the configuration.
    pub(super) allowed: ResolvedRoots,
}

pub(super) struct Resolution {
    /// Each with the reason for which it puts no root in force, if any.
    directories: Vec<(Directory, Option<RejectedEntry>)>,
    roots: UniqueRoots,
    declared: Vec<DeclaredAlias>,
}

impl Resolution {
    pub(super) fn new(last: &[Directory], filesystem: &Filesystem, mounts: Rule) -> Self {
        let filesystem = &filesystem.roots(last.iter().flat_map(Directory::locations), true);
        let found = last.iter().map(|directory| directory.resolve(filesystem, mounts));
        let found: Vec<_> = found.collect();
        let writable = writable(found.iter().filter_map(|(directory, _)| directory.root()));
        let (mut directories, mut roots) = (Vec::new(), UniqueRoots::default());
        for (index, (mut directory, links)) in found.into_iter().enumerate() {
            let error = match links {
                // Defense: A symlink that a tool can create selects no allowed directory.
                Ok(links) if links.are_in(&writable) => {
                    Some(directory.reject(Code::ThroughLink.into()))
                }
                Ok(_) => {
                    let is_new = roots.add(directory.root.iter().cloned());
                    (!is_new).then(|| Code::Duplicate.into())
                }
                Err(error) => Some(error),
            };
            let rejected = error.map(|error| directory.rejected(index, error));
            directories.push((directory, rejected));
        }
        roots.lower_around_read_only();
        let declared = aliases::declare(&mut directories, &mut roots, filesystem);
        Self { directories, roots, declared }
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = &Directory> {
        self.directories.iter().map(|(directory, _)| directory)
    }

    pub(super) fn ensure_valid(&mut self) -> Result<()> {
        let mut invalid = self.directories.iter_mut().filter(|(it, _)| it.is_invalid());
        invalid.find_map(|(_, rejected)| rejected.take()).map_or(Ok(()), |it| Err(it.error))
    }

    pub(super) fn into_configuration(
        self,
        patterns: &[Pattern],
        policy: Policy,
        generation: u64,
    ) -> Configuration {
        let (directories, rejected): (Vec<_>, Vec<_>) = self.directories.into_iter().unzip();
        let roots = self.roots.roots;
        // A missing directory can appear while the snapshot is in use.
        let planned = || directories.iter().filter_map(Directory::planned);
        let paths = roots.iter().map(|root| root.path()).chain(planned());
        let protected = ProtectedNames::new(patterns, paths);
        let is_empty = directories.is_empty();
        let why_none = if is_empty { WhyNone::Unconfigured } else { WhyNone::Unavailable };
        let why_none = roots.is_empty().then_some(why_none);
        let base = (!roots.is_empty()).then_some(0);
        let declared = (!self.declared.is_empty()).then(|| self.declared.into());
        let snapshot = Snapshot {
            policy,
            protected,
            planned: directories
                .iter()
                .filter_map(|it| Some((it.planned()?.to_owned(), it.options.access)))
                .collect(),
            why_none,
            ..Snapshot::new(roots, declared)
        };
        let is_provisional = directories.iter().any(|directory| !directory.is_settled());
        let allowed = Roots::from(snapshot.clone()).with_base_number(base);
        let rejected = rejected.into_iter().flatten().collect();
        Configuration {
            directories,
            roots: Roots::from(Snapshot { rejected, ..snapshot }).with_base_number(base),
            allowed: ResolvedRoots::new(allowed, generation, is_provisional),
        }
    }
}

impl Configuration {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let roots = |it: &Self| {
            let root =
                |root: &Root| (root.path().to_owned(), root.kind, root.access, root.is_always);
            it.roots.iter().map(root).collect::<Vec<_>>()
        };
        let planned = |it: &Self| {
            it.directories.iter().map(|it| it.planned().map(Path::to_owned)).collect::<Vec<_>>()
        };
        roots(self) == roots(other) && planned(self) == planned(other)
    }
}
