//! The `search_content` tool, which finds lines by a regular expression or a text.
//!
//! The matches are those of ripgrep, whose crates search the files that the guard opened. Files are
//! searched in the order of their paths, and symlinks are not followed. The result is a page of
//! matches. It names a cursor, with which the next call continues: the URI of a file, and the line
//! at which its search continues, or none if it continues after the file. A cursor is only compared
//! with paths, so a forged one can only skip matches.

use std::path::PathBuf;

use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use mcp_roots_guard::limits::WALK_BYTES;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, DirEntry, Location, WalkOptions};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::Limit;
use super::call::{Call, Progress, ToolResult, Work, at_most};
use super::expression::{CACHE, Expression, GROUPS, LONGEST, Syntax, TIME};
use super::globs::{PATTERNS, bounded};
use super::match_page::{LINE, MATCH_LINES, MatchPage, Output, PAGE_BYTES, Shape};
use super::steps::Steps;
use super::whole_number::WholeNumber;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "they are arguments")]
struct SearchContent {
    /// Directory or file to search: a path, or a `file:` URI.
    path: String,
    /// Regular expression, with the syntax of ripgrep.
    pattern: String,
    /// The pattern is a text, not a regular expression.
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
    before: WholeNumber,
    /// Lines of context after each match.
    #[serde(default)]
    after: WholeNumber,
    /// Globs for files to search, or with `!` to omit. Without `/`, they match at any depth.
    #[serde(default)]
    globs: Vec<String>,
    /// File types as in ripgrep, such as `rust`.
    #[serde(default)]
    types: Vec<String>,
    /// Omit what git ignores, and `.git`.
    #[serde(default = "yes")]
    gitignore: bool,
    /// Also search names that begin with a dot.
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    output: Output,
    /// Matches on a page, or files for count and files; 100 by default.
    #[serde(default)]
    limit: WholeNumber,
    /// The cursor of the previous page. The other arguments must be the same.
    #[serde(default)]
    cursor: String,
}

fn yes() -> bool {
    true
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
        let most = call.server.search_entries;
        let memory = WALK_BYTES + MEMORY;
        call.long(memory, move |roots, progress| search(roots, progress, &args, most)).await
    }
}

fn search(roots: &RequestRoots, progress: &Progress, args: &SearchContent, most: usize) -> Work {
    let number = |name, value: WholeNumber, limit: usize| {
        let value = value.get().map_or(0, |value| usize::try_from(value).unwrap_or(usize::MAX));
        if value <= limit {
            return Ok(value);
        }
        Err(HandlerError::new(format!("{name} is {value}, but at most {limit}")))
    };
    let (before, after) =
        (number("before", args.before, CONTEXT)?, number("after", args.after, CONTEXT)?);
    let limit = match number("limit", args.limit, MATCHES)? {
        0 => PAGE,
        limit => limit,
    };
    let syntax = Syntax {
        ignores_case: args.ignore_case,
        is_word: args.whole_word,
        is_multi_line: args.multiline,
    };
    let literal = args.literal.then(|| regex_syntax::escape(&args.pattern));
    let pattern = literal.as_ref().unwrap_or(&args.pattern);
    let expression = Expression::new(pattern, syntax, roots)?;
    let (filter, start) = (Filter::new(args)?, Start::new(&args.cursor)?);
    let shape = Shape { output: args.output, before, after, is_multi_line: args.multiline, limit };
    let (mut page, mut searcher) =
        (MatchPage::new(shape, &expression), shape.searcher(&expression));
    let top = roots.check(&args.path)?;
    if !top.metadata()?.file_type().is_dir() {
        // It is an error if this file cannot be read.
        top.open()?;
        if !start.is_after(|| top.to_unguarded_path()) {
            page.search(&mut searcher, &top, start.line_of(&top))?;
        }
        return Ok(page.finish([]));
    }
    let mut options = WalkOptions::default().max_entries(most);
    if args.gitignore {
        options = options.git_ignore();
    }
    if !args.hidden {
        options = options.skip_dot_files();
    }
    let mut steps = Steps::new(&top, options, &[], progress)?;
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

/// The number of matches on a page, or of files, if the call does not say: a few thousand tokens.
const PAGE: usize = 100;

/// The maximum number of matches on a page, or of files.
const MATCHES: usize = 1_000;

/// The maximum number of lines of context before a match, and after it.
const CONTEXT: usize = 20;

/// The memory of a search besides that of its walk: the text that it looks at, which is copied when
/// it grows, four caches of the expression, and its groups.
const MEMORY: usize = 2 * LONGEST + 4 * CACHE + (GROUPS << 20);

pub(super) fn limits() -> Vec<Limit> {
    vec![
        ("matches or files on a page of search_content", MATCHES.to_string()),
        ("page of search_content", format!("{} KiB", PAGE_BYTES >> 10)),
        ("lines of context before or after a match", CONTEXT.to_string()),
        ("bytes that are shown of a matching line", LINE.to_string()),
        ("lines that are shown of a match", MATCH_LINES.to_string()),
        (
            "line that search_content searches, or file with multiline",
            format!("{} MiB", LONGEST >> 20),
        ),
        ("time of a search_content call", format!("{} seconds", TIME.as_secs())),
    ]
}
