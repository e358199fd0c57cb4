//! The tool `read_text_file`, and `read_file`, its old name.
//!
//! A file that is not UTF-8 is refused. Content is never truncated silently. Of a file of any size,
//! about as much is read as the requested lines need.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};

use mcp_roots_guard::OpenFile;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};
use serde::{Deserialize as _, Deserializer, de};

use super::call::{Call, ToolResult, Work};
use super::reading::{AS_IT_IS, TEXT, WHOLE, advised};
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadText {
    /// A path inside the allowed directories, or a `file:` URI.
    path: String,
    /// Number of lines to read from the start of the file.
    #[serde(default, deserialize_with = "lines")]
    #[schemars(with = "Option<u64>")]
    head: Option<u32>,
    /// Number of lines to read from the end of the file.
    #[serde(default, deserialize_with = "lines")]
    #[schemars(with = "Option<u64>")]
    tail: Option<u32>,
}

#[tool_router(router = read_text_file_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Read File (Deprecated)",
        description = "Reads a file as text. Deprecated: use read_text_file.",
        annotations(read_only_hint = true)
    )]
    async fn read_file(Parameters(args): Parameters<ReadText>, call: Call) -> ToolResult {
        answer(args, call).await
    }

    #[tool(
        title = "Read Text File",
        description = "Reads a file as UTF-8 text, whatever its extension. With head or tail, \
                       reads only the first or last lines, which also works for files that are \
                       too large to read in full.",
        annotations(read_only_hint = true)
    )]
    async fn read_text_file(Parameters(args): Parameters<ReadText>, call: Call) -> ToolResult {
        answer(args, call).await
    }
}

async fn answer(args: ReadText, call: Call) -> ToolResult {
    call.text(move |roots, room| {
        room.for_file(roots, &args.path, TEXT)?;
        // Some clients send 0 for an omitted argument.
        let [first, last] = [args.head, args.tail].map(|lines| lines.filter(|&lines| lines > 0));
        match (first, last) {
            (Some(_), Some(_)) => Err(HandlerError::new("head and tail cannot be combined")),
            (Some(count), None) => read_lines(roots, &args.path, count, head),
            (None, Some(count)) => read_lines(roots, &args.path, count, tail),
            (None, None) => {
                roots.read_to_string(&args.path, TEXT).map_err(|error| advised("", &error, WHOLE))
            }
        }
    })
    .await
}

/// Reads the first or the last lines of a file.
fn read_lines(
    roots: &RequestRoots,
    path: &str,
    count: u32,
    read: fn(OpenFile, u32) -> io::Result<String>,
) -> Work {
    let file = roots.open(path).map_err(|error| advised("", &error, LINES))?;
    let advice = if count == 1 { LINE } else { LINES };
    read(file, count).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => HandlerError::new(format!(
            "read {path:?}: the lines are larger than {TEXT} bytes; {advice}"
        )),
        io::ErrorKind::InvalidData => {
            HandlerError::new(format!("read {path:?}: not UTF-8 text; {AS_IT_IS}"))
        }
        _ => advised(&format!("read {path:?}: "), &error.into(), advice),
    })
}

/// Parses a number of lines. As in the reference server, it can be any non-negative whole number.
fn lines<'de, D: Deserializer<'de>>(number: D) -> Result<Option<u32>, D::Error> {
    match Option::<f64>::deserialize(number)? {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the number is whole and not negative, and `as` saturates"
        )]
        Some(count) if count >= 0.0 && count.fract() == 0.0 => Ok(Some(count as u32)),
        Some(count) => Err(de::Error::custom(format!(
            "invalid number of lines {count}: expected a non-negative whole number"
        ))),
        None => Ok(None),
    }
}

/// Reads the first lines. Fails with `FileTooLarge` if they are larger than the limit, and with
/// `InvalidData` if they are not UTF-8.
fn head(file: OpenFile, count: u32) -> io::Result<String> {
    let mut reader = BufReader::new(file).take(TEXT + 1);
    let mut bytes = Vec::new();
    for _ in 0..count {
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
    }
    text(&bytes)
}

/// Reads the last lines, at least one. A newline at the end of the file terminates the last line
/// and does not start another. Fails like [`head`].
fn tail(mut file: OpenFile, count: u32) -> io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    let before_last = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(1);
    let mut size = BLOCK;
    loop {
        let start = length.saturating_sub(size);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.by_ref().take(size).read_to_end(&mut bytes)?;
        let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let newlines = lines.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        match newlines.map(|(at, _)| at + 1).nth(before_last) {
            Some(first) => return text(bytes.get(first..).unwrap_or_default()),
            None if start == 0 || size > TEXT => return text(&bytes),
            None => size *= 2,
        }
    }
}

/// The lines as text, without the newline of the last.
fn text(lines: &[u8]) -> io::Result<String> {
    if u64::try_from(lines.len()).map_or(true, |size| size > TEXT) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let lines = std::str::from_utf8(lines).map_err(|_| io::ErrorKind::InvalidData)?;
    // A `\r` without `\n` is not a line ending.
    let lines = lines.strip_suffix("\r\n").or_else(|| lines.strip_suffix('\n')).unwrap_or(lines);
    Ok(lines.to_owned())
}

/// The size of the first attempt: about a thousand lines, so most calls need no second.
const BLOCK: u64 = 64 << 10;

// Advice on refusals.
const LINES: &str = "request fewer lines with head or tail";
const LINE: &str = "it is a single line, and no tool can read part of a line";
