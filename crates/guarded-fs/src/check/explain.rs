//! Why a request is allowed or refused, for the operator.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use path_clean::PathClean as _;

use crate::check::{CheckedPath, Proof, named_as_directory, without_parent};
use crate::dir::{Access, Budget, Metadata, Stat};
use crate::error::{Code, Error, Result, quoted};
use crate::path::names::components;
use crate::path::{IntoLocation, Location};
use crate::roots::{LastName, Lookup, Lookups, Presence, Roots, join};

/// The steps of a decision, from [`Roots::explain`].
///
/// `Display` writes a line for each step: the root at which the request starts, each symlink, the
/// place to which it leads, and the root or the pattern that decides what may be done there. Then
/// follow the decisions for reading and writing and, if known, what the operator could change to
/// allow the request.
///
/// Show it only to the operator: it contains the targets of symlinks, the server's own paths and
/// other roots.
#[derive(Debug)]
pub struct Explanation {
    steps: Vec<String>,
    reading: Result<CheckedPath>,
    writing: Result<CheckedPath>,
    advice: Option<String>,
}

impl Explanation {
    /// What was decided about reading the place.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::check`]; [`NotFound`](crate::ErrorKind::NotFound) if nothing is there;
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`, `hard_linked`).
    pub fn reading(&self) -> Result<&CheckedPath, &Error> {
        self.reading.as_ref()
    }

    /// What was decided about writing a file at the place. An operation can still be refused, for
    /// example because a directory is there, or because the name begins a pattern.
    ///
    /// # Errors
    ///
    /// Those of [`Roots::check`]; [`NotFound`](crate::ErrorKind::NotFound) if no directory would
    /// contain the file; [`IsADirectory`](crate::ErrorKind::IsADirectory) for a new name that ends
    /// in a slash; [`ReadOnly`](crate::ErrorKind::ReadOnly);
    /// [`Protected`](crate::ErrorKind::Protected);
    /// [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`, `hard_linked`).
    pub fn writing(&self) -> Result<&CheckedPath, &Error> {
        self.writing.as_ref()
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))?;
        for (name, decision) in [("reading", &self.reading), ("\nwriting", &self.writing)] {
            match decision {
                Ok(_) => write!(f, "{name} is allowed")?,
                Err(error) => write!(f, "{name} is refused ({}): {error}", error.code())?,
            }
        }
        self.advice.iter().try_for_each(|advice| write!(f, "\nto allow it: {advice}"))
    }
}

/// What the resolver looked up while it decided.
struct Recorder<'a, 'b> {
    lookups: Lookups<'a, 'b>,
    links: Vec<(usize, PathBuf, OsString)>,
    denied: Cell<Option<(usize, PathBuf)>>,
}

impl Lookup for Recorder<'_, '_> {
    fn look(&mut self, root: usize, path: &Path) -> Result<Stat> {
        let found = self.lookups.look(root, path)?;
        if let Stat::Link(text, _) = &found {
            self.links.push((root, path.to_owned(), text.clone()));
        }
        Ok(found)
    }

    fn is_denied(&self, root: usize, path: &Path, names: usize) -> bool {
        let is_denied = self.lookups.is_denied(root, path, names);
        if is_denied {
            self.denied.set(Some((root, path.to_owned())));
        }
        is_denied
    }
}

impl Roots {
    /// Decides whether the place that a request names can be read and written, and returns the
    /// steps, for an operator who asks why a request is refused. A refusal by the
    /// [check](Self::check) is logged like any other. Nothing outside the roots is looked up.
    ///
    /// ```
    /// # #[cfg(unix)] fn main() -> Result<(), guarded_fs::Error> {
    /// # use guarded_fs::{Access, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::os::unix::fs::symlink("/etc/passwd", work.path().join("users")).unwrap();
    /// let roots = Roots::from_dirs([work.path()], Access::ReadOnly)?;
    /// let why = roots.explain("users");
    /// assert_eq!(why.reading().unwrap_err().code(), "outside_roots");
    /// assert!(why.to_string().contains(r#""users" is a symlink to "/etc/passwd""#));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))] fn main() {}
    /// ```
    pub fn explain(&self, request: impl IntoLocation) -> Explanation {
        let (mut steps, mut metadata) = (Vec::new(), None);
        let request = match self.location(request) {
            Ok(request) => request,
            Err(error) => {
                let (writing, reading) = (Err(error.repeated()), Err(error));
                return Explanation { steps, reading, writing, advice: None };
            }
        };
        let checked = self.run_check(&request, |budget| {
            steps.clear();
            let (proof, found) = self.decide_recorded(&request, budget, &mut steps)?;
            metadata = found;
            Ok(proof)
        });
        let special = || match &metadata {
            Some(metadata) if !metadata.is_dir() => self.policy().allow(metadata),
            _ => Ok(()),
        };
        let decide = |name, rule: &dyn Fn(&Proof) -> Result<()>| {
            let again = |error: &Error| error.repeated().with_request("check", request.sent());
            let proof = checked.as_ref().map_err(again)?;
            let refused = |error: Error| self.with_reason(error.with_request(name, request.sent()));
            rule(proof).map_err(refused).map(|()| CheckedPath(proof.clone()))
        };
        let reading = decide("read", &|proof| {
            if proof.existed() { special() } else { Err(Code::NotFound.into()) }
        });
        let writing = decide("write", &|proof| {
            proof.ensure_allows_changes()?;
            match proof.found() {
                Presence::Missing(2..) => Err(without_parent()),
                Presence::Missing(_) if proof.names_directory() => Err(named_as_directory()),
                _ => special(),
            }
        });
        let error = reading.as_ref().err().filter(|error| error.reason() != Code::NotFound);
        let error = error.or(writing.as_ref().err());
        let advice = error.and_then(|error| self.advice(error, &request));
        Explanation { steps, reading, writing, advice }
    }

    fn decide_recorded(
        &self,
        request: &Location,
        budget: &mut Budget<'_>,
        steps: &mut Vec<String>,
    ) -> Result<(Proof, Option<Metadata>)> {
        let name = |number: usize| match self.root(number) {
            Ok(root) => format!("root {number}, {}", quoted(root.path().as_os_str())),
            Err(_) => format!("root {number}"),
        };
        steps.push(match self.start(request) {
            Some((number, rest)) if rest.is_empty() => format!("the request is {}", name(number)),
            Some((number, rest)) => format!("{} starts at {}", quoted(rest), name(number)),
            None => "the request starts outside the roots".into(),
        });
        let lookups = Lookups::new(self, budget);
        let mut recorded = Recorder { lookups, links: Vec::new(), denied: Cell::new(None) };
        let located = self.locate_with(&mut recorded, request, LastName::Any);
        for (root, path, text) in recorded.links {
            let (path, text) = (quoted(path.as_os_str()), quoted(&text));
            steps.push(format!("in root {root}, {path} is a symlink to {text}"));
        }
        if let Some((number, path)) = recorded.denied.take() {
            let place = join(self.root(number)?.path(), &path);
            let consented = self.root(self.innermost(number, path.clone()).0)?.consented();
            let pattern = self.protected().and_then(|it| it.of(&[&place], consented));
            let pattern = pattern.map_or("", |pattern| &pattern.text);
            let (path, pattern) = (quoted(path.as_os_str()), quoted(pattern.as_ref()));
            steps.push(format!("in root {number}, the pattern {pattern} denies {path}"));
        }
        let checked = self.proof(located?, request)?;
        let metadata = match checked.look()? {
            Stat::Missing => None,
            Stat::Link(_, metadata) | Stat::Other(metadata) => Some(metadata),
        };
        let kind = metadata.as_ref().map_or("nothing yet", |it| it.file_type().as_str());
        let number = checked.root_number();
        let place = quoted(checked.relative().as_os_str());
        steps.push(format!("it leads to {place} in {}: {kind}", name(number)));
        let access = match (checked.pattern(), checked.root().access) {
            (Some(pattern), _) => {
                let pattern = quoted(pattern.text.as_ref().as_ref());
                format!("can be read, but not changed: the pattern {pattern} matches it")
            }
            (None, Access::ReadOnly) => {
                format!("can be read, but not changed: {} is read-only", name(number))
            }
            (None, Access::ReadWrite) => "can be read and changed".to_owned(),
        };
        steps.push(format!("it {access}"));
        Ok((checked, metadata))
    }

    fn advice(&self, error: &Error, request: &Location) -> Option<String> {
        let fixed = match error.reason() {
            Code::OutsideRoots => {
                let known = self.why_rejected(request).or_else(|| self.why_outside(request));
                return Some(known.unwrap_or_else(|| {
                    "add an allowed directory that contains the place".to_owned()
                }));
            }
            Code::Protected => "change the pattern of BoundaryBuilder::protect, or exempt the name",
            Code::ReadOnly => "add a directory with Access::ReadWrite that contains the place",
            Code::HardLinked => "BoundaryBuilder::refuse_hard_links is set",
            Code::SpecialFile => "BoundaryBuilder::allow_special_files is not set",
            Code::MountCrossing => "BoundaryBuilder::refuse_mounts is set",
            Code::RootUnavailable => "the root's path leads to nothing, or to another kind of file",
            _ => return None,
        };
        Some(fixed.to_owned())
    }

    /// Whether the request names a place in an allowed directory that is not in force. Only text is
    /// compared.
    pub(crate) fn why_outside(&self, request: &Location) -> Option<String> {
        let allowed = self.with_allowed().nth(1)?;
        let named = self.named(request)?;
        let begin =
            |roots: &Self| roots.index().strip_root(named.as_os_str()).map(|(root, _)| root);
        let root = allowed.root(begin(allowed)?).ok()?;
        if begin(self).is_some() {
            // A symlink led outside.
            return None;
        }
        let path = quoted(root.path().as_os_str());
        Some(format!("it is in the allowed directory {path}, but not in a root in force"))
    }

    /// Why an entry of the client's list that contains the place is not in force.
    fn why_rejected(&self, request: &Location) -> Option<String> {
        let named = self.named(request)?;
        let rejected = self.rejected().iter().find(|rejected| {
            let entry = Location::parse(rejected.entry());
            entry.is_ok_and(|entry| named.starts_with(entry.as_unchecked_path()))
        })?;
        let (entry, error) = (quoted(rejected.entry().as_ref()), rejected.error());
        Some(format!("the client listed {entry}, which was rejected ({}): {error}", error.code()))
    }

    /// The absolute path that a request names if no symlink is followed.
    fn named<'a>(&self, request: &'a Location) -> Option<Cow<'a, Path>> {
        let path = request.as_unchecked_path();
        if !self.index().is_absolute(path.as_os_str()) {
            return Some(join(self.root(self.base()?).ok()?.path(), path).clean().into());
        }
        // Most refused requests have no dot segments.
        let has_dots = components(path.as_os_str()).any(|(name, _)| name == "." || name == "..");
        Some(if has_dots { path.clean().into() } else { path.into() })
    }
}
