//! Being told soon that something may have changed.
//!
//! Goes in: a checked path. Comes out: a wake-up when something happened at it. What is true after: a wake-up is a hint to look by way of the
//! guard, and nothing else is ever taken from it.
//!
//! This is the one place that hands a path to something that is not the guard, and why that is no way around it: a watcher takes names,
//! and walks them from `/`, so whoever may write around a root can have it watch another directory. It reads no content, no name
//! that it tells leaves this module, and the look that follows is the guard's and finds the checked file unchanged; so not even the time of
//! a change elsewhere gets out. For a file the directory is watched in which it is, since programs replace files by renaming; for
//! a root that is a file, the file alone, as what is around it is outside. Nothing is watched recursively, so no link is followed.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_roots_guard::CheckedPath;
use mcp_roots_guard::rmcp::HandlerError;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// The most directories and files that are watched at once, for all clients: a part of what a user may have of inotify (8,192 or more,
/// inotify(7) `max_user_watches`).
pub(super) const PLACES: usize = 4_096;

/// One watcher for all clients.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    /// Made when it is first needed. It waits for its own thread, which calls [`Places::told`]: not while `places` is locked.
    inner: Mutex<Option<RecommendedWatcher>>,
    places: Arc<Places>,
}

/// Who waits for what.
#[derive(Debug, Default)]
struct Places(Mutex<HashMap<PathBuf, Vec<Waiter>>>);

#[derive(Clone, Debug)]
struct Waiter {
    /// In a watched directory, the name that counts; any, if none.
    name: Option<OsString>,
    wake: Arc<Notify>,
}

/// Keeps a path watched until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    watcher: Arc<Watcher>,
    place: PathBuf,
    waiter: Waiter,
}

impl Watcher {
    /// Wakes when something happened at a checked file or directory, or may have.
    ///
    /// # Errors
    ///
    /// If there are [`PLACES`] already, or the system refuses.
    pub(super) fn watch(
        self: &Arc<Self>,
        checked: &CheckedPath,
        is_dir: bool,
        wake: &Arc<Notify>,
    ) -> Result<Watch, HandlerError> {
        let path = checked.to_unguarded_path();
        let in_directory = path.parent().filter(|_| !is_dir && !checked.root().is_file());
        let (place, name) = match in_directory {
            Some(directory) => (directory.to_owned(), path.file_name().map(OsStr::to_owned)),
            None => (path, None),
        };
        let waiter = Waiter { name, wake: wake.clone() };
        let mut inner = lock(&self.inner);
        let is_new = {
            let mut places = lock(&self.places.0);
            if places.len() >= PLACES && !places.contains_key(&place) {
                return Err(HandlerError::new("too much is watched already"));
            }
            let waiters = places.entry(place.clone()).or_default();
            waiters.push(waiter.clone());
            waiters.len() == 1
        };
        // From here on, dropping it undoes it.
        let watch = Watch { watcher: self.clone(), place, waiter };
        if is_new && let Err(error) = self.begin(&mut inner, &watch.place) {
            drop(inner);
            tracing::warn!(%error, "not watched");
            return Err(HandlerError::new("the system does not let this be watched"));
        }
        Ok(watch)
    }

    fn begin(&self, inner: &mut Option<RecommendedWatcher>, place: &Path) -> notify::Result<()> {
        let watcher = match inner {
            Some(watcher) => watcher,
            none => {
                let places = self.places.clone();
                none.insert(notify::recommended_watcher(move |event| places.told(event))?)
            }
        };
        watcher.watch(place, RecursiveMode::NonRecursive)
    }

    /// How many directories and files are watched.
    pub(super) fn places(&self) -> usize {
        lock(&self.places.0).len()
    }
}

impl Places {
    fn told(&self, event: notify::Result<Event>) {
        let places = lock(&self.0);
        match event {
            // Reading is no change; what this server reads would wake it again.
            Ok(event) if matches!(event.kind, EventKind::Access(_)) => {}
            Ok(event) if !event.need_rescan() => {
                for path in &event.paths {
                    let at = places.get(path).into_iter().flatten();
                    let within = path.parent().and_then(|directory| places.get(directory)).into_iter().flatten();
                    let named =
                        within.filter(|waiter| waiter.name.is_none() || waiter.name.as_deref() == path.file_name());
                    at.chain(named).for_each(|waiter| waiter.wake.notify_one());
                }
            }
            // Something was lost.
            _ => places.values().flatten().for_each(|waiter| waiter.wake.notify_one()),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut inner = lock(&self.watcher.inner);
        {
            let mut places = lock(&self.watcher.places.0);
            let Some(waiters) = places.get_mut(&self.place) else { return };
            let same =
                |waiter: &Waiter| Arc::ptr_eq(&waiter.wake, &self.waiter.wake) && waiter.name == self.waiter.name;
            if let Some(index) = waiters.iter().position(same) {
                waiters.swap_remove(index);
            }
            if !waiters.is_empty() {
                return;
            }
            places.remove(&self.place);
        }
        // It fails for what is gone.
        let _ = inner.as_mut().map(|watcher| watcher.unwatch(&self.place));
    }
}

/// A panic elsewhere leaves the map as good as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
