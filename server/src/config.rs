//! Options from a TOML file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, CommandFactory as _, Parser as _};
use toml::{Table, Value};

use crate::options::{Options, at_home};

impl Options {
    /// Reads the options of the command line and of its `--config` file, or prints why not and exits.
    #[must_use]
    pub fn read() -> Self {
        let mut arguments: Vec<OsString> = std::env::args_os().collect();
        // An option can require one of the file, so errors are found when both are known.
        let found = Self::command().ignore_errors(true).get_matches_from(&arguments);
        let files: Vec<_> = found.get_many::<PathBuf>("config").into_iter().flatten().collect();
        for file in files.into_iter().rev() {
            #[expect(clippy::disallowed_methods, reason = "the operator's own, not a request's")]
            let content = std::fs::read_to_string(at_home(file)).map_err(|error| error.to_string());
            match content.and_then(|content| in_file(&content)) {
                Ok(of_file) => arguments.splice(1..1, of_file.into_iter().map(OsString::from)),
                Err(error) => {
                    let error = format!("{}: {error}", file.display());
                    Self::command().error(ErrorKind::ValueValidation, error).exit()
                }
            };
        }
        Self::parse_from(&arguments)
    }
}

/// Returns the arguments that a file with this content stands for: `--KEY=VALUE` for each value,
/// `--KEY` for `true`, and the value itself for `directories`.
fn in_file(content: &str) -> Result<Vec<String>, String> {
    let table: Table = content.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let command = Options::command();
    let (mut arguments, mut seen) = (Vec::new(), BTreeSet::new());
    for (key, value) in table {
        let is_directories = key == "directories";
        let is_named = |option: &&Arg| {
            let earlier = option.get_all_aliases().unwrap_or_default();
            option.get_long() == Some(&key) || earlier.contains(&key.as_str())
        };
        let option = command.get_arguments().find(is_named);
        let can_stand_alone = |option: &Arg| {
            let values = option.get_num_args().map(|values| values.min_values());
            !option.get_action().takes_values() || values == Some(0)
        };
        let is_flag = option.is_some_and(can_stand_alone);
        if key == "config" || option.is_none() && !is_directories {
            return Err(format!("unknown key {key:?}"));
        }
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        // An empty list of directories would lift the boundary.
        if values.is_empty() {
            return Err(format!("{key}: an empty list"));
        }
        let is_repeatable = |option: &Arg| matches!(option.get_action(), ArgAction::Append);
        if values.len() > 1 && option.is_some_and(|option| !is_repeatable(option)) {
            return Err(format!("{key}: more than one value"));
        }
        // Another name of an option, or its opposite.
        let id = option.map_or(key.as_str(), |option| option.get_id().as_str());
        if !seen.insert(if id == "no_confine" { "confine".into() } else { id.to_owned() }) {
            return Err(format!("{key}: the file has this option under another name"));
        }
        for value in values {
            arguments.push(match value {
                Value::String(path) if is_directories && !path.starts_with('-') => path,
                _ if is_directories => return Err(format!("{key}: not a list of paths")),
                Value::Boolean(false) if is_flag => continue,
                Value::Boolean(true) if is_flag => format!("--{key}"),
                Value::Integer(number) => format!("--{key}={number}"),
                Value::String(text) => format!("--{key}={text}"),
                _ => return Err(format!("{key}: not a value of this option")),
            });
        }
    }
    Ok(arguments)
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::in_file;

    #[test]
    fn a_file_stands_for_arguments() {
        for (content, expected) in [
            ("", Ok("")),
            ("directories = ['/a', '/b c']\nconfine = true", Ok("--confine|/a|/b c")),
            ("deny = ['.env*', '/x']\nread-only = false", Ok("--deny=.env*|--deny=/x")),
            ("exempt = ['.x']\nread-only-dir = ['/']", Ok("--exempt=.x|--read-only-dir=/")),
            ("max-sessions = 8\nhttp = '127.0.0.1:1'", Ok("--http=127.0.0.1:1|--max-sessions=8")),
            ("directories = '--no-protect'", Err("directories: not a list of paths")),
            ("directories = []", Err("directories: an empty list")),
            ("readonly = true", Err("unknown key \"readonly\"")),
            ("confine = true\nno-confine = true", Err("no-confine: the file has this option")),
            ("confine = false\nno-confine = true", Err("no-confine: the file has this option")),
            ("empty-list = ['deny', 'allow']", Err("empty-list: more than one value")),
            ("empty = 'deny'\nempty-list = 'allow'", Err("empty-list: the file has this option")),
            ("protect = ['a']\nno-protect = true", Ok("--no-protect|--protect=a")),
            ("config = 'other'", Err("unknown key \"config\"")),
            ("deny = ['x', true]", Err("deny: not a value of this option")),
            ("always-dir = false", Err("always-dir: not a value of this option")),
            ("always = ['/a']", Ok("--always=/a")),
            ("directories = [", Err("TOML parse error")),
        ] {
            let found = in_file(content).map(|arguments| arguments.join("|"));
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{content}"),
                (Err(error), Err(expected)) => assert!(error.starts_with(expected), "{error}"),
                _ => panic!("{content}: {found:?}"),
            }
        }
    }
}
