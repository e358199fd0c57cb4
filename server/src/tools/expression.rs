//! The expression of a content search, whose work is bounded.
//!
//! A regular expression takes time in proportion to the text, but the factor is the size of the
//! expression. Before each piece of text, an [`Expression`] therefore looks whether the request is
//! cancelled or its time is over. The larger the expression is, the smaller are the pieces and the
//! longest line that it accepts.

use std::cell::{Cell, OnceCell};
use std::time::{Duration, Instant};

use grep_matcher::LineMatchKind::{Candidate, Confirmed};
use grep_matcher::{ByteSet, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use regex_syntax::hir::{Hir, HirKind};

use super::call::Work;

/// A compiled expression, as long as its search may continue.
pub(super) struct Expression<'a> {
    matcher: RegexMatcher,
    work: usize,
    roots: &'a RequestRoots,
    looked: Cell<Option<Instant>>,
    end: OnceCell<Instant>,
}

/// How a regular expression is read.
#[derive(Clone, Copy)]
pub(super) struct Syntax {
    pub(super) ignores_case: bool,
    pub(super) is_word: bool,
    pub(super) is_multi_line: bool,
}

impl<'a> Expression<'a> {
    pub(super) fn new(pattern: &str, syntax: Syntax, roots: &'a RequestRoots) -> Work<Self> {
        if pattern.len() > BYTES {
            return Err(HandlerError::new(format!("the pattern is longer than {BYTES} bytes")));
        }
        let work = parsed(pattern, syntax)?;
        if work > WORK {
            return Err(too_large());
        }
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(syntax.ignores_case)
            .word(syntax.is_word)
            .multi_line(true)
            .crlf(true)
            .ban_byte(Some(0))
            .size_limit(SIZE)
            .dfa_size_limit(CACHE);
        if syntax.is_multi_line {
            builder.line_terminator(None);
        }
        let matcher = builder.build(pattern).map_err(|error| match error.to_string() {
            text if text.contains("not allowed in a regex") => {
                HandlerError::new(format!("{text}; to match across lines, set multiline"))
            }
            text if text.contains("exceeds size limit") => too_large(),
            text => refused(&text),
        })?;
        let (looked, end) = (Cell::new(None), OnceCell::new());
        Ok(Self { matcher, work: work.max(1), roots, looked, end })
    }

    /// The maximum number of bytes to search at once: of a line, or of a file with `multiline`.
    pub(super) fn longest(&self) -> usize {
        (LONGEST_WORK / self.work).min(LONGEST)
    }

    /// Whether the time of the search is over. It begins with the first look.
    pub(super) fn is_over(&self) -> bool {
        self.end.get().is_some_and(|end| Instant::now() >= *end)
    }

    /// Returns an error if the request has ended.
    pub(super) fn ensure_usable(&self) -> Work<()> {
        Ok(self.roots.ensure_usable()?)
    }

    /// Returns an error if the request has ended or the time is over.
    fn look(&self) -> Result<(), &'static str> {
        let now = Instant::now();
        if self.looked.get().is_some_and(|at| now.duration_since(at) < LOOK) {
            return Ok(());
        }
        self.looked.set(Some(now));
        let end = self.end.get_or_init(|| now + TIME);
        if now >= *end || self.roots.ensure_usable().is_err() { Err("stopped") } else { Ok(()) }
    }
}

impl Matcher for Expression<'_> {
    type Captures = NoCaptures;
    type Error = &'static str;

    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, Self::Error> {
        self.look()?;
        self.matcher.find_at(text, at).map_err(never)
    }

    fn new_captures(&self) -> Result<NoCaptures, Self::Error> {
        Ok(NoCaptures::new())
    }

    fn shortest_match_at(&self, text: &[u8], at: usize) -> Result<Option<usize>, Self::Error> {
        self.look()?;
        self.matcher.shortest_match_at(text, at).map_err(never)
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        self.matcher.non_matching_bytes()
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.matcher.line_terminator()
    }

    /// Searches whole lines, with a look before each piece.
    fn find_candidate_line(&self, text: &[u8]) -> Result<Option<LineMatchKind>, Self::Error> {
        let (mut rest, mut before) = (text, 0);
        loop {
            self.look()?;
            let least = PIECE_WORK / self.work;
            let line_end = rest.iter().skip(least).position(|byte| *byte == b'\n');
            let end = line_end.map_or(rest.len(), |at| least + at + 1);
            if end > least + self.longest() {
                return Err(TOO_LONG);
            }
            let (piece, next) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            match self.matcher.find_candidate_line(piece).map_err(never)? {
                // A line that begins behind the piece is in the next one.
                Some(Confirmed(at) | Candidate(at)) if at == end && !next.is_empty() => {}
                Some(Confirmed(at)) => return Ok(Some(Confirmed(before + at))),
                Some(Candidate(at)) => return Ok(Some(Candidate(before + at))),
                None if next.is_empty() => return Ok(None),
                None => {}
            }
            (rest, before) = (next, before + end);
        }
    }
}

/// The error of a line that is longer than [`Expression::longest`].
pub(super) const TOO_LONG: &str = "a line is too long";

/// A compiled expression has no errors.
fn never(_: grep_matcher::NoError) -> &'static str {
    "the expression failed"
}

/// The work of a regular expression for each byte of a text.
fn parsed(pattern: &str, syntax: Syntax) -> Work<usize> {
    let mut parser = regex_syntax::ParserBuilder::new();
    let parser = parser.utf8(false).case_insensitive(syntax.ignores_case);
    let parsed = parser.build().parse(pattern).map_err(|error| refused(&error.to_string()))?;
    if parsed.properties().explicit_captures_len() > GROUPS {
        return Err(HandlerError::new(format!(
            "the expression has more than {GROUPS} groups; use (?:…) for those without a name"
        )));
    }
    // A text alone is found without its positions.
    Ok(if matches!(parsed.kind(), HirKind::Literal(_)) { 1 } else { work(&parsed) })
}

/// The number of positions in an expression: one for each byte of a literal, and for a class, one
/// for each byte of its longest character. A search may have to consider each of them for each
/// byte.
fn work(expression: &Hir) -> usize {
    match expression.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(class) => class.maximum_len().unwrap_or(1),
        HirKind::Capture(capture) => work(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(work).fold(0, usize::saturating_add)
        }
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.saturating_add(1));
            let times = usize::try_from(times).unwrap_or(usize::MAX).max(1);
            work(&repetition.sub).saturating_add(1).saturating_mul(times)
        }
    }
}

fn too_large() -> HandlerError {
    HandlerError::new(format!(
        "the expression is too large: with its repetitions, it has more than {WORK} characters, or \
         {} MiB when compiled; use smaller repetitions, or [0-9A-Za-z_] for \\w",
        SIZE >> 20
    ))
}

fn refused(error: &str) -> HandlerError {
    HandlerError::new(format!("{error}; to search for the text itself, set literal"))
}

/// The maximum length of a pattern in bytes, as for globs.
const BYTES: usize = 4096;

/// The maximum number of groups. Some searches take a megabyte for each.
pub(super) const GROUPS: usize = 10;

/// The maximum work of an expression for each byte.
const WORK: usize = 10_000;

/// The work between two looks: 20 ms, if each position takes 10 ns.
const PIECE_WORK: usize = 2_000_000;

/// The work of the longest text that is searched at once: 200 ms. Lines of a megabyte, as in
/// generated files, can be searched by expressions as long as people write them.
const LONGEST_WORK: usize = 20_000_000;

/// The maximum number of bytes of a line, or of a file with `multiline`.
pub(super) const LONGEST: usize = 4 << 20;

/// The maximum size of a compiled expression in bytes. A class such as `\w` takes 20 KiB.
const SIZE: usize = 4 << 20;

/// The maximum size of the caches of an expression in bytes, several of which can exist.
pub(super) const CACHE: usize = 2 << 20;

/// The time that a call may search, much less than clients wait for a response.
pub(super) const TIME: Duration = Duration::from_secs(20);

/// The interval between looks, which take much less time.
const LOOK: Duration = Duration::from_millis(10);
