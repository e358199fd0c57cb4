//! Glob patterns of a call.
//!
//! Goes in: patterns, matched with the path from the directory that the call names: `*` and `?` stay within a name, `**` crosses
//! directories, `{a,b}` is either, names that begin with a dot are no exception. Comes out: whether a path matches. What is true after:
//! matching takes time linear in the path, whatever the patterns are.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet};
use mcp_roots_guard::rmcp::HandlerError;

use super::call::{Work, at_most};

/// Patterns, one of which has to match.
pub(super) struct Globs(GlobSet);

impl Globs {
    /// The pattern of a search.
    pub(super) fn one(pattern: &str) -> Work<Self> {
        Self::new([glob(pattern)?])
    }

    /// What to leave out. A pattern without `*` names an entry wherever it is: `target` is `**/target`.
    pub(super) fn excluding(patterns: &[String]) -> Work<Self> {
        at_most(PATTERNS, patterns.len(), "patterns")?;
        let mut globs = Vec::new();
        for pattern in patterns {
            globs.push(glob(pattern)?);
            if !pattern.contains('*') {
                globs.push(glob(&format!("**/{pattern}"))?);
            }
        }
        Self::new(globs)
    }

    pub(super) fn matches(&self, path: &Path) -> bool {
        self.0.is_match(path)
    }

    fn new(globs: impl IntoIterator<Item = Glob>) -> Work<Self> {
        Ok(Self(GlobSet::new(globs).map_err(|error| refused(&error))?))
    }
}

fn glob(pattern: &str) -> Work<Glob> {
    if pattern.len() > PATTERN_BYTES {
        return Err(HandlerError::new(format!("a pattern is longer than {PATTERN_BYTES} bytes")));
    }
    GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build().map_err(|error| refused(&error))
}

fn refused(error: &globset::Error) -> HandlerError {
    HandlerError::new(format!("{error}; a pattern is a glob such as *.rs, **/*.rs or src/**"))
}

/// More than any project leaves out; they are compiled into one automaton.
const PATTERNS: usize = 100;

/// A path's length is enough for a pattern.
const PATTERN_BYTES: usize = 4096;
