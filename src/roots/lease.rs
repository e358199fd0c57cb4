//! How long the roots of a request serve.
//!
//! A handler is lent roots for its request, and can clone them. All clones share one [`Lease`], and after
//! its end they refuse whatever is asked of them: a client that withdraws its roots cannot stop what no
//! request does. A proof ([`CheckedPath`](crate::CheckedPath)) has no lease, because a subscription keeps
//! it and asks the session whether it still stands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// It ends once, and for all clones of the roots.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    is_over: AtomicBool,
    /// Where no handler's work ends it: rmcp cancels this when the request is answered or cancelled.
    request: Option<CancellationToken>,
}

impl Lease {
    /// Until the request is answered or cancelled, if it does not end before.
    pub(crate) fn of_request(request: CancellationToken) -> Self {
        Self { is_over: AtomicBool::new(false), request: Some(request) }
    }

    pub(crate) fn is_over(&self) -> bool {
        // What one thread ends, another may see a moment later: the request is being answered then.
        self.is_over.load(Ordering::Acquire) || self.request.as_ref().is_some_and(CancellationToken::is_cancelled)
    }
}

/// Ends a lease when it is dropped.
#[derive(Debug)]
pub(crate) struct EndOnDrop(pub(crate) Arc<Lease>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}
