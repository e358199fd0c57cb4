//! How every operation runs and is reported to the operator: [`Operation::run`].

use std::collections::BTreeSet;
use std::ffi::OsStr;

use crate::check::Proof;
use crate::dir::Budget;
use crate::error::{Code, Error, Result};
use crate::events::{self, AllowedOperation};
use crate::path::{IntoLocation, Location, unexpanded};
use crate::roots::{LastName, Root, Roots, Scope, display_path, retry_changed};

#[derive(Clone, Copy)]
pub(crate) struct Name<'a> {
    text: &'static str,
    /// The target of a symlink, as it was sent.
    target: Option<&'a OsStr>,
    /// Whether a later operation, which this one prepares, reports success.
    is_preparation: bool,
}

impl From<&'static str> for Name<'_> {
    fn from(text: &'static str) -> Self {
        Self { text, target: None, is_preparation: false }
    }
}

impl<'a> Name<'a> {
    pub(crate) fn with_target(text: &'static str, target: &'a OsStr) -> Self {
        Self { target: Some(target), ..text.into() }
    }

    pub(crate) fn preparing(text: &'static str) -> Self {
        Self { is_preparation: true, ..text.into() }
    }
}

struct Operation<'a> {
    name: Name<'a>,
    roots: &'a Roots,
    source: &'a Location,
    destination: Option<&'a Location>,
}

impl Operation<'_> {
    /// Repeats the attempt while the path changes concurrently. An error names the operation and
    /// its paths, unless it does already, and is reported to the operator. The caller reports
    /// success.
    ///
    /// Any error except [`OutsideRoots`](Code::OutsideRoots) and that of ended roots becomes
    /// [`RootUnavailable`](Code::RootUnavailable) if a root of the operation is lost: its name does
    /// not lead to what it is.
    fn run<T>(
        self,
        mut attempt: impl FnMut(&mut Budget<'_>) -> Result<T>,
        has_lost_root: impl FnOnce(&Error) -> bool,
    ) -> Result<T> {
        let mut budget = Budget::new();
        let attempt = || {
            // Defense: Nothing begins through roots that have ended.
            self.roots.ensure_usable()?;
            attempt(&mut budget)
        };
        retry_changed(attempt).map_err(|mut error| {
            // A request that leaves the roots is refused, whether or not a root is available. So is
            // one whose roots have ended.
            let is_known = matches!(
                error.reason(),
                Code::OutsideRoots | Code::RootUnavailable | Code::Custom { .. }
            );
            if !is_known && has_lost_root(&error) {
                error = Code::RootUnavailable.into();
            }
            let source = self.source.sent();
            let of_destination = self.destination.filter(|_| error.is_of_destination());
            let refused = of_destination.unwrap_or(self.source);
            if error.reason() == Code::OutsideRoots && error.operator_detail().is_none() {
                let why = self.roots.why_outside(refused);
                error = why.into_iter().fold(error, Error::with_operator_detail);
            } else if error.reason() == Code::NotFound {
                let hint = unexpanded(refused.as_os_str()).map(str::to_owned);
                error = hint.into_iter().fold(error, Error::with_outcome);
            }
            self.roots.log_refused(
                match self.destination.map(Location::sent).or(self.name.target) {
                    Some(destination) => error.between(self.name.text, source, destination),
                    None => error.with_request(self.name.text, source),
                },
            )
        })
    }
}

impl Roots {
    pub(crate) fn run<'a, T>(
        &self,
        name: impl Into<Name<'a>>,
        request: &Location,
        last_name: LastName,
        work: impl FnMut(&Proof, &mut Budget<'_>) -> Result<T>,
    ) -> Result<T> {
        self.run_directly(name, request, last_name, || None, work)
    }

    pub(crate) fn operate<T>(
        &self,
        name: &'static str,
        request: impl IntoLocation,
        last_name: LastName,
        mut attempt: impl FnMut(&Proof) -> Result<T>,
    ) -> Result<T> {
        let request = self.location(request)?;
        self.run(name, &request, last_name, |place, _| attempt(place))
    }

    /// Like [`run`](Self::run), with a shortcut that does not learn which place the request names,
    /// and is not taken when that place would be reported.
    pub(crate) fn run_directly<'a, T>(
        &self,
        name: impl Into<Name<'a>>,
        request: &Location,
        last_name: LastName,
        mut shortcut: impl FnMut() -> Option<Result<T>>,
        mut work: impl FnMut(&Proof, &mut Budget<'_>) -> Result<T>,
    ) -> Result<T> {
        let name = name.into();
        let operation = Operation { name, roots: self, source: request, destination: None };
        let attempt = |budget: &mut Budget<'_>| {
            if !events::may_log_allowed() {
                if let Some(done) = shortcut() {
                    return done;
                }
            }
            let place = self.decide(request, last_name, budget)?;
            let done = work(&place, budget).map_err(|error| place.in_root(error))?;
            place.log_done(name, place.request().sent(), None);
            Ok(done)
        };
        operation.run(attempt, |error| self.has_lost_root(&[request], error))
    }

    pub(super) fn run_check(
        &self,
        request: &Location,
        decide: impl FnMut(&mut Budget<'_>) -> Result<Proof>,
    ) -> Result<Proof> {
        let name = "check".into();
        let operation = Operation { name, roots: self, source: request, destination: None };
        let checked = operation.run(decide, |error| self.has_lost_root(&[request], error))?;
        checked.log_done(name, checked.request().sent(), None);
        Ok(checked)
    }

    pub(crate) fn run_between<'a, T>(
        &self,
        name: impl Into<Name<'a>>,
        source: impl IntoLocation,
        destination: impl IntoLocation,
        last_names: [LastName; 2],
        attempt: impl Fn(&Proof, &Proof) -> Result<T>,
    ) -> Result<T> {
        let (from, to) = (self.location(source)?, self.location(destination)?);
        let name = name.into();
        let operation = Operation { name, roots: self, source: &from, destination: Some(&to) };
        let attempt = |budget: &mut Budget<'_>| {
            let from = self.decide(&from, last_names[0], budget)?;
            let to = self.decide(&to, last_names[1], budget).map_err(Error::of_destination)?;
            let done = attempt(&from, &to).map_err(|error| {
                let side = if error.is_of_destination() { &to } else { &from };
                side.in_root(error)
            })?;
            from.log_done(name, from.request().sent(), Some(&to));
            Ok(done)
        };
        operation.run(attempt, |error| self.has_lost_root(&[&from, &to], error))
    }

    /// Whether a root in which a request started, or in which the error happened, is lost.
    fn has_lost_root(&self, requests: &[&Location], error: &Error) -> bool {
        let starts = requests.iter().filter_map(|request| Some(self.start(request)?.0));
        let involved: BTreeSet<usize> = starts.chain(error.root()).collect();
        !involved.into_iter().filter_map(|number| self.root(number).ok()).all(Root::is_there)
    }
}

impl Error {
    /// Logs this refusal with the event [`refused`](crate#events), and returns it. The event has the
    /// number of the request or session that the roots belong to, if there is one.
    ///
    /// For a program that refuses requests for reasons of its own, such as an agent whose user
    /// declined, so that the operator's log has every refusal in one form. Errors of [`Roots`] and
    /// of proofs have been logged already. Without the feature `tracing`, this does nothing.
    #[must_use]
    pub fn logged(self, roots: &Roots) -> Self {
        events::refused(roots.scope().map(Scope::number), &self);
        self
    }
}

impl Proof {
    pub(crate) fn run<'a, T>(
        &self,
        name: impl Into<Name<'a>>,
        mut attempt: impl FnMut(&Self) -> Result<T>,
    ) -> Result<T> {
        let (name, roots, source) = (name.into(), self.roots(), self.request());
        let operation = Operation { name, roots, source, destination: None };
        let done = operation.run(|_| attempt(self), |_| !self.root().is_there())?;
        self.log_done(name, source.sent(), None);
        Ok(done)
    }

    pub(crate) fn run_to<'a, T>(
        &self,
        name: impl Into<Name<'a>>,
        to: &Self,
        attempt: impl Fn(&Self, &Self) -> Result<T>,
    ) -> Result<T> {
        let (roots, source, destination) = (self.roots(), self.request(), Some(to.request()));
        let name = name.into();
        let operation = Operation { name, roots, source, destination };
        let has_lost_root = |_: &Error| !self.root().is_there() || !to.root().is_there();
        let attempt = |_: &mut Budget<'_>| {
            // The destination can be of other roots.
            to.roots().ensure_usable().map_err(Error::of_destination)?;
            attempt(self, to)
        };
        let done = operation.run(attempt, has_lost_root)?;
        self.log_done(name, source.sent(), Some(to));
        Ok(done)
    }

    pub(crate) fn log_done<'a>(
        &self,
        name: impl Into<Name<'a>>,
        request: &OsStr,
        destination: Option<&Self>,
    ) {
        let name = name.into();
        if name.is_preparation || !events::may_log_allowed() {
            return;
        }
        events::allowed(
            self.roots().scope().map(Scope::number),
            &AllowedOperation {
                operation: name.text,
                request,
                root: display_path(self.root().path()),
                path: self.display_path(),
                destination: destination.map(|to| to.request().sent()).or(name.target),
                destination_path: destination.map(Self::display_path),
            },
        );
    }

    fn in_root(&self, error: Error) -> Error {
        if error.root().is_none() { error.in_root(self.root_number()) } else { error }
    }
}
