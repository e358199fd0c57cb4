//! The tools `git_status`, `git_diff` and `git_log`, which the option `--tools git` enables. They
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
//! | a promisor remote with a program, for example in its URL or as `uploadpack` | anything that needs a missing object | `GIT_NO_LAZY_FETCH`, and no protocol is allowed |
//! | a directory that looks like a bare repository | anything | `safe.bareRepository=explicit` |
//!
//! Git runs `core.pager` only for a terminal, and an alias cannot replace a command of git.
//!
//! If one is missing here, git is still confined to the roots in force, read-only, without the
//! network, and cannot run a shell. The same confinement keeps a `.git` file, `core.worktree`, `include.path` or
//! alternates from making git read anything outside. The configuration of the user and of the
//! system is not used.

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{CheckedPath, ChildCommand, ChildOutput, Ended, Intent};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{ANSWER, Answered, Call, Work, text_schema};
use crate::programs::git_confinement;
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct GitStatus {
    /// A directory of the repository: a path inside the allowed directories, or a `file:` URI.
    path: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct GitDiff {
    /// A directory of the repository: a path inside the allowed directories, or a `file:` URI.
    path: String,
    /// Compare the index with a commit, instead of the working tree with the index.
    #[serde(default)]
    staged: bool,
    /// A commit, branch or range to compare with, such as `HEAD~1` or `main...topic`.
    revision: Option<String>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct GitLog {
    /// A directory of the repository: a path inside the allowed directories, or a `file:` URI.
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
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn git_status(Parameters(args): Parameters<GitStatus>, call: Call) -> Answered {
        call.asynchronous(async move |roots| {
            git(&roots, args.path, &["status", "--ignore-submodules=all"], None).await
        })
        .await
    }

    #[tool(
        title = "Git Diff",
        description = "Shows the changes in the working tree of a git repository, those that are \
                       staged, or those since a revision.",
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn git_diff(Parameters(args): Parameters<GitDiff>, call: Call) -> Answered {
        call.asynchronous(async move |roots| {
            let mut options = DIFF.to_vec();
            options.extend(args.staged.then_some("--cached"));
            git(&roots, args.path, &options, args.revision).await
        })
        .await
    }

    #[tool(
        title = "Git Log",
        description = "Shows the latest commits of a git repository.",
        output_schema = text_schema(),
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn git_log(Parameters(args): Parameters<GitLog>, call: Call) -> Answered {
        call.asynchronous(async move |roots| {
            let count = format!("--max-count={}", args.max_count.unwrap_or(10));
            let options: Vec<_> = LOG.iter().copied().chain([count.as_str()]).collect();
            git(&roots, args.path, &options, args.revision).await
        })
        .await
    }
}

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
    roots: &RequestRoots,
    path: String,
    options: &[&str],
    revision: Option<String>,
) -> Work {
    if let Some(revision) = revision.as_ref().filter(|revision| revision.starts_with('-')) {
        return Err(HandlerError::new(format!("not a revision: {revision:?}")));
    }
    let prepare = |roots: RequestRoots| {
        let directory = roots.read_only().check(path, Intent::Existing)?;
        let list = command(&directory, &[])?.args(LIST);
        Ok((directory, list))
    };
    let (directory, list) = roots.run(prepare).await?;
    let keys = confined(list).output_async().await?.into_stdout()?;
    let overrides = overrides(&keys)?;
    let git = roots.run(move |_| command(&directory, &overrides)).await?.args(options);
    let git = match revision {
        Some(revision) => git.args(["--end-of-options", &revision, "--"]),
        None => git,
    };
    answer(confined(git).output_limit(ANSWER).output_async().await?)
}

/// Lists the names of all variables in the configuration, without their values.
const LIST: &[&str] = &["config", "--list", "--name-only", "--null"];

/// A git command that uses neither the system's nor the user's configuration, with these variables
/// instead of the repository's.
fn command(directory: &CheckedPath, overrides: &[(String, String)]) -> Work<ChildCommand> {
    let root = directory.root().path();
    let above = root.parent().unwrap_or(root);
    let mut git = directory
        .command("git")?
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

fn confined(git: ChildCommand) -> ChildCommand {
    git.confined(git_confinement())
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
    let mut found = Vec::new();
    for key in keys.split(|byte| *byte == 0).filter(|key| !key.is_empty()) {
        let Some((section, variable)) = split_key(key) else { continue };
        let is_filter = section.starts_with(b"filter.");
        if is_filter && matches!(variable, b"clean" | b"smudge" | b"process" | b"required") {
            let key = String::from_utf8(key.to_vec());
            let key = key.map_err(|_| HandlerError::new("a filter's name is not UTF-8"))?;
            let value = if variable == b"required" { "false" } else { "" };
            found.push((key, value.to_owned()));
        }
    }
    if found.len() > MOST_FILTERS {
        return Err(HandlerError::new("the repository's configuration has too many filters"));
    }
    Ok(found)
}

/// Splits the name of a configuration variable before its last part.
fn split_key(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = key.iter().rposition(|byte| *byte == b'.')?;
    Some((key.get(..=dot)?, key.get(dot + 1..)?))
}

/// More than any repository needs, and few enough for an environment.
const MOST_FILTERS: usize = 400;

/// The output of git, or an error with its words.
fn answer(output: ChildOutput) -> Work {
    if output.ended() == Ended::OutputLimit {
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
    use std::path::Path;
    use std::process::Command;

    use mcp_roots_guard::Roots;

    use super::*;

    /// The git commands of the tools.
    const STATUS: &[&str] = &["status", "--ignore-submodules=all"];

    fn sh(directory: &Path, script: &str) {
        let done = Command::new("sh")
            .args(["-ec", script])
            .current_dir(directory)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// A repository with a commit, a modified file, and a program that creates the file `ran`.
    fn repository(setup: &str) -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        let directory = top.path().join("repo");
        fs::create_dir(&directory).unwrap();
        sh(
            &directory,
            "git init -q -b main; git config user.name a; git config user.email a@example.com
             echo one >f.txt; git add f.txt; git commit -q -m first; echo two >f.txt
             printf '#!/bin/sh\\ntouch \"$(dirname \"$0\")/ran\"\\ncat\\n' >../run
             chmod +x ../run",
        );
        sh(&directory, &setup.replace("RUN", top.path().join("run").to_str().unwrap()));
        top
    }

    /// Runs the tools' git without a confinement, then plain git. Returns the result of the first,
    /// and whether each of them ran the program.
    fn run_both(setup: &str, options: &[&str]) -> (ChildOutput, bool, bool) {
        let top = repository(setup);
        let ran = top.path().join("ran");
        let directory = top.path().join("repo");
        // The setup itself can run the program.
        let _ = fs::remove_file(&ran);
        let roots = Roots::from_dirs([&directory]).unwrap();
        let checked = roots.check(".", Intent::Existing).unwrap();
        let list = command(&checked, &[]).unwrap().args(LIST).output().unwrap();
        let overrides = overrides(list.stdout()).unwrap();
        let git = command(&checked, &overrides).unwrap().args(options);
        let output = git.output().unwrap();
        let tool_ran = ran.exists();
        let plain = Command::new("git").arg(options[0]).current_dir(&directory).output();
        assert!(plain.is_ok(), "{plain:?}");
        (output, tool_ran, ran.exists())
    }

    /// Each row makes plain git run a program, and the tools' git must not run it, even without a
    /// confinement.
    #[test]
    fn configured_programs_are_not_run() {
        let sign = |kind| {
            format!(
                "commit=$(git cat-file commit HEAD | sed '/^committer/a gpgsig -----BEGIN \
                 {kind}-----\\n \\n -----END {kind}-----' | git hash-object -t commit -w --stdin)
                 git update-ref HEAD $commit"
            )
        };
        let submodule = "git init -q sub; cd sub; git config user.name a
             git config user.email a@b.c; echo s >s.txt; git add s.txt; git commit -q -m s; cd ..
             git -c protocol.file.allow=always submodule add -q ./sub sub 2>/dev/null ||
             git add sub; git -C sub config core.fsmonitor RUN; echo more >sub/s.txt";
        let hook = "mkdir -p .git/hooks; cp ../run .git/hooks/post-index-change
             sed -i 's|$(dirname .*)/ran|../ran|' .git/hooks/post-index-change
             sleep 1.1; git checkout -q f.txt; touch -d '2000-01-01' f.txt";
        let rows: &[(&str, &[&str])] = &[
            ("git config core.fsmonitor RUN", STATUS),
            ("git config core.fsmonitor 'RUN #'", DIFF),
            (
                "git config core.repositoryFormatVersion 1
                 git config extensions.worktreeConfig true
                 git config --worktree filter.x.clean RUN; echo '*.txt filter=x' >.gitattributes",
                STATUS,
            ),
            ("git config filter.x.clean RUN; echo '*.txt filter=x' >.gitattributes", STATUS),
            (
                "git config filter.a=b.clean RUN; echo '*.txt filter=a=b' >.git/info/attributes",
                DIFF,
            ),
            (
                "git config filter.x.process RUN; git config filter.x.required true
                 echo '*.txt filter=x' >.gitattributes",
                DIFF,
            ),
            (
                "printf '[filter \"y\"]\\nclean = RUN\\n' >.git/more; git config include.path more
                 echo '*.txt filter=y' >.gitattributes",
                DIFF,
            ),
            ("git config diff.external RUN", DIFF),
            ("git config diff.x.command RUN; echo '*.txt diff=x' >.gitattributes", DIFF),
            ("git config diff.x.textconv RUN; echo '*.txt diff=x' >.gitattributes", DIFF),
            (
                &format!(
                    "git config log.showSignature true; git config gpg.program RUN; {}",
                    sign("PGP SIGNATURE")
                ),
                LOG,
            ),
            (
                &format!(
                    "git config format.pretty zz; git config pretty.zz %G?
                     git config gpg.x509.program RUN; {}",
                    sign("SIGNED MESSAGE")
                ),
                LOG,
            ),
            (
                &format!(
                    "git config format.pretty %G?; git config gpg.ssh.program RUN
                     git config gpg.ssh.allowedSignersFile f.txt; {}",
                    sign("SSH SIGNATURE")
                ),
                LOG,
            ),
            (hook, STATUS),
            (hook, DIFF),
            (submodule, STATUS),
            (submodule, DIFF),
            (&format!("{submodule}; git config status.submoduleSummary true"), STATUS),
            (&format!("{submodule}; git config diff.submodule diff"), DIFF),
        ];
        for (setup, options) in rows {
            let (output, tool_ran, plain_ran) = run_both(setup, options);
            assert!(output.success(), "{setup}: {}", String::from_utf8_lossy(output.stderr()));
            assert_eq!((tool_ran, plain_ran), (false, true), "{options:?}: {setup}");
        }
        // Git refuses these repositories.
        for (setup, options, error) in [
            (
                "git config core.repositoryFormatVersion 1; git config remote.o.url .
                 git config extensions.partialClone o; git config remote.o.promisor true
                 git config remote.o.uploadpack 'RUN </dev/null'
                 rm .git/objects/$(git rev-parse HEAD:f.txt | sed 's|^..|&/|')",
                DIFF,
                "lazy fetching disabled",
            ),
            (
                "mv .git/HEAD .git/config .git/objects .git/refs .; rm -r .git
                 git config --file config core.bare false
                 git config --file config core.worktree .
                 git config --file config core.fsmonitor RUN",
                STATUS,
                "safe.bareRepository",
            ),
        ] {
            let (output, tool_ran, plain_ran) = run_both(setup, options);
            let text = String::from_utf8_lossy(output.stderr());
            assert!(!output.success() && text.contains(error), "{setup}: {text}");
            assert_eq!((tool_ran, plain_ran), (false, true), "{options:?}: {setup}");
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
