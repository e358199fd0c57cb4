//! The form in which protected names are compared.

use std::borrow::Cow;
use std::ffi::OsStr;

use unicode_normalization::UnicodeNormalization as _;

/// Maps all names that a supported filesystem could treat as one to the same form: without case,
/// Unicode normalization (APFS, HFS+; ZFS also compatibility forms), invisible characters (HFS+),
/// and trailing dots and spaces (Windows, SMB). Invalid UTF-8 becomes replacement characters.
pub(crate) fn fold(name: &OsStr) -> Cow<'_, str> {
    let untrimmed = fold_untrimmed(name);
    let end = untrimmed.trim_end_matches(['.', ' ']).len();
    if end == untrimmed.len() {
        return untrimmed;
    }
    let mut folded = untrimmed.into_owned();
    folded.truncate(end);
    Cow::Owned(folded)
}

/// Like [`fold`], but keeps trailing dots and spaces, which a wildcard can match.
pub(super) fn fold_untrimmed(name: &OsStr) -> Cow<'_, str> {
    let name = name.to_string_lossy();
    let is_folded = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if name.bytes().all(is_folded) {
        return name;
    }
    if name.is_ascii() {
        return Cow::Owned(name.to_ascii_lowercase());
    }
    let visible = name.chars().filter(|character| !is_ignorable(*character));
    // Some letters are equal only in lower case, and others only in upper case, so both are
    // applied.
    let lower = visible.nfkd().flat_map(char::to_lowercase);
    let folded = lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfc();
    Cow::Owned(folded.collect())
}

/// Whether a character is invisible by default (`Default_Ignorable_Code_Point`,
/// DerivedCoreProperties.txt, Unicode 16), including those that HFS+ ignores (Apple Technical Note
/// TN1150, "Unicode Subtleties").
pub(super) fn is_ignorable(character: char) -> bool {
    let code = u32::from(character);
    IGNORABLE.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

const IGNORABLE: [(u32, u32); 17] = [
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x61c, 0x61c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x202a, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfff8),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0000, 0xe_0fff),
];
