//! One edit of a text.
//!
//! Goes in: a text with `\n` at the ends of its lines, what to replace in it, and by what. Comes out: which part to replace, and by what.
//! What is true after: the part is the first that is the old text; else the first that is, line by line, but for white space around the
//! lines, and then the new lines are indented as the old ones really were. The work grew with the texts, not with their product, and
//! stopped when it was to.

use std::collections::HashMap;
use std::ops::Range;

/// Why a text was not edited.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// The text is not there; the line, from 1, that is as the first of the old text.
    Nowhere(Option<usize>),
    /// The work was not allowed to go on.
    Stopped,
}

/// Asks whether so much more work may be done, in bytes looked at.
pub(super) type Spend<'a> = &'a mut dyn FnMut(usize) -> Result<(), NotFound>;

/// Finds the first place: a part of the text, and what to put there.
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
    // Blank lines are everywhere.
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

/// Lines to find, each as a number, so that lines are compared once.
struct Pattern<'a> {
    numbers: HashMap<&'a str, usize>,
    lines: Vec<usize>,
    /// For each line, how many before and with it are also the first ones: where Knuth, Morris and Pratt go on after a mismatch.
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

    /// How many lines of the pattern the text ends with, one line further.
    fn after(&self, mut matched: usize, line: Option<usize>) -> usize {
        while matched > 0 && self.lines.get(matched).copied() != line {
            matched = self.borders.get(matched - 1).copied().unwrap_or(0);
        }
        matched + usize::from(line.is_some() && self.lines.get(matched).copied() == line)
    }
}

/// The part that is the wanted lines, from a line on. Whole lines are replaced, but what ends the last one only if it is in the old text.
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

/// The new lines: one that begins as a line of the old text is indented as that is in the file.
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
        // Of the line in the same place, if that is like it; else the deepest.
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

/// Lines between two looks whether to go on: some milliseconds at most.
const LOOK: usize = 4096;

/// What a line costs beside its bytes, as so many of them.
const LINE: usize = 32;

/// What a line of the old text costs beside its bytes: a place in a table that no cache holds.
const LOOK_UP: usize = 128;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_first_place_is_replaced_exactly_or_line_by_line() {
        let nested = "fn a() {\n    if b {\n        c();\n    }\n}\n";
        let cases = [
            // text, old, new, expected
            ("a b a", "a", "x", Ok("x b a")),
            ("a\nb\n", "b\n", "", Ok("a\n")),
            // Indented as in the file, also relative to each other.
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
            // Tabs in the file, spaces in the request.
            ("\tx\n\t\ty\n", "  x\n    y\n", "  x\n    z\n", Ok("\tx\n\t\tz\n")),
            // The first line's indentation is no rule for the second.
            ("a {\n    b\n}\n", "a {\nb\n", "a {\nc\n", Ok("a {\n    c\n}\n")),
            // White space behind a line.
            ("x  \ny\n", "x\ny", "z", Ok("z\n")),
            // The end of the last line: kept, part of what is replaced, not there.
            ("\ta\nb\n", " a", "", Ok("\nb\n")),
            ("\ta\nb\n", " a\n", "", Ok("b\n")),
            ("\ta", " a\n", "b\n", Ok("b\n")),
            // A blank line is kept as it is.
            ("\ta\n\tb\n", " a\n b", " a\n\n b", Ok("\ta\n\n\tb\n")),
            ("a\nb\nc\n", "b\nd", "x", Err(NotFound::Nowhere(Some(2)))),
            ("a\n", "b", "x", Err(NotFound::Nowhere(None))),
            ("a\n\nb", "  ", "x", Err(NotFound::Nowhere(None))),
            ("a", "a\nb\nc", "x", Err(NotFound::Nowhere(Some(1)))),
            // A place that begins inside one that fails.
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

    /// What was asked for, of so much at most.
    fn spent(most: usize, text: &str, old: &str, new: &str) -> (usize, Result<(), NotFound>) {
        let mut spent = 0;
        let found = find_first(text, old, new, &mut |more| {
            spent += more;
            if spent > most { Err(NotFound::Stopped) } else { Ok(()) }
        });
        (spent, found.map(|_| ()))
    }

    #[test]
    fn looking_for_a_place_has_a_bound() {
        // Each place fails at its last line, and each line has much to trim.
        let line = format!("{}x\n", " ".repeat(145));
        let (text, old) = (line.repeat(14_000), line.repeat(6_999) + "y\n");
        let start = Instant::now();
        let (work, found) = spent(usize::MAX, &text, &old, "");
        assert_eq!(found, Err(NotFound::Nowhere(Some(1))));
        assert!(work < 2 * (text.len() + old.len()), "{work}");
        // It takes some tenths of a second; to compare at each place takes minutes.
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        // It stops between.
        assert_eq!(spent(work - 1, &text, &old, "").1, Err(NotFound::Stopped));
        assert_eq!(spent(0, &text, &old, "").1, Err(NotFound::Stopped));
    }

    #[test]
    fn to_indent_has_a_bound() {
        let lines = |from: usize, to| {
            (from..to).flat_map(|line| [" ".repeat(line), "x\n".into()]).collect::<String>()
        };
        let (text, old) = (format!("\t{}", lines(0, 1000)), lines(0, 1000));
        // The same indentation many times is looked up once.
        let (few, _) = spent(usize::MAX, &text, &old, "  x\n");
        let (more, found) = spent(usize::MAX, &text, &old, &"  x\n".repeat(10_000));
        assert!(found.is_ok() && more < few + 100_000, "{few} {more}");
        let (most, _) = spent(usize::MAX, &text, &old, &lines(1001, 2000));
        assert_eq!(spent(most - 1, &text, &old, &lines(1001, 2000)).1, Err(NotFound::Stopped));
    }
}
