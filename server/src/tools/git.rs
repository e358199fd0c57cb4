//! The tools `git_status`, `git_diff` and `git_log`, which the option `--git` enables. They
//! change nothing.
//!
//! A repository can name programs that git runs. They come from whoever wrote the repository, so
//! none of them may run:
//!
//! | a repository can contain | git runs it for | defense |
//! | --- | --- | --- |
//! | `core.fsmonitor` | status, diff | overridden |
//! | `filter.NAME.clean` or `process` | status, diff | overridden for each name in the configuration |
//! | `diff.external`, `diff.NAME.command` | diff | `--no-ext-diff` |
//! | `diff.NAME.textconv` | diff, log with a patch | `--no-textconv` |
//! | `gpg.program`, `gpg.x509.program`, `gpg.ssh.program` with `log.showSignature` or with `%G?` in `format.pretty` | log | all overridden, `--no-show-signature`, and a fixed format |
//! | hooks, or `core.hooksPath` | status and diff, when they update the index | overridden, and the index is not updated |
//! | a submodule with a configuration of its own | status, diff | submodules are ignored |
//! | a promisor remote with a program | anything that needs a missing object | `GIT_NO_LAZY_FETCH`, and no protocol is allowed |
//!
//! Git runs `core.pager` only for a terminal, and an alias cannot replace a command of git. If a
//! program is missing here, git is still confined to the roots in force, read-only, without the
//! network, and cannot run a shell. [`Repository`] keeps git inside these roots, too.

use mcp_roots_guard::limits::WALK_BYTES;
use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{ChildOutput, ExitReason};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{ANSWER, Call, OnePath, ToolResult, Work};
use super::repository::Repository;
use crate::programs::git_confinement;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct GitDiff {
    /// A directory of the repository: a path, or a `file:` URI.
    path: String,
    /// Compare the index with a commit, instead of the working tree with the index.
    #[serde(default)]
    staged: bool,
    /// A commit, branch or range to compare with, such as `HEAD~1` or `main...topic`.
    revision: Option<String>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GitLog {
    /// A directory of the repository: a path, or a `file:` URI.
    path: String,
    /// The maximum number of commits. The default is 10.
    max_count: Option<u16>,
    /// A commit, branch or range, such as `main` or `v1..v2`.
    revision: Option<String>,
}

#[tool_router(router = git_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Git Status",
        description = "Shows which files of a git repository are modified, staged or untracked. \
                       Submodules are ignored.",
        annotations(read_only_hint = true)
    )]
    async fn git_status(Parameters(args): Parameters<OnePath>, call: Call) -> ToolResult {
        git(call, args.path, STATUS, None, None).await
    }

    #[tool(
        title = "Git Diff",
        description = "Shows the changes in the working tree of a git repository, those that are \
                       staged, or those since a revision.",
        annotations(read_only_hint = true)
    )]
    async fn git_diff(Parameters(args): Parameters<GitDiff>, call: Call) -> ToolResult {
        let staged = args.staged.then(|| "--cached".to_owned());
        git(call, args.path, DIFF, staged, args.revision).await
    }

    #[tool(
        title = "Git Log",
        description = "Shows the latest commits of a git repository.",
        annotations(read_only_hint = true)
    )]
    async fn git_log(Parameters(args): Parameters<GitLog>, call: Call) -> ToolResult {
        let count = format!("--max-count={}", args.max_count.unwrap_or(10));
        git(call, args.path, LOG, Some(count), args.revision).await
    }
}

const STATUS: &[&str] = &["status", "--ignore-submodules=all"];

const DIFF: &[&str] =
    &["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"];

const LOG: &[&str] = &[
    "log",
    "--no-color",
    "--no-show-signature",
    "--no-ext-diff",
    "--no-textconv",
    // The repository cannot redefine a format of git.
    "--pretty=medium",
];

/// Runs git in a directory of the roots in force, and returns its output.
async fn git(
    call: Call,
    path: String,
    command: &'static [&'static str],
    option: Option<String>,
    revision: Option<String>,
) -> ToolResult {
    let room = call.reply.room.clone();
    call.asynchronous(async move |roots| {
        if let Some(revision) = revision.as_ref().filter(|revision| revision.starts_with('-')) {
            return Err(HandlerError::new(format!("not a revision: {revision:?}")));
        }
        let needs_work_tree =
            command != LOG && revision.as_ref().is_none_or(|it| !it.contains(".."));
        let prepare = move |roots: RequestRoots| {
            // The list of an index takes less, and begins after the walks.
            let _walking = room.for_walk(WALK_BYTES, &roots)?;
            let repository = Repository::find(&roots.read_only(), path)?;
            if needs_work_tree && repository.is_bare() {
                return Err(HandlerError::new(BARE));
            }
            // For a log, git looks up no file in the index or the working tree.
            if command != LOG {
                repository.ensure_work_tree_inside()?;
            }
            repository.git()
        };
        let git = roots.run(prepare).await?;
        let git = git.args(command).args(option);
        let git = match revision {
            Some(revision) => git.args(["--end-of-options", &revision, "--"]),
            None => git,
        };
        let git = git.confined(git_confinement()).output_limit(ANSWER);
        answer(git.output_async().await?)
    })
    .await
}

const BARE: &str = "this is a bare repository, which has no working tree: use git_log, or git_diff \
                    with a range of two commits, such as HEAD~1..HEAD";

/// The output of git, or an error with its words.
fn answer(output: ChildOutput) -> Work {
    if output.exit_reason() == ExitReason::OutputLimit {
        let text = String::from_utf8_lossy(output.stdout());
        return Ok(format!("{text}\nThe result is truncated"));
    }
    let text = output.into_stdout()?;
    if text.is_empty() {
        return Ok("No changes or commits".to_owned());
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]
mod tests {
    use std::fs;
    use std::process::Command;

    use mcp_roots_guard::{Access, Roots};

    use super::*;

    /// The tools' git must not run a program that plain git runs, even without a confinement.
    #[test]
    fn configured_programs_are_not_run() {
        let rows = include_str!("../../tests/data/git.txt").lines();
        for row in rows.filter(|row| !row.starts_with('#')) {
            let (tool, setup) = row.split_once(" | ").unwrap();
            let (tool, refusal) = tool.split_once(" ! ").unwrap_or((tool, ""));
            let tool = [STATUS, DIFF, LOG].into_iter().find(|args| args[0] == tool).unwrap();
            let top = tempfile::tempdir().unwrap();
            let [directory, program, ran] =
                ["repo", "run", "ran"].map(|name| top.path().join(name));
            fs::create_dir(&directory).unwrap();
            fs::write(&program, "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\ncat\n").unwrap();
            let functions = include_str!("../../tests/data/git.sh");
            let script = format!("chmod +x ../run\n{functions}\n{setup}");
            let script = script.replace("RUN", program.to_str().unwrap());
            let mut shell = Command::new("sh");
            let shell = shell.args(["-ec", &script]).current_dir(&directory);
            let done = shell.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
            assert!(done.status.success(), "{row}: {}", String::from_utf8_lossy(&done.stderr));
            // The setup itself can run the program.
            let _ = fs::remove_file(&ran);
            let roots = Roots::from_dirs([&directory], Access::ReadWrite).unwrap();
            let repository = Repository::find(&roots, ".".to_owned()).unwrap();
            let output = repository.git().unwrap().args(tool).output().unwrap();
            let error = String::from_utf8_lossy(output.stderr());
            assert_eq!(output.success(), refusal.is_empty(), "{row}: {error}");
            assert!(error.contains(refusal), "{row}: {error}");
            assert!(!ran.exists(), "{row}");
            let plain = Command::new("git").arg(tool[0]).current_dir(&directory).output();
            assert!(plain.is_ok() && ran.exists(), "{row}: plain git runs the program");
        }
    }
}
