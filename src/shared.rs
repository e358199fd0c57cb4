//! Snapshots that say the same are one.
//!
//! Goes in: the roots that a session's own list was resolved to. Comes out: the same, or an older snapshot of another session that says the
//! same in every word: the same list, resolved to the same directory objects under the same names. What is true after: ten thousand
//! clients with the same workspace cost one snapshot, and none of them can tell.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError, Weak};

use crate::roots::{Roots, Snapshot};

/// The snapshots that somebody still has, by a hash of what was listed.
#[derive(Default)]
pub(crate) struct SharedRoots(Mutex<Table>);

#[derive(Default)]
struct Table {
    snapshots: HashMap<u64, Weak<Snapshot>>,
    /// How many there were when those that nobody has were last thrown out.
    alive: usize,
}

impl SharedRoots {
    /// An older snapshot that says the same, or this one.
    pub(crate) fn share(&self, roots: Roots) -> Roots {
        let key = key(&roots);
        let older = self.with(|table| table.snapshots.get(&key).and_then(Roots::upgrade));
        // Whichever is dropped here may close directories, and so not under the lock.
        match older {
            Some(older) if older.generation() == roots.generation() && older.says_the_same(&roots) => older,
            _ => {
                self.with(|table| table.insert(key, roots.downgrade()));
                roots
            }
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Table {
    fn insert(&mut self, key: u64, snapshot: Weak<Snapshot>) {
        self.snapshots.insert(key, snapshot);
        if self.snapshots.len() > 2 * self.alive + SOME {
            self.snapshots.retain(|_, snapshot| snapshot.strong_count() > 0);
            self.alive = self.snapshots.len();
        }
    }
}

/// Two lists of one key are compared, so it may be short of what was listed.
fn key(roots: &Roots) -> u64 {
    let mut hasher = DefaultHasher::new();
    for entry in roots.list().iter().flat_map(|list| &list.roots) {
        entry.uri.hash(&mut hasher);
        entry.name.hash(&mut hasher);
    }
    for root in roots.roots() {
        root.path().hash(&mut hasher);
    }
    hasher.finish()
}

/// As many as are not worth a look.
const SOME: usize = 64;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::Arc;

    use crate::search::Effort;
    use crate::{Access, Boundary, ListRootsResult, Roots};

    fn resolve(boundary: &Boundary, top: &Path, names: &[(&str, Option<&str>)]) -> Roots {
        let uris = names.iter().map(|(path, _)| format!("file://{}", top.join(path).display()));
        let mut list = ListRootsResult::from_uris(uris);
        for (entry, (_, name)) in list.roots.iter_mut().zip(names) {
            entry.name = name.map(Into::into);
        }
        boundary.resolve_to_keep(&Arc::new(list), &Effort::default()).expect("a list")
    }

    fn is_shared(one: &Roots, two: &Roots) -> bool {
        std::sync::Weak::ptr_eq(&one.downgrade(), &two.downgrade())
    }

    /// What happens between two answers with the list of `a`, of the link `l` to it, of the file `f` and of `none`.
    type Change = fn(&Path);

    #[test]
    fn what_says_the_same_is_one_and_nothing_else() {
        const NAMES: &[(&str, Option<&str>)] = &[("a", Some("one")), ("l", None), ("f", None), ("none", None)];
        let changes: [(&str, bool, Change); 6] = [
            ("nothing", true, |_| {}),
            ("what no entry names", true, |top| fs::write(top.join("a/new"), "").unwrap()),
            ("a link", false, |top| {
                fs::remove_file(top.join("l")).unwrap();
                symlink("b", top.join("l")).unwrap();
            }),
            ("a file to a directory", false, |top| {
                fs::remove_file(top.join("f")).unwrap();
                fs::create_dir(top.join("f")).unwrap();
            }),
            ("nothing to a directory", false, |top| fs::create_dir(top.join("none")).unwrap()),
            ("nothing to what is refused otherwise", false, |top| symlink("none", top.join("none")).unwrap()),
        ];
        for operator in [false, true] {
            for (what, expected, change) in changes {
                let directory = tempfile::tempdir().unwrap();
                let top = directory.path().canonicalize().unwrap();
                fs::create_dir(top.join("a")).unwrap();
                fs::create_dir(top.join("b")).unwrap();
                fs::write(top.join("f"), "").unwrap();
                symlink("a", top.join("l")).unwrap();
                let builder = Boundary::builder();
                let builder =
                    if operator { builder.directory(&top, Access::ReadOnly) } else { builder.client_roots_only() };
                let boundary = builder.build().unwrap();
                let first = resolve(&boundary, &top, NAMES);
                change(&top);
                assert_eq!(is_shared(&first, &resolve(&boundary, &top, NAMES)), expected, "{what} {operator}");
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir(top.join("a")).unwrap();
        let boundary = Boundary::builder().client_roots_only().build().unwrap();
        let named = |name| resolve(&boundary, &top, &[("a", name)]);
        let first = named(Some("one"));
        assert!(is_shared(&first, &named(Some("one"))));
        assert!(!is_shared(&first, &named(Some("two"))) && !is_shared(&first, &named(None)));
        // Another object by the same name; the one that was noticed to be gone, though it be back.
        let first = named(None);
        fs::rename(top.join("a"), top.join("was")).unwrap();
        fs::create_dir(top.join("a")).unwrap();
        assert!(!is_shared(&first, &named(None)));
        let first = named(None);
        fs::rename(top.join("a"), top.join("away")).unwrap();
        assert!(first.read("none", 9).is_err() && first.has_gone());
        fs::rename(top.join("away"), top.join("a")).unwrap();
        assert!(!is_shared(&first, &named(None)));
        // The file system's own root, which nothing is around.
        let all = || resolve(&boundary, Path::new("/"), &[("", None)]);
        let first = all();
        assert!(is_shared(&first, &all()));
    }
}
