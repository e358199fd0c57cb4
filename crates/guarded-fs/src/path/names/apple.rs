//! Compares names as macOS filesystems do by default, ignoring case and Unicode normalization.
//!
//! APFS and HFS+ find a name by any canonically equivalent one and, unless formatted to be
//! case-sensitive, ignoring case (Apple File System Reference, `j_drec_hashed_key_t`).

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use unicode_normalization::UnicodeNormalization as _;

/// Some letters share only an uppercase or a lowercase form, so both are applied. Because of
/// ligatures, some names are equal here that the filesystems distinguish.
pub(crate) fn key(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.nfd().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfd().collect())
}

/// The aliases of a canonical path through the system's own symlinks: `/tmp/x` for
/// `/private/tmp/x`.
pub(crate) fn aliases(canonical: &Path, links: &[(PathBuf, PathBuf)]) -> Vec<PathBuf> {
    let alias = |(link, target): &(PathBuf, PathBuf)| {
        let rest = canonical.strip_prefix(target).ok()?;
        // Joining an empty path would add a slash.
        Some(if rest.as_os_str().is_empty() { link.clone() } else { link.join(rest) })
    };
    links.iter().filter_map(alias).collect()
}

/// Symlinks that every macOS system has (hier(7)).
pub(crate) const LINKS: [&str; 3] = ["/tmp", "/var", "/etc"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_symlink_gives_an_alias_to_paths_in_its_target() {
        let links = [("/tmp", "/private/tmp"), ("/var", "/private/var")]
            .map(|(link, to)| (link.into(), to.into()));
        let rows = [
            ("/private/tmp/a/b", vec!["/tmp/a/b"]),
            ("/private/tmp", vec!["/tmp"]),
            ("/private/tmp2/a", vec![]),
            ("/private", vec![]),
            ("/tmp/a", vec![]),
            ("/private/var/folders", vec!["/var/folders"]),
        ];
        for (canonical, expected) in rows {
            let aliases = aliases(Path::new(canonical), &links);
            assert_eq!(
                aliases,
                expected.iter().map(PathBuf::from).collect::<Vec<_>>(),
                "{canonical}"
            );
            assert!(aliases.iter().all(|alias| !alias.to_string_lossy().ends_with('/')));
        }
    }

    #[test]
    fn names_are_equal_ignoring_case_and_normalization_only() {
        let rows = [
            ("a", "A", true),
            ("caf\u{e9}", "cafe\u{301}", true),
            ("CAF\u{c9}", "cafe\u{301}", true),
            ("\u{212b}", "\u{e5}", true),
            ("\u{130}", "i\u{307}", true),
            ("e\u{301}\u{327}", "e\u{327}\u{301}", true),
            ("\u{c5}ngstr\u{f6}m", "a\u{30a}ngstro\u{308}m", true),
            ("cafe", "caf\u{e9}", false),
            ("a ", "a", false),
            ("\u{fb01}", "fi", true),
            ("\u{3bb}\u{3cc}\u{3b3}\u{3bf}\u{3c2}", "\u{39b}\u{38c}\u{393}\u{39f}\u{3a3}", true),
            ("\u{17f}", "s", true),
            ("\u{b5}", "\u{3bc}", true),
            ("\u{df}", "SS", true),
            ("a", "\u{430}", false),
        ];
        for (one, other, same) in rows {
            assert_eq!(key(one) == key(other), same, "{one:?} {other:?}");
            assert_eq!(key(&key(one)), key(one), "{one:?} twice");
        }
    }
}
