//! What a snapshot belongs to.

use std::num::NonZeroU64;

use crate::error::Result;

/// What [`Roots`](crate::Roots) belong to, such as a request, a session or the turn of an agent,
/// and how long they may be used. Roots from configuration belong to nobody.
///
/// The roots that [`Roots::in_scope`](crate::Roots::in_scope) returns belong to a scope. So do
/// their clones, the roots narrowed from them, and the proofs and walks made from these. The scope
/// is asked before each check of a request, each change of a file, each directory of a walk and
/// each mebibyte of a copy. It is not asked when an existing proof is used for reading, or when a
/// listing or an open file is read further, so drop these when the scope ends.
///
/// An implementation answers at once, on any thread. It must not block, panic or use roots, because
/// a lock may be held. It must not contain the roots that belong to it, because they contain the
/// scope.
///
/// ```
/// use std::num::NonZeroU64;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
///
/// use guarded_fs::{Error, ErrorKind, Result, Roots, Scope, Use};
///
/// /// A turn of an agent, which its user can end.
/// struct Turn {
///     number: NonZeroU64,
///     user: String,
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
///         &self.user
///     }
///
///     fn ensure_usable(&self, _: Use) -> Result<()> {
///         let ended = || Error::new(TURN_ENDED, "turn_ended", "the user ended this turn");
///         if self.has_ended.load(SeqCst) { Err(ended()) } else { Ok(()) }
///     }
/// }
///
/// # let project = tempfile::tempdir().unwrap();
/// let (number, user) = (NonZeroU64::MIN, "alice".to_owned());
/// let turn = Arc::new(Turn { number, user, has_ended: AtomicBool::new(false) });
/// let roots = Roots::from_dirs([project.path()])?.in_scope(turn.clone());
/// roots.write("a.txt", "text")?;
///
/// turn.has_ended.store(true, SeqCst);
/// assert_eq!(roots.write("b.txt", "text").unwrap_err().kind(), TURN_ENDED);
/// # Ok::<(), guarded_fs::Error>(())
/// ```
pub trait Scope: Send + Sync {
    /// The number of the session, request or turn in the [events](crate#events). The numbers of
    /// sessions and of requests of the stateless era begin at 1.
    fn number(&self) -> NonZeroU64;

    /// Names the client that the work is charged to. Empty if it is unknown. The child processes of
    /// scopes with the same name are counted together, so that no client takes those of others.
    fn share(&self) -> &str;

    /// Fails if the roots may no longer be used for this. By default, they always may.
    ///
    /// # Errors
    ///
    /// The scope's own, usually made with [`Error::new`](crate::Error::new). The operation that
    /// asked returns it.
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
    /// Work that begins, or its next step, such as a child process while it runs. It may also be
    /// refused because the request was cancelled or the client has changed its roots.
    Work,
}
