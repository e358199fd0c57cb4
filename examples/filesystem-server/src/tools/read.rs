//! The tools that read text files.
//!
//! A file that is not UTF-8 is refused. Content is never truncated silently.

use std::io;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{Error, ErrorKind, OpenFile};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};
use serde::{Deserialize as _, Deserializer, de};

use super::LIMIT;
use super::call::{Answered, Call, Work, at_most, text_schema};
use super::lines::{head, tail};
use crate::memory::Room;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
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
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_file(Parameters(args): Parameters<ReadText>, call: Call) -> Answered {
        answer(args, call).await
    }

    #[tool(
        title = "Read Text File",
        description = "Reads a file as UTF-8 text, whatever its extension. With head or tail, \
                       reads only the first or last lines, which also works for files that are \
                       too large to read in full.",
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_text_file(Parameters(args): Parameters<ReadText>, call: Call) -> Answered {
        answer(args, call).await
    }

    #[tool(
        title = "Read Multiple Files",
        description = "Reads several text files in one call and returns each with its path. If a \
                       file cannot be read, the result has an error in its place, and the other \
                       files are still read.",
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_multiple_files(
        Parameters(args): Parameters<ReadMultiple>,
        call: Call,
    ) -> Answered {
        call.text(move |roots, room| read_multiple(roots, room, &args.paths)).await
    }
}

async fn answer(args: ReadText, call: Call) -> Answered {
    call.text(move |roots, room| {
        room.for_file(roots, &args.path, LIMIT)?;
        // Some clients send 0 for an omitted argument.
        let [first, last] = [args.head, args.tail].map(|lines| lines.filter(|&lines| lines > 0));
        match (first, last) {
            (Some(_), Some(_)) => Err(HandlerError::new("head and tail cannot be combined")),
            (Some(count), None) => read_lines(roots, &args.path, count, head),
            (None, Some(count)) => read_lines(roots, &args.path, count, tail),
            (None, None) => {
                roots.read_to_string(&args.path, LIMIT).map_err(|error| advised("", &error, WHOLE))
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
            "read {path:?}: the lines are larger than {LIMIT} bytes; {advice}"
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
    let (mut parts, mut left) = (Vec::new(), LIMIT);
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
            Err(error) => format!("{path}: Error - {}", advised("", &error, WHOLE)),
        });
    }
    Ok(parts.join("\n---\n"))
}

/// Whether the file is small enough to be read in a separate call.
fn fits(roots: &RequestRoots, path: &str) -> bool {
    roots.metadata(path).is_ok_and(|metadata| metadata.len() <= LIMIT)
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
/// A number that does not fit in a `u32` becomes the largest `u32`.
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

/// Advice for a file that is not text.
const AS_IT_IS: &str = "to read it in base64, use read_media_file";
/// Advice for a file that is too large.
const WHOLE: &str = "to read its first or last lines, use read_text_file with head or tail";
/// Advice if the requested lines are too large.
const LINES: &str = "request fewer lines with head or tail";
/// Advice if a single line is too large.
const LINE: &str = "it is a single line, and no tool can read part of a line";

/// The maximum number of paths in a call. For more files, a search is more useful.
const PATHS: usize = 100;
