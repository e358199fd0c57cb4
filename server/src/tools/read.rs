//! The tools that read files.
//!
//! A file that is not UTF-8 is refused. Content is never truncated silently. Of a file of any size,
//! about as much is read as the requested lines need.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{Error, ErrorKind, OpenFile};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ResourceContents};
use rmcp::{schemars, tool, tool_router};
use serde::{Deserialize as _, Deserializer, de};
use serde_json::json;

use super::call::{Call, OnePath, ToolResult, Work, at_most};
use super::{LIMIT, TEXT};
use crate::memory::Room;
use crate::resources::entry::{mime_type, path as path_of};
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

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadMultiple {
    /// Paths inside the allowed directories, or `file:` URIs.
    #[schemars(length(min = 1, max = PATHS))]
    paths: Vec<String>,
}

#[tool_router(router = read_tools, vis = "pub(super)")]
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

    #[tool(
        title = "Read Multiple Files",
        description = "Reads several text files in one call and returns each with its path. If a \
                       file cannot be read, the result has an error in its place, and the other \
                       files are still read.",
        annotations(read_only_hint = true)
    )]
    async fn read_multiple_files(
        Parameters(args): Parameters<ReadMultiple>,
        call: Call,
    ) -> ToolResult {
        call.text(move |roots, room| read_multiple(roots, room, &args.paths)).await
    }

    #[tool(
        title = "Read Media File",
        description = "Reads a file of any type and returns it in base64 with its MIME type: as \
                       image or audio content, or as an embedded resource for any other type.",
        output_schema = media_schema(),
        annotations(read_only_hint = true)
    )]
    async fn read_media_file(Parameters(args): Parameters<OnePath>, call: Call) -> ToolResult {
        let has_audio = call.reply.has_audio;
        call.result(move |roots, room| read_media(roots, room, &args.path, has_audio)).await
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

fn read_multiple(roots: &RequestRoots, room: &Room, paths: &[String]) -> Work {
    if paths.is_empty() {
        return Err(HandlerError::new("paths is empty: at least one path is required"));
    }
    at_most(PATHS, paths.len(), "paths")?;
    let (mut parts, mut left) = (Vec::new(), TEXT);
    for path in paths {
        roots.ensure_active()?;
        room.for_file(roots, path, left)?;
        parts.push(match roots.read_to_string(path, left) {
            Ok(content) => {
                left = left.saturating_sub(u64::try_from(content.len()).unwrap_or(u64::MAX));
                format!("{path}:\n{content}\n")
            }
            Err(error) if error.code() == "too_large" && fits(roots, path) => {
                let advice = "the preceding files fill this result; read it in another call";
                format!("{path}: Error - {error}: {advice}")
            }
            Err(error) if error.code() == "too_large" => {
                format!("{path}: Error - larger than {TEXT} bytes; {WHOLE}")
            }
            Err(error) => format!("{path}: Error - {}", advised("", &error, WHOLE)),
        });
    }
    Ok(parts.join("\n---\n"))
}

/// Whether the file is small enough to be read in a separate call.
fn fits(roots: &RequestRoots, path: &str) -> bool {
    roots.metadata(path).is_ok_and(|metadata| metadata.len() <= TEXT)
}

/// Adds advice to a refusal.
fn advised(at: &str, error: &Error, too_large: &str) -> HandlerError {
    let advice = match error.kind() {
        ErrorKind::LimitExceeded => &format!("; {too_large}"),
        ErrorKind::NotUtf8 => &format!("; {AS_IT_IS}"),
        ErrorKind::IsADirectory => "; to list a directory, use list_directory",
        _ => "",
    };
    HandlerError::new(format!("{at}{error}{advice}"))
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

fn read_media(
    roots: &RequestRoots,
    room: &Room,
    path: &str,
    has_audio: bool,
) -> Work<CallToolResult> {
    room.for_file(roots, path, LIMIT)?;
    let checked = roots.check(path)?;
    let content = checked.read(LIMIT)?;
    // The base64 text, and its copy in the structured content.
    room.take(3 * content.len())?;
    let data = STANDARD.encode(content);
    let mime = mime_type(path_of(&checked)).unwrap_or("application/octet-stream");
    let block = match mime.split('/').next() {
        Some("image") => ContentBlock::image(data, mime),
        Some("audio") if has_audio => ContentBlock::audio(data, mime),
        _ => {
            ContentBlock::resource(ResourceContents::blob(data, checked.uri()).with_mime_type(mime))
        }
    };
    let structured = serde_json::to_value([&block]).map_err(HandlerError::other)?;
    let mut result = CallToolResult::success(vec![block]);
    result.structured_content = Some(json!({ "content": structured }));
    Ok(result)
}

fn media_schema() -> Arc<JsonObject> {
    // The file is a valid object.
    Arc::new(serde_json::from_str(include_str!("media_schema.json")).unwrap_or_default())
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
const AS_IT_IS: &str = "to read it in base64, use read_media_file";
const WHOLE: &str = "to read its first or last lines, use read_text_file with head or tail";
const LINES: &str = "request fewer lines with head or tail";
const LINE: &str = "it is a single line, and no tool can read part of a line";

/// The maximum number of paths in a call. For more files, a search is more useful.
pub(super) const PATHS: usize = 100;
