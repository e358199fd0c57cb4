//! Tracks the operations that are running, by device, and detects those that hang.

#![cfg_attr(
    windows,
    allow(clippy::missing_const_for_thread_local, reason = "the initializer is const")
)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Code, Error, Result};
use crate::limits::{PATIENCE, STUCK};
use crate::workers::Account;

/// The running operations of one guard's work, by the device of their root.
pub(super) struct Devices {
    by_number: Mutex<HashMap<u64, Arc<Device>>>,
    /// The jobs that hold a place.
    places: Mutex<Vec<Arc<Running>>>,
    /// Half of the places. This many operations on one device are suspicious.
    half: usize,
    start: Instant,
}

#[derive(Debug, Default)]
struct Device {
    running: AtomicUsize,
    finished: AtomicU64,
    watch: Mutex<Option<Watch>>,
}

/// The number of finished operations when half of the places were first seen on the device.
#[derive(Clone, Copy, Debug)]
struct Watch {
    finished: u64,
    since: Instant,
}

/// What a place is doing, visible to other threads.
#[derive(Debug)]
struct Running {
    account: Account,
    /// The device of the operation.
    device: AtomicU64,
    /// The start of the operation, in milliseconds after [`Devices::start`]; [`NEVER`] between
    /// operations.
    since: AtomicU64,
}

/// The place that the current thread holds.
struct Place {
    devices: Arc<Devices>,
    running: Arc<Running>,
    /// The device of the last operation.
    last_device: Option<(u64, Arc<Device>)>,
    /// The device of the current operation.
    current: Option<u64>,
}

thread_local! {
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Runs a job of an account in a place, and counts its operations.
pub(super) fn run_in_place(devices: &Arc<Devices>, account: &Account, job: impl FnOnce()) {
    let running = devices.enter(account);
    PLACE.set(Some(Place {
        devices: devices.clone(),
        running: running.clone(),
        last_device: None,
        current: None,
    }));
    // The job catches its own panics.
    job();
    drop(PLACE.take());
    devices.leave(&running);
}

/// Runs an operation. If this thread holds a place, the operation is counted on its root's device
/// while it runs.
///
/// # Errors
///
/// [`Busy`](crate::ErrorKind::Busy) (`busy`) if half of the places are on this device, none of
/// their operations has finished for [`PATIENCE`], and one of this account has been running for
/// that long.
///
/// An account without such an operation is allowed: what hangs can be a mount inside the root, and
/// the account's own files lie beside it.
pub(crate) fn counted<T>(
    device: impl FnOnce() -> Option<u64>,
    operation: impl FnOnce() -> Result<T>,
) -> Result<T> {
    // A thread that is exiting has no place.
    let started = PLACE.try_with(|place| match &mut *place.borrow_mut() {
        None => Ok(None),
        Some(place) => device().map_or(Ok(None), |device| place.begin(device)),
    });
    let _operation = started.unwrap_or(Ok(None))?;
    operation()
}

/// A counted operation that is running.
struct Operation {
    device: Arc<Device>,
    /// The device of the operation that this one is part of.
    outer: Option<u64>,
}

impl Place {
    fn begin(&mut self, number: u64) -> Result<Option<Operation>> {
        if self.current == Some(number) {
            return Ok(None);
        }
        let device = match &self.last_device {
            Some((last, device)) if *last == number => device.clone(),
            _ => {
                let device = self.devices.device(number);
                self.last_device = Some((number, device.clone()));
                device
            }
        };
        let now = Instant::now();
        if device.running.fetch_add(1, Relaxed) >= self.devices.half
            // Defence: hung-device-takes-no-more-work
            && device.is_hung(now)
            && self
                .devices
                .count(now, PATIENCE, |running| running.is_of(&self.running.account, number))
                > 0
        {
            device.running.fetch_sub(1, Relaxed);
            let detail =
                format!("{} operations on device {number} do not finish", self.devices.half);
            return Err(Error::new(Code::Busy).detail(detail));
        }
        let outer = self.current.replace(number);
        if outer.is_none() {
            self.running.device.store(number, Relaxed);
            self.running.since.store(self.devices.millis(now), Relaxed);
        }
        Ok(Some(Operation { device, outer }))
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // In this order, a thread that sees fewer running operations also sees one more finished.
        self.device.finished.fetch_add(1, Relaxed);
        self.device.running.fetch_sub(1, Relaxed);
        let _ = PLACE.try_with(|place| {
            if let Some(place) = &mut *place.borrow_mut() {
                place.current = self.outer;
                if self.outer.is_none() {
                    place.running.since.store(NEVER, Relaxed);
                }
            }
        });
    }
}

impl Devices {
    /// Creates the state for this many places.
    pub(super) fn new(places: usize) -> Self {
        let half = (places / 2).max(1);
        Self { by_number: Mutex::default(), places: Mutex::default(), half, start: Instant::now() }
    }

    fn enter(&self, account: &Account) -> Arc<Running> {
        let (device, since) = (AtomicU64::default(), AtomicU64::new(NEVER));
        let running = Arc::new(Running { account: account.clone(), device, since });
        self.lock_places().push(running.clone());
        running
    }

    fn leave(&self, running: &Arc<Running>) {
        self.lock_places().retain(|other| !Arc::ptr_eq(other, running));
    }

    fn lock_places(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Running>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_millis()).unwrap_or(NEVER - 1)
    }

    fn device(&self, number: u64) -> Arc<Device> {
        let mut devices = self.by_number.lock().unwrap_or_else(PoisonError::into_inner);
        if devices.len() >= IDLE_DEVICES && !devices.contains_key(&number) {
            devices.retain(|_, device| Arc::strong_count(device) > 1);
        }
        devices.entry(number).or_default().clone()
    }

    /// The number of places whose operation has been running for [`PATIENCE`].
    pub(super) fn hung(&self, now: Instant) -> usize {
        self.count(now, PATIENCE, |_| true)
    }

    /// The number of an account's operations that have been running for [`STUCK`], so long that its
    /// other jobs should not wait for them.
    pub(super) fn stuck(&self, account: &Account, now: Instant) -> usize {
        self.count(now, STUCK, |running| running.account == *account)
    }

    fn count(&self, now: Instant, patience: Duration, which: impl Fn(&Running) -> bool) -> usize {
        let Some(before) = now.checked_sub(patience).filter(|before| *before >= self.start) else {
            return 0;
        };
        let before = self.millis(before);
        let hangs =
            |running: &&Arc<Running>| running.since.load(Relaxed) <= before && which(running);
        self.lock_places().iter().filter(hangs).count()
    }
}

impl Running {
    fn is_of(&self, account: &Account, device: u64) -> bool {
        self.account == *account && self.device.load(Relaxed) == device
    }
}

impl Device {
    /// Whether no operation has finished for [`PATIENCE`]. Called while half of the places are on
    /// the device. The first call starts the observation.
    fn is_hung(&self, now: Instant) -> bool {
        let finished = self.finished.load(Relaxed);
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        match *watch {
            Some(watch) if watch.finished == finished => {
                now.saturating_duration_since(watch.since) >= PATIENCE
            }
            _ => {
                *watch = Some(Watch { finished, since: now });
                false
            }
        }
    }
}

/// The start time of a place without an operation.
const NEVER: u64 = u64::MAX;

/// The number of devices below which idle ones are not removed.
const IDLE_DEVICES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::SessionId;

    fn session(number: u64) -> Account {
        Account::Session(SessionId(number.try_into().unwrap()))
    }

    /// Begins an operation as a thread in a place of its own would.
    fn begin_as(devices: &Arc<Devices>, account: u64, number: u64) -> Result<Option<Operation>> {
        let running = devices.enter(&session(account));
        Place { devices: devices.clone(), running, last_device: None, current: None }.begin(number)
    }

    fn begin(devices: &Arc<Devices>, number: u64) -> Result<Option<Operation>> {
        begin_as(devices, 1, number)
    }

    #[test]
    fn what_has_been_running_for_long_hangs_on_whatever_device() {
        let devices = Arc::new(Devices::new(8));
        let _running: Vec<_> =
            (1..=4).map(|number| begin_as(&devices, number % 2 + 1, number).unwrap()).collect();
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        assert_eq!((devices.hung(now), devices.hung(later(1)), devices.hung(later(3))), (0, 0, 4));
        assert_eq!(
            (devices.stuck(&session(1), later(3)), devices.stuck(&session(1), later(11))),
            (0, 2)
        );
        assert_eq!(devices.stuck(&session(3), later(11)), 0);
    }

    #[test]
    fn whose_operation_hangs_is_refused_on_that_device_and_nobody_else() {
        let mut devices = Devices::new(4);
        let since = Instant::now().checked_sub(2 * PATIENCE).unwrap();
        devices.start = since.checked_sub(PATIENCE).unwrap();
        let devices = Arc::new(devices);
        let running = [begin(&devices, 1).unwrap(), begin(&devices, 1).unwrap()];
        let refused = |account| {
            begin_as(&devices, account, 1)
                .map(drop)
                .is_err_and(|error| error.reason() == Code::Busy)
        };
        assert!(!refused(1), "not for long enough");
        for place in devices.lock_places().iter().filter(|place| place.since.load(Relaxed) != NEVER)
        {
            place.since.store(devices.millis(since), Relaxed);
        }
        let device = devices.device(1);
        let finished = device.finished.load(Relaxed);
        *device.watch.lock().unwrap() = Some(Watch { finished, since });
        assert!(refused(1));
        assert_eq!(device.running.load(Relaxed), 2, "who is refused is not counted");
        assert!(begin(&devices, 2).is_ok(), "another device");
        // Another client is allowed. Its operation ends, which shows that the device answers.
        assert!(!refused(2));
        assert!(!refused(1));
        drop(running);
        assert!(begin(&devices, 1).is_ok());
    }

    #[test]
    fn an_operation_within_another_on_the_same_device_counts_once() {
        let devices = Arc::new(Devices::new(4));
        let running = |number| devices.device(number).running.load(Relaxed);
        let mut seen = Vec::new();
        let mut look = || -> Result<()> {
            seen.push((running(1), running(2)));
            Ok(())
        };
        run_in_place(&devices, &session(1), || {
            counted(
                || Some(1),
                || {
                    look()?;
                    counted(|| Some(1), &mut look)?;
                    counted(|| Some(2), &mut look)?;
                    counted(|| Some(1), &mut look)
                },
            )
            .unwrap();
            look().unwrap();
        });
        // A thread without a place is not counted.
        counted(|| unreachable!(), &mut look).unwrap();
        assert_eq!(seen, [(1, 0), (1, 0), (1, 1), (1, 0), (0, 0), (0, 0)]);
    }

    #[test]
    fn devices_that_nothing_runs_on_are_forgotten() {
        let devices = Arc::new(Devices::new(4));
        let operation = begin(&devices, 0).unwrap();
        for number in 1..10 * IDLE_DEVICES as u64 {
            begin(&devices, number).unwrap();
        }
        assert!(devices.by_number.lock().unwrap().len() <= IDLE_DEVICES);
        assert_eq!(devices.device(0).running.load(Relaxed), 1);
        drop(operation);
    }
}
