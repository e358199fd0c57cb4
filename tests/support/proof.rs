//! The two proofs as one type, and what an operation expects of its path.

use std::path::PathBuf;

use mcp_roots_guard::{Access, CheckedEntry, CheckedPath, Error, IntoLocation, Result, Roots};

/// A proof of either kind.
#[derive(Clone, Debug)]
pub(crate) enum Proof {
    Path(CheckedPath),
    Entry(CheckedEntry),
}

macro_rules! both {
    ($self:ident, $proof:ident => $value:expr) => {
        match $self {
            Self::Path($proof) => $value,
            Self::Entry($proof) => $value,
        }
    };
}

#[allow(dead_code, reason = "some test programs do not use all of it")]
impl Proof {
    pub(crate) fn path(&self) -> &CheckedPath {
        let Self::Path(path) = self else { panic!("{self:?} is not the proof of a path") };
        path
    }

    pub(crate) fn entry(&self) -> &CheckedEntry {
        let Self::Entry(entry) = self else { panic!("{self:?} is not the proof of an entry") };
        entry
    }

    pub(crate) fn exists(&self) -> bool {
        both!(self, proof => proof.exists())
    }

    pub(crate) fn access(&self) -> Access {
        both!(self, proof => proof.access())
    }

    pub(crate) fn display_path(&self) -> String {
        both!(self, proof => proof.to_unguarded_path().display().to_string())
    }

    pub(crate) fn parent(&self) -> Option<CheckedPath> {
        both!(self, proof => proof.parent())
    }

    /// The canonical path.
    pub(crate) fn canonical(&self) -> PathBuf {
        let (root, relative) = both!(self, proof => (proof.root().path(), proof.relative()));
        let mut path = root.to_owned();
        // Joining an empty path would add a slash.
        path.extend(relative);
        #[cfg(windows)]
        let path = dunce::simplified(&path).to_owned();
        path
    }
}

/// What an operation expects of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Intent {
    /// Something is there.
    Existing,
    /// A file can be there, and its directory is.
    New,
    /// Neither need be there.
    NewTree,
    /// It is about the entry itself, whose directory is there.
    NoFollow,
}

#[allow(dead_code, reason = "only the suite uses it")]
pub(crate) const INTENTS: [Intent; 4] =
    [Intent::Existing, Intent::New, Intent::NewTree, Intent::NoFollow];

#[allow(dead_code, reason = "some test programs do not use all of it")]
impl Intent {
    /// The proof for an operation.
    pub(crate) fn check(self, roots: &Roots, request: impl IntoLocation) -> Result<Proof> {
        Ok(match self {
            Self::NoFollow => Proof::Entry(roots.check_entry(request)?),
            _ => Proof::Path(roots.check(request)?),
        })
    }

    pub(crate) fn join(self, base: &CheckedPath, relative: impl IntoLocation) -> Result<Proof> {
        Ok(match self {
            Self::NoFollow => Proof::Entry(base.join_entry(relative)?),
            _ => Proof::Path(base.join(relative)?),
        })
    }

    /// The place that a request names, unless it is refused, or not what the operation expects.
    pub(crate) fn decide(self, roots: &Roots, request: &str) -> Result<Proof, &'static str> {
        let proof = self.check(roots, request).map_err(|error| error.code())?;
        self.judge(proof, roots, request)
    }

    /// The proof of a request, unless the place is not what the operation expects.
    pub(crate) fn judge(
        self,
        proof: Proof,
        roots: &Roots,
        request: &str,
    ) -> Result<Proof, &'static str> {
        let is_in_directory = || proof.parent().is_none_or(|parent| parent.exists());
        match self {
            _ if proof.exists() => Ok(proof),
            Self::Existing => Err("not_found"),
            Self::New | Self::NoFollow if !is_in_directory() => Err("not_found"),
            Self::New => match roots.explain(request).writing().map_err(Error::code) {
                Err("is_a_directory") => Err("is_a_directory"),
                _ => Ok(proof),
            },
            Self::NewTree | Self::NoFollow => Ok(proof),
        }
    }
}
