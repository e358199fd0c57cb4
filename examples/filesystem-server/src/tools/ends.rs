//! A text with its line endings.
//!
//! The text is searched and edited with `\n` as the only line ending, and written with its original
//! endings. A line that is not replaced, or is replaced with itself, keeps its ending. A new line
//! has the ending of the lines that it replaces. If those differ, it has the file's most common
//! ending.

use std::ops::Range;

/// A text to edit.
#[derive(Clone)]
pub(super) struct Text {
    lines: String,
    /// For each terminated line, whether it ends with `\r\n`.
    crlf: Vec<bool>,
    /// Whether most lines end with `\r\n`.
    most: bool,
}

impl Text {
    pub(super) fn new(content: &str) -> Self {
        let (mut lines, mut crlf) = (String::with_capacity(content.len()), Vec::new());
        for line in content.split_inclusive('\n') {
            let ended = line.strip_suffix("\r\n");
            lines.push_str(ended.unwrap_or(line));
            if ended.is_some() {
                lines.push('\n');
            }
            if line.ends_with('\n') {
                crlf.push(ended.is_some());
            }
        }
        let most = count(&crlf) * 2 > crlf.len();
        Self { lines, crlf, most }
    }

    /// The text with `\n` line endings.
    pub(super) fn as_str(&self) -> &str {
        &self.lines
    }

    /// The size of the content to write, in bytes.
    pub(super) fn size(&self) -> usize {
        self.lines.len() + count(&self.crlf)
    }

    /// The content to write.
    pub(super) fn content(&self) -> String {
        let mut content = String::with_capacity(self.size());
        let mut ends = self.crlf.iter();
        for line in self.lines.split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(line) if ends.next() == Some(&true) => content.extend([line, "\r\n"]),
                _ => content.push_str(line),
            }
        }
        content
    }

    /// Replaces a part with a new text that has `\n` line endings.
    pub(super) fn replace(&mut self, part: Range<usize>, new: &str) {
        let old = self.lines.get(part.clone()).unwrap_or_default();
        let (first, ended) =
            (newlines(self.lines.get(..part.start).unwrap_or_default()), newlines(old));
        // If only a part of the last line is replaced, its line ending follows that part and counts
        // too.
        let touched = first + ended + usize::from(!old.ends_with('\n'));
        let touched = self.crlf.get(first..touched.min(self.crlf.len())).unwrap_or_default();
        let end = match touched {
            [end, rest @ ..] if rest.iter().all(|other| other == end) => *end,
            _ => self.most,
        };
        let (before, after) = same_lines(old, new);
        let added = newlines(new) - before - after;
        self.crlf.splice(first + before..first + ended - after, std::iter::repeat_n(end, added));
        self.lines.replace_range(part, new);
    }
}

/// Returns the number of lines with which both texts start, and the number of further lines with
/// which both end.
fn same_lines(old: &str, new: &str) -> (usize, usize) {
    let before = old.split_inclusive('\n').zip(new.split_inclusive('\n'));
    let before = before.take_while(|(old, new)| old == new && old.ends_with('\n')).count();
    // The first element is the text after the last newline, which is not a complete line. The count
    // is limited to the lines that are not already part of `before`.
    let most = newlines(old).min(newlines(new)) - before;
    let after = old.rsplit('\n').zip(new.rsplit('\n')).take_while(|(old, new)| old == new).count();
    (before, after.saturating_sub(1).min(most))
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn count(crlf: &[bool]) -> usize {
    crlf.iter().filter(|crlf| **crlf).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacement_preserves_line_endings() {
        let cases = [
            // content, replaced part, new text, expected content
            ("a\r\na\nb\n", 0..2, "", "a\nb\n"),
            ("a\na\r\nb\n", 0..2, "", "a\r\nb\n"),
            ("a\r\na\nb\n", 2..4, "", "a\r\nb\n"),
            ("a\r\nb\nc\n", 0..1, "x\ny", "x\r\ny\r\nb\nc\n"),
            ("a\r\nb\nc\n", 2..4, "x\ny\n", "a\r\nx\ny\nc\n"),
            ("a\r\nb\nc\n", 1..2, "", "ab\nc\n"),
            // Lines that are replaced with themselves keep their endings.
            ("a\r\nb\nc\r\nd\n", 0..7, "a\nb\nx\nd", "a\r\nb\nx\nd\n"),
            ("a\r\nb\nc\nd\r\n", 0..8, "a\nb\nx\ny\nc\nd\n", "a\r\nb\nx\ny\nc\nd\r\n"),
            ("a\r\nb\n", 0..4, "a\nx\nb\n", "a\r\nx\nb\n"),
            ("a\nb\r\n", 0..4, "a\nx\nb\n", "a\nx\nb\r\n"),
            // If the replaced lines have no common ending, new lines have the most common one.
            ("a\nb\r\nc\r\nd", 0..3, "x\ny", "x\r\ny\r\nc\r\nd"),
            ("a\r\nb\r\nc", 4..5, "x\ny\n", "a\r\nb\r\nx\r\ny\r\n"),
            ("a", 0..1, "x\ny\n", "x\ny\n"),
            ("", 0..0, "x\n", "x\n"),
            // A `\r` that is not part of a line ending is preserved.
            ("a\r\r\nb\r", 0..1, "x", "x\r\r\nb\r"),
            ("a\nb", 0..3, "x", "x"),
            ("é\r\né\r\n", 0..2, "è\n", "è\r\n\r\né\r\n"),
        ];
        for (content, part, new, expected) in cases {
            let mut text = Text::new(content);
            assert_eq!(text.content(), content);
            text.replace(part.clone(), new);
            assert_eq!(text.content(), expected, "{content:?} {part:?} {new:?}");
            assert_eq!(text.size(), expected.len(), "{content:?} {part:?} {new:?}");
            assert_eq!(text.crlf.len(), newlines(text.as_str()), "{content:?} {part:?} {new:?}");
        }
    }
}
