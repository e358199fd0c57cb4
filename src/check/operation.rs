//! How every operation runs: [`Operation::run`].

use std::collections::BTreeSet;

use crate::check::CheckedPath;
use crate::dir::Budget;
use crate::error::{Code, Error, Result};
use crate::path::{IntoLocation, Location};
use crate::roots::{Intent, Root, Roots, retry_changed};

/// One call of an operation on a path, or on a source and a destination.
struct Operation<'a> {
    name: &'static str,
    roots: &'a Roots,
    source: &'a Location,
    destination: Option<&'a Location>,
}

impl Operation<'_> {
    /// Runs an operation, and repeats the attempt while the path changes concurrently. An error
    /// names the operation and its paths, unless it does already, and is reported to the operator.
    ///
    /// After any error except [`OutsideRoots`](Code::OutsideRoots), `has_lost_root` looks at the
    /// roots of the operation. If the name of one leads to no directory, the error is
    /// [`RootUnavailable`](Code::RootUnavailable).
    fn run<T>(
        self,
        mut attempt: impl FnMut(&mut Budget<'_>) -> Result<T>,
        has_lost_root: impl FnOnce(&Error) -> bool,
    ) -> Result<T> {
        let mut budget = Budget::new();
        retry_changed(|| attempt(&mut budget)).map_err(|mut error| {
            // A request that leaves the roots is refused, whether or not a root is available.
            if error.reason() != Code::OutsideRoots && has_lost_root(&error) {
                error = Code::RootUnavailable.into();
            }
            let source = self.source.sent();
            if error.reason() == Code::OutsideRoots && error.operator_detail().is_none() {
                let of_destination = self.destination.filter(|_| error.is_of_destination());
                let why = self.roots.why_outside(of_destination.unwrap_or(self.source));
                error = why.into_iter().fold(error, Error::detail);
            }
            self.roots.log_refusal(match self.destination {
                Some(destination) => error.between(self.name, source, destination.sent()),
                None => error.at(self.name, source),
            })
        })
    }
}

impl Roots {
    /// Runs an operation on a request, which each attempt decides.
    pub(crate) fn run<T>(
        &self,
        name: &'static str,
        request: &Location,
        attempt: impl FnMut(&mut Budget<'_>) -> Result<T>,
    ) -> Result<T> {
        let operation = Operation { name, roots: self, source: request, destination: None };
        operation.run(attempt, |error| self.has_lost_root(&[request], error))
    }

    /// Runs an operation on two requests, which each attempt checks for these intents.
    pub(crate) fn run_between<T>(
        &self,
        name: &'static str,
        source: impl IntoLocation,
        destination: impl IntoLocation,
        intents: [Intent; 2],
        attempt: impl Fn(&CheckedPath, &CheckedPath) -> Result<T>,
    ) -> Result<T> {
        let (from, to) = (self.location(source)?, self.location(destination)?);
        let operation = Operation { name, roots: self, source: &from, destination: Some(&to) };
        let attempt = |budget: &mut Budget<'_>| {
            let from = self.decide(&from, intents[0], budget)?;
            let to = self.decide(&to, intents[1], budget).map_err(Error::of_destination)?;
            attempt(&from, &to).map_err(|error| {
                let side = if error.is_of_destination() { &to } else { &from };
                side.in_root(error)
            })
        };
        operation.run(attempt, |error| self.has_lost_root(&[&from, &to], error))
    }

    /// Whether the name of a root where a request started, or of the one where the error happened,
    /// does not lead to what the root is.
    fn has_lost_root(&self, requests: &[&Location], error: &Error) -> bool {
        let starts = requests.iter().filter_map(|request| Some(self.start(request)?.0));
        let involved: BTreeSet<usize> = starts.chain(error.root()).collect();
        !involved.into_iter().filter_map(|number| self.root(number).ok()).all(Root::is_there)
    }
}

impl CheckedPath {
    /// Runs an operation on this place.
    pub(crate) fn run<T>(
        &self,
        name: &'static str,
        mut attempt: impl FnMut(&Self) -> Result<T>,
    ) -> Result<T> {
        let (roots, source) = (self.roots(), self.request());
        let operation = Operation { name, roots, source, destination: None };
        operation.run(|_| attempt(self), |_| !self.root().is_there())
    }

    /// Runs an operation from this place to another one.
    pub(crate) fn run_to<T>(
        &self,
        name: &'static str,
        to: &Self,
        attempt: impl Fn(&Self, &Self) -> Result<T>,
    ) -> Result<T> {
        let (roots, source, destination) = (self.roots(), self.request(), Some(to.request()));
        let operation = Operation { name, roots, source, destination };
        let has_lost_root = |_: &Error| !self.root().is_there() || !to.root().is_there();
        operation.run(|_| attempt(self, to), has_lost_root)
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
