//! A page of what a content search finds.
//!
//! | output | a line of the result | what a page counts |
//! | --- | --- | --- |
//! | matches | `path:line:column:text`; with `-` instead of `:` and no column for context | matching lines |
//! | count | `path:` and the number of matching lines | files |
//! | files | `path` | files |

use std::io::{self, Read};

use grep_matcher::{LineTerminator, Matcher as _};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use mcp_roots_guard::{CheckedPath, ErrorKind};
use rmcp::schemars;

use super::call::{Lines, Work, is_plain};
use super::expression::{Expression, LONGEST, TIME, TOO_LONG};

#[derive(
    Clone, Copy, Default, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Output {
    #[default]
    Matches,
    Count,
    Files,
}

/// What a page shows.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) output: Output,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) is_multi_line: bool,
    pub(super) limit: usize,
}

impl Shape {
    pub(super) fn searcher(self, expression: &Expression) -> Searcher {
        let has_lines = self.output == Output::Matches;
        let context = |lines| if has_lines { lines } else { 0 };
        // The lines of context are held together with the line that is searched.
        let lines = 1 + context(self.before.max(self.after));
        let heap = expression.longest().saturating_mul(lines).min(LONGEST);
        SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(has_lines)
            .multi_line(self.is_multi_line)
            .before_context(context(self.before))
            .after_context(context(self.after))
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(heap))
            .build()
    }
}

/// A page of matches, and what is to be said about it.
pub(super) struct MatchPage<'a> {
    shape: Shape,
    expression: &'a Expression<'a>,
    lines: Lines,
    /// How many more matches or files fit.
    left: usize,
    searched: usize,
    binary: usize,
    shortened: usize,
    failures: usize,
    first_failure: Option<String>,
    /// The cursor of the next page.
    pub(super) next: Option<String>,
}

impl<'a> MatchPage<'a> {
    pub(super) fn new(shape: Shape, expression: &'a Expression<'a>) -> Self {
        Self {
            shape,
            expression,
            lines: Lines::default(),
            left: shape.limit.max(1),
            searched: 0,
            binary: 0,
            shortened: 0,
            failures: 0,
            first_failure: None,
            next: None,
        }
    }

    /// Searches a file from a line on. One that was removed in the meantime is omitted.
    pub(super) fn search(
        &mut self,
        searcher: &mut Searcher,
        file: &CheckedPath,
        line: u64,
    ) -> Work<()> {
        let opened = match file.open() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                self.fail(error.to_string());
                return Ok(());
            }
            Ok(opened) => opened,
        };
        self.searched += 1;
        let mut found = FileSearch::new(self, file, line);
        let result = searcher.search_reader(found.page.expression, Blocks(opened), &mut found);
        let FileSearch { count, is_binary, mut next, after, .. } = found;
        self.expression.ensure_usable()?;
        self.binary += usize::from(is_binary);
        if let Err(error) = result {
            if !self.expression.is_over() {
                self.fail(format!("{}: {}", named(file), self.reason(&error)));
            } else if self.searched > 1 {
                self.next = Some(cursor(file, Some(after)));
                return Ok(());
            } else {
                self.fail(format!("{}: it takes longer than {TIME:?}", named(file)));
                self.next = Some(cursor(file, None));
            }
        }
        if self.shape.output != Output::Matches && count > 0 && !is_binary {
            match (self.left, self.shape.output) {
                (0, _) => next = Some(0),
                (_, Output::Count) => self.add(&format!("{}:{count}", named(file))),
                _ => self.add(&named(file)),
            }
        }
        if let Some(line) = next {
            self.next = Some(cursor(file, Some(line)));
        }
        Ok(())
    }

    /// Adds the line of a file.
    fn add(&mut self, line: &str) {
        self.lines.push(line);
        self.take_one();
    }

    /// Counts a match, or a file.
    fn take_one(&mut self) {
        let is_full = self.lines.len() > PAGE_BYTES;
        self.left = if is_full { 0 } else { self.left.saturating_sub(1) };
    }

    fn reason(&self, error: &io::Error) -> String {
        let longest = self.expression.longest();
        match error.to_string() {
            text if ![TOO_LONG, "allocation limit"].iter().any(|it| text.contains(it)) => text,
            _ if self.shape.is_multi_line => format!("larger than {longest} bytes; omit multiline"),
            _ => format!("a line, or one with its context, is longer than {longest} bytes"),
        }
    }

    fn fail(&mut self, why: String) {
        self.failures += 1;
        self.first_failure.get_or_insert(why);
    }

    /// The text of the page.
    pub(super) fn finish(mut self, remarks: impl IntoIterator<Item = String>) -> String {
        if self.lines.is_empty() {
            self.lines.push("No matches found");
        }
        let mut all = vec![format!("Files searched: {}", self.searched)];
        if self.binary > 0 {
            all.push(format!("Binary files, of which the rest was skipped: {}", self.binary));
        }
        if self.shortened > 0 {
            all.push(format!("Lines or matches shown in part: {}", self.shortened));
        }
        if let Some(first) = self.first_failure {
            let count = self.failures;
            all.push(format!("Files not searched, or only in part: {count}; the first: {first}"));
        }
        all.extend(remarks);
        if let Some(next) = self.next {
            all.push(format!("There can be more: to continue, repeat the call with cursor {next}"));
        }
        self.lines.finish(all)
    }
}

/// What a search finds in a file.
struct FileSearch<'p, 'a> {
    page: &'p mut MatchPage<'a>,
    file: &'p CheckedPath,
    name: Option<String>,
    /// The first line of a match that is on the page.
    first: u64,
    /// The line after the last match on the page.
    after: u64,
    count: u64,
    is_binary: bool,
    /// Whether the next line does not follow the previous one.
    has_gap: bool,
    /// The line of the first match of the next page.
    next: Option<u64>,
}

impl<'p, 'a> FileSearch<'p, 'a> {
    fn new(page: &'p mut MatchPage<'a>, file: &'p CheckedPath, first: u64) -> Self {
        let has_gap = page.shape.before + page.shape.after > 0;
        let (name, after, count) = (None, first, 0);
        Self { page, file, name, first, after, count, is_binary: false, has_gap, next: None }
    }

    /// Adds a line. `position` is where a match begins in it.
    fn show(&mut self, number: u64, line: &[u8], column: Option<usize>, position: usize) {
        // The context of a match on this page can include matches of the previous one.
        if number.saturating_add(to_u64(self.page.shape.before)) < self.first {
            return;
        }
        if self.has_gap && !self.page.lines.is_empty() {
            self.page.lines.push("--");
        }
        self.has_gap = false;
        let name = self.name.get_or_insert_with(|| named(self.file));
        let (text, is_whole) = part(line, position);
        self.page.shortened += usize::from(!is_whole);
        self.page.lines.push(&match column {
            Some(column) => format!("{name}:{number}:{column}:{text}"),
            None => format!("{name}-{number}-{text}"),
        });
    }
}

impl Sink for FileSearch<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        if self.page.shape.output != Output::Matches {
            return Ok(self.page.shape.output == Output::Count);
        }
        let number = found.line_number().unwrap_or_default();
        if number < self.first {
            for (at, line) in (number..).zip(found.lines()) {
                self.show(at, line, None, 0);
            }
            return Ok(true);
        }
        if self.page.left == 0 {
            self.next = Some(number);
            return Ok(false);
        }
        let position = position(self.page.expression, searcher, found)?;
        let mut lines = (number..).zip(found.lines());
        for (at, line) in lines.by_ref().take(MATCH_LINES) {
            self.show(at, line, Some(position + 1), if at == number { position } else { 0 });
        }
        let rest = lines.count();
        self.page.shortened += usize::from(rest > 0);
        self.after = number + to_u64(found.lines().count());
        self.page.take_one();
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        // What comes before a match of the next page is on that page.
        if *context.kind() != SinkContextKind::Before || self.page.left > 0 {
            self.show(context.line_number().unwrap_or_default(), context.bytes(), None, 0);
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.has_gap = true;
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(true)
    }
}

/// Reads a file in blocks of the same size, whatever the size of the searcher's buffer is. Otherwise,
/// the files before a binary file would decide where its search ends.
struct Blocks<R>(R);

impl<R: Read> Read for Blocks<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = into.len().min(BLOCK);
        self.0.read(into.get_mut(..length).unwrap_or_default())
    }
}

/// Where a match begins in its line. As in ripgrep, only an expression for several lines sees the
/// end of the line.
fn position(
    expression: &Expression,
    searcher: &Searcher,
    found: &SinkMatch<'_>,
) -> io::Result<usize> {
    let range = found.bytes_range_in_buffer();
    let end = range.start + trimmed(found.bytes()).len();
    let text = if searcher.multi_line_with_matcher(expression) { None } else { Some(end) };
    let text = text.and_then(|end| found.buffer().get(..end)).unwrap_or(found.buffer());
    let first = expression.find_at(text, range.start).map_err(io::Error::other)?;
    Ok(first.map_or(0, |first| first.start() - range.start))
}

/// A line without its ending.
fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A line as text, or the part around a position if it is long. Returns whether it is whole.
fn part(line: &[u8], position: usize) -> (String, bool) {
    let line = trimmed(line);
    if line.len() <= LINE {
        return (String::from_utf8_lossy(line).into_owned(), true);
    }
    let start = position.saturating_sub(LINE / 4).min(line.len() - LINE);
    let part = line.get(start..start + LINE).unwrap_or_default();
    let is_cut = [start > 0, start + LINE < line.len()];
    let [before, after] = is_cut.map(|is_cut| if is_cut { "…" } else { "" });
    // A character can begin or end outside.
    let part = String::from_utf8_lossy(part);
    (format!("{before}{}{after}", part.trim_matches(char::REPLACEMENT_CHARACTER)), false)
}

/// The shortest path by which another tool can name the file, or its URI if the path cannot be part
/// of a line.
fn named(file: &CheckedPath) -> String {
    let path = file.client_path();
    if is_plain(path.as_ref()) { path } else { file.uri() }
}

fn cursor(file: &CheckedPath, line: Option<u64>) -> String {
    line.map_or_else(|| file.uri(), |line| format!("{}#{line}", file.uri()))
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The size of a page in bytes, after which it has no further match: as much as a model is likely
/// to use.
pub(super) const PAGE_BYTES: usize = 256 << 10;

/// The maximum number of bytes that are shown of a line. Longer ones are rarely written by people.
pub(super) const LINE: usize = 500;

/// The maximum number of lines that are shown of a match.
pub(super) const MATCH_LINES: usize = 100;

/// The size of the searcher's buffer at first.
const BLOCK: usize = 64 << 10;
