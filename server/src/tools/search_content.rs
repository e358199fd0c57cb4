//! The `search_content` tool, which finds lines by a regular expression or a text.
//!
//! The matches are those of ripgrep, whose crates search the files that the guard opened. Files are
//! searched in the order of their paths, and symlinks are not followed. The result is a page of
//! matches. It names a cursor, with which the next call continues: the URI of a file, and the line
//! at which its search continues, or none if it continues after the file. A cursor is only compared
//! with paths, so a forged one can only skip matches.
//!
//! | output | a line of the result | what a page counts |
//! | --- | --- | --- |
//! | matches | `path:line:column:text`; with `-` instead of `:` and no column for context | matching lines |
//! | count | `path:` and the number of matching lines | files |
//! | files | `path` | files |

use std::io::{self, Read};
use std::path::PathBuf;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, DirEntry, ErrorKind, Location, WalkOptions};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{Call, Lines, Progress, ToolResult, Work, at_most, is_plain};
use super::expression::{CACHE, Expression, LONGEST, Syntax, TIME};
use super::globs::{PATTERNS, bounded};
use super::steps::Steps;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "they are arguments")]
struct SearchContent {
    /// Directory or file to search: a path inside the allowed directories, or a `file:` URI.
    path: String,
    /// Regular expression, with the syntax of ripgrep.
    pattern: String,
    /// Search for the pattern as a text, not as a regular expression.
    #[serde(default)]
    literal: bool,
    #[serde(default)]
    ignore_case: bool,
    /// Match only whole words.
    #[serde(default)]
    whole_word: bool,
    /// Let a match span lines.
    #[serde(default)]
    multiline: bool,
    /// Lines of context before each match.
    #[serde(default)]
    #[schemars(with = "i32", range(min = 0, max = CONTEXT))]
    before: usize,
    /// Lines of context after each match.
    #[serde(default)]
    #[schemars(with = "i32", range(min = 0, max = CONTEXT))]
    after: usize,
    /// Globs for files to search, or with `!` for files and directories to omit. A glob without
    /// `/` matches at any depth.
    #[serde(default)]
    globs: Vec<String>,
    /// File types to search, such as `rust`, as ripgrep names them.
    #[serde(default)]
    types: Vec<String>,
    /// Omit what git ignores.
    #[serde(default = "yes")]
    gitignore: bool,
    /// Also search names that begin with a dot.
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    output: Output,
    /// Matches on a page, or files for count and files.
    #[serde(default = "page")]
    #[schemars(with = "i32", range(min = 1, max = MATCHES))]
    limit: usize,
    /// The cursor of the previous page. The other arguments must be the same.
    #[serde(default)]
    cursor: String,
}

#[derive(
    Clone, Copy, Default, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Output {
    #[default]
    Matches,
    Count,
    Files,
}

fn yes() -> bool {
    true
}

fn page() -> usize {
    PAGE
}

#[tool_router(router = search_content_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Search Content",
        description = "Searches the contents of files like ripgrep, and returns matching lines as \
                       path:line:column:text, the number of them in each file, or the files. \
                       Omits binary files, names that begin with a dot, and what git ignores.",
        annotations(read_only_hint = true)
    )]
    async fn search_content(Parameters(args): Parameters<SearchContent>, call: Call) -> ToolResult {
        let (most, room) = (call.server.search_entries, call.reply.room.clone());
        call.long(move |roots, progress| {
            room.take(MEMORY)?;
            search(roots, progress, &args, most)
        })
        .await
    }
}

fn search(roots: &RequestRoots, progress: &Progress, args: &SearchContent, most: usize) -> Work {
    for (name, value, limit) in [
        ("before", args.before, CONTEXT),
        ("after", args.after, CONTEXT),
        ("limit", args.limit, MATCHES),
    ] {
        if value > limit {
            return Err(HandlerError::new(format!("{name} is {value}, but at most {limit}")));
        }
    }
    let syntax = Syntax {
        ignores_case: args.ignore_case,
        is_word: args.whole_word,
        is_multi_line: args.multiline,
    };
    let literal = args.literal.then(|| regex_syntax::escape(&args.pattern));
    let pattern = literal.as_ref().unwrap_or(&args.pattern);
    let expression = Expression::new(pattern, syntax, roots)?;
    let (filter, start) = (Filter::new(args)?, Start::new(&args.cursor)?);
    let (mut page, mut searcher) = (Page::new(args, &expression), searcher(args, &expression));
    let top = roots.check(&args.path)?;
    if !top.metadata()?.file_type().is_dir() {
        // It is an error if this file cannot be read.
        top.open()?;
        page.search(&mut searcher, &top, start.line_of(&top))?;
        return Ok(page.finish([]));
    }
    let mut options = WalkOptions::default().max_entries(most);
    if args.gitignore {
        options = options.git_ignore();
    }
    if !args.hidden {
        options = options.skip_dot_files();
    }
    let mut steps = Steps::new(&top, options, &[], roots, progress)?;
    let directory = top.to_unguarded_path();
    while page.next.is_none()
        && let Some(entry) = steps.next_entry()?
    {
        let path = || directory.join(entry.relative());
        if start.is_after(path) || filter.omits(&entry) {
            if !start.is_in(path) {
                steps.skip_current_dir();
            }
        } else if entry.file_type().is_file() {
            let file = entry.follow()?;
            page.search(&mut searcher, &file, start.line_of(&file))?;
        }
    }
    let mut remarks = Vec::new();
    if steps.is_full {
        remarks.push(format!("Only the first {most} entries were searched; search a subdirectory"));
    }
    let unreadable = steps.unreadable().len();
    if unreadable > 0 {
        remarks.push(format!("Directories that could not be listed: {unreadable}"));
    }
    Ok(page.finish(remarks))
}

fn searcher(args: &SearchContent, expression: &Expression) -> Searcher {
    let context = |lines| if args.output == Output::Matches { lines } else { 0 };
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .line_number(args.output == Output::Matches)
        .multi_line(args.multiline)
        .before_context(context(args.before))
        .after_context(context(args.after))
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(expression.longest()))
        .build()
}

/// Where a page starts, in the order of paths.
struct Start {
    /// The file of the first match, or `None` on the first page.
    path: Option<PathBuf>,
    /// The line of the first match, or `None` if the page starts after the file.
    line: Option<u64>,
}

impl Start {
    fn new(cursor: &str) -> Work<Self> {
        if cursor.is_empty() {
            return Ok(Self { path: None, line: None });
        }
        let unknown = || HandlerError::new("the cursor was not issued by this tool; omit it");
        let (uri, line) = match cursor.rsplit_once('#') {
            Some((uri, line)) => (uri, Some(line.parse().map_err(|_| unknown())?)),
            None => (cursor, None),
        };
        let location = Location::from_uri(uri).map_err(|_| unknown())?;
        Ok(Self { path: Some(location.as_unchecked_path().to_owned()), line })
    }

    /// Whether the page starts after an entry.
    fn is_after(&self, entry: impl Fn() -> PathBuf) -> bool {
        let Some(path) = &self.path else { return false };
        let entry = entry();
        *path > entry || *path == entry && self.line.is_none()
    }

    /// Whether the page starts in a directory.
    fn is_in(&self, directory: impl Fn() -> PathBuf) -> bool {
        self.path.as_ref().is_some_and(|path| path.starts_with(directory()))
    }

    /// The first line of a file that is on the page.
    fn line_of(&self, file: &CheckedPath) -> u64 {
        let line = self.line.filter(|_| self.path.as_ref() == Some(&file.to_unguarded_path()));
        line.unwrap_or(0)
    }
}

/// The files to search by name.
struct Filter {
    globs: Override,
    types: Types,
}

impl Filter {
    fn new(args: &SearchContent) -> Work<Self> {
        let refused = |error: ignore::Error| HandlerError::new(error.to_string());
        at_most(PATTERNS, args.globs.len() + args.types.len(), "globs and types")?;
        bounded(args.globs.iter().map(String::as_str))?;
        let mut globs = OverrideBuilder::new("");
        for glob in &args.globs {
            globs.add(glob).map_err(refused)?;
        }
        let mut types = TypesBuilder::new();
        if !args.types.is_empty() {
            types.add_defaults();
        }
        for name in &args.types {
            types.select(name);
        }
        let globs = globs.build().map_err(refused)?;
        Ok(Self { globs, types: types.build().map_err(refused)? })
    }

    fn omits(&self, entry: &DirEntry) -> bool {
        if self.globs.is_empty() && self.types.is_empty() {
            return false;
        }
        let (path, is_directory) = (entry.relative(), entry.file_type().is_dir());
        self.globs.matched(&path, is_directory).is_ignore()
            || self.types.matched(&path, is_directory).is_ignore()
    }
}

/// A page of matches, and what is to be said about it.
struct Page<'a> {
    args: &'a SearchContent,
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
    next: Option<String>,
}

impl<'a> Page<'a> {
    fn new(args: &'a SearchContent, expression: &'a Expression<'a>) -> Self {
        Self {
            args,
            expression,
            lines: Lines::default(),
            left: args.limit.max(1),
            searched: 0,
            binary: 0,
            shortened: 0,
            failures: 0,
            first_failure: None,
            next: None,
        }
    }

    /// Searches a file from a line on. One that was removed in the meantime is omitted.
    fn search(&mut self, searcher: &mut Searcher, file: &CheckedPath, line: u64) -> Work<()> {
        let opened = match file.open() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                self.fail(error.to_string());
                return Ok(());
            }
            Ok(opened) => opened,
        };
        self.searched += 1;
        let mut found = Found::new(self, file, line);
        let result = searcher.search_reader(found.page.expression, Blocks(opened), &mut found);
        let Found { count, is_binary, next, after, .. } = found;
        self.expression.ensure_active()?;
        self.binary += usize::from(is_binary);
        let mut next = next;
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
        if self.args.output != Output::Matches && count > 0 && !is_binary {
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => next = Some(0),
            }
            let name = named(file);
            match self.args.output {
                _ if next.is_some() => {}
                Output::Count => _ = self.lines.push(&format!("{name}:{count}")),
                _ => _ = self.lines.push(&name),
            }
        }
        if let Some(line) = next {
            self.next = Some(cursor(file, Some(line)));
        }
        Ok(())
    }

    fn reason(&self, error: &io::Error) -> String {
        let longest = self.expression.longest();
        match error.to_string() {
            text if !text.contains("allocation limit") => text,
            _ if self.args.multiline => format!("larger than {longest} bytes; omit multiline"),
            _ => format!("a line is longer than {longest} bytes"),
        }
    }

    fn fail(&mut self, why: String) {
        self.failures += 1;
        self.first_failure.get_or_insert(why);
    }

    /// The text of the page.
    fn finish(mut self, remarks: impl IntoIterator<Item = String>) -> String {
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
struct Found<'p, 'a> {
    page: &'p mut Page<'a>,
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

impl<'p, 'a> Found<'p, 'a> {
    fn new(page: &'p mut Page<'a>, file: &'p CheckedPath, first: u64) -> Self {
        let has_gap = page.args.before + page.args.after > 0;
        let (name, after, count) = (None, first, 0);
        Self { page, file, name, first, after, count, is_binary: false, has_gap, next: None }
    }

    /// Adds a line. `position` is where a match begins in it.
    fn show(&mut self, number: u64, line: &[u8], column: Option<usize>, position: usize) {
        // The context of a match on this page can include matches of the previous one.
        if number.saturating_add(to_u64(self.page.args.before)) < self.first {
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

impl Sink for Found<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        if self.page.args.output != Output::Matches {
            return Ok(self.page.args.output == Output::Count);
        }
        let number = found.line_number().unwrap_or_default();
        if number < self.first {
            self.show(number, found.bytes(), None, 0);
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
        let is_full = self.page.lines.len() > PAGE_BYTES;
        self.page.left = if is_full { 0 } else { self.page.left - 1 };
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

/// The number of matches on a page, or of files, if the call does not say: a few thousand tokens.
const PAGE: usize = 100;

/// The maximum number of matches on a page, or of files.
pub(super) const MATCHES: usize = 1_000;

/// The size of a page in bytes, after which it has no further match: as much as a model is likely
/// to use.
pub(super) const PAGE_BYTES: usize = 256 << 10;

/// The maximum number of lines of context before a match, and after it.
pub(super) const CONTEXT: usize = 20;

/// The maximum number of bytes that are shown of a line. Longer ones are rarely written by people.
pub(super) const LINE: usize = 500;

/// The maximum number of lines that are shown of a match.
pub(super) const MATCH_LINES: usize = 100;

/// The size of the searcher's buffer at first.
const BLOCK: usize = 64 << 10;

/// The memory of a search besides that of its walk: the text that it looks at, which is copied when
/// it grows, and four caches of the expression.
const MEMORY: usize = 2 * LONGEST + 4 * CACHE;
