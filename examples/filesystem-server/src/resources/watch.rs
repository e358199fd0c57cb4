//! Watches files, so that changes are detected earlier than by polling.
//!
//! A watch on a checked path produces an event when something may have changed. The server then
//! inspects the file through the guard. It uses no other information from the event.
//!
//! This is the only module that passes a directory to code other than the guard. That does not
//! bypass the guard: the watcher reads no content, the names in its events do not leave this
//! module, and the subsequent inspection goes through the guard.
//!
//! The guard opens the directory beneath its root, so a symlink cannot redirect this open. On
//! Linux, the watcher receives a path to the open descriptor. On Windows, it receives the path of
//! the directory, which cannot be renamed or replaced while it is open. On both, the watch is
//! therefore on the opened directory. A directory that is later moved out of its root stays
//! watched on Linux.
//!
//! On other systems, the watcher resolves the path by name after the guard has opened it. An
//! attacker who can place a symlink in a root at that moment can redirect the watch to another
//! directory. The client could then learn when something happens in that directory, because a
//! change that polling would find later is reported at that time.
//!
//! For a file, its parent directory is watched, because programs replace files by renaming. For a
//! root that is a file, only the file is watched, because its parent is outside the root. Watches
//! are not recursive. A path that cannot be watched is still polled.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
#[cfg(unix)]
use std::os::fd::OwnedFd;
#[cfg(windows)]
use std::os::windows::io::OwnedHandle as OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_roots_guard::CheckedPath;
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
        let held = hold(checked, name.is_some())?;
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

/// Opens the place to watch: a directory, the directory that contains a file, or the file of a file
/// root. Returns `None` if it cannot be opened, or if part of the checked path was replaced by a
/// symlink.
fn hold(checked: &CheckedPath, in_directory: bool) -> Option<OwnedFd> {
    if checked.root().is_file() {
        return Some(checked.open().ok()?.into_std().into());
    }
    let directory = if in_directory { checked.parent()? } else { checked.clone() };
    directory.open_unguarded_dir().ok()
}

/// A path to the descriptor that is unique to this watch, because the watcher distinguishes places
/// by path. The descriptor is closed once the watch exists, and its number can be reused. Keeping
/// it open would prevent the kernel from reporting that a directory was removed.
#[cfg(target_os = "linux")]
fn call(held: &OwnedFd, _: &Path, number: u64) -> PathBuf {
    use std::os::fd::AsRawFd as _;
    let digits = format!("{number:b}").replace('0', "fd/../").replace('1', "fdinfo/../");
    PathBuf::from(format!("/proc/self/{digits}fd/{}", held.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn call(_: &OwnedFd, place: &Path, _: u64) -> PathBuf {
    place.to_owned()
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

    /// Another process exchanges the directory with a symlink to an outside directory while clients
    /// subscribe. The outside directory is never opened. Opening the directory by name is the
    /// control, which opens the outside directory.
    #[test]
    fn outside_directory_is_never_opened_in_a_race() {
        use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
        use std::time::Instant;

        use notify::event::AccessKind;
        use rustix::fs::{CWD, RenameFlags, renameat_with};

        /// The least number of subscriptions that find the directory, and that find the symlink.
        const TRIES: usize = 5_000;
        let fixture = Fixture::new();
        let (directory, outside) =
            (fixture.top.path().join("site/d"), fixture.top.path().join("outside"));
        let symlink = fixture.top.path().join("site/symlink");
        std::os::unix::fs::symlink(&outside, &symlink).unwrap();
        let (opens, marks) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, mark, of) = (opens.clone(), marks.clone(), outside.clone());
        let mut observer = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let event = event.unwrap();
            match event.kind {
                EventKind::Access(AccessKind::Open(_)) if event.paths.contains(&of) => {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                EventKind::Remove(_) => {
                    mark.fetch_add(1, Ordering::Release);
                }
                _ => {}
            }
        })
        .unwrap();
        observer.watch(&outside, RecursiveMode::NonRecursive).unwrap();
        // Events arrive in order, so all opens before the mark have been counted after it.
        let opened = |round: usize| {
            std::fs::write(outside.join("mark"), "").unwrap();
            std::fs::remove_file(outside.join("mark")).unwrap();
            let start = Instant::now();
            while marks.load(Ordering::Acquire) < round {
                assert!(start.elapsed() < Duration::from_secs(60), "an event was lost");
                std::thread::sleep(Duration::from_millis(1));
            }
            opens.load(Ordering::Relaxed)
        };
        let (file, whole) = (fixture.check("d/a"), fixture.check("d"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    renameat_with(CWD, &directory, CWD, &symlink, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let mut watched = [0, 0];
            while watched.iter().any(|times| *times < TRIES) {
                for (checked, is_dir) in [(&file, false), (&whole, true)] {
                    let watch = fixture.watcher.watch(checked, is_dir, &fixture.wake);
                    watched[usize::from(watch.is_some())] += 1;
                }
            }
            let by_guard = opened(1);
            let (start, mut round, mut by_name) = (Instant::now(), 1, 0);
            while by_name == 0 && start.elapsed() < Duration::from_secs(60) {
                for _ in 0..TRIES {
                    let _ = std::fs::File::open(directory.join("."));
                }
                round += 1;
                by_name = opened(round) - by_guard;
            }
            done.store(true, Ordering::Relaxed);
            assert_eq!(by_guard, 0);
            assert_ne!(by_name, 0, "the control must open the outside directory");
        });
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
