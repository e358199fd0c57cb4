//! The `directory_tree` tool, which returns a directory tree as JSON.
//!
//! Each entry has a `name`, a `type` (`file` or `directory`) and, for a directory, `children`. The
//! tree is never truncated. A directory that could not be listed has an `error`. A symlink is not
//! followed, and has the type `file`.

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{DirEntry, FileType, Intent, WalkOptions};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{ANSWER, Answered, Call, Work, text_schema};
use super::steps::{Step, Steps};
use crate::progress::Progress;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DirectoryTree {
    /// A path inside the allowed directories, or a `file:` URI.
    path: String,
    /// Globs for entries to exclude, with everything beneath them. A glob without `*` excludes
    /// entries with that name at any depth.
    #[serde(default)]
    exclude_patterns: Vec<String>,
}

#[tool_router(router = tree_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Directory Tree",
        description = "Returns everything beneath a directory as JSON: an array of entries with \
                       name, type (file or directory) and, for directories only, children.",
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn directory_tree(Parameters(args): Parameters<DirectoryTree>, call: Call) -> Answered {
        call.long(move |roots, progress| tree(roots, progress, &args)).await
    }
}

/// An entry of the tree.
#[derive(serde::Serialize)]
struct Node {
    name: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<Node>>,
    /// The reason why the children are missing or incomplete.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn tree(roots: &RequestRoots, progress: &Progress, args: &DirectoryTree) -> Work {
    let top = roots.check(&args.path, Intent::Existing)?;
    let mut tree = Tree { open: Vec::new(), done: Vec::new() };
    let steps = Steps::new(&top, WalkOptions::default(), &args.exclude_patterns, roots, progress)?;
    for (count, step) in steps.enumerate() {
        match step? {
            Step::Entry(entry) if count < ENTRIES => tree.add(&entry),
            Step::Unreadable(reason) => tree.mark(reason),
            Step::Entry(_) | Step::Full => {
                return Err(too_large(format!("{ENTRIES} entries")));
            }
        }
    }
    tree.close(0);
    let mut json = Limited(Vec::new());
    serde_json::to_writer_pretty(&mut json, &tree.done)
        .map_err(|_| too_large(format!("{ANSWER} bytes")))?;
    String::from_utf8(json.0).map_err(HandlerError::other)
}

fn too_large(limit: impl std::fmt::Display) -> HandlerError {
    let advice = "request a subdirectory, or exclude entries with excludePatterns";
    HandlerError::new(format!("the tree has more than {limit}: {advice}"))
}

/// A buffer that holds at most [`ANSWER`] bytes.
struct Limited(Vec<u8>);

impl std::io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > ANSWER {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A tree that is built in the order of a walk.
struct Tree {
    /// The most recent directory and its ancestors, innermost last.
    open: Vec<Node>,
    /// The completed entries of the top directory.
    done: Vec<Node>,
}

impl Tree {
    fn add(&mut self, entry: &DirEntry) {
        self.close(entry.relative().components().count() - 1);
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type() == FileType::Directory {
            self.open.push(Node {
                name,
                r#type: "directory",
                children: Some(Vec::new()),
                error: None,
            });
        } else {
            self.put(Node { name, r#type: "file", children: None, error: None });
        }
    }

    fn mark(&mut self, error: String) {
        if let Some(directory) = self.open.last_mut() {
            directory.error = Some(error);
        }
    }

    /// Closes directories until `open` of them are left.
    fn close(&mut self, open: usize) {
        while self.open.len() > open {
            if let Some(node) = self.open.pop() {
                self.put(node);
            }
        }
    }

    fn put(&mut self, node: Node) {
        let parent = self.open.last_mut().and_then(|parent| parent.children.as_mut());
        parent.unwrap_or(&mut self.done).push(node);
    }
}

/// The maximum number of entries: more than a model can use.
const ENTRIES: usize = 10_000;
