//! Tools that read files as text.
//!
//! Goes in: paths. Comes out: what the files hold, whole or some lines. What is true after: nothing that is not UTF-8 was told as text,
//! and nothing was cut without saying so.

use std::io;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{Error, ErrorKind};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};
use serde::{Deserialize as _, Deserializer, de};

use super::LIMIT;
use super::call::{Answered, Call, Work, at_most, text_schema};
use super::lines::{head, tail};
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ReadText {
    /// A path inside the allowed directories, or a `file:` URI.
    path: String,
    /// Only the first so many lines.
    #[serde(default, deserialize_with = "lines")]
    #[schemars(with = "Option<u64>")]
    head: Option<u32>,
    /// Only the last so many lines.
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
        call.text(move |roots| read_text(roots, &args)).await
    }

    #[tool(
        title = "Read Text File",
        description = "Reads a file as UTF-8 text, whatever its extension: all of it, or with head or tail only its first or last lines. \
                       Of a file that is too large to be read whole, head and tail still work.",
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_text_file(Parameters(args): Parameters<ReadText>, call: Call) -> Answered {
        call.text(move |roots| read_text(roots, &args)).await
    }

    #[tool(
        title = "Read Multiple Files",
        description = "Reads several files as text in one call, each under its path. One that can not be read is told in its place and \
                       does not fail the others.",
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn read_multiple_files(
        Parameters(args): Parameters<ReadMultiple>,
        call: Call,
    ) -> Answered {
        call.text(move |roots| read_multiple(roots, &args.paths)).await
    }
}

fn read_text(roots: &RequestRoots, args: &ReadText) -> Work {
    let path = &args.path;
    // Some clients send 0 for what they leave out.
    let (count, from_end) =
        match (args.head.filter(|&lines| lines > 0), args.tail.filter(|&lines| lines > 0)) {
            (Some(_), Some(_)) => return Err(HandlerError::new("give head or tail, not both")),
            (Some(lines), None) => (lines, false),
            (None, Some(lines)) => (lines, true),
            (None, None) => {
                return roots
                    .read_to_string(path, LIMIT)
                    .map_err(|error| advised("", &error, WHOLE));
            }
        };
    let file = roots.open(path).map_err(|error| advised("", &error, LINES))?;
    let lines = if from_end { tail(file, count) } else { head(file, count) };
    let advice = if count == 1 { LINE } else { LINES };
    lines.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => HandlerError::new(format!(
            "read {path:?}: the lines are larger than {LIMIT} bytes; {advice}"
        )),
        io::ErrorKind::InvalidData => {
            HandlerError::new(format!("read {path:?}: not UTF-8 text; {AS_IT_IS}"))
        }
        _ => advised(&format!("read {path:?}: "), &error.into(), advice),
    })
}

fn read_multiple(roots: &RequestRoots, paths: &[String]) -> Work {
    if paths.is_empty() {
        return Err(HandlerError::new("paths is empty: name at least one file"));
    }
    at_most(PATHS, paths.len(), "paths")?;
    let (mut told, mut left) = (Vec::new(), LIMIT);
    for path in paths {
        roots.ensure_active()?;
        told.push(match roots.read_to_string(path, left) {
            Ok(content) => {
                left = left.saturating_sub(u64::try_from(content.len()).unwrap_or(u64::MAX));
                format!("{path}:\n{content}\n")
            }
            Err(error) if error.code() == "too_large" && fits(roots, path) => {
                format!("{path}: Error - {error}: the files before it fill this answer; read it in another call")
            }
            Err(error) => format!("{path}: Error - {}", advised("", &error, WHOLE)),
        });
    }
    Ok(told.join("\n---\n"))
}

/// Whether a file could be read if it were the first.
fn fits(roots: &RequestRoots, path: &str) -> bool {
    roots.metadata(path).is_ok_and(|metadata| metadata.size() <= LIMIT)
}

/// A refusal, and what to do instead.
fn advised(at: &str, error: &Error, too_large: &str) -> HandlerError {
    let advice = match error.kind() {
        ErrorKind::LimitExceeded => &format!("; {too_large}"),
        ErrorKind::NotUtf8 => &format!("; {AS_IT_IS}"),
        ErrorKind::IsADirectory => "; list_directory lists it",
        _ => "",
    };
    HandlerError::new(format!("{at}{error}{advice}"))
}

/// A count of lines. As in the reference it may be any whole number; one beyond all files means all lines.
fn lines<'de, D: Deserializer<'de>>(number: D) -> Result<Option<u32>, D::Error> {
    match Option::<f64>::deserialize(number)? {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and not negative; `as` saturates"
        )]
        Some(count) if count >= 0.0 && count.fract() == 0.0 => Ok(Some(count as u32)),
        Some(count) => Err(de::Error::custom(format!(
            "{count} lines: give a whole number that is not negative"
        ))),
        None => Ok(None),
    }
}

/// What to do about a file that is not text.
const AS_IT_IS: &str = "read_media_file reads it as it is";
/// What to do about a file that is too large.
const WHOLE: &str = "read_text_file reads its first or last lines, with head or tail";
/// What to do about lines that are.
const LINES: &str = "ask for fewer lines with head or tail";
/// What to do about a line that is.
const LINE: &str = "it is one line, and no tool reads a part of one";

/// Each is a line of the answer at least; a model that wants more wants a search.
const PATHS: usize = 100;
