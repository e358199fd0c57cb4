//! Finds the parts of a text that an edit replaces.
//!
//! All texts have `\n` line endings. An occurrence of the old text is an exact match. If there is
//! none, it is a sequence of lines that match when the white space around each line is ignored. In
//! that case, the new lines are indented like the matching lines in the file. Occurrences do not
//! overlap. If there are several, the edit says which it means.
//!
//! The work stops when its budget is exhausted.

use std::borrow::Cow;
use std::collections::HashMap;

use super::edit_file::BYTES;
use super::text::Part;

/// The occurrences that an edit replaces.
#[derive(Clone, Copy)]
pub(super) enum Which {
    /// The only one.
    Only,
    /// The one with this number, from 1.
    Number(usize),
    All,
}

/// The reason why an edit could not be applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EditRefusal {
    /// The old text does not occur. Contains the number of the first line, from 1, that matches the
    /// first line of the old text.
    Nowhere(Option<usize>),
    /// The old text does not occur as often as the edit expects. Contains how often it does, and the
    /// lines of the first occurrences.
    Count(usize, Vec<usize>),
    /// The text would become too large.
    TooLarge,
    /// The budget is exhausted, or the call was cancelled.
    Stopped,
}

/// Reserves budget for examining a number of bytes, or fails if the work must stop.
pub(super) type Spend<'a> = &'a mut dyn FnMut(usize) -> Result<(), EditRefusal>;

/// Returns the parts of the text to replace, and their replacements.
pub(super) fn find<'a>(
    text: &str,
    old: &str,
    new: &'a str,
    which: Which,
    spend: Spend,
) -> Result<Vec<Part<'a>>, EditRefusal> {
    spend(text.len() + old.len() + new.len())?;
    let exact = text.match_indices(old).map(|(start, _)| start);
    if exact.clone().next().is_some() {
        let line = |start| text.get(..start).map_or(0, |before| before.matches('\n').count());
        let starts = choose(exact, which, line, spend)?;
        let parts = starts.into_iter().map(|start| (start..start + old.len(), Cow::Borrowed(new)));
        return bounded(text, parts.map(Ok));
    }
    let found = matching_lines(text, old, spend)?;
    let chosen = choose(found.iter(), which, |(line, _)| *line, spend)?;
    bounded(text, chosen.into_iter().map(|(_, start)| part(text, *start, old, new, spend)))
}

/// The occurrences that the edit means. `line` returns the number of an occurrence's line, from 0.
fn choose<T>(
    found: impl Iterator<Item = T> + Clone,
    which: Which,
    line: impl Fn(T) -> usize,
    spend: Spend,
) -> Result<Vec<T>, EditRefusal> {
    let count = found.clone().count();
    spend(LINE * count)?;
    Ok(match which {
        Which::Only if count == 1 => found.collect(),
        Which::Number(number @ 1..) if number <= count => found.skip(number - 1).take(1).collect(),
        Which::All if count <= OCCURRENCES => found.collect(),
        _ => {
            let lines = found.take(SHOWN).map(|occurrence| line(occurrence) + 1);
            return Err(EditRefusal::Count(count, lines.collect()));
        }
    })
}

/// Collects the parts, unless the text would become too large.
fn bounded<'a>(
    text: &str,
    parts: impl Iterator<Item = Result<Part<'a>, EditRefusal>>,
) -> Result<Vec<Part<'a>>, EditRefusal> {
    let mut size = text.len();
    let fits = |part: Result<Part<'a>, EditRefusal>| {
        let (range, new) = part?;
        size = size.saturating_sub(range.len()).saturating_add(new.len());
        let is_small = u64::try_from(size).is_ok_and(|size| size <= BYTES);
        if is_small { Ok((range, new)) } else { Err(EditRefusal::TooLarge) }
    };
    parts.map(fits).collect()
}

/// Where the lines of the old text occur, at least once: the number of the first line, from 0, and
/// its position.
fn matching_lines(text: &str, old: &str, spend: Spend) -> Result<Vec<(usize, usize)>, EditRefusal> {
    let (lines, sought) = (trimmed(text), trimmed(old));
    // An old text that contains only blank lines is not searched for, because it would match almost
    // anywhere.
    let Some(first) = sought.iter().find(|line| !line.is_empty()) else {
        return Err(EditRefusal::Nowhere(None));
    };
    let (mut found, mut next, mut position) = (Vec::new(), 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if number >= next {
            let following = lines.iter().skip(number).zip(&sought);
            let matching = following.take_while(|(line, sought)| line == sought).count();
            spend(LINE * (matching + 1))?;
            if matching == sought.len() {
                found.push((number, position));
                next = number + matching;
            }
        }
        position += line.len();
    }
    if found.is_empty() {
        let first = lines.iter().position(|line| line == first);
        return Err(EditRefusal::Nowhere(first.map(|line| line + 1)));
    }
    Ok(found)
}

fn trimmed(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

/// The part that consists of the matching lines, starting at a position, and its replacement. Whole
/// lines are replaced. The newline of the last line is included only if the old text ends with one.
fn part<'a>(
    text: &str,
    start: usize,
    old: &str,
    new: &str,
    spend: Spend,
) -> Result<Part<'a>, EditRefusal> {
    let wanted: Vec<&str> = old.lines().collect();
    let lines = text.get(start..).unwrap_or_default().split_inclusive('\n');
    let found: Vec<&str> = lines.take(wanted.len()).collect();
    let end = start + found.iter().map(|line| line.len()).sum::<usize>();
    let kept = !old.ends_with('\n') && found.last().is_some_and(|line| line.ends_with('\n'));
    spend(old.len() + new.len())?;
    Ok((start..end - usize::from(kept), Cow::Owned(indented(new, &wanted, &found, spend)?)))
}

/// Indents the new lines. If a new line's indentation starts with that of a line in the old text,
/// the common part is replaced with the indentation of the matching line in the file. Other lines
/// are unchanged.
fn indented(
    new: &str,
    wanted: &[&str],
    found: &[&str],
    spend: Spend,
) -> Result<String, EditRefusal> {
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
pub(super) const LINE: usize = 32;

/// The maximum number of occurrences that an edit replaces. Each takes 40 bytes in the meantime.
pub(super) const OCCURRENCES: usize = 100_000;

/// How many lines a refusal names.
const SHOWN: usize = 5;

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
            let found = find(&text, &old, &new, Which::All, &mut |more| {
                left = left.checked_sub(more).ok_or(EditRefusal::Stopped)?;
                Ok(())
            });
            assert_eq!(found.err(), Some(EditRefusal::Stopped));
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        }
    }
}
