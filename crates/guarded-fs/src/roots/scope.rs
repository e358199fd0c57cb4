//! What a snapshot belongs to.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::error::{Code, Error, Result};

/// What [`Roots`](crate::Roots) belong to, such as a request, a session or the turn of an agent,
/// and whether it is over. Roots from configuration belong to nobody.
///
/// A program that only needs to stop work uses [`Roots::stoppable`](crate::Roots::stoppable).
///
/// The roots that [`in_scope`](crate::host::in_scope) returns belong to a scope. So do
/// their clones, the roots narrowed from them, and the proofs, walks and entries made from these.
/// Once the scope is over, nothing begins through any of them:
///
/// | what | asks the scope |
/// | --- | --- |
/// | an operation of roots, of a proof or of an entry | when it begins, and again each time it is repeated because its path changed |
/// | [`Walk`](crate::Walk), [`ReadDir`](crate::ReadDir) | before each entry |
/// | a copy, or a [hash](crate::ContentHash) of a file | before each piece of at most a mebibyte |
/// | a removal of a directory tree, and the search of one for protected names | before each entry |
/// | any other change | immediately before it is made |
/// | [`AtomicFile`](crate::AtomicFile) | at its commit, immediately before the file is renamed |
/// | [`ChangeSet`](crate::ChangeSet) | when a change is added, and while the commit verifies the changes; for the last time before the first one is made |
/// | a child process of `guarded-process` | before it starts, and while it runs, twenty times a second |
/// | an open file ([`OpenFile`](crate::OpenFile)) | never: what is open stays open |
/// | cleaning up: temporary files, created parents | never |
/// | what looks nothing up, such as [`Roots::iter`](crate::Roots::iter), [`Proof::parent`](crate::Proof::parent) and texts | never |
///
/// An implementation answers at once, on any thread, because every entry of a walk asks. It must
/// not block, panic or use roots, because a lock may be held. It must not contain the roots that
/// belong to it, because they contain the scope.
pub trait Scope: Send + Sync {
    /// The number of the session, request or turn in the [events](crate#events). Each crate that
    /// implements this trait counts its own from 1.
    fn number(&self) -> NonZeroU64;

    /// Names the client that the work is charged to. Empty if it is unknown. The child processes of
    /// scopes with the same name are counted together, so that no client takes those of others.
    fn share(&self) -> &str;

    /// Fails if the roots may no longer be used. By default, they always may.
    ///
    /// # Errors
    ///
    /// The scope's own, usually made with [`Error::new`](crate::Error::new). The operation that
    /// asked returns it, with its request.
    fn ensure_usable(&self) -> Result<()> {
        Ok(())
    }
}

/// Stops the [roots](crate::Roots::stoppable) that were returned with it, at the latest when it is
/// dropped.
///
/// ```
/// use guarded_fs::{Access, ErrorKind, Roots};
///
/// # let project = tempfile::tempdir().unwrap();
/// let (roots, turn) = Roots::from_dirs([project.path()], Access::ReadWrite)?.stoppable();
/// roots.write("a.txt", "text")?;
/// let file = roots.check("a.txt")?;
///
/// // On any thread.
/// turn.stop("the user ended this turn");
/// let refused = file.read(1 << 20).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::Stopped);
/// assert_eq!(refused.to_string(), r#"read "a.txt": stopped; the user ended this turn"#);
/// # Ok::<(), guarded_fs::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the roots are stopped when this is dropped"]
pub struct StopHandle {
    scope: Arc<StoppableScope>,
}

#[derive(Debug)]
struct StoppableScope {
    number: NonZeroU64,
    /// Why the roots were stopped.
    reason: OnceLock<String>,
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl StopHandle {
    pub(super) fn new() -> Self {
        let number = NUMBERS.fetch_add(1, Relaxed);
        let number = NonZeroU64::new(number).unwrap_or(NonZeroU64::MAX);
        Self { scope: Arc::new(StoppableScope { number, reason: OnceLock::new() }) }
    }

    pub(super) fn scope(&self) -> Arc<dyn Scope> {
        self.scope.clone()
    }

    /// Stops the roots. What they refuse from now on contains `reason`, which a model reads. Only
    /// the first call counts.
    pub fn stop(&self, reason: impl Into<String>) {
        let _ = self.scope.reason.set(reason.into());
    }
}

impl Drop for StopHandle {
    fn drop(&mut self) {
        self.stop("its handle was dropped");
    }
}

impl Scope for StoppableScope {
    fn number(&self) -> NonZeroU64 {
        self.number
    }

    fn share(&self) -> &'static str {
        ""
    }

    fn ensure_usable(&self) -> Result<()> {
        match self.reason.get() {
            Some(reason) => Err(Error::from(Code::Stopped).with_outcome(reason.clone())),
            None => Ok(()),
        }
    }
}

/// The scope of roots that already belonged to `outer`, and end with either.
pub(super) struct NestedScope {
    pub(super) outer: Arc<dyn Scope>,
    pub(super) inner: Arc<dyn Scope>,
}

impl Scope for NestedScope {
    fn number(&self) -> NonZeroU64 {
        self.outer.number()
    }

    fn share(&self) -> &str {
        self.outer.share()
    }

    fn ensure_usable(&self) -> Result<()> {
        self.outer.ensure_usable()?;
        self.inner.ensure_usable()
    }
}

/// The scope of changes that have begun, and are made even if `0` ends meanwhile.
pub(super) struct BegunScope(pub(super) Arc<dyn Scope>);

impl Scope for BegunScope {
    fn number(&self) -> NonZeroU64 {
        self.0.number()
    }

    fn share(&self) -> &str {
        self.0.share()
    }

    /// Asks the scope, which can count how often it is asked, and ignores its answer.
    fn ensure_usable(&self) -> Result<()> {
        let _ = self.0.ensure_usable();
        Ok(())
    }
}
