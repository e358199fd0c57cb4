//! A text whose line endings are kept apart, so that a search in it sees only `\n`.
//!
//! A line that is not replaced, or is replaced with itself, keeps its ending. A new line has the
//! ending of the lines that it replaces, or if those differ, the most common one.

use std::borrow::Cow;
use std::iter::repeat_n;
use std::ops::Range;

/// A part of a text, and what replaces it. Both have `\n` line endings.
pub(super) type Part<'a> = (Range<usize>, Cow<'a, str>);

pub(super) struct Text {
    plain: String,
    /// For each `\n`, whether it stands for `\r\n`.
    is_crlf: Vec<bool>,
}

impl Text {
    pub(super) fn new(content: &str) -> Self {
        let lines = content.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let is_crlf = lines.map(|line| line.ends_with("\r\n")).collect();
        Self { plain: plain(content), is_crlf }
    }

    /// The text with `\n` line endings.
    pub(super) fn plain(&self) -> &str {
        &self.plain
    }

    /// The size of the content.
    pub(super) fn len(&self) -> usize {
        self.plain.len() + self.is_crlf.iter().filter(|is_crlf| **is_crlf).count()
    }

    /// The text with its own line endings.
    pub(super) fn content(&self) -> String {
        let mut content = String::with_capacity(self.len());
        let mut endings = self.is_crlf.iter();
        for line in self.plain.split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(line) if endings.next() == Some(&true) => content.extend([line, "\r\n"]),
                _ => content.push_str(line),
            }
        }
        content
    }

    /// Replaces parts, which are in order and do not overlap, in one pass.
    pub(super) fn replace(&mut self, parts: &[Part<'_>]) {
        let most = (self.len() - self.plain.len()) * 2 > self.is_crlf.len();
        let (mut plain, mut is_crlf, mut end) = (String::new(), Vec::new(), 0);
        let mut endings = self.is_crlf.iter().copied();
        for (part, new) in parts {
            let kept = self.plain.get(end..part.start).unwrap_or_default();
            let old = self.plain.get(part.clone()).unwrap_or_default();
            is_crlf.extend(endings.by_ref().take(newlines(kept)));
            let replaced: Vec<_> = endings.by_ref().take(newlines(old)).collect();
            // If only a part of the last line is replaced, its line ending follows that part and
            // counts too.
            let next = endings.clone().next().filter(|_| !old.ends_with('\n'));
            let mut of_lines = replaced.iter().copied().chain(next);
            let new_lines = match of_lines.next() {
                Some(first) if of_lines.all(|other| other == first) => first,
                _ => most,
            };
            let [head, tail] = same_lines(old, new);
            let changed = newlines(new).saturating_sub(head + tail);
            is_crlf.extend(replaced.iter().take(head));
            is_crlf.extend(repeat_n(new_lines, changed));
            is_crlf.extend(replaced.iter().skip(replaced.len().saturating_sub(tail)));
            plain.extend([kept, new]);
            end = part.end;
        }
        is_crlf.extend(endings);
        plain.push_str(self.plain.get(end..).unwrap_or_default());
        *self = Self { plain, is_crlf };
    }
}

/// A text with `\n` line endings.
pub(super) fn plain(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

/// The number of line endings in the lines with which both texts start, and in those with which the
/// rest of both ends.
fn same_lines(old: &str, new: &str) -> [usize; 2] {
    let head = same(old.split_inclusive('\n'), new.split_inclusive('\n'));
    let [rest, new] = [old, new].map(|text| text.get(head..).unwrap_or_default());
    let tail = same(rest.split_inclusive('\n').rev(), new.split_inclusive('\n').rev());
    let ends = [old.get(..head), rest.get(rest.len() - tail..)];
    ends.map(|same| newlines(same.unwrap_or_default()))
}

/// The size of the lines with which both start.
fn same<'a>(old: impl Iterator<Item = &'a str>, new: impl Iterator<Item = &'a str>) -> usize {
    old.zip(new).take_while(|(old, new)| old == new).map(|(line, _)| line.len()).sum()
}
