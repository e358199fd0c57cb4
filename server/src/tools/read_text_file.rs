//! The tool `read_text_file`, and `read_file`, its old name.
//!
//! | arguments | what is read |
//! | --- | --- |
//! | none | the whole file |
//! | `head`, or `offset` and `limit` | lines |
//! | `tail` | the last lines |
//! | `column` or `length` | characters of the line at `offset` |
//!
//! A text that is too large or not UTF-8 is refused, and never truncated. A file of any size is read
//! in blocks, up to the end of the part. A file that is small enough to be edited is read once and
//! whole, so that its version is that of the content to which the part belongs.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::time::{Duration, Instant};

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{ContentHash, Error};
use memchr::{memchr, memchr_iter, memrchr_iter};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::Limit;
use super::call::{Call, ToolResult, Work};
use super::edit_file::BYTES;
use super::reading::{AS_IT_IS, TEXT, WHOLE, advised};
use super::whole_number::WholeNumber;
use crate::memory::Room;
use crate::server::Server;

#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReadText {
    /// A path, or a `file:` URI.
    path: String,
    /// Number of lines to read from the start of the file.
    #[serde(default)]
    head: WholeNumber,
    /// Number of lines to read from the end of the file.
    #[serde(default)]
    tail: WholeNumber,
    /// First line to read, from 1.
    #[serde(default)]
    offset: WholeNumber,
    /// Number of lines to read from there. The default is all.
    #[serde(default)]
    limit: WholeNumber,
    /// For a part of a long line, the one at offset: first character to read, from 1.
    #[serde(default)]
    column: WholeNumber,
    /// Number of characters to read of that line.
    #[serde(default)]
    length: WholeNumber,
    /// Begin each line with its number and a tab.
    #[serde(default)]
    line_numbers: bool,
    /// Add a last line with the file's version, which tools that change the file accept.
    #[serde(default)]
    with_version: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// A path, or a `file:` URI.
    path: String,
    /// Number of lines to read from the start of the file.
    #[serde(default)]
    head: WholeNumber,
    /// Number of lines to read from the end of the file.
    #[serde(default)]
    tail: WholeNumber,
}

#[tool_router(router = read_text_file_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Read File (Deprecated)",
        description = "Reads a file as text. Deprecated: use read_text_file.",
        annotations(read_only_hint = true)
    )]
    async fn read_file(Parameters(args): Parameters<ReadFile>, call: Call) -> ToolResult {
        let ReadFile { path, head, tail } = args;
        answer(ReadText { path, head, tail, ..ReadText::default() }, call).await
    }

    #[tool(
        title = "Read Text File",
        description = "Reads a file as UTF-8 text, whatever its extension. With head, tail, or \
                       offset and limit, reads only these lines, which also works for files that \
                       are too large to read in full.",
        annotations(read_only_hint = true)
    )]
    async fn read_text_file(Parameters(args): Parameters<ReadText>, call: Call) -> ToolResult {
        answer(args, call).await
    }
}

async fn answer(args: ReadText, call: Call) -> ToolResult {
    call.result(move |roots, reply| {
        let (mut content, version) = read(roots, &reply.room, &args)?;
        if args.with_version {
            let none = || format!("none, because the file is larger than {BYTES} bytes");
            let version = version.map_or_else(none, |version| version.to_string());
            let newline = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
            let _ = write!(content, "{newline}version: {version}");
        }
        match version {
            Some(version) => reply.versioned(content, version),
            None => reply.text(content),
        }
    })
    .await
}

/// A part of a file. Lines and characters are counted from 1.
#[derive(Clone, Copy)]
enum TextPart {
    Whole,
    Lines { first: u64, count: u64 },
    LastLines { count: u64 },
    Characters { line: u64, first: u64, count: u64 },
}

impl TextPart {
    fn of(args: &ReadText) -> Work<Self> {
        let [head, tail] = [args.head, args.tail].map(WholeNumber::get);
        let [offset, limit] = [args.offset, args.limit].map(WholeNumber::get);
        let [column, length] = [args.column, args.length].map(WholeNumber::get);
        let (is_range, is_in_line) = (offset.or(limit).is_some(), column.or(length).is_some());
        let line = offset.unwrap_or(1);
        let refused = |why: &str| Err(HandlerError::new(why));
        match (head, tail) {
            (Some(_), Some(_)) => refused("head and tail cannot be combined"),
            (Some(_), _) | (_, Some(_)) if is_range || is_in_line => refused(
                "head and tail cannot be combined with offset, limit, column or length: to read \
                 from a line on, use offset and limit",
            ),
            (Some(count), _) => Ok(Self::Lines { first: 1, count }),
            (_, Some(count)) => Ok(Self::LastLines { count }),
            _ if is_in_line && limit.is_some_and(|limit| limit > 1) => {
                refused("column and length read a part of one line, that at offset: omit limit")
            }
            _ if is_in_line => {
                let (first, count) = (column.unwrap_or(1), length.unwrap_or(u64::MAX));
                Ok(Self::Characters { line, first, count })
            }
            _ if is_range => Ok(Self::Lines { first: line, count: limit.unwrap_or(u64::MAX) }),
            _ => Ok(Self::Whole),
        }
    }

    /// What to do if the part is too large.
    fn advice(self) -> &'static str {
        match self {
            Self::Whole => WHOLE,
            Self::Lines { count: 1, .. } | Self::LastLines { count: 1 } => LINE,
            Self::Lines { .. } | Self::LastLines { .. } => LINES,
            Self::Characters { .. } => LENGTH,
        }
    }
}

/// Reads the part of a file that the arguments name, and the version of a file that can be edited.
fn read(roots: &RequestRoots, room: &Room, args: &ReadText) -> Work<(String, Option<ContentHash>)> {
    let (path, part) = (&args.path, TextPart::of(args)?);
    room.for_file(roots, path, BYTES)?;
    let refused = |error: Error| advised(error, part.advice());
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            HandlerError::new(format!("read {path:?}: larger than {TEXT} bytes; {}", part.advice()))
        }
        io::ErrorKind::InvalidData => {
            HandlerError::new(format!("read {path:?}: not UTF-8 text; {AS_IT_IS}"))
        }
        io::ErrorKind::InvalidInput => HandlerError::new(format!("read {path:?}: {error}")),
        _ => refused(Error::from(error).with_request("read", path.as_ref())).into(),
    };
    let time = ReadTime { roots, end: Instant::now() + TIME };
    let content = if let TextPart::Whole = part {
        roots.read(path, TEXT)
    } else {
        let file = roots.open(path).map_err(refused)?;
        if file.metadata().len() > BYTES {
            return Ok((text(&time, file, part, args.line_numbers).map_err(failed)?, None));
        }
        file.read_all(BYTES)
    };
    let content = content.map_err(refused)?;
    let version = ContentHash::of(&content);
    let text = text(&time, Cursor::new(content), part, args.line_numbers).map_err(failed)?;
    Ok((text, Some(version)))
}

/// Reads a part of a file as text. A part that is not the whole file ends without the newline of its
/// last line.
///
/// # Errors
///
/// `FileTooLarge` for more than [`TEXT`] bytes, `InvalidData` if they are not UTF-8, `InvalidInput`
/// if there is no such line.
fn text(
    time: &ReadTime,
    file: impl Read + Seek,
    part: TextPart,
    line_numbers: bool,
) -> io::Result<String> {
    let (bytes, first) = bytes(time, file, part, line_numbers)?;
    fitting(bytes.len())?;
    let mut text = String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    if !matches!(part, TextPart::Whole) {
        // A `\r` without `\n` is not a line ending.
        let end = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n'));
        text.truncate(end.map_or(text.len(), str::len));
    }
    if !line_numbers {
        return Ok(text);
    }
    let mut numbered = String::new();
    for (number, line) in (first..).zip(text.split_inclusive('\n')) {
        let _ = write!(numbered, "{number:>6}\t{line}");
        fitting(numbered.len())?;
    }
    Ok(numbered)
}

/// The bytes of a part, and the number of its first line if it is needed.
fn bytes(
    time: &ReadTime,
    file: impl Read + Seek,
    part: TextPart,
    line_numbers: bool,
) -> io::Result<(Vec<u8>, u64)> {
    let mut file = BufReader::with_capacity(BLOCK, file);
    let (mut bytes, mut line) = (Vec::new(), 1);
    match part {
        TextPart::Whole => _ = file.read_to_end(&mut bytes)?,
        TextPart::Lines { first, count } => {
            line = first;
            skip_to(time, &mut file, line)?;
            let mut lines = file.take(TEXT + 1);
            for _ in 0..count {
                if lines.read_until(b'\n', &mut bytes)? == 0 {
                    break;
                }
            }
        }
        TextPart::LastLines { count } => {
            let start = last_lines(&mut file, count, &mut bytes)?;
            if line_numbers {
                file.rewind()?;
                line += skip_lines(time, &mut file.take(start), u64::MAX)?.0;
            }
        }
        TextPart::Characters { line: number, first, count } => {
            line = number;
            skip_to(time, &mut file, line)?;
            let before = characters(time, &mut file, first - 1, |_| Ok(()))?;
            if before < first - 1 {
                return Err(part_error(&format!("line {line} has only {before} characters")));
            }
            characters(time, &mut file, count, |more| {
                bytes.extend_from_slice(more);
                fitting(bytes.len())
            })?;
            if bytes.ends_with(b"\r") && file.fill_buf()?.starts_with(b"\n") {
                bytes.pop();
            }
        }
    }
    Ok((bytes, line))
}

/// Moves to the start of a line.
fn skip_to(time: &ReadTime, file: &mut impl BufRead, line: u64) -> io::Result<()> {
    let (newlines, is_ended) = skip_lines(time, file, line - 1)?;
    if line > 1 && file.fill_buf()?.is_empty() {
        let lines = newlines + u64::from(!is_ended);
        return Err(part_error(&format!("the last line of the file is {lines}")));
    }
    Ok(())
}

/// Skips at most this number of lines. Returns how many newlines were skipped, and whether the last
/// byte was one.
fn skip_lines(time: &ReadTime, file: &mut impl BufRead, lines: u64) -> io::Result<(u64, bool)> {
    let (mut skipped, mut is_ended) = (0, true);
    while skipped < lines {
        let block = next_block(time, file)?;
        if block.is_empty() {
            break;
        }
        // Counting is faster than looking for each newline.
        let newlines = memchr_iter(b'\n', block).count();
        let end = match usize::try_from(lines - skipped) {
            Ok(left @ 1..) if left <= newlines => memchr_iter(b'\n', block).nth(left - 1),
            _ => None,
        };
        let end = end.map_or(block.len(), |newline| newline + 1);
        skipped = lines.min(skipped + newlines as u64);
        is_ended = block.get(..end).is_some_and(|skipped| skipped.ends_with(b"\n"));
        file.consume(end);
    }
    Ok((skipped, is_ended))
}

/// Reads at most this number of characters of a line, in blocks. Returns how many there were.
fn characters(
    time: &ReadTime,
    file: &mut impl BufRead,
    count: u64,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut seen = 0;
    loop {
        let block = next_block(time, file)?;
        let line = memchr(b'\n', block).and_then(|end| block.get(..end)).unwrap_or(block);
        // The first byte of each character. A block can begin inside of one.
        let starts = line.iter().enumerate().filter(|(_, byte)| **byte & 0xC0 != 0x80);
        let left = usize::try_from(count - seen).unwrap_or(usize::MAX);
        let next = starts.clone().nth(left).map(|(at, _)| at);
        seen += starts.take(left).count() as u64;
        let part = next.and_then(|at| line.get(..at)).unwrap_or(line);
        each(part)?;
        let (end, is_last) = (part.len(), next.is_some() || line.len() < block.len());
        let is_last = is_last || block.is_empty();
        file.consume(end);
        if is_last {
            return Ok(seen);
        }
    }
}

/// Reads the last lines, at least one, and returns their position. A newline at the end of the file
/// terminates the last line and does not start another.
fn last_lines(file: &mut (impl Read + Seek), count: u64, bytes: &mut Vec<u8>) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    let before_last = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(1);
    let mut size = BLOCK as u64;
    loop {
        let start = length.saturating_sub(size);
        bytes.clear();
        file.seek(SeekFrom::Start(start))?;
        file.take(size).read_to_end(bytes)?;
        let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        match memrchr_iter(b'\n', lines).nth(before_last) {
            Some(newline) => {
                bytes.drain(..=newline);
                return Ok(start + newline as u64 + 1);
            }
            None if start == 0 || size > TEXT => return Ok(start),
            None => size *= 2,
        }
    }
}

/// The next block of a file, or an empty one at its end.
fn next_block<'a>(time: &ReadTime, file: &'a mut impl BufRead) -> io::Result<&'a [u8]> {
    time.roots.ensure_usable().map_err(io::Error::other)?;
    if Instant::now() >= time.end {
        return Err(part_error("the part is too far from the start of the file; use tail"));
    }
    file.fill_buf()
}

/// How long the search for a part may take.
struct ReadTime<'a> {
    roots: &'a RequestRoots,
    end: Instant,
}

fn fitting(size: usize) -> io::Result<()> {
    if size as u64 > TEXT { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
}

fn part_error(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// How long the search for a part may take: about 20 GB, and less than clients wait.
const TIME: Duration = Duration::from_secs(20);

/// The size of the blocks in which a file is read: about a thousand lines, so most calls need no
/// second one.
const BLOCK: usize = 64 << 10;

pub(super) fn limits() -> Vec<Limit> {
    vec![("time to reach a part of a file", format!("{} seconds", TIME.as_secs()))]
}

// Advice on refusals.
const LINES: &str = "request fewer lines with head, tail or limit, or use search_content";
const LINE: &str = "it is a single line, of which column and length read a part";
const LENGTH: &str = "request a smaller length";
