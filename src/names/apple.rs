//! Names as the file systems of macOS compare them: without case, in any normal form.
//!
//! APFS and HFS+ keep a name as it was given, and find it by any that is canonically equivalent; unless they were formatted otherwise, also
//! by another case (Apple File System Reference, `j_drec_hashed_key_t`).

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// The name decomposed, in lower case, and decomposed again, as a lower case can compose.
pub(crate) fn key(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.nfd().flat_map(char::to_lowercase).nfd().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_in_any_case_and_normal_form_and_no_others_are() {
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
            ("\u{fb01}", "fi", false),
            ("a", "\u{430}", false),
        ];
        for (one, other, same) in rows {
            assert_eq!(key(one) == key(other), same, "{one:?} {other:?}");
            assert_eq!(key(&key(one)), key(one), "{one:?} twice");
        }
    }
}
