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
//! | a directory that looks like a bare repository | anything | `safe.bareRepository=explicit` |
//!
//! Git runs `core.pager` only for a terminal, and an alias cannot replace a command of git. If a
//! program is missing here, git is still confined to the roots in force, read-only, without the
//! network, and cannot run a shell. The same confinement keeps a `.git` file, `core.worktree`,
//! `include.path` or alternates from making git read anything outside.

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, ChildCommand, ChildOutput, ExitReason};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{ANSWER, Call, OnePath, ToolResult, Work};
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
    let patience = call.server.patience.clone();
    call.asynchronous(async move |roots| {
        if let Some(revision) = revision.as_ref().filter(|revision| revision.starts_with('-')) {
            return Err(HandlerError::new(format!("not a revision: {revision:?}")));
        }
        let prepare = |roots: RequestRoots| {
            let directory = roots.read_only().check(path)?;
            let list = with_overrides(&directory, &[])?.args(LIST);
            Ok((directory, list))
        };
        let (directory, list) = patience.run(&roots, prepare).await?;
        let keys = list.confined(git_confinement()).output_async().await?.into_stdout()?;
        let overrides = overrides(&keys)?;
        let with_overrides = move |_| with_overrides(&directory, &overrides);
        let git = patience.run(&roots, with_overrides).await?;
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

/// Lists the names of all variables in the configuration, without their values.
const LIST: &[&str] = &["config", "--list", "--name-only", "--null"];

/// A git command that uses neither the system's nor the user's configuration, with these variables
/// instead of the repository's.
fn with_overrides(directory: &CheckedPath, overrides: &[(String, String)]) -> Work<ChildCommand> {
    let root = directory.root().path();
    let above = root.parent().unwrap_or(root);
    let mut git = ChildCommand::new(directory, "git")?
        .env_remove("HOME")
        .env("GIT_CEILING_DIRECTORIES", above)
        .env("GIT_CONFIG_COUNT", (FIXED.len() + overrides.len()).to_string());
    for (name, value) in ENVIRONMENT {
        git = git.env(name, value);
    }
    let fixed = FIXED.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    for (number, (name, value)) in fixed.chain(overrides.iter().cloned()).enumerate() {
        git = git.env(format!("GIT_CONFIG_KEY_{number}"), name);
        git = git.env(format!("GIT_CONFIG_VALUE_{number}"), value);
    }
    Ok(git)
}

/// Variables of git's environment (git(1)).
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// Variables of git's configuration (git-config(1)). They take precedence over the repository's.
const FIXED: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "false"),
    ("diff.autoRefreshIndex", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("safe.bareRepository", "explicit"),
    // The owner of the repository need not be the server's user, because nothing that its
    // configuration names is run.
    ("safe.directory", "*"),
    ("submodule.recurse", "false"),
];

/// Returns an empty value for each filter that the configuration defines, so that it is not run.
/// `keys` is the output of [`LIST`].
fn overrides(keys: &[u8]) -> Work<Vec<(String, String)>> {
    let keys = std::str::from_utf8(keys);
    let keys = keys.map_err(|_| HandlerError::new("the configuration is not UTF-8"))?;
    let mut found = Vec::new();
    for key in keys.split('\0').filter(|key| key.starts_with("filter.")) {
        match key.rsplit('.').next() {
            Some("clean" | "smudge" | "process") => found.push((key.to_owned(), String::new())),
            Some("required") => found.push((key.to_owned(), "false".to_owned())),
            _ => {}
        }
    }
    if found.len() > MOST_FILTERS {
        return Err(HandlerError::new("the repository's configuration has too many filters"));
    }
    Ok(found)
}

/// More than any repository needs, and few enough for an environment.
const MOST_FILTERS: usize = 400;

/// The output of git, or an error with its words.
fn answer(output: ChildOutput) -> Work {
    if output.ended() == ExitReason::OutputLimit {
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

    use mcp_roots_guard::Roots;

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
            let roots = Roots::from_dirs([&directory]).unwrap();
            let checked = roots.check(".").unwrap();
            let list = with_overrides(&checked, &[]).unwrap().args(LIST).output().unwrap();
            let overrides = overrides(list.stdout()).unwrap();
            let git = with_overrides(&checked, &overrides).unwrap().args(tool);
            let output = git.output().unwrap();
            let error = String::from_utf8_lossy(output.stderr());
            assert_eq!(output.success(), refusal.is_empty(), "{row}: {error}");
            assert!(error.contains(refusal), "{row}: {error}");
            assert!(!ran.exists(), "{row}");
            let plain = Command::new("git").arg(tool[0]).current_dir(&directory).output();
            assert!(plain.is_ok() && ran.exists(), "{row}: plain git runs the program");
        }
    }

    #[test]
    fn filters_are_recognized_by_their_whole_name() {
        let keys =
            b"core.bare\0filter.x.clean\0filter.a.b=c.process\0filter.x.other\0filters.x.clean\0";
        let found = overrides(keys).unwrap();
        let expected = [("filter.x.clean", ""), ("filter.a.b=c.process", "")];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let many: Vec<_> = (0..500).map(|number| format!("filter.{number}.clean")).collect();
        assert!(overrides(many.join("\0").as_bytes()).is_err());
        assert!(overrides(b"filter.\xff.clean\0").is_err());
    }
}
