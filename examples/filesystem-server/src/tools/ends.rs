//! A text, and how its lines end.
//!
//! Goes in: a file's content, and what to put in place of parts of it. Comes out: the text with `\n` at the ends of its lines, to look for
//! parts in, and the content to write. What is true after: a line that is not replaced, or by itself, ends as it did; a new one as the
//! replaced ones did, or as most lines of the file if those differed.

use std::ops::Range;

/// A text to edit.
#[derive(Clone)]
pub(super) struct Text {
    lines: String,
    /// Whether each line that ends does so by `\r\n`.
    crlf: Vec<bool>,
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

    /// The text, its lines ended by `\n`.
    pub(super) fn as_str(&self) -> &str {
        &self.lines
    }

    /// The bytes of the content to write.
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

    /// Puts a new text, its lines ended by `\n`, in place of a part.
    pub(super) fn replace(&mut self, part: Range<usize>, new: &str) {
        let old = self.lines.get(part.clone()).unwrap_or_default();
        let (first, ended) =
            (newlines(self.lines.get(..part.start).unwrap_or_default()), newlines(old));
        // A last line that is replaced in part ends after it.
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

/// How many lines both begin with, and how many lines beyond these both end with.
fn same_lines(old: &str, new: &str) -> (usize, usize) {
    let before = old.split_inclusive('\n').zip(new.split_inclusive('\n'));
    let before = before.take_while(|(old, new)| old == new && old.ends_with('\n')).count();
    // Not more than either has left, and only what follows a newline in both is surely whole lines.
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
    fn each_line_keeps_its_end() {
        let cases = [
            // content, part of the text, new, content after
            ("a\r\na\nb\n", 0..2, "", "a\nb\n"),
            ("a\na\r\nb\n", 0..2, "", "a\r\nb\n"),
            ("a\r\na\nb\n", 2..4, "", "a\r\nb\n"),
            ("a\r\nb\nc\n", 0..1, "x\ny", "x\r\ny\r\nb\nc\n"),
            ("a\r\nb\nc\n", 2..4, "x\ny\n", "a\r\nx\ny\nc\n"),
            ("a\r\nb\nc\n", 1..2, "", "ab\nc\n"),
            // Replaced by itself.
            ("a\r\nb\nc\r\nd\n", 0..7, "a\nb\nx\nd", "a\r\nb\nx\nd\n"),
            ("a\r\nb\nc\nd\r\n", 0..8, "a\nb\nx\ny\nc\nd\n", "a\r\nb\nx\ny\nc\nd\r\n"),
            ("a\r\nb\n", 0..4, "a\nx\nb\n", "a\r\nx\nb\n"),
            ("a\nb\r\n", 0..4, "a\nx\nb\n", "a\nx\nb\r\n"),
            // As most.
            ("a\nb\r\nc\r\nd", 0..3, "x\ny", "x\r\ny\r\nc\r\nd"),
            ("a\r\nb\r\nc", 4..5, "x\ny\n", "a\r\nb\r\nx\r\ny\r\n"),
            ("a", 0..1, "x\ny\n", "x\ny\n"),
            ("", 0..0, "x\n", "x\n"),
            // A `\r` that ends no line.
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
