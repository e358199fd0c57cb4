//! The time between two changes of a client's list: [`Epoch`].

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use guarded_fs::Result;
use guarded_fs::host::Scope;

use crate::session::errors::{CHANGED, roots_stale, session_closed};
use crate::session::runtime::AtomicU8;

/// An epoch of a session. It is over once the client has changed its list, or the session is
/// closed. It is also the scope of the snapshots that were obtained in it, so one value says both
/// that a snapshot may not serve a new call, and that nothing begins through it.
#[derive(Debug)]
pub(crate) struct Epoch {
    session: NonZeroU64,
    share: Arc<str>,
    /// [`CURRENT`], [`WITHDRAWN`] or [`CLOSED`].
    end: AtomicU8,
}

impl Epoch {
    pub(crate) fn new(session: NonZeroU64, share: Arc<str>) -> Self {
        Self { session, share, end: AtomicU8::new(CURRENT) }
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.load(SeqCst) != CURRENT
    }

    /// The client has changed its list. Returns the next epoch.
    pub(super) fn withdraw(&self) -> Self {
        self.end.store(WITHDRAWN, SeqCst);
        Self::new(self.session, self.share.clone())
    }

    pub(super) fn close(&self) {
        self.end.store(CLOSED, SeqCst);
    }
}

impl Scope for Epoch {
    fn number(&self) -> NonZeroU64 {
        self.session
    }

    fn share(&self) -> &str {
        &self.share
    }

    fn ensure_usable(&self) -> Result<()> {
        match self.end.load(SeqCst) {
            CURRENT => Ok(()),
            // Defense: Withdrawn roots allow nothing.
            WITHDRAWN => Err(roots_stale(CHANGED)),
            _ => Err(session_closed()),
        }
    }
}

const CURRENT: u8 = 0;
const WITHDRAWN: u8 = 1;
const CLOSED: u8 = 2;
