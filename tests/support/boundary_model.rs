//! A naive model of the roots in force: strings, lists and nothing of the crate.
//!
//! The input is the configuration ([`Config`]), the type of the entry at each path ([`Kind`]) and
//! the steps of one client ([`Step`]). [`Client`] predicts what the guard must show after each
//! step: the roots in order, the base of relative requests, and the decision on any request.
//!
//! A path is a string without a trailing slash, and `/` is the empty string. Each position of a
//! walk is such a path, and an alias is replaced by the path of its directory before the walk.

use std::cell::Cell;

use mcp_roots_guard::ClientRoots;

/// The type of the entry at a path.
pub(crate) enum Kind {
    Missing,
    Directory,
    File,
    Symlink(String),
}

/// An allowed directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) path: String,
    pub(crate) read_only: bool,
    pub(crate) always: bool,
    pub(crate) is_missing: bool,
    /// Aliases that are also accepted in the target of a symlink.
    pub(crate) verified: Vec<String>,
    /// Other aliases, of this system or of Windows.
    pub(crate) unverified: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// In the order of the configuration. Without any, each list is granted.
    pub(crate) directories: Vec<Directory>,
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
    /// A call, which the client answers.
    Call(Answer),
    /// A call that carries the list.
    Carries(Vec<Entry>),
    Changed,
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
    /// The client must not be asked.
    NotAsked,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InForce {
    pub(crate) roots: Vec<Root>,
    /// The rejected entries, if the roots are those of a list.
    pub(crate) rejected: Option<Vec<(usize, &'static str)>>,
    base: Option<String>,
    /// The refusal of a relative request if there is no base.
    relative: String,
    /// The refusal of a request outside. It explains why there are no roots.
    outside: String,
    /// Paths that the client listed, and the roots that they name.
    listed: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) path: String,
    pub(crate) read_only: bool,
    pub(crate) is_always: bool,
    pub(crate) client_path: String,
}

/// The place of a request and whether it is read-only, or the refusal.
pub(crate) type Decision = Result<(String, bool), String>;

pub(crate) struct Client<'a> {
    config: &'a Config,
    kind: &'a dyn Fn(&str) -> Kind,
    now: u64,
    cached: Option<(InForce, bool, u64)>,
    /// The code and the state of the last failure, and when the client may be asked again.
    failure: Option<(&'static str, &'static str, u64)>,
    is_closed: bool,
}

impl<'a> Client<'a> {
    pub(crate) fn new(config: &'a Config, kind: &'a dyn Fn(&str) -> Kind) -> Self {
        Self { config, kind, now: 0, cached: None, failure: None, is_closed: false }
    }

    /// The roots that a call or a carried list gets. `None` after the other steps.
    pub(crate) fn step(&mut self, step: &Step) -> Option<Result<InForce, String>> {
        match step {
            Step::Changed => (self.cached, self.failure) = (None, None),
            Step::Seconds(seconds) => self.now += seconds,
            Step::Close => self.is_closed = true,
            Step::Carries(entries) => {
                return Some(self.without_list().unwrap_or_else(|| Ok(self.of_list(entries).0)));
            }
            Step::Call(answer) => return Some(self.call(answer)),
        }
        None
    }

    fn call(&mut self, answer: &Answer) -> Result<InForce, String> {
        if let Some(roots) = self.without_list() {
            return roots;
        }
        match (&self.cached, self.failure) {
            (Some((roots, _, until)), _) if self.now < *until => return Ok(roots.clone()),
            (_, Some((code, _, until))) if self.now < until => return self.always(code),
            _ => {}
        }
        match answer {
            Answer::List(entries) => {
                let (roots, is_empty) = self.of_list(entries);
                self.failure = None;
                if self.config.declared == Declared::Announcing {
                    self.cached = Some((roots.clone(), is_empty, self.now + 3600));
                }
                Ok(roots)
            }
            Answer::Failed(code, state) => {
                // A call that times out takes five seconds.
                self.now += if *code == "roots_timed_out" { 5 } else { 0 };
                // No script has two failures in a row, after which the back-off would be longer.
                self.failure = Some((code, state, self.now + 1));
                self.always(code)
            }
            Answer::Changes => {
                (self.cached, self.failure) = (None, None);
                self.always("roots_changing")
            }
            Answer::NotAsked => panic!("the model asks the client"),
        }
    }

    /// The roots of a client whose list does not matter.
    fn without_list(&self) -> Option<Result<InForce, String>> {
        let config = self.config;
        if self.is_closed {
            Some(Err("session_closed".into()))
        } else if config.client_roots == ClientRoots::Ignore {
            Some(Ok(self.allowed()))
        } else if config.declared == Declared::Nothing {
            let denied = self.always("roots_unsupported");
            Some(if config.client_roots == ClientRoots::Require {
                denied
            } else {
                Ok(self.allowed())
            })
        } else {
            None
        }
    }

    fn available(&self) -> Vec<&Directory> {
        self.config.directories.iter().filter(|directory| !directory.is_missing).collect()
    }

    /// The directories that are always in force, for a client that is refused with a code.
    fn always(&self, code: &'static str) -> Result<InForce, String> {
        let always: Vec<_> = self
            .available()
            .into_iter()
            .filter(|directory| directory.always)
            .map(|directory| root(directory, &directory.path))
            .collect();
        if always.is_empty() {
            return Err(code.into());
        }
        Ok(InForce {
            roots: always,
            rejected: None,
            base: None,
            relative: code.into(),
            outside: "outside_roots".into(),
            listed: Vec::new(),
        })
    }

    /// All allowed directories.
    fn allowed(&self) -> InForce {
        let roots: Vec<_> = self
            .available()
            .into_iter()
            .map(|directory| root(directory, &directory.path))
            .collect();
        let why = "outside_roots: none of the server's directories is available";
        let outside = if roots.is_empty() { why } else { "outside_roots" };
        InForce {
            base: roots.first().map(|root| root.path.clone()),
            roots,
            rejected: None,
            relative: outside.into(),
            outside: outside.into(),
            listed: Vec::new(),
        }
    }

    /// The roots of a list, and whether the list itself gives none.
    fn of_list(&mut self, entries: &[Entry]) -> (InForce, bool) {
        if entries.is_empty() && self.config.client_roots == ClientRoots::NarrowIfListed {
            let allowed = InForce { rejected: Some(Vec::new()), ..self.allowed() };
            let is_empty = allowed.roots.is_empty();
            return (allowed, is_empty);
        }
        let mut rejected: Vec<(usize, &'static str)> = Vec::new();
        let mut roots: Vec<Root> = Vec::new();
        let mut listed = Vec::new();
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
            let places = match self.places(text, &looked) {
                Ok(places) => places,
                Err(code) => {
                    rejected.push((index, code));
                    if looked.get() {
                        first.get_or_insert(None);
                    }
                    continue;
                }
            };
            first.get_or_insert_with(|| places.first().map(|place| place.path.clone()));
            let before = roots.len();
            for place in places {
                let is_other = place.is_exact && text.trim_end_matches('/') != place.path;
                let shown = if is_other { shown(text) } else { place.path.clone() };
                if place.is_exact && shown != place.path {
                    listed.push((text.clone(), place.path.clone()));
                }
                if roots.iter().any(|root| root.path == place.path) {
                    continue;
                }
                let around =
                    self.available().into_iter().filter(|one| is_at_or_in(&place.path, &one.path));
                let innermost = around.max_by_key(|directory| directory.path.len());
                roots.push(Root {
                    read_only: innermost.is_some_and(|directory| directory.read_only),
                    is_always: innermost.is_some_and(|one| one.always && one.path == place.path),
                    path: place.path,
                    client_path: shown,
                });
            }
            if roots.len() == before {
                rejected.push((index, "duplicate"));
            }
        }
        rejected.sort_unstable();
        let is_empty = roots.is_empty();
        let base = first.flatten();
        for directory in self.available().into_iter().filter(|directory| directory.always) {
            if roots.iter().all(|root| root.path != directory.path) {
                roots.push(root(directory, &directory.path));
            }
        }
        let why = if rejected.is_empty() {
            "outside_roots: the client listed no directories"
        } else {
            "outside_roots: none of the directories that the client listed is allowed"
        };
        let outside = if roots.is_empty() { why } else { "outside_roots" };
        let no_base = "outside_roots: the first directory that the client listed is not available";
        let why = if roots.is_empty() { why } else { no_base };
        let (relative, outside) = (why.into(), outside.into());
        (InForce { roots, rejected: Some(rejected), base, relative, outside, listed }, is_empty)
    }

    /// The places that an entry names. Records whether the filesystem was looked at.
    fn places(&self, text: &str, looked: &Cell<bool>) -> Result<Vec<Place>, &'static str> {
        let available: Vec<_> =
            self.available().into_iter().map(|directory| directory.path.clone()).collect();
        let unlimited = [String::new()];
        let enclosing =
            if self.config.directories.is_empty() { &unlimited[..] } else { &available[..] };
        let aliases = self.aliases_of_lists();
        let text = without_alias(text, &aliases).unwrap_or_else(|| text.to_owned());
        let (path, links) = self.walk(enclosing, "", &text, &aliases, Some(looked))?;
        let is_writable = |link: &String| {
            let mut around =
                self.available().into_iter().filter(|one| is_at_or_in(link, &one.path));
            self.config.directories.is_empty() || around.any(|directory| !directory.read_only)
        };
        if !self.config.trusts_links && links.iter().any(is_writable) {
            return Err("through_link");
        }
        let beneath = enclosing.iter().filter(|root| is_at_or_in(root, &path) && **root != path);
        let beneath = beneath.map(|root| Place { path: root.clone(), is_exact: false });
        let mut beneath: Vec<_> = beneath.collect();
        if enclosing.iter().any(|root| is_at_or_in(&path, root)) {
            beneath.insert(0, Place { path, is_exact: true });
        }
        if beneath.is_empty() { Err("outside_roots") } else { Ok(beneath) }
    }

    /// The decision on a request for something that exists, against these roots.
    pub(crate) fn decide(&self, roots: &InForce, request: &str) -> Decision {
        let paths: Vec<_> = roots.roots.iter().map(|root| root.path.clone()).collect();
        let plain = request.strip_prefix("file://").unwrap_or(request).replace("%3A", ":");
        let aliases = self.aliases_of_roots(roots);
        let named = without_alias(&plain, &aliases);
        let is_windows_alias =
            |alias: &String| !alias.starts_with('/') && rest_after(alias, &plain).is_some();
        let (from, text) = match named {
            Some(text) => (String::new(), text),
            None if self
                .config
                .directories
                .iter()
                .flat_map(|one| &one.unverified)
                .any(is_windows_alias) =>
            {
                return Err(roots.outside.clone());
            }
            None if plain.starts_with('/') => (String::new(), plain),
            None => match &roots.base {
                Some(base) => (base.clone(), plain),
                None => return Err(roots.relative.clone()),
            },
        };
        let is_from_nothing = !from.is_empty() && matches!((self.kind)(&from), Kind::Missing);
        let outside = |code: &'static str| match code {
            "outside_roots" => roots.outside.clone(),
            "not_found" if is_from_nothing => "root_unavailable".into(),
            code => code.to_owned(),
        };
        let (path, _) = self.walk(&paths, &from, &text, &aliases, None).map_err(outside)?;
        let around = roots.roots.iter().filter(|root| is_at_or_in(&path, &root.path));
        match around.max_by_key(|root| root.path.len()) {
            None => Err(outside("outside_roots")),
            Some(root) if path == root.path && matches!((self.kind)(&path), Kind::Missing) => {
                Err("root_unavailable".into())
            }
            Some(_) if matches!((self.kind)(&path), Kind::Missing) => Err("not_found".into()),
            Some(root) => Ok((path, root.read_only)),
        }
    }

    /// Whether a place is allowed without a new list.
    pub(crate) fn still_allows(&self, place: &str) -> Result<(), &'static str> {
        let current = match (&self.cached, self.without_list()) {
            (_, Some(Err(code))) if code == "session_closed" => return Err("session_closed"),
            (_, Some(Ok(roots))) => Ok(roots),
            (Some((roots, _, until)), None) if self.now < *until => Ok(roots.clone()),
            (_, Some(Err(_))) => Err("roots_unsupported"),
            _ => Err("roots_stale"),
        };
        let is_always = |directory: &&Directory| {
            directory.always && !directory.is_missing && is_at_or_in(place, &directory.path)
        };
        let innermost = |roots: Vec<Root>| {
            let around = roots.into_iter().filter(|root| is_at_or_in(place, &root.path));
            around.max_by_key(|root| root.path.len()).map(|root| root.read_only)
        };
        // The proof is of a place in the allowed directories.
        let was_read_only = innermost(self.allowed().roots);
        let is_always = self.config.directories.iter().any(|directory| is_always(&directory));
        let roots = match current {
            Err(_) if is_always => self.always("roots_stale").unwrap().roots,
            current => current?.roots,
        };
        match innermost(roots) {
            Some(true) if was_read_only == Some(false) => Err("read_only"),
            Some(_) => Ok(()),
            None if self.config.client_roots != ClientRoots::Ignore
                && self.config.declared == Declared::Nothing
                && self.config.client_roots == ClientRoots::Require =>
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
            Some((_, is_empty, until)) if self.now < *until => {
                if *is_empty {
                    "Empty"
                } else {
                    "Available"
                }
            }
            _ => self.failure.map_or("Stale", |(_, state, _)| state),
        }
    }

    /// Follows a path from `from` one name at a time. Returns the path that it names and the
    /// directories of the symlinks that were followed. For an entry of a list, the path need not
    /// exist, and `looked` records whether the filesystem was looked at.
    fn walk(
        &self,
        roots: &[String],
        from: &str,
        text: &str,
        aliases: &[Alias],
        looked: Option<&Cell<bool>>,
    ) -> Result<(String, Vec<String>), &'static str> {
        let kind = |path: &str| {
            looked.inspect(|looked| looked.set(true));
            (self.kind)(path)
        };
        let mut at = from.to_owned();
        let mut links = Vec::new();
        let mut todo: Vec<String> = text.split('/').rev().map(Into::into).collect();
        while let Some(name) = todo.pop() {
            let is_inside = roots.iter().any(|root| is_at_or_in(&at, root));
            if name.is_empty() {
                continue;
            }
            if is_inside && matches!(kind(&at), Kind::File) {
                return Err("not_a_directory");
            }
            match name.as_str() {
                "." => {}
                ".." => at.truncate(parent(&at).len()),
                _ => {
                    let next = format!("{at}/{name}");
                    if !roots
                        .iter()
                        .any(|root| is_at_or_in(&next, root) || is_at_or_in(root, &next))
                    {
                        return Err("outside_roots");
                    }
                    if !roots.iter().any(|root| is_at_or_in(&at, root)) {
                        at = next;
                        continue;
                    }
                    match kind(&next) {
                        Kind::Missing if looked.is_some() && !todo.iter().any(|it| it == "..") => {
                            todo.reverse();
                            let rest = todo.iter().filter(|it| !matches!(it.as_str(), "" | "."));
                            let path = rest.fold(next, |path, name| path + "/" + name);
                            return Ok((path, links));
                        }
                        Kind::Missing => {
                            let is_gone = |root: &String| {
                                is_at_or_in(&next, root)
                                    && matches!((self.kind)(root), Kind::Missing)
                            };
                            let is_gone = looked.is_none() && roots.iter().any(is_gone);
                            return Err(if is_gone { "root_unavailable" } else { "not_found" });
                        }
                        Kind::Directory | Kind::File => at = next,
                        Kind::Symlink(target) => {
                            links.push(at.clone());
                            let verified = aliases.iter().filter(|alias| alias.is_verified);
                            let target = without_alias(&target, verified).unwrap_or(target);
                            if target.starts_with('/') {
                                at = String::new();
                            }
                            todo.extend(target.split('/').rev().map(Into::into));
                        }
                    }
                }
            }
            if !roots.iter().any(|root| is_at_or_in(&at, root) || is_at_or_in(root, &at)) {
                return Err("outside_roots");
            }
        }
        Ok((at, links))
    }

    /// The aliases by which a list may name the allowed directories.
    fn aliases_of_lists(&self) -> Vec<Alias> {
        self.available().into_iter().flat_map(|one| aliases_of(one, &one.path)).collect()
    }

    /// The aliases by which a request may name the roots: the paths that the client listed, and the
    /// aliases of the allowed directories around each root.
    fn aliases_of_roots(&self, roots: &InForce) -> Vec<Alias> {
        let declared = self.aliases_of_lists();
        let listed = roots.listed.iter().map(|(text, path)| {
            let named = declared.iter().find(|alias| rest_after(&alias.text, text).is_some());
            let is_verified = named.is_none_or(|alias| alias.is_verified);
            Alias { text: text.clone(), path: path.clone(), is_verified }
        });
        let mut aliases: Vec<_> = listed.collect();
        for root in &roots.roots {
            for one in self.available().into_iter().filter(|one| is_at_or_in(&root.path, &one.path))
            {
                aliases.extend(aliases_of(one, &root.path));
            }
        }
        aliases
    }
}

/// Another path of a directory.
struct Alias {
    text: String,
    path: String,
    /// Whether it is accepted in the target of a symlink.
    is_verified: bool,
}

/// The aliases of a directory, extended to a path in it.
fn aliases_of(directory: &Directory, path: &str) -> Vec<Alias> {
    let verified = directory.verified.iter().map(|alias| (alias, true));
    let all = verified.chain(directory.unverified.iter().map(|alias| (alias, false)));
    let rest = &path[directory.path.len()..];
    let alias = |(text, is_verified): (&String, bool)| {
        let rest = if text.starts_with('/') { rest.to_owned() } else { rest.replace('/', "\\") };
        Alias { text: format!("{text}{rest}"), path: path.to_owned(), is_verified }
    };
    all.map(alias).collect()
}

/// Replaces an alias at the start of a text by the path of its directory.
fn without_alias<'a>(text: &str, aliases: impl IntoIterator<Item = &'a Alias>) -> Option<String> {
    let matching = aliases
        .into_iter()
        .filter_map(|alias| Some((alias.text.len(), &alias.path, rest_after(&alias.text, text)?)));
    let (_, path, rest) = matching.max_by_key(|(length, ..)| *length)?;
    Some(format!("{path}/{rest}"))
}

struct Place {
    path: String,
    is_exact: bool,
}

fn root(directory: &Directory, client_path: &str) -> Root {
    Root {
        path: directory.path.clone(),
        read_only: directory.read_only,
        is_always: directory.always,
        client_path: client_path.to_owned(),
    }
}

/// The path under which a client listed a root. A path of Windows has backslashes.
fn shown(text: &str) -> String {
    if is_windows(text) {
        text[1..].replace('/', "\\")
    } else {
        text.trim_end_matches('/').to_owned()
    }
}

fn is_windows(text: &str) -> bool {
    matches!(text.as_bytes(), [b'/', letter, b':', b'/', ..] if letter.is_ascii_alphabetic())
}

/// The text after an alias and one separator, if the text starts with the alias.
fn rest_after<'a>(alias: &str, text: &'a str) -> Option<&'a str> {
    if alias.starts_with('/') {
        let rest = text.strip_prefix(alias)?;
        return if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') };
    }
    let text = if is_windows(text) { &text[1..] } else { text };
    let (start, rest) = (text.get(..alias.len())?, &text[alias.len()..]);
    let plain = |text: &str| text.replace('/', "\\").to_ascii_lowercase();
    if plain(start) != plain(alias) {
        return None;
    }
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(['/', '\\']) }
}

fn is_at_or_in(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..slash])
}
