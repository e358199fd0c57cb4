//! A naive program that replaces aliases, as strings.

/// Another path of a directory: of this system, or of Windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) text: String,
    /// The directory. A path has no trailing slash.
    pub(crate) path: String,
    /// Whether it is accepted in the target of a symlink.
    pub(crate) is_verified: bool,
}

impl Alias {
    /// The alias of a path in the directory.
    pub(crate) fn to(&self, path: &str) -> Self {
        let rest = &path[self.path.len()..];
        let rest = if self.is_of_windows() { rest.replace('/', "\\") } else { rest.to_owned() };
        Self { text: format!("{}{rest}", self.text), path: path.to_owned(), ..*self }
    }

    pub(crate) fn is_of_windows(&self) -> bool {
        !self.text.starts_with('/')
    }

    /// The rest of an absolute path after the alias, by whole names. Begins after the separator.
    pub(crate) fn rest_of(&self, path: &str) -> Option<String> {
        if self.is_of_windows() {
            return self.rest_of_windows_path(path);
        }
        let mut rest = path.strip_prefix('/')?;
        for name in self.text.split('/').skip(1) {
            let mut first;
            loop {
                (first, rest) = rest.split_once('/').unwrap_or((rest, ""));
                if !matches!(first, "" | ".") || rest.is_empty() {
                    break;
                }
            }
            if first != name {
                return None;
            }
        }
        Some(rest.to_owned())
    }

    /// Unless there is a slash before the drive, a backslash in the rest separates names.
    fn rest_of_windows_path(&self, path: &str) -> Option<String> {
        let plain = |text: &str| text.replace('/', "\\").to_ascii_lowercase();
        let text = path.strip_prefix('/').unwrap_or(path);
        let (start, rest) = text.split_at_checked(self.text.len())?;
        if plain(start) != plain(&self.text) {
            return None;
        }
        let rest = rest.strip_prefix(['/', '\\']).or(rest.is_empty().then_some(""))?;
        let is_text = text.len() == path.len();
        Some(if is_text { rest.replace('\\', "/") } else { rest.to_owned() })
    }
}

/// Replaces the longest alias at the start of a path by its directory.
pub(crate) fn without_alias<'a>(
    path: &str,
    aliases: impl IntoIterator<Item = &'a Alias>,
) -> Option<String> {
    let matching = aliases.into_iter().filter_map(|alias| Some((alias, alias.rest_of(path)?)));
    let (alias, rest) = matching.max_by_key(|(alias, _)| alias.text.len())?;
    Some(format!("{}/{rest}", alias.path))
}
