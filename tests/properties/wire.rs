//! The wire format of a client's roots.
//!
//! The input is any bytes, as a client's answer or message. `$T` stands for the directory that
//! contains the allowed directories, in URI form. In the pagination test, each line is a page, and
//! the lines are repeated as often as necessary. There, `$N` is the page number, and `$L` (up to
//! four times in a line) stands for a run of letters as long as the longest cursor. An empty line
//! stands for a client without roots. A line that is not JSON stands for a client that fails.
//!
//! Properties:
//!
//! - Nothing panics. The crate reads each message exactly as a naive rule over plain JSON does.
//!   Serializing it and reading it again gives the same value. The size of the value is at most a
//!   small multiple of the size of the input.
//! - Two good entries are granted, whatever is between them. Nothing outside the allowed
//!   directories is in force. Every directory inside that an entry names by its canonical path is
//!   in force.
//! - A list in pages is refused because of the first limit that it exceeds, or grants the same as
//!   the list in one piece. No page is requested after the one that decides the result.
//! - The text of a refusal has a bounded length, whatever it quotes. Its error body can be read
//!   again.

use std::fmt::Debug;
use std::fs;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_roots_guard::limits::{ROOT_LIST_BYTES, ROOT_LIST_ENTRIES, ROOT_LIST_PAGES, URI_BYTES};
use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, ErrorBody, Guard, ListRootsResult, Location,
    RejectedEntry, Revision, Root, RootEntry, Roots, RootsResponse,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// Checks all properties.
pub(crate) fn hold(bytes: &[u8]) {
    let value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
    list(bytes, &value);
    messages(bytes, &value);
    if let Ok(text) = std::str::from_utf8(bytes) {
        refusals(text);
        let holds = |world: &World| {
            world.check_between_good_entries(text);
            world.pages(text);
        };
        // On Windows, a thread that ends must not wait for another thread, but dropping a runtime
        // does.
        if cfg!(windows) { holds(&World::new()) } else { WORLD.with(holds) }
    }
}

thread_local! {
    /// The world is thread-local rather than static, so that its directory is removed when the
    /// thread ends.
    static WORLD: World = World::new();
}

/// Checks a list and each of its entries against the schema.
fn list(bytes: &[u8], value: &Value) {
    let list = round_trip::<ListRootsResult>(bytes);
    let entries = value
        .get("roots")
        .and_then(Value::as_array)
        .filter(|_| is(value, "nextCursor", Value::is_string));
    assert_eq!(list.is_some(), entries.is_some(), "{value} as a list");
    let (Some(list), Some(entries)) = (list, entries) else { return };
    assert_eq!(
        list.next_cursor.as_deref(),
        value.get("nextCursor").and_then(Value::as_str),
        "{value}"
    );
    assert_eq!(list.roots.len(), entries.len(), "{value}");
    for (read, entry) in list.roots.iter().zip(entries) {
        let uri = entry.get("uri").and_then(Value::as_str);
        let uri = uri.filter(|_| {
            is(entry, "name", Value::is_string) && is(entry, "_meta", Value::is_object)
        });
        let name = uri.and_then(|_| entry.get("name")?.as_str());
        let shown: String = entry.to_string().chars().take(KEPT_CHARS).collect();
        let expected = (uri.unwrap_or(&shown), name, uri.is_none());
        assert_eq!((&*read.uri, read.name.as_deref(), is_malformed(read)), expected, "{entry}");
    }
    let kept = serde_json::to_string(&list).unwrap().len();
    assert!(kept <= KEPT_TIMES * bytes.len(), "{kept} bytes are kept of {}: {value}", bytes.len());
}

/// Whether an object's field is absent, null, or accepted by the predicate.
fn is(object: &Value, key: &str, fits: fn(&Value) -> bool) -> bool {
    object.get(key).is_none_or(|value| value.is_null() || fits(value))
}

/// Checks the other messages of a client.
fn messages(bytes: &[u8], value: &Value) {
    let is_announced = value.pointer("/roots/listChanged") == Some(&Value::Bool(true));
    let declared = match value.get("roots") {
        None | Some(Value::Null) => ClientCapabilities::WithoutRoots,
        Some(_) if is_announced => ClientCapabilities::WithAnnouncedRoots,
        Some(_) => ClientCapabilities::WithRoots,
    };
    // An object with a field of an enclosing message, or of the roots capability, is not read as
    // capabilities.
    let foreign_fields =
        ["jsonrpc", "params", "capabilities", "protocolVersion", "clientInfo", "listChanged"];
    let has_foreign_field = foreign_fields.iter().any(|field| value.get(field).is_some());
    let capabilities = (value.is_object() && !has_foreign_field).then_some(declared);
    assert_eq!(round_trip::<ClientCapabilities>(bytes), capabilities, "{value} as capabilities");

    let is_error = value.get("code").is_some_and(Value::is_i64)
        && value.get("message").is_some_and(Value::is_string);
    assert_eq!(round_trip::<ErrorBody>(bytes).is_some(), is_error, "{value} as an error");
    let is_entry = value.get("uri").is_some_and(Value::is_string)
        && is(value, "name", Value::is_string)
        && is(value, "_meta", Value::is_object);
    assert_eq!(round_trip::<RootEntry>(bytes).is_some(), is_entry, "{value} as an entry");
}

/// Reads a value, or returns `None` if the bytes cannot be read. Serializing the value and reading
/// it again must give the same value, to the precision of fractions.
fn round_trip<T: Serialize + for<'de> Deserialize<'de> + Debug>(bytes: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(bytes).ok()?;
    let printed = serde_json::to_string(&read).unwrap();
    let same =
        serde_json::from_str::<T>(&printed).map(|again| serde_json::to_string(&again).unwrap());
    let same = same
        .is_ok_and(|again| again == printed || is_same_json(&parsed(&again), &parsed(&printed)));
    assert!(same, "{} is read as {read:?}", bytes.escape_ascii());
    Some(read)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Whether two values are equal. Fractions may differ in the last place, because `serde_json`
/// without its feature `float_roundtrip` is not more precise.
fn is_same_json(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same_json(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_same = |(key, one)| other.get(key).is_some_and(|other| is_same_json(one, other));
            one.len() == other.len() && one.iter().all(is_same)
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() && other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= one.abs() * 4.0 * f64::EPSILON
        }
        _ => one == other,
    }
}

/// Checks the refusal of a text in the format of each protocol revision.
fn refusals(text: &str) {
    let revision = text.parse::<Revision>().ok();
    let known =
        ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"].contains(&text);
    assert_eq!(revision.map(|revision| revision.to_string()), known.then(|| text.to_owned()));
    let Err(error) = Location::from_uri(text) else { return };
    for &revision in Revision::ALL {
        let refused = revision.tool_result(&error);
        let shown = refused["content"][0]["text"].as_str().unwrap();
        assert!(
            shown.len() <= TEXT_BYTES && !shown.contains(char::is_control),
            "{text:?} is refused as {shown}"
        );
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let body = revision.error_body(&mcp_roots_guard::Error::from(missing), Some(text));
        round_trip::<ErrorBody>(&serde_json::to_vec(&body).unwrap()).unwrap();
        let quoted = body.data.as_ref().and_then(|data| data["uri"].as_str()).unwrap();
        let start = quoted.strip_suffix('…').filter(|_| text.len() > URI_BYTES).unwrap_or(quoted);
        let is_whole = start == text || text.len() > URI_BYTES && start.len() > URI_BYTES - 4;
        assert!(
            text.starts_with(start) && start.len() <= URI_BYTES && is_whole,
            "{text:?} is returned as {quoted:?}"
        );
    }
}

struct World {
    runtime: Runtime,
    boundary: Boundary,
    guard: Guard,
    top: PathBuf,
    _keep: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let place =
            if cfg!(unix) && memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let keep = tempfile::Builder::new().prefix("guard-").tempdir_in(place).unwrap();
        let top = real(keep.path()).unwrap();
        for directory in ["o/a", "o/b", "o/c/d", "p/q/r", "x"] {
            fs::create_dir_all(top.join(directory)).unwrap();
        }
        for file in ["o/file", "x/secret"] {
            fs::write(top.join(file), file).unwrap();
        }
        // On Windows, creating symlinks requires a privilege.
        #[cfg(unix)]
        for (link, target) in
            [("o/in", "c/d"), ("o/out", "../x"), ("o/up", ".."), ("o/loop", "loop")]
        {
            std::os::unix::fs::symlink(target, top.join(link)).unwrap();
        }
        let boundary = Boundary::builder()
            .directory(top.join("o"), Access::ReadWrite)
            .directory(top.join("p/q"), Access::ReadOnly)
            .build()
            .unwrap();
        let guard = Guard::builder(boundary.clone()).fetch_limit(LONG).build().unwrap();
        let runtime =
            Builder::new_current_thread().enable_time().max_blocking_threads(1).build().unwrap();
        Self { runtime, boundary, guard, top, _keep: keep }
    }

    /// Checks an answer's entries, or any other JSON value as an entry, between two good entries.
    fn check_between_good_entries(&self, text: &str) {
        let Ok(value) = serde_json::from_str::<Value>(&self.expand(text)) else { return };
        let between =
            value.get("roots").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![value]);
        let good = |path| json!({ "uri": self.expand(&format!("file://$T/{path}")), "name": path });
        let entries: Vec<_> =
            std::iter::once(good("o/a")).chain(between).chain([good("o/b")]).collect();
        let RootsResponse::List(list) = RootsResponse::from_result(json!({ "roots": entries }))
        else {
            panic!("{entries:?} is not read as a list")
        };
        let roots = self.boundary.narrow(&list.roots).unwrap();
        assert_eq!(
            roots.iter().next().map(Root::path),
            Some(&*self.top.join("o/a")),
            "the first of {entries:?}"
        );
        assert!(Self::grants(&roots, &self.top.join("o/b")), "the last of {entries:?}");
        self.check_roots_are_inside(&roots);
        let mut rejected = roots.rejected().iter().peekable();
        for (index, entry) in list.roots.iter().enumerate() {
            let rejected = rejected.next_if(|rejected| rejected.index() == index);
            self.check_entry(entry, &list.roots[..index], &roots, rejected);
        }
        assert_eq!(
            rejected.next().map(RejectedEntry::index),
            None,
            "rejected twice or without an entry in {entries:?}"
        );
    }

    /// Checks that the canonical path of every root is inside an allowed directory.
    fn check_roots_are_inside(&self, roots: &Roots) {
        for root in roots.iter() {
            let path = root.path();
            let access = if path.starts_with(self.top.join("o")) {
                Access::ReadWrite
            } else {
                Access::ReadOnly
            };
            let is_inside = access == Access::ReadWrite || path.starts_with(self.top.join("p/q"));
            let is_real = real(path).is_ok_and(|real| is_same(&real, path));
            assert!(is_inside && is_real && root.access() == access, "{root:?} is in force");
        }
    }

    /// Checks that an entry grants the directory that it names, or was rejected for a valid reason.
    fn check_entry(
        &self,
        entry: &RootEntry,
        earlier: &[RootEntry],
        roots: &Roots,
        rejected: Option<&RejectedEntry>,
    ) {
        let kind = rejected.map(|rejected| rejected.error().code());
        if let Some(rejected) = rejected {
            let shown = rejected.error().to_string();
            let is_short =
                rejected.entry().chars().count() <= KEPT_CHARS && shown.len() <= TEXT_BYTES;
            assert!(is_short, "{entry:?} is rejected as {rejected:?}");
        }
        let path = match Location::from_uri(&entry.uri) {
            _ if is_malformed(entry) => return assert_eq!(kind, Some("malformed"), "{entry:?}"),
            Err(error) => return assert_eq!(kind, Some(error.code()), "{entry:?}"),
            Ok(location) => location.as_unchecked_path().to_owned(),
        };
        let real = real(&path);
        let directories = ["o", "p/q"].map(|directory| self.top.join(directory));
        let granted = real.as_ref().is_ok_and(|real| {
            let mut beneath =
                directories.iter().filter(|directory| directory.starts_with(real)).peekable();
            if beneath.peek().is_some() {
                beneath.all(|directory| Self::grants(roots, directory))
            } else {
                Self::grants(roots, real)
            }
        });
        let is_plain = real.as_ref().is_ok_and(|real| {
            *real == path
                && directories
                    .iter()
                    .any(|directory| real.starts_with(directory) || directory.starts_with(real))
        });
        match kind {
            // The earlier entry may itself have been rejected.
            Some("duplicate") if earlier.iter().any(|earlier| is_at(earlier, &path)) => {}
            None | Some("duplicate") => {
                assert!(granted, "{entry:?} is reported to be in force in {roots:?}");
            }
            Some(_) => assert!(!is_plain, "{entry:?} is rejected: {rejected:?}"),
        }
    }

    fn grants(roots: &Roots, path: &Path) -> bool {
        roots.iter().any(|root| is_same(root.path(), path))
    }

    /// Checks the lines as pages, repeated as often as necessary.
    fn pages(&self, text: &str) {
        let lines: Vec<_> = text.split('\n').take(LINES).collect();
        let mut pages = Vec::new();
        let expected =
            expected_of_pages(&mut pages, |number| self.page(lines[number % lines.len()], number));
        let mut asked = Vec::new();
        let source = |cursor: Option<String>| {
            let page = pages.get(asked.len()).cloned();
            asked.push(cursor);
            ready(page.unwrap_or_else(|| panic!("page {} of {text:?} is not needed", asked.len())))
        };
        let session = self.guard.session(ClientCapabilities::WithRoots).unwrap();
        let roots = self.runtime.block_on(session.roots(source));
        let cursors = pages.iter().map(|page| {
            if let RootsResponse::List(list) = page { list.next_cursor.clone() } else { None }
        });
        let cursors: Vec<_> = std::iter::once(None).chain(cursors).take(pages.len()).collect();
        assert!(asked == cursors, "the wrong pages of {text:?} were requested");
        match (roots, expected) {
            (Ok(roots), Ok(list)) => {
                self.check_roots_are_inside(&roots);
                let at_once = self.boundary.narrow(&list.roots).unwrap();
                assert_eq!(
                    in_force(&roots),
                    in_force(&at_once),
                    "{text:?} in pages and in one piece"
                );
            }
            (Err(error), Err(kind)) => {
                assert_eq!(error.code(), kind, "{text:?} in pages");
                let detail = error.operator_detail().map_or(0, |detail| detail.chars().count());
                assert!(detail <= DETAIL_CHARS, "{detail} characters are kept of {text:?}");
            }
            (roots, expected) => {
                panic!("{text:?} in pages is {roots:?}, not {:?}", expected.map(drop))
            }
        }
    }

    fn expand(&self, text: &str) -> String {
        let top = self.top.to_str().unwrap();
        let top =
            if cfg!(windows) { format!("/{}", top.replace('\\', "/")) } else { top.to_owned() };
        text.replace("$T", &top)
    }

    /// Turns a line into the answer to the request for one page.
    fn page(&self, line: &str, number: usize) -> RootsResponse {
        if line.is_empty() {
            return RootsResponse::Unsupported;
        }
        let text = self.expand(line).replace("$N", &number.to_string()).replacen(
            "$L",
            &"l".repeat(CURSOR_BYTES),
            4,
        );
        serde_json::from_str(&text)
            .map_or_else(|_| RootsResponse::Failed(text.clone()), RootsResponse::from_result)
    }
}

/// The canonical path, whether or not anything is there. On Windows, the prefix of the verbatim
/// form is removed.
fn real(path: &Path) -> std::io::Result<PathBuf> {
    let real = real_after(path, LINKS)?;
    let plain = real.to_str().and_then(|real| real.strip_prefix(r"\\?\")).filter(|_| cfg!(windows));
    Ok(plain.map(PathBuf::from).unwrap_or(real))
}

fn real_after(path: &Path, links: usize) -> std::io::Result<PathBuf> {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let (above, real) = there.ok_or_else(missing)?;
    let mut names = path.strip_prefix(above).map_err(|_| missing())?.iter();
    let Some(first) = names.next() else { return Ok(real) };
    let next = real.join(first);
    let rest = names.as_path();
    if next.is_symlink() {
        let links = links.checked_sub(1).ok_or_else(missing)?;
        let target = real.join(std::fs::read_link(next)?);
        return real_after(&target.join(rest), links);
    }
    if real.is_file() || next.exists() || [first].into_iter().chain(rest).any(|it| it == "..") {
        return Err(missing());
    }
    Ok(real.join(path.strip_prefix(above).map_err(|_| missing())?))
}

/// As on Linux, at most forty symlinks are followed.
const LINKS: usize = 40;

/// Whether two paths are equal. On Windows, case is ignored.
fn is_same(one: &Path, other: &Path) -> bool {
    one == other || cfg!(windows) && one.as_os_str().eq_ignore_ascii_case(other.as_os_str())
}

/// Whether an entry violates the schema. No other entry differs from one with its fields.
fn is_malformed(entry: &RootEntry) -> bool {
    let mut plain = ListRootsResult::from_uris([&*entry.uri]).roots;
    plain[0].name.clone_from(&entry.name);
    plain[0] != *entry
}

fn is_at(entry: &RootEntry, path: &Path) -> bool {
    !is_malformed(entry)
        && Location::from_uri(&entry.uri).is_ok_and(|location| location.as_unchecked_path() == path)
}

/// The expected result of a list in pages. `pages` receives the pages that must be requested.
fn expected_of_pages(
    pages: &mut Vec<RootsResponse>,
    page: impl Fn(usize) -> RootsResponse,
) -> Result<ListRootsResult, &'static str> {
    let mut all = ListRootsResult::default();
    let mut cursors: Vec<String> = Vec::new();
    while pages.len() < ROOT_LIST_PAGES {
        pages.push(page(pages.len()));
        let list = match pages.last() {
            Some(RootsResponse::List(list)) => list,
            Some(RootsResponse::Unsupported) => return Err("roots_unsupported"),
            _ => return Err("roots_failed"),
        };
        all.roots.extend(list.roots.iter().cloned());
        let bytes: usize = all
            .roots
            .iter()
            .map(|root| root.uri.len() + root.name.as_deref().unwrap_or("").len())
            .sum();
        match &list.next_cursor {
            _ if all.roots.len() > ROOT_LIST_ENTRIES => return Err("too_many_roots"),
            _ if bytes > ROOT_LIST_BYTES => return Err("too_large"),
            None => return Ok(all),
            Some(next) if next.len() > CURSOR_BYTES => return Err("too_large"),
            Some(next) if cursors.contains(next) => return Err("repeated_cursor"),
            Some(next) => cursors.push(next.clone()),
        }
    }
    Err("too_many_pages")
}

/// All observable properties of roots.
fn in_force(roots: &Roots) -> Vec<String> {
    let granted = roots
        .iter()
        .map(|root| (root.path(), root.client_path(), root.paths().collect::<Vec<_>>()));
    let rejected = roots
        .rejected()
        .iter()
        .map(|rejected| (rejected.index(), rejected.entry(), rejected.error().code()));
    granted
        .map(|root| format!("{root:?}"))
        .chain(rejected.map(|rejected| format!("{rejected:?}")))
        .collect()
}

/// The longest accepted cursor.
const CURSOR_BYTES: usize = ROOT_LIST_BYTES / ROOT_LIST_PAGES;

/// The maximum number of different lines in an input.
const LINES: usize = 8;

/// How many characters of a malformed or rejected entry are kept.
const KEPT_CHARS: usize = 160;

/// How many characters of a client's error are kept.
const DETAIL_CHARS: usize = 1024;

/// The maximum length of the text of a refusal: 160 characters, each escaped as ten bytes, plus the
/// other words.
const TEXT_BYTES: usize = 2000;

/// The maximum ratio of kept bytes to input bytes. For example, the entry `7` is kept as ten bytes.
const KEPT_TIMES: usize = 8;

/// Longer than fetching any list takes.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);
