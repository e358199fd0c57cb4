//! Finds the part of a text that an edit replaces.
//!
//! All texts have `\n` line endings. The part is the first exact occurrence of the old text. If
//! there is none, it is the first sequence of lines that matches when white space around each line
//! is ignored. In that case, the new lines are indented like the matching lines in the file.
//!
//! The work stops when its budget is exhausted.

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
    let (lines, sought) = (trimmed(text), trimmed(old));
    // An old text that contains only blank lines is not searched for, because it would match almost
    // anywhere.
    let Some(first) = sought.iter().find(|line| !line.is_empty()) else {
        return Err(NotFound::Nowhere(None));
    };
    for start in 0..lines.len() {
        let following = lines.iter().skip(start).zip(&sought);
        let matching = following.take_while(|(line, sought)| line == sought).count();
        spend(LINE * (matching + 1))?;
        if matching == sought.len() {
            return part(text, start, old, &wanted, new, spend);
        }
    }
    Err(NotFound::Nowhere(lines.iter().position(|line| line == first).map(|line| line + 1)))
}

fn trimmed(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
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
    let pairs = wanted.iter().zip(found).filter(|(wanted, _)| !wanted.trim().is_empty());
    let mut indents = HashMap::new();
    for (wanted, found) in pairs {
        indents.entry(indent(wanted)).or_insert(indent(found));
    }
    let all: usize = indents.keys().map(|wanted| wanted.len() + LINE).sum();
    let mut lines = String::with_capacity(new.len());
    for (number, line) in new.split_inclusive('\n').enumerate() {
        spend(all)?;
        let own = indent(line);
        // Prefer the line at the same position if its indentation is equal, then the deepest match.
        let same_place = wanted.get(number).zip(found.get(number));
        let same_place = same_place.filter(|(wanted, _)| indent(wanted) == own);
        let like = indents.iter().filter(|(wanted, _)| own.starts_with(**wanted));
        let known = match same_place {
            Some((_, found)) => Some((own, indent(found))),
            None => like.max_by_key(|(wanted, _)| wanted.len()).map(|(old, new)| (*old, *new)),
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

/// The cost of comparing a line, expressed in bytes.
const LINE: usize = 32;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Each text would take minutes: partial matches that fail at their last line, and many
    /// indentations.
    #[test]
    fn work_stops_when_the_budget_is_exhausted() {
        let line = "x\n";
        let lines = |from: usize, to| {
            (from..to).flat_map(|line| [" ".repeat(line), "x\n".into()]).collect::<String>()
        };
        for (text, old, new) in [
            (line.repeat(1 << 20), format!(" {}y\n", line.repeat(1 << 19)), String::new()),
            (lines(0, 1000).replace('x', "x "), lines(0, 1000), lines(1001, 2500)),
        ] {
            let (start, mut left) = (Instant::now(), 100_000_000_usize);
            let found = find_first(&text, &old, &new, &mut |more| {
                left = left.checked_sub(more).ok_or(NotFound::Stopped)?;
                Ok(())
            });
            assert_eq!(found.err(), Some(NotFound::Stopped));
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        }
    }
}
