//! A naive implementation of the rule that decides a request: a path is inside if it resolves to a
//! path inside the roots, and resolution stops at the first name outside them.
//!
//! The input is a function that returns the type of the entry at a path, the canonical paths of the
//! roots, a request and its intent. The output is the decision that the guard must make. The model
//! resolves one name at a time and represents each position as an absolute path. It looks up only
//! paths inside the roots.
//!
//! Tests compare the guard with this model, and the model with the kernel
//! ([`kernel`](super::kernel)). The kernel does not know the roots, so the model and the kernel may
//! differ only where a path leaves the roots and returns.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use mcp_roots_guard::Roots;
use mcp_roots_guard::limits::LINK_HOPS;

use super::aliases::{Alias, without_alias};
use super::proof::Intent;

/// The type of the entry at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Missing,
    Directory,
    Link(String),
    Other,
}

impl Name {
    /// Replaces an alias at the start of a symlink's target.
    pub(crate) fn through(self, aliases: &[Alias]) -> Self {
        let Self::Link(target) = self else { return self };
        let verified = aliases.iter().filter(|alias| alias.is_verified);
        Self::Link(without_alias(&target, verified).unwrap_or(target))
    }
}

/// The canonical path and whether it exists, or the error code.
pub(crate) type Decision = Result<(PathBuf, bool), &'static str>;

pub(crate) fn decide(
    look: impl Fn(&Path) -> Name,
    roots: &[PathBuf],
    request: &str,
    intent: Intent,
) -> Decision {
    decide_unless_denied(look, |_| false, roots, request, intent)
}

/// Like [`decide`], but a denied path is refused, and never looked up.
pub(crate) fn decide_unless_denied(
    look: impl Fn(&Path) -> Name,
    is_denied: impl Fn(&Path) -> bool,
    roots: &[PathBuf],
    request: &str,
    intent: Intent,
) -> Decision {
    let is_inside = |path: &Path| roots.iter().any(|root| path.starts_with(root));
    let leads_to_a_root = |path: &Path| roots.iter().any(|root| root.starts_with(path));
    let mut todo: VecDeque<String> = match request {
        "" => return Err("empty"),
        _ => names(request).collect(),
    };
    let mut at = if request.starts_with('/') { start(roots, &mut todo) } else { roots[0].clone() };
    let (mut here, mut hops) = (Name::Directory, 0);
    while let Some(name) = todo.pop_front() {
        match (&here, name.as_str()) {
            (Name::Other, _) => return Err("not_a_directory"),
            (_, ".") => continue,
            (_, "..") => {
                at.pop();
                if is_inside(&at) && is_denied(&at) {
                    return Err("protected");
                }
            }
            _ => {
                at.push(&name);
                if is_denied(&at) {
                    return Err("protected");
                }
                let is_known = !is_inside(&at) || leads_to_a_root(&at);
                here = if is_known { Name::Directory } else { look(&at) };
            }
        }
        match &here {
            Name::Missing => {
                let mut missing = 1;
                for name in todo.iter().filter(|name| *name != ".") {
                    if name == ".." {
                        return Err("not_found");
                    }
                    at.push(name);
                    missing += 1;
                    if is_denied(&at) {
                        return Err("protected");
                    }
                }
                return match intent {
                    Intent::Existing => Err("not_found"),
                    Intent::New | Intent::NoFollow if missing > 1 => Err("not_found"),
                    Intent::New if !todo.is_empty() => Err("is_a_directory"),
                    _ => Ok((at, false)),
                };
            }
            Name::Link(_) if intent == Intent::NoFollow && todo.is_empty() => {
                return Ok((at, true));
            }
            Name::Link(_) if intent == Intent::NoFollow && todo.iter().all(|name| name == ".") => {
                return Err("not_a_directory");
            }
            Name::Link(target) => {
                hops += 1;
                if hops > LINK_HOPS {
                    return Err("too_many_links");
                }
                at.pop();
                names(target).rev().for_each(|name| todo.push_front(name));
                if target.starts_with('/') {
                    at = start(roots, &mut todo);
                }
                here = Name::Directory;
            }
            Name::Directory | Name::Other => {}
        }
        if !is_inside(&at) && !leads_to_a_root(&at) {
            return Err("outside_roots");
        }
    }
    if is_inside(&at) { Ok((at, true)) } else { Err("outside_roots") }
}

/// The place where an absolute path starts: the innermost root that its text names, or `/`. The
/// names that lead there are removed.
fn start(roots: &[PathBuf], todo: &mut VecDeque<String>) -> PathBuf {
    let (mut start, mut path, mut used) = (PathBuf::from("/"), PathBuf::from("/"), 0);
    for (number, name) in todo.iter().enumerate().take_while(|(_, name)| *name != "..") {
        if name != "." {
            path.push(name);
        }
        if roots.contains(&path) {
            (start, used) = (path.clone(), number + 1);
        }
    }
    todo.drain(..used);
    start
}

/// The guard's decision, in the model's terms.
pub(crate) fn guard_decision(roots: &Roots, request: &str, intent: Intent) -> Decision {
    intent.decide(roots, request).map(|proof| (proof.canonical(), proof.exists()))
}

/// The names between slashes. A trailing slash requires a directory, as `.` does.
fn names(text: &str) -> impl DoubleEndedIterator<Item = String> {
    let last = if text.ends_with('/') { "." } else { "" };
    text.split('/').chain([last]).filter(|name| !name.is_empty()).map(Into::into)
}
