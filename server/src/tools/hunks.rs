//! Applies the hunks of a patch to a text.
//!
//! Each hunk is found below the one before it, at the first place where the lines that it keeps and
//! removes are. Lines are compared in four passes, of which the first that finds something decides:
//! exactly, without white space at their ends, without white space on both sides, and finally also
//! with typographic dashes, quotes and spaces as their ASCII counterparts.
//!
//! | a hunk | adds its lines |
//! | --- | --- |
//! | with lines to keep or to remove | where these are |
//! | only with lines to add, after `@@ LINE` | below that line |
//! | only with lines to add | at the end of the file |
//!
//! A line that is kept stays as it is in the file. Each added line ends with a newline.

use std::borrow::Cow;
use std::ops::Range;

use super::patch_format::{Hunk, HunkLine, shortened};
use super::replace::{LINE, Spend};
use super::text::{Part, Text};

/// Returns the content with the hunks applied.
pub(super) fn patched(content: &str, hunks: &[Hunk<'_>], spend: Spend) -> Result<String, String> {
    let mut text = Text::new(content);
    let file = FileLines::new(text.plain());
    let (mut parts, mut next) = (Vec::new(), 0);
    for (number, hunk) in (1..).zip(hunks) {
        let first = file.find(hunk, next, spend).map_err(|why| format!("hunk {number}: {why}"))?;
        next = file.replace(hunk, first, &mut parts);
    }
    text.replace(&parts);
    Ok(text.content())
}

/// The lines of a text with `\n` line endings.
struct FileLines<'a> {
    all: Vec<&'a str>,
    /// Where each line starts.
    starts: Vec<usize>,
    text: &'a str,
}

impl<'a> FileLines<'a> {
    fn new(text: &'a str) -> Self {
        let lines = text.split_inclusive('\n');
        let starts = lines.clone().scan(0, |next, line| {
            let start = *next;
            *next += line.len();
            Some(start)
        });
        let starts = starts.collect();
        Self { all: lines.map(|line| line.trim_end_matches('\n')).collect(), starts, text }
    }

    /// The number of the line, from 0, with which a hunk begins.
    fn find(&self, hunk: &Hunk<'_>, mut from: usize, spend: Spend) -> Result<usize, String> {
        for below in &hunk.below {
            let found = self.seek(&[below], from, false, spend)?;
            let why = || {
                let (below, after) = (shortened(below), after(from));
                format!(
                    "the line {below:?} after @@ is not in the file{after}; what follows @@ is a \
                     line of the file, and no numbers"
                )
            };
            from = 1 + found.ok_or_else(why)?;
        }
        let old: Vec<&str> = hunk.lines.iter().filter_map(HunkLine::old).collect();
        if old.is_empty() {
            let is_below = !hunk.below.is_empty() && !hunk.is_at_end;
            return Ok(if is_below { from } else { self.all.len() });
        }
        self.seek(&old, from, hunk.is_at_end, spend)?.ok_or_else(|| {
            let first = shortened(old.first().copied().unwrap_or_default());
            format!(
                "its lines to keep and to remove, which begin with {first:?}, are not {} the \
                 file{}; read the file and copy them exactly",
                if hunk.is_at_end { "at the end of" } else { "in" },
                after(from)
            )
        })
    }

    /// Finds a sequence of lines that begins at line `from` or later.
    fn seek(
        &self,
        sought: &[&str],
        from: usize,
        is_at_end: bool,
        spend: Spend,
    ) -> Result<Option<usize>, String> {
        let Some(last) = self.all.len().checked_sub(sought.len()) else { return Ok(None) };
        let from = if is_at_end { from.max(last) } else { from };
        for (trimmed, is_same) in PASSES {
            let sought: Vec<&str> = sought.iter().map(|line| trimmed(line)).collect();
            for start in from..=last {
                let mut examined = 0;
                let mut pairs = self.all.iter().skip(start).zip(&sought);
                let is_found = pairs.all(|(line, sought)| {
                    examined += LINE + line.len();
                    is_same(trimmed(line), sought)
                });
                spend(examined).map_err(|_| STOPPED)?;
                if is_found {
                    return Ok(Some(start));
                }
            }
        }
        Ok(None)
    }

    /// Adds the parts that a hunk replaces, and returns the number of the line below it.
    fn replace(&self, hunk: &Hunk<'_>, first: usize, parts: &mut Vec<Part<'_>>) -> usize {
        let (mut start, mut end, mut new) = (first, first, String::new());
        let mut add = |lines: Range<usize>, mut new: String| {
            let part = self.start(lines.start)..self.start(lines.end);
            let is_first_at_end = part.start == self.text.len()
                && parts.last().is_none_or(|(before, _)| before.end < part.start);
            // The last line of the file may have no newline.
            let is_open = !self.text.is_empty() && !self.text.ends_with('\n');
            if is_first_at_end && is_open && !new.is_empty() {
                new.insert(0, '\n');
            }
            if !(part.is_empty() && new.is_empty()) {
                parts.push((part, Cow::Owned(new)));
            }
        };
        for line in &hunk.lines {
            match line {
                HunkLine::Add(line) => new.extend([line, "\n"]),
                HunkLine::Remove(_) => end += 1,
                HunkLine::Keep(_) => {
                    add(start..end, std::mem::take(&mut new));
                    end += 1;
                    start = end;
                }
            }
        }
        add(start..end, new);
        end
    }

    fn start(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(self.text.len())
    }
}

/// Where the search began.
fn after(line: usize) -> String {
    if line == 0 { String::new() } else { format!(" below line {line}") }
}

impl<'a> HunkLine<'a> {
    /// The line in the file, if it is there already.
    fn old(&self) -> Option<&'a str> {
        match self {
            Self::Keep(line) | Self::Remove(line) => Some(line),
            Self::Add(_) => None,
        }
    }
}

/// A way to compare two lines: what is compared of each, and how.
type Comparison = (fn(&str) -> &str, fn(&str, &str) -> bool);

/// The ways to compare two lines, in this order.
const PASSES: [Comparison; 4] = [
    (|line| line, |one, other| one == other),
    (str::trim_end, |one, other| one == other),
    (str::trim, |one, other| one == other),
    (str::trim, |one, other| one.chars().map(ascii).eq(other.chars().map(ascii))),
];

fn ascii(char: char) -> char {
    match char {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201B}' => '\'',
        '\u{201C}'..='\u{201F}' => '"',
        '\u{A0}' | '\u{2002}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        other => other,
    }
}

const STOPPED: &str = "the patch is too complex for a file of this size; split it, and copy lines \
                       exactly";
