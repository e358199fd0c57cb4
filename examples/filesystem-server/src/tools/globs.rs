//! Glob patterns of a call.
//!
//! Goes in: patterns, matched with the path from the directory that the call names: `*` and `?` stay within a name, `**` crosses
//! directories, `{a,b}` is either, names that begin with a dot are no exception. Comes out: whether a path matches. What is true after:
//! matching takes time linear in the path and in the patterns, and those are bounded together.

use std::path::Path;

use globset::{Glob, GlobBuilder, GlobSet};
use mcp_roots_guard::rmcp::HandlerError;

use super::call::{Work, at_most};

/// Patterns, one of which has to match.
pub(super) struct Globs(GlobSet);

impl Globs {
    /// The pattern of a search.
    pub(super) fn one(pattern: &str) -> Work<Self> {
        bounded([pattern])?;
        Self::new([glob(pattern)?])
    }

    /// What to leave out. A pattern without `*` names an entry wherever it is: `target` is `**/target`.
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

    pub(super) fn matches(&self, path: &Path) -> bool {
        self.0.is_match(path)
    }

    fn new(globs: impl IntoIterator<Item = Glob>) -> Work<Self> {
        Ok(Self(GlobSet::new(globs).map_err(|error| refused(&error))?))
    }
}

fn bounded<'a>(patterns: impl IntoIterator<Item = &'a str> + Clone) -> Work<()> {
    let bytes: usize = patterns.clone().into_iter().map(str::len).sum();
    if bytes > BYTES {
        return Err(HandlerError::new(format!("the patterns are longer than {BYTES} bytes")));
    }
    let wild =
        patterns.into_iter().flat_map(str::bytes).filter(|byte| b"*?[{".contains(byte)).count();
    if wild > WILD {
        return Err(HandlerError::new(format!(
            "the patterns have more than {WILD} of *, ?, [ and {{"
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

/// More than any project leaves out; they are compiled into one automaton.
const PATTERNS: usize = 100;

/// All patterns together: as long as a path may be.
const BYTES: usize = 4096;

/// All patterns together. Each can be where matching goes on from, for each byte of a path: three thousand took 3 ms for a name.
const WILD: usize = 256;
