//! A naive model of the roots in force: strings, lists and nothing of the crate.
//!
//! The input is the configuration ([`Config`]), the type of the entry at each path ([`Name`]) and
//! the steps of one client ([`Step`]). [`Client`] predicts what the guard must show after each
//! step: the roots in order, the base of relative requests, and the decision on any request. A
//! [`Policy`] narrows the roots, and [`model`] follows paths. An alias is replaced by the path of
//! its directory before.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;

use mcp_roots_guard::ClientRoots;

use super::access::{Policy, Root, innermost, is_in, paths};
use super::aliases::{Alias, without_alias};
use super::model::{self, Name};
use super::proof::Intent;

#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The directories, in the order of the configuration. Without any, each list is granted.
    pub(crate) policy: Policy,
    pub(crate) aliases: Vec<Alias>,
    pub(crate) client_roots: ClientRoots,
    pub(crate) declared: Declared,
    /// Whether symlinks in writable directories are older than the server.
    pub(crate) trusts_links: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    Nothing,
    Announcing,
    Silent,
}

/// An entry of a client's list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    /// A `file:` URI, decoded: the text after `file://`.
    Path(String),
    /// An entry that is refused with this code before it is resolved.
    Bad(&'static str),
}

/// One step of a client.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A call without a cached list, which the client answers.
    Call(Answer),
    /// A call that carries the list.
    Carries(Vec<Entry>),
    Changed,
    /// Time passes until a cached list has expired, or the client may be asked again.
    Seconds(u64),
    Close,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    List(Vec<Entry>),
    /// No list: the code of the refusal and the state of the session.
    Failed(&'static str, &'static str),
    /// The client announces a change whenever it is asked.
    Changes,
    /// The client must not be asked again, so soon after it failed.
    NotAsked,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct InForce {
    pub(crate) roots: Vec<Root>,
    /// The paths under which the client listed roots, where they differ.
    client_paths: BTreeMap<String, String>,
    /// The rejected entries, if the roots are those of a list.
    pub(crate) rejected: Option<Vec<(usize, &'static str)>>,
    base: Option<String>,
    /// The refusal of a relative request if there is no base.
    relative: String,
    /// The refusal of a request outside. It explains why there are no roots.
    outside: String,
    /// Paths that the client listed, and the roots that they name.
    listed: Vec<Alias>,
}

impl InForce {
    /// The path of each root, whether it is read-only and always in force, and the client's path.
    pub(crate) fn seen(&self) -> Vec<(String, bool, bool, String)> {
        let seen = |Root { path, directory, is_writable }: &Root| {
            let is_always = directory.is_always && directory.path == *path;
            let client_path = self.client_paths.get(path).unwrap_or(path);
            (path.clone(), !is_writable, is_always, client_path.clone())
        };
        self.roots.iter().map(seen).collect()
    }
}

/// The place of a request and whether it is read-only, or the refusal.
pub(crate) type Decision = Result<(String, bool), String>;

pub(crate) struct Client<'a> {
    config: &'a Config,
    look: &'a dyn Fn(&Path) -> Name,
    /// The roots of a list, and whether the list itself gave none.
    cached: Option<(InForce, bool)>,
    /// The code and the state of the last failure.
    failure: Option<(&'static str, &'static str)>,
    is_closed: bool,
}

impl<'a> Client<'a> {
    pub(crate) fn new(config: &'a Config, look: &'a dyn Fn(&Path) -> Name) -> Self {
        Self { config, look, cached: None, failure: None, is_closed: false }
    }

    /// The roots that a call or a carried list gets. `None` after the other steps.
    pub(crate) fn step(&mut self, step: &Step) -> Option<Result<InForce, String>> {
        match step {
            Step::Changed => (self.cached, self.failure) = (None, None),
            Step::Seconds(_) => self.cached = None,
            Step::Close => self.is_closed = true,
            Step::Carries(entries) => {
                return Some(self.without_list().unwrap_or_else(|| Ok(self.of_list(entries).0)));
            }
            Step::Call(answer) => {
                return Some(self.without_list().unwrap_or_else(|| self.call(answer)));
            }
        }
        None
    }

    fn call(&mut self, answer: &Answer) -> Result<InForce, String> {
        match answer {
            Answer::List(entries) => {
                let (roots, is_empty) = self.of_list(entries);
                self.failure = None;
                self.cached = (self.config.declared == Declared::Announcing)
                    .then(|| (roots.clone(), is_empty));
                Ok(roots)
            }
            Answer::Failed(code, state) => {
                self.failure = Some((code, state));
                self.always(code)
            }
            Answer::Changes => {
                (self.cached, self.failure) = (None, None);
                self.always("roots_changing")
            }
            Answer::NotAsked => self.always(self.failure.expect("the client has failed").0),
        }
    }

    /// The roots of a client whose list does not matter.
    fn without_list(&self) -> Option<Result<InForce, String>> {
        match (self.config.client_roots, self.config.declared) {
            _ if self.is_closed => Some(Err("session_closed".into())),
            (ClientRoots::Require, Declared::Nothing) => Some(self.always("roots_unsupported")),
            (ClientRoots::Ignore, _) | (_, Declared::Nothing) => Some(Ok(self.allowed())),
            _ => None,
        }
    }

    /// The directories that are always in force, for a client that is refused with a code.
    fn always(&self, code: &str) -> Result<InForce, String> {
        let roots = self.config.policy.always();
        if roots.is_empty() {
            return Err(code.into());
        }
        let outside = "outside_roots".into();
        Ok(InForce { roots, relative: code.into(), outside, ..InForce::default() })
    }

    /// All allowed directories.
    fn allowed(&self) -> InForce {
        let roots = self.config.policy.everything();
        let why = "outside_roots: none of the server's directories is available";
        let outside = if roots.is_empty() { why } else { "outside_roots" }.to_owned();
        let base = roots.first().map(|root| root.path.clone());
        InForce { roots, base, relative: outside.clone(), outside, ..InForce::default() }
    }

    /// What a list can put in force: the allowed directories or, without any, everything.
    fn allowed_or_everything(&self) -> Vec<Root> {
        if self.config.policy.directories.is_empty() {
            return Policy::writable([Path::new("")]).everything();
        }
        self.config.policy.everything()
    }

    /// The roots of a list, and whether the list itself gives none.
    fn of_list(&self, entries: &[Entry]) -> (InForce, bool) {
        if entries.is_empty() && self.config.client_roots == ClientRoots::NarrowIfListed {
            let allowed = InForce { rejected: Some(Vec::new()), ..self.allowed() };
            let is_empty = allowed.roots.is_empty();
            return (allowed, is_empty);
        }
        let policy = &self.config.policy;
        let allowed = self.allowed_or_everything();
        let (mut places, mut roots) = (Vec::new(), Vec::new());
        let (mut client_paths, mut listed) = (BTreeMap::new(), Vec::new());
        let mut rejected: Vec<(usize, &'static str)> = Vec::new();
        // The root at which relative requests start, or none. Unknown until an entry is not
        // rejected by its text alone.
        let mut first: Option<Option<String>> = None;
        for (index, entry) in entries.iter().enumerate() {
            let text = match entry {
                Entry::Bad(code) => {
                    rejected.push((index, code));
                    continue;
                }
                Entry::Path(_) if entries[..index].contains(entry) => {
                    rejected.push((index, "duplicate"));
                    continue;
                }
                Entry::Path(text) => text,
            };
            let looked = Cell::new(false);
            let place = match self.place(&allowed, text, &looked) {
                Ok(place) => place,
                Err(code) => {
                    rejected.push((index, code));
                    if looked.get() {
                        first.get_or_insert(None);
                    }
                    continue;
                }
            };
            let of_place = policy.narrow(&allowed, std::slice::from_ref(&place));
            first.get_or_insert_with(|| of_place.first().map(|root| root.path.clone()));
            let is_other = of_place[0].path == place && text.trim_end_matches('/') != place;
            let client_path = if is_other { shown(text) } else { place.clone() };
            let is_new = roots.iter().all(|root: &Root| root.path != place);
            if client_path != place {
                let is_verified = self.is_verified(text);
                listed.push(Alias { text: text.clone(), path: place.clone(), is_verified });
                if is_new {
                    client_paths.insert(place.clone(), client_path);
                }
            }
            places.push(place);
            let before = roots.len();
            roots = policy.narrow(&allowed, &places);
            if roots.len() == before {
                rejected.push((index, "duplicate"));
            }
        }
        rejected.sort_unstable();
        let is_empty = roots.is_empty();
        let roots = policy.and_always(roots);
        let why = if rejected.is_empty() {
            "outside_roots: the client listed no directories"
        } else {
            "outside_roots: none of the directories that the client listed is allowed"
        };
        let no_base = "outside_roots: the first directory that the client listed is not available";
        let (relative, outside) =
            if roots.is_empty() { (why, why) } else { (no_base, "outside_roots") };
        let in_force = InForce {
            roots,
            client_paths,
            rejected: Some(rejected),
            base: first.flatten(),
            relative: relative.into(),
            outside: outside.into(),
            listed,
        };
        (in_force, is_empty)
    }

    /// The place that an entry names. Records whether the filesystem was looked at.
    fn place(
        &self,
        allowed: &[Root],
        text: &str,
        looked: &Cell<bool>,
    ) -> Result<String, &'static str> {
        let aliases = self.aliases_of_lists();
        let text = without_alias(text, &aliases).unwrap_or_else(|| text.to_owned());
        let above = text.trim_end_matches('/');
        if innermost(allowed, above).is_none() && allowed.iter().any(|it| is_in(&it.path, above)) {
            return Ok(above.to_owned());
        }
        let is_through_link = Cell::new(false);
        let look = |path: &Path| {
            looked.set(true);
            let name = self.look(&aliases, path);
            if matches!(name, Name::Link(_)) {
                let link = path.parent().unwrap().to_str().unwrap();
                let mut around = allowed.iter().filter(|root| is_in(link, &root.path));
                is_through_link.set(is_through_link.get() || around.any(|root| root.is_writable));
            }
            name
        };
        let (place, _) = model::decide(look, &paths(allowed), &text, Intent::NewTree)?;
        if is_through_link.get() && !self.config.trusts_links {
            return Err("through_link");
        }
        Ok(place.to_str().unwrap().trim_end_matches('/').to_owned())
    }

    /// The decision on a request for something that exists, against these roots.
    pub(crate) fn decide(&self, roots: &InForce, request: &str) -> Decision {
        let plain = request.strip_prefix("file://").unwrap_or(request).replace("%3A", ":");
        let aliases = self.aliases_of_roots(roots);
        let is_of_windows =
            |alias: &Alias| alias.is_of_windows() && alias.rest_of(&plain).is_some();
        let (text, is_relative) = match (without_alias(&plain, &aliases), &roots.base) {
            (Some(text), _) => (text, false),
            _ if self.config.aliases.iter().any(is_of_windows) => {
                return Err(roots.outside.clone());
            }
            _ if plain.starts_with('/') => (plain, false),
            (_, Some(base)) => (format!("{base}/{plain}"), true),
            (_, None) => return Err(roots.relative.clone()),
        };
        let is = |path: &str, name: Name| (self.look)(&Path::new("/").join(path)) == name;
        let is_missing = |path: &str| is(path, Name::Missing);
        let is_base = |name| is_relative && roots.base.as_deref().is_some_and(|it| is(it, name));
        if is_base(Name::Other) {
            return Err("not_a_directory".into());
        }
        let last = RefCell::default();
        let look = |path: &Path| {
            path.clone_into(&mut last.borrow_mut());
            self.look(&aliases, path)
        };
        let decided = match model::decide(look, &paths(&roots.roots), &text, Intent::Existing) {
            Ok((place, _)) => Ok(place.to_str().unwrap().trim_end_matches('/').to_owned()),
            Err(code) => Err(code),
        };
        let looked_in = |root: &&Root| last.borrow().starts_with(Path::new(&root.path));
        match decided {
            Ok(place) if is_missing(&place) => Err("root_unavailable".into()),
            Ok(place) => {
                let root = innermost(&roots.roots, &place).expect("the place is inside");
                let is_read_only = !root.is_writable;
                Ok((place, is_read_only))
            }
            Err("outside_roots") => Err(roots.outside.clone()),
            Err("not_found")
                if is_base(Name::Missing)
                    || roots.roots.iter().filter(looked_in).any(|root| is_missing(&root.path)) =>
            {
                Err("root_unavailable".into())
            }
            Err(code) => Err(code.into()),
        }
    }

    /// Whether a place is allowed without a new list.
    pub(crate) fn still_allows(&self, place: &str) -> Result<(), &'static str> {
        let config = self.config;
        let access = |roots: &[Root]| innermost(roots, place).map(|root| root.is_writable);
        let is_always = innermost(&config.policy.always(), place).is_some();
        let current = match (&self.cached, self.without_list()) {
            _ if self.is_closed => return Err("session_closed"),
            (_, Some(Ok(roots))) => access(&roots.roots),
            (Some((roots, _)), None) => access(&roots.roots),
            _ if is_always => access(&config.policy.always()),
            (_, Some(Err(_))) => return Err("roots_unsupported"),
            _ => return Err("roots_stale"),
        };
        match current {
            // The proof is of a place in the allowed directories.
            Some(false) if access(&config.policy.everything()) == Some(true) => Err("read_only"),
            Some(_) => Ok(()),
            None if config.client_roots == ClientRoots::Require
                && config.declared == Declared::Nothing =>
            {
                Err("roots_unsupported")
            }
            None => Err("outside_roots"),
        }
    }

    /// The state of the session.
    pub(crate) fn state(&self) -> &'static str {
        match &self.cached {
            _ if self.is_closed => "Closed",
            _ if self.config.client_roots == ClientRoots::Ignore => "Ignored",
            _ if self.config.declared == Declared::Nothing => "Unsupported",
            Some((_, true)) => "Empty",
            Some((_, false)) => "Available",
            None => self.failure.map_or("Unknown", |(_, state)| state),
        }
    }

    /// The type of the entry at a path, where a symlink's target does not begin with an alias.
    fn look(&self, aliases: &[Alias], path: &Path) -> Name {
        (self.look)(path).through(aliases)
    }

    /// The aliases by which a list may name the allowed directories.
    fn aliases_of_lists(&self) -> Vec<Alias> {
        let available = self.config.policy.everything();
        let is_available = |it: &&Alias| available.iter().any(|root| root.path == it.path);
        self.config.aliases.iter().filter(is_available).cloned().collect()
    }

    /// Whether a path that a client listed is accepted in the target of a symlink.
    fn is_verified(&self, text: &str) -> bool {
        let aliases = self.aliases_of_lists();
        let named = aliases.iter().find(|alias| alias.rest_of(text).is_some());
        named.is_none_or(|alias| alias.is_verified)
    }

    /// The aliases by which a request may name the roots: the paths that the client listed, and the
    /// aliases of the allowed directories around each root.
    fn aliases_of_roots(&self, roots: &InForce) -> Vec<Alias> {
        let declared = self.aliases_of_lists();
        let of_root = |root: &Root| {
            let around = declared.iter().filter(|alias| is_in(&root.path, &alias.path));
            around.map(|alias| alias.to(&root.path)).collect::<Vec<_>>()
        };
        roots.listed.iter().cloned().chain(roots.roots.iter().flat_map(of_root)).collect()
    }
}

/// The path under which a client listed a root. A path of Windows has backslashes.
fn shown(text: &str) -> String {
    match text.as_bytes() {
        [b'/', letter, b':', b'/', ..] if letter.is_ascii_alphabetic() => {
            text[1..].replace('/', "\\")
        }
        _ => text.trim_end_matches('/').to_owned(),
    }
}
