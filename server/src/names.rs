//! The names of `--protect` and `--deny` that mean something else than their form suggests.
//!
//! Such a name would protect nothing, so it is an error, or a line at the start.

use std::path::{Path, PathBuf};

use crate::options::at_home;

/// Checks that a name is not written in a form of other programs or as a path of the system.
/// `directories` are the canonical paths of the allowed directories.
pub(crate) fn ensure_name(name: &str, directories: &[PathBuf]) -> Result<(), String> {
    if let Some(rest) = name.strip_prefix('!') {
        return Err(format!(
            "{name:?}: a name cannot be an exception: use --exempt for {rest:?}, or write \
             \"?{rest}\" for a name that begins with an exclamation mark"
        ));
    }
    let alternatives = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    if alternatives.is_some_and(|(inside, _)| inside.contains(',')) {
        return Err(format!(
            "{name:?}: braces contain no alternatives: repeat the option for each name"
        ));
    }
    let is_at_home = name.starts_with("~/");
    let Some(from_top) = name.strip_prefix('/').or_else(|| is_at_home.then_some(name)) else {
        return Ok(());
    };
    // A symlink in a name is followed before names are matched.
    let mut places = vec![canonical(&at_home(Path::new(name)))];
    places.extend(directories.iter().map(|directory| canonical(&directory.join(from_top))));
    for place in places {
        // Directories can be nested, and the name begins in any of them.
        let inside = directories.iter().filter_map(|directory| place.strip_prefix(directory).ok());
        let inside: Vec<_> = inside.collect();
        let is_name = inside.contains(&Path::new(from_top));
        if let Some(expected) = inside.first().filter(|_| !is_name) {
            let expected = Path::new("/").join(expected);
            return Err(format!(
                "expected a name inside the directories, without symlinks, and not a path of the \
                 system: for {name:?}, write \"{}\"",
                expected.display()
            ));
        }
    }
    if is_at_home {
        return Err(format!(
            "{name:?}: a name begins in an allowed directory, and ~ does not stand for your home \
             directory: for a directory with the name ~, write \"?{}\"",
            &name[1..]
        ));
    }
    Ok(())
}

/// The line that says which names contain characters that have no special meaning here.
pub(crate) fn literal<'a>(names: impl Iterator<Item = &'a String>) -> Option<String> {
    let literal: Vec<_> = names.filter(|name| name.contains(['[', ','])).collect();
    (!literal.is_empty())
        .then(|| format!("[ and , are ordinary characters in the names {literal:?}"))
}

/// The path with all symlinks resolved, as far as it exists.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "the operator's own path, not a request's")]
    let resolve = |above: &Path| {
        let canonical = std::fs::canonicalize(above).ok()?;
        let rest = path.strip_prefix(above).ok()?;
        Some(if rest.as_os_str().is_empty() { canonical } else { canonical.join(rest) })
    };
    path.ancestors().find_map(resolve).unwrap_or_else(|| path.to_owned())
}
