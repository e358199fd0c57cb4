//! Parses the patch format that Codex's models write.
//!
//! | line | meaning |
//! | --- | --- |
//! | `*** Begin Patch`, `*** End Patch` | the first and the last line |
//! | `*** Add File: PATH` | begins a section that creates a file of the following lines, each after a `+` |
//! | `*** Delete File: PATH` | is a section that deletes a file |
//! | `*** Update File: PATH` | begins a section that changes a file by hunks |
//! | `*** Move to: PATH` | after the line before: also moves the file |
//! | `@@` or `@@ LINE` | begins a hunk, which is below this line of the file. If there are several of these lines, each is below the one before |
//! | ` LINE`, `-LINE`, `+LINE` | a line that a hunk keeps, removes or adds. An empty line is a line to keep |
//! | `*** End of File` | ends a hunk, whose lines are the last of the file |
//!
//! Like Codex, this accepts a heredoc (`<<'EOF'`) around the patch, white space around the lines
//! that begin a section and after the other marks, and a first hunk without `@@`. Lines to keep that
//! are empty are not compared at the end of a hunk, because models separate hunks by them.

use std::iter::{Peekable, Zip};
use std::ops::RangeFrom;
use std::slice::Iter;

/// The change of one file.
pub(super) struct Section<'a> {
    pub(super) path: &'a str,
    pub(super) change: Change<'a>,
}

pub(super) enum Change<'a> {
    Add(String),
    Delete,
    Update { to: Option<&'a str>, hunks: Vec<Hunk<'a>> },
}

/// Lines of a file, and what becomes of them.
pub(super) struct Hunk<'a> {
    /// The lines above them, which need not be adjacent.
    pub(super) below: Vec<&'a str>,
    pub(super) lines: Vec<HunkLine<'a>>,
    pub(super) is_at_end: bool,
}

#[derive(Clone, Copy)]
pub(super) enum HunkLine<'a> {
    Keep(&'a str),
    Remove(&'a str),
    Add(&'a str),
}

/// The lines of a patch with their numbers, from 1 for the first mark.
type PatchLines<'a, 'b> = Peekable<Zip<RangeFrom<usize>, Iter<'b, &'a str>>>;

/// Returns the sections, of which there is at least one.
pub(super) fn parse(text: &str) -> Result<Vec<Section<'_>>, String> {
    let all: Vec<&str> = text.trim().lines().collect();
    let mut marked = all.as_slice();
    if let [first, inner @ .., last] = marked {
        let heredoc = first.trim_start_matches("apply_patch").trim();
        let is_heredoc = matches!(heredoc, "<<EOF" | "<<'EOF'" | "<<\"EOF\"");
        marked = if is_heredoc && last.trim() == "EOF" { inner } else { marked };
    }
    let body = match marked {
        [first, body @ .., last] if first.trim() == BEGIN && last.trim() == END => body,
        _ => return Err(format!("the first line of a patch is {BEGIN}, and the last is {END}")),
    };
    let mut lines = (2..).zip(body).peekable();
    let mut sections = Vec::new();
    while let Some((number, line)) = lines.next() {
        let line = line.trim();
        let (path, change) = if let Some(path) = line.strip_prefix(ADD) {
            (path, Change::Add(added(&mut lines)))
        } else if let Some(path) = line.strip_prefix(DELETE) {
            (path, Change::Delete)
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            (path, update(&mut lines).map_err(|why| format!("{path:?}: {why}"))?)
        } else if line.is_empty() {
            continue;
        } else {
            let line = shortened(line);
            return Err(format!(
                "line {number} of the patch, {line:?}, does not begin a section as \
                 {ADD}PATH, {DELETE}PATH and {UPDATE}PATH do; each line of a new file begins with +"
            ));
        };
        sections.push(Section { path: path.trim(), change });
    }
    if sections.is_empty() { Err("the patch is empty".into()) } else { Ok(sections) }
}

/// The content of a new file.
fn added(lines: &mut PatchLines<'_, '_>) -> String {
    let mut content = String::new();
    while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with('+')) {
        content.extend([line.strip_prefix('+').unwrap_or_default(), "\n"]);
    }
    content
}

fn update<'a>(lines: &mut PatchLines<'a, '_>) -> Result<Change<'a>, String> {
    let to = lines.next_if(|(_, line)| line.starts_with(MOVE));
    let to = to.and_then(|(_, line)| line.strip_prefix(MOVE)).map(str::trim);
    let mut hunks = Vec::new();
    loop {
        while lines.next_if(|(_, line)| line.trim().is_empty()).is_some() {}
        match lines.peek() {
            Some((_, line)) if !line.starts_with("***") => {
                hunks.push(hunk(lines, hunks.is_empty())?);
            }
            _ if hunks.is_empty() && to.is_none() => return Err("it has no hunk".into()),
            _ => return Ok(Change::Update { to, hunks }),
        }
    }
}

fn hunk<'a>(lines: &mut PatchLines<'a, '_>, is_first: bool) -> Result<Hunk<'a>, String> {
    let number = lines.peek().map_or(0, |(number, _)| *number);
    let mut hunk = Hunk { below: Vec::new(), lines: Vec::new(), is_at_end: false };
    let (mut is_begun, mut length) = (is_first, 0);
    while let Some((_, mark)) = lines.next_if(|(_, line)| below(line).is_some()) {
        is_begun = true;
        hunk.below.extend(below(mark).filter(|below| !below.trim().is_empty()));
    }
    while let Some((_, text)) = lines.peek()
        && let Some(line) = line_of_hunk(text)
        && is_begun
    {
        hunk.lines.push(line);
        // An empty line at the end separates hunks, unless it is marked as one to keep.
        if !text.is_empty() {
            length = hunk.lines.len();
        }
        lines.next();
    }
    hunk.is_at_end = lines.next_if(|(_, line)| line.trim_end() == END_OF_FILE).is_some();
    if !hunk.is_at_end {
        hunk.lines.truncate(length);
    }
    if hunk.lines.is_empty() {
        return Err(format!(
            "line {number} of the patch does not begin a hunk: write @@, and then lines that begin \
             with a space, - or +"
        ));
    }
    Ok(hunk)
}

/// What follows `@@`.
fn below(line: &str) -> Option<&str> {
    let below = line.strip_prefix("@@")?;
    if below.trim().is_empty() { Some("") } else { below.strip_prefix(' ') }
}

fn line_of_hunk(line: &str) -> Option<HunkLine<'_>> {
    let mut rest = line.chars();
    Some(match rest.next() {
        None => HunkLine::Keep(""),
        Some(' ') => HunkLine::Keep(rest.as_str()),
        Some('-') => HunkLine::Remove(rest.as_str()),
        Some('+') => HunkLine::Add(rest.as_str()),
        Some(_) => return None,
    })
}

/// The beginning of a line, for an error.
pub(super) fn shortened(line: &str) -> String {
    line.chars().take(SHOWN).collect()
}

/// The maximum number of characters of a line in an error.
const SHOWN: usize = 80;

// The marks of the format.
const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";
