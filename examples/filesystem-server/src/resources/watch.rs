//! Watches files, so that changes are detected earlier than by polling.
//!
//! A watch on a checked path produces an event when something may have changed. The server then
//! inspects the file through the guard. It uses no other information from the event.
//!
//! This is the only module that passes a path to code other than the guard. That does not bypass
//! the guard: the watcher reads no content, the names in its events do not leave this module, and
//! the subsequent inspection goes through the guard.
//!
//! On Linux, the watcher receives an open descriptor after the kernel has confirmed that its name
//! is the checked path, so a symlink cannot redirect the watch. A directory that is later moved out
//! of its root stays watched.
//!
//! On other systems, the watcher resolves the path by name. An attacker who can place a symlink in
//! a root while a client subscribes can redirect the watch to another directory. The client could
//! then learn when something happens in that directory, because a change that polling would find
//! later is reported at that time.
//!
//! For a file, its parent directory is watched, because programs replace files by renaming. For a
//! root that is a file, only the file is watched, because its parent is outside the root. Watches
//! are not recursive. A path that cannot be watched is still polled.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
#[cfg(target_os = "linux")]
use std::fs::File;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_roots_guard::CheckedPath;
#[cfg(target_os = "linux")]
use mcp_roots_guard::OpenFile;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// The maximum number of watched files and directories for all clients: half of 8,192, the smallest
/// default limit of inotify watches per user (inotify(7), `max_user_watches`). Further
/// subscriptions rely on polling.
pub(super) const PLACES: usize = 4_096;

/// The watcher that all clients share.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    /// Created on first use. Its methods wait for its thread, which calls [`Places::notify`], so
    /// they must not be called while `places` is locked.
    inner: Mutex<Option<RecommendedWatcher>>,
    places: Arc<Places>,
}

#[derive(Debug, Default)]
struct Places(Mutex<Table>);

/// The waiters for each watched place.
#[derive(Debug, Default)]
struct Table {
    /// The waiters, by the path under which the watcher knows the place.
    waiters: HashMap<PathBuf, HashMap<u64, Waiter>>,
    /// The path under which the watcher knows each place, by canonical path.
    called: HashMap<PathBuf, PathBuf>,
    /// The number of the newest waiter.
    number: u64,
}

#[derive(Debug)]
struct Waiter {
    /// The name to wait for in a watched directory, or `None` for any name.
    name: Option<OsString>,
    wake: Arc<Notify>,
}

/// Keeps a place watched until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    watcher: Arc<Watcher>,
    place: PathBuf,
    called: PathBuf,
    number: u64,
}

impl Watcher {
    /// Watches a checked file or directory, and notifies `wake` when the file or directory may have
    /// changed. Returns `None` if the limit of [`PLACES`] is reached, the system refuses, or the
    /// path has been replaced.
    pub(super) fn watch(
        self: &Arc<Self>,
        checked: &CheckedPath,
        is_dir: bool,
        wake: &Arc<Notify>,
    ) -> Option<Watch> {
        let path = checked.to_unguarded_path();
        let in_directory = path.parent().filter(|_| !is_dir && !checked.root().is_file());
        let (place, name) = match in_directory {
            Some(directory) => (directory.to_owned(), path.file_name().map(OsStr::to_owned)),
            None => (path, None),
        };
        let held = hold(checked, &place)?;
        let mut inner = lock(&self.inner);
        let (watch, is_new) = {
            let mut table = lock(&self.places.0);
            let known = table.called.get(&place).cloned();
            let is_new = known.is_none();
            if is_new && table.called.len() >= PLACES {
                return None;
            }
            table.number += 1;
            let number = table.number;
            let called = known.unwrap_or_else(|| call(&held, &place, number));
            table.called.entry(place.clone()).or_insert_with(|| called.clone());
            let waiter = Waiter { name, wake: wake.clone() };
            table.waiters.entry(called.clone()).or_default().insert(number, waiter);
            // From here on, dropping the `Watch` removes the entries.
            (Watch { watcher: self.clone(), place, called, number }, is_new)
        };
        if is_new && let Err(error) = self.begin(&mut inner, &watch.called) {
            drop(inner);
            tracing::warn!(%error, "cannot watch a path");
            return None;
        }
        Some(watch)
    }

    fn begin(&self, inner: &mut Option<RecommendedWatcher>, called: &Path) -> notify::Result<()> {
        let watcher = match inner {
            Some(watcher) => watcher,
            none => {
                let places = self.places.clone();
                none.insert(notify::recommended_watcher(move |event| places.notify(event))?)
            }
        };
        watcher.watch(called, RecursiveMode::NonRecursive)
    }

    /// The number of watched files and directories.
    pub(super) fn places(&self) -> usize {
        lock(&self.places.0).called.len()
    }
}

impl Places {
    fn notify(&self, event: notify::Result<Event>) {
        let table = lock(&self.0);
        let waiters = |path: &Path| table.waiters.get(path).into_iter().flat_map(HashMap::values);
        match event {
            // A read is not a change, and the server's own reads would cause further inspections.
            Ok(event) if matches!(event.kind, EventKind::Access(_)) => {}
            Ok(event) if !event.need_rescan() => {
                for path in &event.paths {
                    let within = path.parent().into_iter().flat_map(waiters);
                    let named = within.filter(|waiter| {
                        waiter.name.is_none() || waiter.name.as_deref() == path.file_name()
                    });
                    waiters(path).chain(named).for_each(|waiter| waiter.wake.notify_one());
                }
            }
            // Events were lost, so wake all waiters.
            _ => table
                .waiters
                .values()
                .flat_map(HashMap::values)
                .for_each(|waiter| waiter.wake.notify_one()),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut inner = lock(&self.watcher.inner);
        {
            let mut table = lock(&self.watcher.places.0);
            let Some(waiters) = table.waiters.get_mut(&self.called) else { return };
            waiters.remove(&self.number);
            if !waiters.is_empty() {
                return;
            }
            table.waiters.remove(&self.called);
            table.called.remove(&self.place);
        }
        // This fails if the place no longer exists. Then there is no watch to remove.
        let _ = inner.as_mut().map(|watcher| watcher.unwatch(&self.called));
    }
}

/// Opens the place to watch. Returns `None` if it cannot be opened, or if the kernel reports a name
/// for an opened directory that differs from `place`.
#[cfg(target_os = "linux")]
fn hold(checked: &CheckedPath, place: &Path) -> Option<File> {
    if checked.root().is_file() {
        return checked.open().ok().map(OpenFile::into_std);
    }
    // The trailing dot makes the open fail for anything except a directory, so it never blocks on a
    // FIFO.
    let file = File::open(place.join(".")).ok()?;
    let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    (name == place).then_some(file)
}

/// A path to the descriptor that is unique to this watch, because the watcher distinguishes places
/// by path. The descriptor is closed once the watch exists, and its number can be reused. Keeping
/// it open would prevent the kernel from reporting that a directory was removed.
#[cfg(target_os = "linux")]
fn call(held: &File, _: &Path, number: u64) -> PathBuf {
    let digits = format!("{number:b}").replace('0', "fd/../").replace('1', "fdinfo/../");
    PathBuf::from(format!("/proc/self/{digits}fd/{}", held.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the signature is the same on all systems")]
fn hold(_: &CheckedPath, place: &Path) -> Option<PathBuf> {
    Some(place.to_owned())
}

#[cfg(not(target_os = "linux"))]
fn call(held: &Path, _: &Path, _: u64) -> PathBuf {
    held.to_owned()
}

/// Locks a mutex, and ignores poisoning: a panic leaves the data in a consistent state.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use mcp_roots_guard::{Intent, Roots};

    use super::*;

    struct Fixture {
        top: tempfile::TempDir,
        roots: Roots,
        watcher: Arc<Watcher>,
        wake: Arc<Notify>,
    }

    impl Fixture {
        fn new() -> Self {
            let top = tempfile::tempdir().unwrap();
            for directory in ["site/d", "site/e", "outside"] {
                std::fs::create_dir_all(top.path().join(directory)).unwrap();
                std::fs::write(top.path().join(directory).join("a"), "").unwrap();
            }
            let roots = Roots::from_dirs([top.path().join("site")]).unwrap();
            Self { top, roots, watcher: Arc::default(), wake: Arc::default() }
        }

        fn check(&self, path: &str) -> CheckedPath {
            self.roots.check(path, Intent::Existing).unwrap()
        }

        fn write(&self, path: &str) {
            std::fs::write(self.top.path().join(path), "1").unwrap();
        }

        async fn wakes(&self) -> bool {
            tokio::time::timeout(Duration::from_millis(500), self.wake.notified()).await.is_ok()
        }
    }

    #[tokio::test]
    async fn directory_replaced_by_a_symlink_is_not_watched() {
        let fixture = Fixture::new();
        for (path, is_dir) in [("d/a", false), ("e", true)] {
            let checked = fixture.check(path);
            let directory = fixture.top.path().join("site").join(&path[..1]);
            std::fs::rename(&directory, directory.with_extension("away")).unwrap();
            std::os::unix::fs::symlink(fixture.top.path().join("outside"), &directory).unwrap();
            let watch = fixture.watcher.watch(&checked, is_dir, &fixture.wake);
            fixture.write("outside/a");
            assert!(!fixture.wakes().await && watch.is_none(), "{path}");
            assert_eq!(fixture.watcher.places(), 0);
        }
    }

    #[tokio::test]
    async fn places_are_distinct_even_if_descriptor_numbers_are_reused() {
        let fixture = Fixture::new();
        let watch = |number: usize| {
            let (name, wake) = (format!("many{number}"), Arc::new(Notify::new()));
            std::fs::create_dir(fixture.top.path().join("site").join(&name)).unwrap();
            (fixture.watcher.watch(&fixture.check(&name), true, &wake).unwrap(), wake)
        };
        let watches: Vec<_> = (0..8).map(watch).collect();
        for (number, (_, wake)) in watches.iter().enumerate() {
            fixture.write(&format!("site/many{number}/a"));
            assert!(
                tokio::time::timeout(Duration::from_secs(4), wake.notified()).await.is_ok(),
                "{number}"
            );
            for (other, (_, wake)) in watches.iter().enumerate().skip(number + 1) {
                let woken =
                    tokio::time::timeout(Duration::from_millis(20), wake.notified()).await.is_ok();
                assert!(!woken, "{other} by {number}");
            }
        }
        drop(watches);
        assert_eq!(fixture.watcher.places(), 0);
    }

    #[tokio::test]
    async fn new_places_are_not_watched_beyond_the_limit() {
        let fixture = Fixture::new();
        let kept = fixture.watcher.watch(&fixture.check("d/a"), false, &fixture.wake);
        for number in 1..PLACES {
            lock(&fixture.watcher.places.0)
                .called
                .insert(number.to_string().into(), PathBuf::new());
        }
        assert!(fixture.watcher.watch(&fixture.check("e"), true, &fixture.wake).is_none());
        assert!(
            fixture.watcher.watch(&fixture.check("d"), true, &fixture.wake).is_some()
                && kept.is_some()
        );
        assert_eq!(fixture.watcher.places(), PLACES);
    }
}
