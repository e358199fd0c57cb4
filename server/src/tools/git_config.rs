//! What git is told before it uses a repository, and what the repository's configuration says.

use std::path::Path;

use mcp_roots_guard::rmcp::HandlerError;
use mcp_roots_guard::{CheckedPath, ChildCommand};

use super::call::Work;
use crate::programs::git_confinement;

/// A git command that uses neither the system's nor the user's configuration.
pub(super) fn git(directory: &CheckedPath, git_dir: &Path) -> Work<ChildCommand> {
    let git = ChildCommand::new(directory, "git")?.env("GIT_DIR", git_dir);
    Ok(ENVIRONMENT.iter().fold(git, |git, (name, value)| git.env(name, value)))
}

pub(super) fn refused(why: &str) -> HandlerError {
    HandlerError::new(format!("git does not use this repository: {why}"))
}

/// The variables in the text of a configuration file. Git parses it, and opens no file.
pub(super) fn variables(directory: &CheckedPath, text: Vec<u8>) -> Work<Vec<(String, String)>> {
    let git = git(directory, Path::new("/dev/null"))?.args(LIST).stdin(text);
    let listed = git.confined(git_confinement()).output_limit(CONFIG_LIST).output()?;
    let listed = listed.into_stdout()?;
    let mut variables = Vec::new();
    for variable in listed.split(|&byte| byte == 0).filter(|variable| !variable.is_empty()) {
        let end = variable.iter().position(|&byte| byte == b'\n').unwrap_or(variable.len());
        let (key, value) = variable.split_at(end);
        let key =
            std::str::from_utf8(key).map_err(|_| refused("its configuration is not UTF-8"))?;
        let value = String::from_utf8_lossy(value.strip_prefix(b"\n").unwrap_or_default());
        variables.push((key.to_owned(), value.into_owned()));
    }
    Ok(variables)
}

/// Lists the variables of the configuration in standard input, without following `include.path`.
const LIST: &[&str] = &["config", "--file", "-", "--no-includes", "--list", "--null"];

/// Whether the variable names a file to include.
pub(super) fn is_include(key: &str) -> bool {
    key == "include.path" || key.starts_with("includeif.") && key.rsplit('.').next() == Some("path")
}

/// Refuses a path of a file to include, or a condition, that git would expand.
pub(super) fn ensure_unexpanded(key: &str, value: &str) -> Work<()> {
    let is_expanded = |path: &str| path.starts_with(['~', '%']) || path.contains('\u{fffd}');
    let condition = key.split_once(':').map_or("", |(_, condition)| condition);
    if is_expanded(value) || is_expanded(condition) {
        return Err(refused("its configuration includes a path that git expands"));
    }
    Ok(())
}

/// Whether the configuration says that the repository has no working tree.
pub(super) fn is_bare(config: &[(String, String)]) -> bool {
    let is_false = |value: &str| ["false", "no", "off", "0"].contains(&&*value.to_lowercase());
    let last = config.iter().rfind(|(key, _)| key == "core.bare");
    last.is_some_and(|(_, value)| !is_false(value))
}

/// An empty value for each filter that the configuration defines, so that it is not run.
pub(super) fn overrides(config: &[(String, String)]) -> Work<Vec<(String, String)>> {
    let mut found = Vec::new();
    for (key, _) in config.iter().filter(|(key, _)| key.starts_with("filter.")) {
        match key.rsplit('.').next() {
            Some("clean" | "smudge" | "process") => found.push((key.clone(), String::new())),
            Some("required") => found.push((key.clone(), "false".to_owned())),
            _ => {}
        }
    }
    if found.len() > FILTERS {
        return Err(refused("its configuration has too many filters"));
    }
    Ok(found)
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
    // Without it, git fails if the configuration contains a path such as `~/.gitignore`.
    ("HOME", "/dev/null"),
];

/// Variables of git's configuration (git-config(1)). They take precedence over the repository's.
pub(super) const FIXED: &[(&str, &str)] = &[
    // Programs.
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "false"),
    ("diff.autoRefreshIndex", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    // Files.
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.multiPackIndex", "false"),
    ("core.untrackedCache", "false"),
    ("diff.orderFile", "/dev/null"),
    ("mailmap.file", "/dev/null"),
    // Git does not check whether a file that a sparse index omits exists.
    ("sparse.expectFilesOutsideOfPatterns", "true"),
];

/// More than any repository needs, and few enough for an environment.
const FILTERS: usize = 400;

/// In bytes: a listed variable has the name of its section, which the file contains once.
const CONFIG_LIST: usize = 4 << 20;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_recognized_by_their_whole_name() {
        let config = |keys: &[&str]| {
            let keys = keys.iter().map(|key| ((*key).to_owned(), "x".to_owned()));
            overrides(&keys.collect::<Vec<_>>())
        };
        let keys = ["core.bare", "filter.x.clean", "filter.a.b=c.process", "filter.x.other"];
        let expected = [("filter.x.clean", ""), ("filter.a.b=c.process", "")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(config(&keys).unwrap(), expected);
        assert!(config(&["filter.x.clean"; 500]).is_err());
    }
}
