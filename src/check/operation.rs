//! How every operation runs: [`Operation::run`].

use crate::check::CheckedPath;
use crate::dir::Budget;
use crate::error::{Code, Error, Result};
use crate::path::{IntoLocation, Location};
use crate::roots::{Intent, Root, Roots, retry_changed};

/// One call of an operation on a path, or on a source and a destination.
pub(crate) struct Operation<'a> {
    pub(crate) name: &'static str,
    pub(crate) source: Side<'a>,
    pub(crate) destination: Option<Side<'a>>,
}

/// A path of an operation.
#[derive(Clone, Copy)]
pub(crate) enum Side<'a> {
    /// A request, which each attempt decides.
    Request(&'a Roots, &'a Location),
    /// A place that was checked before.
    Checked(&'a CheckedPath),
}

impl Operation<'_> {
    /// Runs an operation, and repeats the attempt while the path changes concurrently. An error
    /// names the operation and its paths, unless it does already, and is reported to the operator.
    ///
    /// After any error except [`OutsideRoots`](Code::OutsideRoots), this looks at the roots of the
    /// operation. If the name of one leads to no directory, the error is
    /// [`RootUnavailable`](Code::RootUnavailable).
    pub(crate) fn run<T>(self, mut attempt: impl FnMut(&mut Budget<'_>) -> Result<T>) -> Result<T> {
        let mut budget = Budget::new();
        retry_changed(|| attempt(&mut budget)).map_err(|error| {
            let (roots, source) = self.source.parts();
            let error = match self.destination.map(Side::parts) {
                Some((_, to)) => self.explain(error).between(self.name, source.sent(), to.sent()),
                None => self.explain(error).at(self.name, source.sent()),
            };
            roots.log_refusal(error)
        })
    }

    fn explain(&self, error: Error) -> Error {
        // A request that leaves the roots is refused, whether or not a root is available.
        if error.reason() == Code::OutsideRoots {
            return error;
        }
        let is_of_destination = error.is_of_destination();
        let reached = |is_it: bool| error.root().filter(|_| is_it);
        if self.source.has_lost_root(reached(!is_of_destination)) {
            return Code::RootUnavailable.into();
        }
        match self.destination {
            Some(side) if side.has_lost_root(reached(is_of_destination)) => {
                Error::from(Code::RootUnavailable).of_destination()
            }
            _ => error,
        }
    }
}

impl<'a> Side<'a> {
    fn parts(self) -> (&'a Roots, &'a Location) {
        match self {
            Self::Request(roots, request) => (roots, request),
            Self::Checked(place) => (place.roots(), place.request()),
        }
    }

    /// Whether the name of the root where the request started, or of the one with the number
    /// `reached`, does not lead to what the root is.
    fn has_lost_root(self, reached: Option<usize>) -> bool {
        match self {
            Self::Request(roots, request) => {
                let start = roots.start(request).map(|(number, _)| number);
                let involved = [start, reached.filter(|reached| Some(*reached) != start)];
                let involved = involved.into_iter().flatten();
                !involved.filter_map(|number| roots.root(number).ok()).all(Root::is_there)
            }
            Self::Checked(place) => !place.root().is_there(),
        }
    }
}

impl Roots {
    /// Runs an operation on a request.
    pub(crate) fn run<T>(
        &self,
        name: &'static str,
        request: &Location,
        attempt: impl FnMut(&mut Budget<'_>) -> Result<T>,
    ) -> Result<T> {
        Operation { name, source: Side::Request(self, request), destination: None }.run(attempt)
    }

    /// Runs an operation on two requests, which are checked for these intents.
    pub(crate) fn run_between<T>(
        &self,
        name: &'static str,
        source: impl IntoLocation,
        destination: impl IntoLocation,
        intents: [Intent; 2],
        attempt: impl Fn(&CheckedPath, &CheckedPath) -> Result<T>,
    ) -> Result<T> {
        let (from, to) = (self.location(source)?, self.location(destination)?);
        let (source, destination) = (Side::Request(self, &from), Some(Side::Request(self, &to)));
        Operation { name, source, destination }.run(|budget| {
            let from = self.decide(&from, intents[0], budget)?;
            let to = self.decide(&to, intents[1], budget).map_err(Error::of_destination)?;
            attempt(&from, &to).map_err(|error| {
                let side = if error.is_of_destination() { &to } else { &from };
                side.in_root(error)
            })
        })
    }
}

impl CheckedPath {
    /// Runs an operation on this place.
    pub(crate) fn run<T>(
        &self,
        name: &'static str,
        mut attempt: impl FnMut(&Self) -> Result<T>,
    ) -> Result<T> {
        let operation = Operation { name, source: Side::Checked(self), destination: None };
        operation.run(|_| attempt(self))
    }

    /// Runs an operation from this place to another one.
    pub(crate) fn run_to<T>(
        &self,
        name: &'static str,
        to: &Self,
        attempt: impl Fn(&Self, &Self) -> Result<T>,
    ) -> Result<T> {
        let (source, destination) = (Side::Checked(self), Some(Side::Checked(to)));
        Operation { name, source, destination }.run(|_| attempt(self, to))
    }

    /// Attempts an operation on this place, which was checked in the same attempt. An error says in
    /// which root it happened.
    pub(crate) fn attempt<T>(&self, work: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        work(self).map_err(|error| self.in_root(error))
    }

    fn in_root(&self, error: Error) -> Error {
        match self.root_number() {
            Some(number) if error.root().is_none() => error.in_root(number),
            _ => error,
        }
    }
}
