//! Being told soon that something may have changed.
//!
//! Goes in: a checked path. Comes out: a wake-up when something happened at it. What is true after: a wake-up is a hint to look by way of the
//! guard, and nothing else is ever taken from it.
//!
//! This is the one place that hands a path to something that is not the guard, and why that is no way around it: a watcher reads no content,
//! no name that it tells leaves this module, and the look that follows is the guard's. On Linux it is handed an open descriptor, whose
//! name the kernel says is the checked one, so that no link leads it elsewhere; a directory that is moved out of its root afterwards
//! stays watched. On other systems it walks the name from the top: there, who may put a link into a root while a client subscribes can
//! have another directory watched, and learn when something happens in it, as a change that the guard sees anyway is then told
//! sooner than by the sweep.
//!
//! For a file the directory is watched in which it is, since programs replace files by renaming; for a root that is a file, the
//! file alone, as what is around it is outside. Nothing is watched recursively. What can not be watched is left to the sweep.

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

/// The most directories and files that are watched at once, for all clients: a part of what a user may have of inotify (8,192 or more,
/// inotify(7) `max_user_watches`). Who subscribes beyond it is told by the sweep.
pub(super) const PLACES: usize = 4_096;

/// One watcher for all clients.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    /// Made when it is first needed. It waits for its own thread, which calls [`Places::told`]: not while `places` is locked.
    inner: Mutex<Option<RecommendedWatcher>>,
    places: Arc<Places>,
}

#[derive(Debug, Default)]
struct Places(Mutex<Table>);

/// Who waits for what.
#[derive(Debug, Default)]
struct Table {
    /// By what the watcher calls the place.
    waiters: HashMap<PathBuf, HashMap<u64, Waiter>>,
    /// What the watcher calls it, by its canonical path.
    called: HashMap<PathBuf, PathBuf>,
    /// The last waiter's.
    number: u64,
}

#[derive(Debug)]
struct Waiter {
    /// In a watched directory, the name that counts; any, if none.
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
    /// Wakes when something happened at a checked file or directory, or may have. None if there are [`PLACES`] already, the system refuses,
    /// or the place is another by now.
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
            // From here on, dropping it undoes it.
            (Watch { watcher: self.clone(), place, called, number }, is_new)
        };
        if is_new && let Err(error) = self.begin(&mut inner, &watch.called) {
            drop(inner);
            tracing::warn!(%error, "not watched");
            return None;
        }
        Some(watch)
    }

    fn begin(&self, inner: &mut Option<RecommendedWatcher>, called: &Path) -> notify::Result<()> {
        let watcher = match inner {
            Some(watcher) => watcher,
            none => {
                let places = self.places.clone();
                none.insert(notify::recommended_watcher(move |event| places.told(event))?)
            }
        };
        watcher.watch(called, RecursiveMode::NonRecursive)
    }

    /// How many directories and files are watched.
    pub(super) fn places(&self) -> usize {
        lock(&self.places.0).called.len()
    }
}

impl Places {
    fn told(&self, event: notify::Result<Event>) {
        let table = lock(&self.0);
        let waiters = |path: &Path| table.waiters.get(path).into_iter().flat_map(HashMap::values);
        match event {
            // Reading is no change; what this server reads would wake it again.
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
            // Something was lost.
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
        // It fails for what is gone.
        let _ = inner.as_mut().map(|watcher| watcher.unwatch(&self.called));
    }
}

/// Opens what is to be watched. None if that is not what the guard checked, by the kernel's name of what was opened.
#[cfg(target_os = "linux")]
fn hold(checked: &CheckedPath, place: &Path) -> Option<File> {
    if checked.root().is_file() {
        return checked.open().ok().map(OpenFile::into_std);
    }
    // With the dot only a directory is opened, so that this waits for no FIFO.
    let file = File::open(place.join(".")).ok()?;
    let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    (name == place).then_some(file)
}

/// A name of a descriptor that no other place has, although the descriptor is closed once its place is watched, and its number given to
/// another: the watcher tells places apart by name. An open one would keep the kernel from saying that a directory was removed.
#[cfg(target_os = "linux")]
fn call(held: &File, _: &Path, number: u64) -> PathBuf {
    let digits = format!("{number:b}").replace('0', "fd/../").replace('1', "fdinfo/../");
    PathBuf::from(format!("/proc/self/{digits}fd/{}", held.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
fn hold(_: &CheckedPath, place: &Path) -> Option<PathBuf> {
    Some(place.to_owned())
}

#[cfg(not(target_os = "linux"))]
fn call(held: &Path, _: &Path, _: u64) -> PathBuf {
    held.to_owned()
}

/// A panic elsewhere leaves what is locked as good as it was.
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
    async fn what_became_a_link_out_is_not_watched() {
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
    async fn places_are_told_apart_although_their_descriptors_have_one_number() {
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
    async fn when_no_place_is_left_only_what_is_watched_already_is() {
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
