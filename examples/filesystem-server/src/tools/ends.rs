//! Edits that keep line endings.
//!
//! A text is searched with `\n` as the only line ending, and written with its original endings. A
//! line that is not replaced, or is replaced with itself, keeps its ending. A new line has the
//! ending of the lines that it replaces. If those differ, it has the file's most common ending.

use std::ops::Range;

/// The text with `\n` line endings.
pub(super) fn plain(content: &str) -> String {
    content.replace("\r\n", "\n")
}

/// Replaces a part with a new text that has `\n` line endings. The part is one of the text with
/// `\n` line endings.
pub(super) fn replace(content: &mut String, part: Range<usize>, old: &str, new: &str) {
    let (begin, end) = (place(content, part.start), place(content, part.end));
    let rest = content.get(end..).unwrap_or_default();
    // If only a part of the last line is replaced, its line ending follows that part and counts too.
    let ended = match rest.find('\n') {
        Some(newline) if !old.ends_with('\n') => end + newline + 1,
        _ => end,
    };
    let is_crlf = match endings(content.get(begin..ended).unwrap_or_default()) {
        (0, 1..) => false,
        (crlf, all @ 1..) if crlf == all => true,
        _ => {
            let (crlf, all) = endings(content);
            crlf * 2 > all
        }
    };
    let head = same(old.split_inclusive('\n'), new.split_inclusive('\n'));
    let [old, new] = [old, new].map(|text| text.get(head..).unwrap_or_default());
    let tail = same(old.split_inclusive('\n').rev(), new.split_inclusive('\n').rev());
    let new = new.get(..new.len() - tail).unwrap_or_default();
    let new = if is_crlf { new.replace('\n', "\r\n") } else { new.to_owned() };
    let changed = place(content, part.start + head)..place(content, part.end - tail);
    content.replace_range(changed, &new);
}

/// Where a position in the text with `\n` line endings is in the content.
fn place(content: &str, position: usize) -> usize {
    let carriage_returns = content.match_indices("\r\n").enumerate();
    position + carriage_returns.take_while(|(number, (at, _))| at - number < position).count()
}

/// The number of `\r\n` line endings, and of all.
fn endings(text: &str) -> (usize, usize) {
    (text.matches("\r\n").count(), text.matches('\n').count())
}

/// The size of the lines with which both texts start.
fn same<'a>(old: impl Iterator<Item = &'a str>, new: impl Iterator<Item = &'a str>) -> usize {
    old.zip(new).take_while(|(old, new)| old == new).map(|(line, _)| line.len()).sum()
}
