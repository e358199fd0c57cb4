//! One edit of a text.
//!
//! Goes in: a text with `\n` at the ends of its lines, what to replace in it, and by what. Comes out: the new text. What is true after: the
//! first place was replaced that is the old text; else the first that is, line by line, but for white space around the lines, and then the
//! new lines are indented as the old ones really were.

use std::collections::HashMap;

/// Why a text was not edited.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// The text is not there; the line, from 1, that is as the first of the old text.
    Nowhere(Option<usize>),
    /// It was not looked for any further.
    TooMuch,
}

/// Replaces the first place. Each comparison of lines takes one of the budget.
pub(super) fn replace_first(text: &str, old: &str, new: &str, budget: &mut usize) -> Result<String, NotFound> {
    if let Some((before, after)) = text.split_once(old) {
        return Ok([before, new, after].concat());
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let wanted: Vec<&str> = old.lines().collect();
    // Blank lines are everywhere.
    let Some(first) = wanted.iter().find(|line| !line.trim().is_empty()) else { return Err(NotFound::Nowhere(None)) };
    for (at, found) in lines.windows(wanted.len()).enumerate() {
        let same = found.iter().zip(&wanted).take_while(|(is, wanted)| is.trim() == wanted.trim()).count();
        *budget = budget.checked_sub(same + 1).ok_or(NotFound::TooMuch)?;
        if same == wanted.len() {
            let new = indented(new, &wanted, found, budget)?;
            let (before, rest) = lines.split_at(at);
            let after = rest.get(wanted.len()..).unwrap_or_default();
            return Ok([before.concat(), new, end(old, found).into(), after.concat()].concat());
        }
    }
    let similar = lines.iter().position(|line| line.trim() == first.trim());
    Err(NotFound::Nowhere(similar.map(|at| at + 1)))
}

/// The new lines: one that begins as a line of the old text is indented as that is in the file.
fn indented(new: &str, wanted: &[&str], found: &[&str], budget: &mut usize) -> Result<String, NotFound> {
    let mut indents = HashMap::new();
    for (wanted, found) in wanted.iter().zip(found).filter(|(wanted, _)| !wanted.trim().is_empty()) {
        indents.entry(indent(wanted)).or_insert(indent(found));
    }
    let mut lines = String::with_capacity(new.len());
    for (number, line) in new.split_inclusive('\n').enumerate() {
        *budget = budget.checked_sub(indents.len()).ok_or(NotFound::TooMuch)?;
        let own = indent(line);
        // Of the line in the same place, if that is like it; else the deepest.
        let same_place = wanted.get(number).zip(found.get(number)).filter(|(wanted, _)| indent(wanted) == own);
        let deepest =
            || indents.iter().filter(|(wanted, _)| own.starts_with(**wanted)).max_by_key(|(wanted, _)| wanted.len());
        let known = same_place
            .map(|(_, found)| (own, indent(found)))
            .or_else(|| deepest().map(|(wanted, found)| (*wanted, *found)));
        match known.and_then(|(wanted, found)| Some([found, line.strip_prefix(wanted)?])) {
            Some(indented) if !line.trim().is_empty() => lines.extend(indented),
            _ => lines.push_str(line),
        }
    }
    Ok(lines)
}

fn indent(line: &str) -> &str {
    line.split_at_checked(line.len() - line.trim_start().len()).unwrap_or_default().0
}

/// Whole lines are replaced: what ended the last one stays, unless it was part of the old text.
fn end(old: &str, found: &[&str]) -> &'static str {
    let ended = found.last().is_some_and(|line| line.ends_with('\n'));
    if ended && !old.ends_with('\n') { "\n" } else { "" }
}

#[cfg(test)]
mod tests {
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
            ("", "a", "x", Err(NotFound::Nowhere(None))),
        ];
        for (text, old, new, expected) in cases {
            let replaced = replace_first(text, old, new, &mut 100);
            assert_eq!(replaced.as_deref(), expected.as_ref().map(|text| *text), "{text:?} {old:?} {new:?}");
        }
    }

    #[test]
    fn looking_for_a_place_has_a_bound() {
        let text = "\n".repeat(100);
        assert_eq!(replace_first(&text, "\n\nx", "", &mut 100), Err(NotFound::TooMuch));
        assert_eq!(replace_first(&text, "\n\nx", "", &mut 300), Err(NotFound::Nowhere(None)));
    }
}
