//! What a snapshot belongs to.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::error::{Error, Result};

/// What [`Roots`](crate::Roots) belong to, such as a request, a session or the turn of an agent,
/// and how long they may be used. Roots from configuration belong to nobody.
///
/// [`Roots::in_scope`](crate::Roots::in_scope) returns roots that belong to a scope. Everything
/// made from them belongs to it too: proofs, narrowed roots, walks.
///
/// An implementation must not contain the roots that belong to it, because they contain the scope.
///
/// ```
/// use std::num::NonZeroU64;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
///
/// use mcp_roots_guard::{Error, ErrorKind, Result, Roots, Scope, Use};
///
/// /// A turn of an agent, which its user can end.
/// struct Turn {
///     number: NonZeroU64,
///     has_ended: AtomicBool,
/// }
///
/// const TURN_ENDED: ErrorKind = ErrorKind::Other("turn_ended");
///
/// impl Scope for Turn {
///     fn number(&self) -> NonZeroU64 {
///         self.number
///     }
///
///     fn share(&self) -> &str {
///         "the user"
///     }
///
///     fn ensure_usable(&self, _: Use) -> Result<()> {
///         let ended = || Error::new(TURN_ENDED, "turn_ended", "the user ended this turn");
///         if self.has_ended.load(SeqCst) { Err(ended()) } else { Ok(()) }
///     }
/// }
///
/// # let project = tempfile::tempdir().unwrap();
/// let turn = Arc::new(Turn { number: NonZeroU64::MIN, has_ended: AtomicBool::new(false) });
/// let roots = Roots::from_dirs([project.path()])?.in_scope(turn.clone());
/// roots.write("a.txt", "text")?;
///
/// turn.has_ended.store(true, SeqCst);
/// assert_eq!(roots.write("b.txt", "text").unwrap_err().kind(), TURN_ENDED);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
pub trait Scope: Send + Sync {
    /// The number of the request, session or turn in the operator's log.
    fn number(&self) -> NonZeroU64;

    /// Names the client that the work is charged to. The child processes of scopes with the same
    /// name are counted together. Empty if the client is unknown.
    fn share(&self) -> &str;

    /// Why the client's list is not known, if only the directories that are
    /// [always](crate::DirectoryOptions::always) in force are served for that reason. It replaces
    /// the text of refusals. `None` by default.
    fn failure(&self) -> Option<&Error> {
        None
    }

    /// Returns an error if the roots may no longer be used for this. By default, they may always
    /// be.
    ///
    /// # Errors
    ///
    /// The scope's own, which the operation returns.
    fn ensure_usable(&self, _: Use) -> Result<()> {
        Ok(())
    }
}

/// What roots are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Use {
    /// An operation, or a step of a long one. Every operation asks, so the answer should cost next
    /// to nothing.
    Operation,
    /// Work that begins, such as a child process. This may also be refused if the request was
    /// cancelled or the client has changed its roots, after which operations that began still end.
    Work,
}

/// A scope within another one. Its roots may be used while those of both may be.
pub(super) struct NestedScope {
    pub(super) outer: Arc<dyn Scope>,
    pub(super) inner: Arc<dyn Scope>,
}

impl Scope for NestedScope {
    fn number(&self) -> NonZeroU64 {
        self.inner.number()
    }

    fn share(&self) -> &str {
        self.inner.share()
    }

    fn failure(&self) -> Option<&Error> {
        self.inner.failure().or_else(|| self.outer.failure())
    }

    fn ensure_usable(&self, used_for: Use) -> Result<()> {
        self.inner.ensure_usable(used_for)?;
        // No scope lifts the end of the one that the roots came from.
        self.outer.ensure_usable(used_for)
    }
}
