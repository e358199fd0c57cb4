//! Glob patterns in tool arguments.
//!
//! A pattern is matched against the path relative to the requested directory. `*` and `?` match
//! within a name, `**` matches across directories, and `{a,b}` matches either alternative. Matching
//! takes time linear in the length of the path and of the patterns, whose total size is limited.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet};
use mcp_roots_guard::rmcp::HandlerError;

use super::call::{Work, at_most};

/// A set of patterns, at least one of which must match.
pub(super) struct Globs(GlobSet);

impl Globs {
    /// Compiles the pattern of a search.
    pub(super) fn one(pattern: &str) -> Work<Self> {
        bounded([pattern])?;
        Self::new([glob(pattern)?])
    }

    /// Compiles exclusion patterns. A pattern without `*` matches at any depth, so `target` also
    /// means `**/target`.
    pub(super) fn excluding(patterns: &[String]) -> Work<Self> {
        at_most(PATTERNS, patterns.len(), "patterns")?;
        bounded(patterns.iter().map(String::as_str))?;
        let mut globs = Vec::new();
        for pattern in patterns {
            globs.push(glob(pattern)?);
            if !pattern.contains('*') {
                globs.push(glob(&format!("**/{pattern}"))?);
            }
        }
        Self::new(globs)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn matches(&self, path: &Path) -> bool {
        self.0.is_match(path)
    }

    fn new(globs: impl IntoIterator<Item = Glob>) -> Work<Self> {
        Ok(Self(GlobSet::new(globs).map_err(|error| refused(&error))?))
    }
}

/// Returns an error if the patterns are too large.
pub(super) fn bounded<'a>(patterns: impl IntoIterator<Item = &'a str> + Clone) -> Work<()> {
    let bytes: usize = patterns.clone().into_iter().map(str::len).sum();
    if bytes > BYTES {
        return Err(HandlerError::new(format!("the patterns are longer than {BYTES} bytes")));
    }
    let wild =
        patterns.into_iter().flat_map(str::bytes).filter(|byte| b"*?[{".contains(byte)).count();
    if wild > WILD {
        return Err(HandlerError::new(format!(
            "the patterns have more than {WILD} wildcards (*, ?, [ or {{)"
        )));
    }
    Ok(())
}

fn glob(pattern: &str) -> Work<Glob> {
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map_err(|error| refused(&error))
}

fn refused(error: &globset::Error) -> HandlerError {
    HandlerError::new(format!("{error}; a pattern is a glob such as *.rs, **/*.rs or src/**"))
}

/// The maximum number of patterns, which are compiled into one automaton: more than any project
/// needs.
pub(super) const PATTERNS: usize = 100;

/// The maximum total length of all patterns in bytes: the maximum length of a path.
const BYTES: usize = 4096;

/// The maximum total number of wildcards. For each byte of a path, matching may have to consider
/// every wildcard: with 3,000 of them, matching one name took 3 ms.
const WILD: usize = 256;
