//! Observes a client's messages before the server's SDK, whichever it is, handles them.

use std::sync::Arc;

use guarded_fs::{Error, Result};

use crate::session::errors::no_session;
use crate::session::runtime::{Mutex, lock};
use crate::session::{Guard, Session};
use crate::wire::Effect;

/// Observes the messages of one client, begins its [`Session`], and records changes to its roots.
/// An observer is cheap to clone, and all clones share the session.
///
/// Use this with any SDK that does not have an adapter in this crate. Create an observer for each
/// connection, and call [`observe`](Self::observe) for each message before the SDK handles it, as
/// [a recipe](crate::recipes#a-server-with-another-sdk) does: copy the client's stream to the SDK,
/// or wrap the SDK's transport. In each tool, obtain the roots from the [`session`](Self::session).
///
/// The session begins with the client's first `initialize` that contains valid capabilities. Until
/// then, calls are refused. A later `initialize` counts as a change of roots, but the session keeps
/// its capabilities. It remains open at the end of the stream, so that requests in progress can
/// still be answered, and closes when the observer, its clones and the sessions obtained from it
/// have all been dropped, or when [`Session::close`] is called.
///
/// ```
/// use mcp_roots_guard::{Boundary, Guard, RootsState};
///
/// let guard = Guard::new(Boundary::any_listed().build()?);
/// let observer = guard.observer();
/// assert!(observer.session().is_err()); // The client has sent nothing yet.
/// // Each message, before the SDK handles it.
/// observer.observe(br#"{"method":"initialize","params":{"capabilities":{"roots":{}}}}"#);
/// // In each tool.
/// let session = observer.session()?;
/// assert_eq!(session.state(), RootsState::Unknown);
/// # Ok::<(), mcp_roots_guard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Observer {
    guard: Guard,
    /// The session or, until it begins, the error with which calls are refused.
    session: Arc<Mutex<Result<Session>>>,
}

impl Guard {
    /// Returns an observer for the messages of one client.
    #[must_use]
    pub fn observer(&self) -> Observer {
        let none = no_session("the client has not sent initialize");
        Observer { guard: self.clone(), session: Arc::new(Mutex::new(Err(none))) }
    }
}

impl Observer {
    /// Observes an incoming message. Call this for each of the client's messages, in the order in
    /// which they arrive, before the SDK sees the message. A change takes effect before this method
    /// returns.
    ///
    /// The message is the JSON of one message or of a batch, which a wrapper of a transport can
    /// serialize again. One that cannot be parsed, or that is longer than
    /// [`MESSAGE_BYTES`](crate::limits::MESSAGE_BYTES), counts as a change, because it may contain
    /// one. A wrapper does not see the messages that the transport drops.
    pub fn observe(&self, message: &[u8]) {
        let effect = Effect::of(message);
        // The lock is released before the change is logged, because a log subscriber may call this
        // observer.
        let session = match (&mut *lock(&self.session), effect) {
            (_, Effect::None) | (Err(_), Effect::Changed) => return,
            (none @ Err(_), Effect::Initialize(declared)) => {
                let malformed = "the capabilities in initialize are missing or malformed";
                let declared = declared.ok_or_else(|| no_session(malformed));
                *none = declared.and_then(|declared| self.guard.session(declared));
                return;
            }
            (Ok(session), Effect::Changed | Effect::Initialize(_)) => session.clone(),
        };
        session.list_changed();
    }

    /// Returns the client's session.
    ///
    /// # Errors
    ///
    /// [`NO_SESSION`](crate::kinds::NO_SESSION) if the client has not sent `initialize` with valid
    /// capabilities, and [`BUSY`](crate::kinds::BUSY) (`too_many_sessions`) if
    /// [`SESSIONS`](crate::limits::SESSIONS) sessions were open when it did.
    pub fn session(&self) -> Result<Session> {
        lock(&self.session).as_ref().map(Session::clone).map_err(Error::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::epoch::Epoch;
    use crate::wire::ClientCapabilities;
    use guarded_fs::Boundary;

    const INITIALIZE: &str = concat!(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","#,
        r#""params":{"capabilities":{"roots":{"listChanged":true}}}}"#
    );
    const CHANGE: &str = r#"{"method":"notifications/roots/list_changed"}"#;

    fn guard() -> Guard {
        Guard::new(Boundary::any_listed().build().unwrap())
    }

    fn epoch(observer: &Observer) -> Arc<Epoch> {
        observer.session().unwrap().client().epoch().unwrap()
    }

    #[test]
    fn a_session_begins_with_the_first_readable_initialize_and_keeps_its_capabilities() {
        let guard = guard();
        let observer = guard.observer();
        let refusal = |observer: &Observer| {
            let error = observer.session().unwrap_err();
            (error.code(), error.operator_detail().unwrap().to_owned())
        };
        let none = ("no_session", "the client has not sent initialize".to_owned());
        assert_eq!(refusal(&observer), none);
        observer.observe(CHANGE.as_bytes());
        observer.observe(format!("[{INITIALIZE}]").as_bytes());
        assert_eq!(refusal(&observer), none);
        observer.observe(br#"{"method":"initialize","params":{"capabilities":[]}}"#);
        let malformed = "the capabilities in initialize are missing or malformed";
        assert_eq!(refusal(&observer), ("no_session", malformed.to_owned()));
        assert_eq!(guard.sessions(), 0);

        observer.observe(INITIALIZE.as_bytes());
        let session = observer.session().unwrap();
        let announcing = ClientCapabilities::WithAnnouncedRoots;
        assert_eq!(session.client().declared, announcing);
        let first = epoch(&observer);
        observer.observe(br#"{"method":"initialize","params":{"capabilities":{}}}"#);
        assert_eq!(
            (observer.session().unwrap().id(), session.client().declared),
            (session.id(), announcing)
        );
        assert!(!Arc::ptr_eq(&epoch(&observer), &first));

        // What may be a change counts as one.
        let mut last = epoch(&observer);
        let call = r#"{"method":"tools/call","id":1}"#;
        let long = "[".to_owned() + &" ".repeat(crate::limits::MESSAGE_BYTES) + "]";
        for (message, changes) in [
            (call, false),
            (CHANGE, true),
            (&*format!("[{call},{CHANGE}]"), true),
            (r#"{"m\u0065thod":"notifications\/roots/list_changed"}"#, true),
            ("?", true),
            (&*long, true),
        ] {
            observer.observe(message.as_bytes());
            let now = epoch(&observer);
            let has_changed = !Arc::ptr_eq(&now, &last);
            assert_eq!(has_changed, changes, "{}", &message[..message.len().min(80)]);
            last = now;
        }

        drop((session, observer));
        assert_eq!(guard.sessions(), 0);
    }
}
