//! Tracks running operations by device, and detects those that hang.

#![cfg_attr(
    windows,
    allow(clippy::missing_const_for_thread_local, reason = "the initializer is const")
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Code, Error, Result};
use crate::limits::{PATIENCE, STUCK};
use crate::workers::Account;

/// The running operations of a guard's work, by the device of their root.
pub(super) struct Devices {
    by_number: Mutex<BTreeMap<u64, Arc<Device>>>,
    /// The jobs that occupy a slot.
    slots: Mutex<Vec<Arc<Running>>>,
    /// Half of the slots. A device is checked for hanging once this many operations on it are
    /// running.
    half: usize,
    start: Instant,
}

#[derive(Debug, Default)]
struct Device {
    running: AtomicUsize,
    finished: AtomicU64,
    watch: Mutex<Option<Watch>>,
}

/// The number of operations on a device that had finished, and the time at which this number was
/// first seen while operations on the device occupied half of the slots.
#[derive(Clone, Copy, Debug)]
struct Watch {
    finished: u64,
    since: Instant,
}

/// The current operation of a slot, visible to other threads.
#[derive(Debug)]
struct Running {
    account: Account,
    /// The device of the operation.
    device: AtomicU64,
    /// The start of the operation, in milliseconds after [`Devices::start`]. [`NEVER`] between
    /// operations.
    since: AtomicU64,
}

/// The slot that the current thread occupies.
struct Slot {
    devices: Arc<Devices>,
    running: Arc<Running>,
    /// The device of the last operation.
    last_device: Option<(u64, Arc<Device>)>,
    /// The device of the current operation.
    current: Option<u64>,
}

thread_local! {
    static SLOT: RefCell<Option<Slot>> = const { RefCell::new(None) };
}

/// Runs an account's job in a slot, and counts its operations.
pub(super) fn run_in_slot(devices: &Arc<Devices>, account: &Account, job: impl FnOnce()) {
    let running = devices.enter(account);
    SLOT.set(Some(Slot {
        devices: devices.clone(),
        running: running.clone(),
        last_device: None,
        current: None,
    }));
    // The job catches its own panics.
    job();
    drop(SLOT.take());
    devices.leave(&running);
}

/// Runs an operation. If this thread occupies a slot, the operation is counted on its root's device
/// while it runs.
///
/// # Errors
///
/// [`Busy`](crate::ErrorKind::Busy) (`busy`) if operations on this device occupy half of the slots,
/// none of them has finished for [`PATIENCE`], and an operation of this account has been running on
/// it for that long.
///
/// An account without such an operation is not refused. The cause may be a hung mount inside the
/// root, while the account's own files are elsewhere in the root.
pub(crate) fn counted<T>(
    device: impl FnOnce() -> Option<u64>,
    operation: impl FnOnce() -> Result<T>,
) -> Result<T> {
    // An exiting thread has no slot.
    let started = SLOT.try_with(|slot| match &mut *slot.borrow_mut() {
        None => Ok(None),
        Some(slot) => device().map_or(Ok(None), |device| slot.begin(device)),
    });
    let _operation = started.unwrap_or(Ok(None))?;
    operation()
}

/// A counted operation that is running.
struct Operation {
    device: Arc<Device>,
    /// The device of the enclosing operation.
    outer: Option<u64>,
}

impl Slot {
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
            && device.is_hung(now)
            && self
                .devices
                .count(now, PATIENCE, |running| running.is_of(&self.running.account, number))
                > 0
        {
            device.running.fetch_sub(1, Relaxed);
            let detail =
                format!("{} operations on device {number} are not finishing", self.devices.half);
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
        // In this order, a thread that sees one operation fewer running also sees one more
        // finished.
        self.device.finished.fetch_add(1, Relaxed);
        self.device.running.fetch_sub(1, Relaxed);
        let _ = SLOT.try_with(|slot| {
            if let Some(slot) = &mut *slot.borrow_mut() {
                slot.current = self.outer;
                if self.outer.is_none() {
                    slot.running.since.store(NEVER, Relaxed);
                }
            }
        });
    }
}

impl Devices {
    /// Creates the state for this many slots.
    pub(super) fn new(slots: usize) -> Self {
        let half = (slots / 2).max(1);
        Self { by_number: Mutex::default(), slots: Mutex::default(), half, start: Instant::now() }
    }

    fn enter(&self, account: &Account) -> Arc<Running> {
        let (device, since) = (AtomicU64::default(), AtomicU64::new(NEVER));
        let running = Arc::new(Running { account: account.clone(), device, since });
        self.lock_slots().push(running.clone());
        running
    }

    fn leave(&self, running: &Arc<Running>) {
        self.lock_slots().retain(|other| !Arc::ptr_eq(other, running));
    }

    fn lock_slots(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Running>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The number of slots whose operation has been running for [`PATIENCE`].
    pub(super) fn hung(&self, now: Instant) -> usize {
        self.count(now, PATIENCE, |_| true)
    }

    /// The number of an account's operations that have been running for [`STUCK`]. The account's
    /// other jobs should not wait for these operations.
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
        self.lock_slots().iter().filter(hangs).count()
    }
}

impl Running {
    fn is_of(&self, account: &Account, device: u64) -> bool {
        self.account == *account && self.device.load(Relaxed) == device
    }
}

impl Device {
    /// Returns true if no operation has finished for [`PATIENCE`]. Called only while operations on
    /// the device occupy half of the slots. The first call starts the measurement and returns
    /// false.
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

/// The start time of a slot without an operation.
const NEVER: u64 = u64::MAX;

/// Idle devices are removed only when there are at least this many devices.
const IDLE_DEVICES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::SessionId;

    fn session(number: u64) -> Account {
        Account::Session(SessionId(number.try_into().unwrap()))
    }

    /// Begins an operation as a thread in its own slot would.
    fn begin_as(devices: &Arc<Devices>, account: u64, number: u64) -> Result<Option<Operation>> {
        let running = devices.enter(&session(account));
        Slot { devices: devices.clone(), running, last_device: None, current: None }.begin(number)
    }

    fn begin(devices: &Arc<Devices>, number: u64) -> Result<Option<Operation>> {
        begin_as(devices, 1, number)
    }

    #[test]
    fn operation_that_runs_for_too_long_counts_as_hung_on_any_device() {
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
    fn only_the_account_with_a_hung_operation_is_refused_on_that_device() {
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
        assert!(!refused(1), "the operation has not run for long enough");
        for slot in devices.lock_slots().iter().filter(|slot| slot.since.load(Relaxed) != NEVER) {
            slot.since.store(devices.millis(since), Relaxed);
        }
        let device = devices.device(1);
        let finished = device.finished.load(Relaxed);
        *device.watch.lock().unwrap() = Some(Watch { finished, since });
        assert!(refused(1));
        assert_eq!(device.running.load(Relaxed), 2, "a refused operation is not counted");
        assert!(begin(&devices, 2).is_ok(), "an operation on another device is allowed");
        // Another client is allowed. Its operation ends, which shows that the device responds.
        assert!(!refused(2));
        assert!(!refused(1));
        drop(running);
        assert!(begin(&devices, 1).is_ok());
    }

    #[test]
    fn nested_operation_on_the_same_device_counts_once() {
        let devices = Arc::new(Devices::new(4));
        let running = |number| devices.device(number).running.load(Relaxed);
        let mut seen = Vec::new();
        let mut look = || -> Result<()> {
            seen.push((running(1), running(2)));
            Ok(())
        };
        run_in_slot(&devices, &session(1), || {
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
        // The operations of a thread without a slot are not counted.
        counted(|| unreachable!(), &mut look).unwrap();
        assert_eq!(seen, [(1, 0), (1, 0), (1, 1), (1, 0), (0, 0), (0, 0)]);
    }

    #[test]
    fn idle_devices_are_removed() {
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
