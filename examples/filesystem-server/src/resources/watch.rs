//! Watches files, so that changes are detected earlier than by polling. Uses inotify(7), which
//! exists only on Linux.
//!
//! A watch on a checked path produces an event when something may have changed. The server then
//! inspects the file through the guard. It uses no other information from the event.
//!
//! This is the only module that passes a directory to code other than the guard. That does not
//! bypass the guard: the watcher reads no content, the names in its events do not leave this
//! module, and the subsequent inspection goes through the guard.
//!
//! The guard opens the directory beneath its root, so a symlink cannot redirect this open, and the
//! watch is on the opened directory. A directory that is later moved out of its root stays watched.
//!
//! For a file, its parent directory is watched, because programs replace files by renaming. For a
//! root that is a file, only the file is watched, because its parent is outside the root. Watches
//! are not recursive. A path that cannot be watched is still polled.
//!
//! Adding a watch may wait for the filesystem, so the thread that subscribes adds it, without a
//! lock. Nobody waits for a watch to end: [`Watch`] sends a message to the task that reads events,
//! which removes the watch. That looks up no path.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use mcp_roots_guard::CheckedPath;
use rustix::fs::inotify::{CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::fs::inotify::{add_watch, init, remove_watch};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::lock;

/// The polling interval. Polling is necessary because a watch is lost when its directory is
/// removed, and because watching does not work on every filesystem.
pub(super) const POLL: Duration = Duration::from_secs(10);

/// The maximum number of watched files and directories for all clients: half of 8,192, the smallest
/// default limit of inotify watches per user (inotify(7), `max_user_watches`). Further
/// subscriptions rely on polling.
pub(super) const PLACES: usize = 4_096;

/// How often adding a watch is repeated if the watch ends at that moment, and the time in between.
const TRIES: usize = 100;
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// A few dozen events with short names. The longest name needs 272 bytes (inotify(7)).
const BUFFER: usize = 4_096;

/// What may change a file or directory. A read is not a change, and the server's own reads would
/// cause further inspections.
const CHANGES: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF);

/// The watcher that all clients share.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    /// `None` if the system refuses.
    started: OnceLock<Option<Started>>,
    places: Arc<Places>,
    /// The number of the newest waiter.
    number: AtomicU64,
}

#[derive(Debug)]
struct Started {
    inotify: Arc<OwnedFd>,
    /// The task ends when all senders are dropped.
    ended: UnboundedSender<Waiting>,
}

/// The waiters for each watched place, by watch descriptor. If a place has no waiters, its watch is
/// about to end, and nobody may join. The lock is held only to read or change the map.
#[derive(Debug, Default)]
struct Places(Mutex<HashMap<i32, HashMap<u64, Waiter>>>);

#[derive(Clone, Debug)]
struct Waiter {
    /// The name to wait for in a watched directory, or `None` for any name.
    name: Option<OsString>,
    wake: Arc<Notify>,
}

/// The place and the number of a waiter.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    place: i32,
    number: u64,
}

/// Keeps a place watched until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    waiting: Waiting,
    ended: UnboundedSender<Waiting>,
}

impl Watcher {
    /// Starts the task that reads events, unless it has been started. Call this in the runtime.
    #[allow(deprecated, reason = "`AsyncFd::register_with_interest` needs unsafe code")]
    pub(super) fn start(&self) {
        self.started.get_or_init(|| {
            let inotify = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
            let inotify = Arc::new(inotify.inspect_err(warn).ok()?);
            let events = AsyncFd::with_interest(inotify.clone(), Interest::READABLE);
            let events = events.inspect_err(warn).ok()?;
            let (ended, ends) = unbounded_channel();
            tokio::spawn(self.places.clone().serve(events, ends));
            Some(Started { inotify, ended })
        });
    }

    /// Watches a checked file or directory, and notifies `wake` when the file or directory may have
    /// changed. Returns `None` if the limit of [`PLACES`] is reached, the system refuses, or the
    /// path has been replaced. May wait for the filesystem.
    pub(super) fn watch(
        &self,
        checked: &CheckedPath,
        is_dir: bool,
        wake: &Arc<Notify>,
    ) -> Option<Watch> {
        let Started { inotify, ended } = self.started.get()?.as_ref()?;
        let in_directory = !is_dir && !checked.root().is_file();
        let path = in_directory.then(|| checked.to_unguarded_path());
        let name = path.and_then(|path| path.file_name().map(OsStr::to_owned));
        let held = hold(checked, in_directory)?;
        let add = || {
            let place = format!("/proc/self/fd/{}", held.as_raw_fd());
            add_watch(inotify, place, CHANGES).inspect_err(warn).ok()
        };
        let waiter = Waiter { name, wake: wake.clone() };
        for _ in 0..TRIES {
            let number = self.number.fetch_add(1, Relaxed);
            let waiting = Waiting { place: add()?, number };
            // From here on, dropping the `Watch` removes the waiter.
            let watch = Watch { waiting, ended: ended.clone() };
            match self.places.join(waiting, waiter.clone()) {
                // The last waiter may have left before this one joined. If the watch is the same
                // now, it lasts, because it has a waiter.
                Joined::Yes if add()? == waiting.place => return Some(watch),
                Joined::Yes => {}
                Joined::Ending => std::thread::sleep(TRY_AGAIN),
                Joined::Full => return None,
            }
        }
        None
    }

    /// The number of watched files and directories, without those whose watch is about to end.
    pub(super) fn places(&self) -> usize {
        lock(&self.places.0).values().filter(|waiters| !waiters.is_empty()).count()
    }
}

fn warn(error: &impl std::fmt::Display) {
    tracing::warn!(%error, "cannot watch a path");
}

#[derive(Clone, Copy, Debug)]
enum Joined {
    Yes,
    /// The watch is about to end.
    Ending,
    Full,
}

impl Places {
    fn join(&self, Waiting { place, number }: Waiting, waiter: Waiter) -> Joined {
        let mut places = lock(&self.0);
        let is_full = places.len() >= PLACES;
        match places.entry(place) {
            Entry::Vacant(place) if is_full => {
                // The watch ends when the task hears of it.
                place.insert(HashMap::new());
                return Joined::Full;
            }
            Entry::Occupied(place) if place.get().is_empty() => return Joined::Ending,
            place => place.or_default().insert(number, waiter),
        };
        Joined::Yes
    }

    async fn serve(
        self: Arc<Self>,
        events: AsyncFd<Arc<OwnedFd>>,
        mut ends: UnboundedReceiver<Waiting>,
    ) {
        loop {
            tokio::select! {
                ready = events.readable() => {
                    let Ok(mut ready) = ready else { return };
                    if self.read(events.get_ref()).is_err() {
                        ready.clear_ready();
                    }
                }
                waiting = ends.recv() => match waiting {
                    Some(waiting) => self.leave(waiting, events.get_ref()),
                    None => return,
                }
            }
        }
    }

    /// Reads events once, because more may arrive for ever. Returns an error if there are none.
    fn read(&self, inotify: &OwnedFd) -> rustix::io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut events = Reader::new(inotify, &mut buffer);
        loop {
            self.wake(&events.next()?);
            if events.is_buffer_empty() {
                return Ok(());
            }
        }
    }

    fn wake(&self, event: &Event<'_>) {
        let places = lock(&self.0);
        if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
            // Events were lost.
            places.values().flat_map(HashMap::values).for_each(|waiter| waiter.wake.notify_one());
        }
        // An event of the watched file or directory itself has no name.
        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
        for waiter in places.get(&event.wd()).into_iter().flat_map(HashMap::values) {
            if waiter.name.is_none() || name.is_none() || waiter.name.as_deref() == name {
                waiter.wake.notify_one();
            }
        }
    }

    fn leave(&self, Waiting { place, number }: Waiting, inotify: &OwnedFd) {
        {
            let mut places = lock(&self.0);
            let Some(waiters) = places.get_mut(&place) else { return };
            waiters.remove(&number);
            if !waiters.is_empty() {
                return;
            }
        }
        // This fails if the file or directory was removed, because its watch ended then.
        let _ = remove_watch(inotify, place);
        lock(&self.0).remove(&place);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // This fails if the runtime has ended, and with it the task.
        let _ = self.ended.send(self.waiting);
    }
}

/// Opens the place to watch: a directory, the directory that contains a file, or the file of a file
/// root. Returns `None` if it cannot be opened, or if part of the checked path was replaced by a
/// symlink.
///
/// It is closed once the watch exists, because the kernel does not report the removal of a
/// directory that is open.
fn hold(checked: &CheckedPath, in_directory: bool) -> Option<OwnedFd> {
    if checked.root().is_file() {
        return Some(checked.open().ok()?.into_std().into());
    }
    let directory = if in_directory { checked.parent()? } else { checked.clone() };
    directory.open_unguarded_dir().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use mcp_roots_guard::{Intent, Roots};

    use super::*;

    struct Fixture {
        top: tempfile::TempDir,
        roots: Roots,
        watcher: Watcher,
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
            let watcher = Watcher::default();
            watcher.start();
            Self { top, roots, watcher, wake: Arc::default() }
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

        /// Waits until this number of places is watched.
        async fn watches(&self, places: usize) -> bool {
            for _ in 0..500 {
                if self.watcher.places() == places {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            false
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
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn outside_directory_is_never_opened_in_a_race() {
        use std::sync::atomic::AtomicBool;
        use std::time::Instant;

        use rustix::fs::{CWD, RenameFlags, renameat_with};

        /// The least number of subscriptions that find the directory, and that find the symlink.
        const TRIES: usize = 5_000;
        let fixture = Fixture::new();
        let (directory, outside) =
            (fixture.top.path().join("site/d"), fixture.top.path().join("outside"));
        let symlink = fixture.top.path().join("site/symlink");
        std::os::unix::fs::symlink(&outside, &symlink).unwrap();
        let observer = init(CreateFlags::CLOEXEC).unwrap();
        add_watch(&observer, &outside, WatchFlags::OPEN | WatchFlags::DELETE).unwrap();
        // Whether the outside directory was opened since the last call. Events arrive in order, so
        // each time that it was opened is known once the removal of the mark is.
        let was_opened = || {
            std::fs::write(outside.join("mark"), "").unwrap();
            std::fs::remove_file(outside.join("mark")).unwrap();
            let mut buffer = [MaybeUninit::uninit(); BUFFER];
            let mut events = Reader::new(&observer, &mut buffer);
            let mut was_opened = false;
            loop {
                let event = events.next().unwrap();
                if event.events().contains(ReadFlags::DELETE) {
                    return was_opened;
                }
                // If events were lost, the removal of the mark may be one of them.
                assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW));
                was_opened |= event.file_name().is_none();
            }
        };
        let (file, whole) = (fixture.check("d/a"), fixture.check("d"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
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
            let by_guard = was_opened();
            let (start, mut by_name) = (Instant::now(), false);
            while !by_name && start.elapsed() < Duration::from_secs(60) {
                for _ in 0..TRIES {
                    let _ = std::fs::File::open(directory.join("."));
                }
                by_name = was_opened();
            }
            done.store(true, Relaxed);
            assert!(!by_guard);
            assert!(by_name, "the control must open the outside directory");
        });
        assert!(fixture.watches(0).await);
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
        assert!(fixture.watches(0).await);
    }

    /// Clients begin and end to watch the same directory at the same time. Each that watches it is
    /// woken.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn place_is_watched_even_if_the_last_waiter_leaves_at_that_moment() {
        use std::sync::atomic::AtomicBool;

        let fixture = Fixture::new();
        let checked = fixture.check("d");
        let done = AtomicBool::new(false);
        let watch = |wake: &Arc<Notify>| fixture.watcher.watch(&checked, true, wake).unwrap();
        let runtime = tokio::runtime::Handle::current();
        let is_woken = || {
            let wake = Arc::new(Notify::new());
            let _watch = watch(&wake);
            fixture.write("site/d/a");
            let wait =
                async { tokio::time::timeout(Duration::from_secs(5), wake.notified()).await };
            runtime.block_on(wait).is_ok()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    drop(watch(&Arc::default()));
                }
            });
            let woken = scope.spawn(|| (0..10_000).all(|_| is_woken())).join().unwrap();
            done.store(true, Relaxed);
            assert!(woken);
        });
        assert!(fixture.watches(0).await);
    }

    #[tokio::test]
    async fn new_places_are_not_watched_beyond_the_limit() {
        let fixture = Fixture::new();
        let kept = fixture.watcher.watch(&fixture.check("d/a"), false, &fixture.wake);
        for place in 1..PLACES {
            let waiter = Waiter { name: None, wake: Arc::default() };
            let place = -i32::try_from(place).unwrap();
            lock(&fixture.watcher.places.0).insert(place, HashMap::from([(0, waiter)]));
        }
        assert!(fixture.watcher.watch(&fixture.check("e"), true, &fixture.wake).is_none());
        assert!(
            fixture.watcher.watch(&fixture.check("d"), true, &fixture.wake).is_some()
                && kept.is_some()
        );
        assert!(fixture.watches(PLACES).await);
    }
}
