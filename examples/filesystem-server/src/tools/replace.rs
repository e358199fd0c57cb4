//! Finds the part of a text that an edit replaces.
//!
//! All texts have `\n` line endings. The part is the first exact occurrence of the old text. If
//! there is none, it is the first sequence of lines that matches when white space around each line
//! is ignored. In that case, the new lines are indented like the matching lines in the file.
//!
//! The work is linear in the size of the texts, and stops when its budget is exhausted.

use std::collections::HashMap;
use std::ops::Range;

/// The reason why an edit could not be applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// The old text does not occur. Contains the number of the first line, from 1, that matches the
    /// first line of the old text.
    Nowhere(Option<usize>),
    /// The budget is exhausted, or the call was cancelled.
    Stopped,
}

/// Reserves budget for examining a number of bytes, or fails if the work must stop.
pub(super) type Spend<'a> = &'a mut dyn FnMut(usize) -> Result<(), NotFound>;

/// Returns the first part of the text that matches, and its replacement.
pub(super) fn find_first(
    text: &str,
    old: &str,
    new: &str,
    spend: Spend,
) -> Result<(Range<usize>, String), NotFound> {
    spend(text.len() + old.len() + new.len())?;
    if let Some(start) = text.find(old) {
        return Ok((start..start + old.len(), new.to_owned()));
    }
    let wanted: Vec<&str> = old.lines().collect();
    // An old text that contains only blank lines is not searched for, because it would match almost
    // anywhere.
    let Some(first) = wanted.iter().map(|line| line.trim()).find(|line| !line.is_empty()) else {
        return Err(NotFound::Nowhere(None));
    };
    spend(wanted.len() * LOOK_UP)?;
    let pattern = Pattern::new(&wanted);
    let (mut matched, mut similar) = (0, None);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number % LOOK == 0 {
            spend(LOOK * LINE)?;
        }
        let line = line.trim();
        if similar.is_none() && line == first {
            similar = Some(number + 1);
        }
        matched = pattern.after(matched, pattern.numbers.get(line).copied());
        if matched == wanted.len() {
            return part(text, number + 1 - matched, old, &wanted, new, spend);
        }
    }
    Err(NotFound::Nowhere(similar))
}

/// The lines to find, each represented by a number so that strings are compared only once.
struct Pattern<'a> {
    numbers: HashMap<&'a str, usize>,
    lines: Vec<usize>,
    /// The failure function of Knuth, Morris and Pratt: for each line, the length of the longest
    /// proper prefix of the pattern that is also a suffix of the lines up to this one.
    borders: Vec<usize>,
}

impl<'a> Pattern<'a> {
    fn new(wanted: &[&'a str]) -> Self {
        let mut pattern = Self { numbers: HashMap::new(), lines: Vec::new(), borders: Vec::new() };
        for line in wanted {
            let next = pattern.numbers.len();
            pattern.lines.push(*pattern.numbers.entry(line.trim()).or_insert(next));
        }
        let mut matched = 0;
        for (at, line) in pattern.lines.iter().enumerate() {
            matched = if at == 0 { 0 } else { pattern.after(matched, Some(*line)) };
            pattern.borders.push(matched);
        }
        pattern
    }

    /// Returns the number of matched lines after the next line of the text. `matched` is the number
    /// before that line.
    fn after(&self, mut matched: usize, line: Option<usize>) -> usize {
        while matched > 0 && self.lines.get(matched).copied() != line {
            matched = self.borders.get(matched - 1).copied().unwrap_or(0);
        }
        matched + usize::from(line.is_some() && self.lines.get(matched).copied() == line)
    }
}

/// The part that consists of the matching lines, starting at line `first`, and its replacement.
/// Whole lines are replaced. The newline of the last line is included only if the old text ends
/// with one.
fn part(
    text: &str,
    first: usize,
    old: &str,
    wanted: &[&str],
    new: &str,
    spend: Spend,
) -> Result<(Range<usize>, String), NotFound> {
    let mut lines = text.split_inclusive('\n');
    let start = lines.by_ref().take(first).map(str::len).sum();
    let found: Vec<&str> = lines.take(wanted.len()).collect();
    let end = start + found.iter().map(|line| line.len()).sum::<usize>();
    let kept = !old.ends_with('\n') && found.last().is_some_and(|line| line.ends_with('\n'));
    Ok((start..end - usize::from(kept), indented(new, wanted, &found, spend)?))
}

/// Indents the new lines. If a new line's indentation starts with that of a line in the old text,
/// the common part is replaced with the indentation of the matching line in the file. Other lines
/// are unchanged.
fn indented(new: &str, wanted: &[&str], found: &[&str], spend: Spend) -> Result<String, NotFound> {
    let mut indents = HashMap::new();
    for (wanted, found) in wanted.iter().zip(found).filter(|(wanted, _)| !wanted.trim().is_empty())
    {
        indents.entry(indent(wanted)).or_insert(indent(found));
    }
    let all: usize = indents.keys().map(|wanted| wanted.len() + LINE).sum();
    let mut deepest = HashMap::new();
    let mut lines = String::with_capacity(new.len());
    for (number, line) in new.split_inclusive('\n').enumerate() {
        let own = indent(line);
        // Prefer the line at the same position if its indentation is equal, then the deepest match.
        let same_place =
            wanted.get(number).zip(found.get(number)).filter(|(wanted, _)| indent(wanted) == own);
        let known = match (same_place, deepest.get(own)) {
            (Some((_, found)), _) => Some((own, indent(found))),
            (None, Some(known)) => *known,
            (None, None) => {
                spend(all)?;
                let like = indents.iter().filter(|(wanted, _)| own.starts_with(**wanted));
                let known = like
                    .max_by_key(|(wanted, _)| wanted.len())
                    .map(|(wanted, found)| (*wanted, *found));
                deepest.insert(own, known);
                known
            }
        };
        match known.and_then(|(wanted, found)| Some([found, line.strip_prefix(wanted)?])) {
            Some(indented) if !line.trim().is_empty() => {
                spend(indented.iter().map(|part| part.len()).sum())?;
                lines.extend(indented);
            }
            _ => lines.push_str(line),
        }
    }
    Ok(lines)
}

fn indent(line: &str) -> &str {
    line.split_at_checked(line.len() - line.trim_start().len()).unwrap_or_default().0
}

/// The number of lines between two checks of the budget. Processing them takes a few milliseconds
/// at most.
const LOOK: usize = 4096;

/// The fixed cost of a line, expressed in bytes.
const LINE: usize = 32;

/// The fixed cost of a line in the old text, expressed in bytes: a hash table access that misses
/// the CPU cache.
const LOOK_UP: usize = 128;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn first_exact_or_line_by_line_match_is_replaced() {
        let nested = "fn a() {\n    if b {\n        c();\n    }\n}\n";
        let cases = [
            // text, old, new, expected
            ("a b a", "a", "x", Ok("x b a")),
            ("a\nb\n", "b\n", "", Ok("a\n")),
            // The new lines are indented as in the file, and relative to each other.
            (
                nested,
                "if b {\n    c();\n}",
                "if d {\n    e();\n}",
                Ok("fn a() {\n    if d {\n        e();\n    }\n}\n"),
            ),
            (
                nested,
                "if b {\n    c();",
                "if b {\n    c();\n        f();",
                Ok("fn a() {\n    if b {\n        c();\n            f();\n    }\n}\n"),
            ),
            // The file has tabs, and the request has spaces.
            ("\tx\n\t\ty\n", "  x\n    y\n", "  x\n    z\n", Ok("\tx\n\t\tz\n")),
            // Each line is indented independently of the first.
            ("a {\n    b\n}\n", "a {\nb\n", "a {\nc\n", Ok("a {\n    c\n}\n")),
            // The file has trailing white space.
            ("x  \ny\n", "x\ny", "z", Ok("z\n")),
            // The last newline is preserved, replaced, or missing.
            ("\ta\nb\n", " a", "", Ok("\nb\n")),
            ("\ta\nb\n", " a\n", "", Ok("b\n")),
            ("\ta", " a\n", "b\n", Ok("b\n")),
            // A blank line is not indented.
            ("\ta\n\tb\n", " a\n b", " a\n\n b", Ok("\ta\n\n\tb\n")),
            ("a\nb\nc\n", "b\nd", "x", Err(NotFound::Nowhere(Some(2)))),
            ("a\n", "b", "x", Err(NotFound::Nowhere(None))),
            ("a\n\nb", "  ", "x", Err(NotFound::Nowhere(None))),
            ("a", "a\nb\nc", "x", Err(NotFound::Nowhere(Some(1)))),
            // A match starts inside a partial match.
            ("\ta\na\nb\na\na\nc\n", " a\na\nc", "x", Ok("\ta\na\nb\nx\n")),
            ("\ta\nb\na\nb\na\nc\n", " a\nb\na\nc", "x", Ok("\ta\nb\nx\n")),
            ("\ta\na\na\nb\n", " a\na\nb\n", "x\n", Ok("\ta\nx\n")),
            ("", "a", "x", Err(NotFound::Nowhere(None))),
        ];
        for (text, old, new, expected) in cases {
            let replaced = find_first(text, old, new, &mut |_| Ok(())).map(|(part, new)| {
                let mut text = text.to_owned();
                text.replace_range(part, &new);
                text
            });
            assert_eq!(replaced, expected.map(str::to_owned), "{text:?} {old:?} {new:?}");
        }
    }

    /// Performs an edit with a budget of `most`. Returns the budget that the edit requested, and
    /// its result.
    fn spent(most: usize, text: &str, old: &str, new: &str) -> (usize, Result<(), NotFound>) {
        let mut spent = 0;
        let found = find_first(text, old, new, &mut |more| {
            spent += more;
            if spent > most { Err(NotFound::Stopped) } else { Ok(()) }
        });
        (spent, found.map(|_| ()))
    }

    #[test]
    fn search_is_linear_and_can_be_stopped() {
        // Each partial match fails at its last line, and each line has much white space to trim.
        let line = format!("{}x\n", " ".repeat(145));
        let (text, old) = (line.repeat(14_000), line.repeat(6_999) + "y\n");
        let start = Instant::now();
        let (work, found) = spent(usize::MAX, &text, &old, "");
        assert_eq!(found, Err(NotFound::Nowhere(Some(1))));
        assert!(work < 2 * (text.len() + old.len()), "{work}");
        // A linear search takes a few tenths of a second, and a quadratic one takes minutes.
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        // The search stops when the budget is exhausted.
        assert_eq!(spent(work - 1, &text, &old, "").1, Err(NotFound::Stopped));
        assert_eq!(spent(0, &text, &old, "").1, Err(NotFound::Stopped));
    }

    #[test]
    fn reindenting_has_bounded_cost_and_can_be_stopped() {
        let lines = |from: usize, to| {
            (from..to).flat_map(|line| [" ".repeat(line), "x\n".into()]).collect::<String>()
        };
        let (text, old) = (format!("\t{}", lines(0, 1000)), lines(0, 1000));
        // An indentation that occurs many times is looked up once.
        let (few, _) = spent(usize::MAX, &text, &old, "  x\n");
        let (more, found) = spent(usize::MAX, &text, &old, &"  x\n".repeat(10_000));
        assert!(found.is_ok() && more < few + 100_000, "{few} {more}");
        let (most, _) = spent(usize::MAX, &text, &old, &lines(1001, 2000));
        assert_eq!(spent(most - 1, &text, &old, &lines(1001, 2000)).1, Err(NotFound::Stopped));
    }
}
