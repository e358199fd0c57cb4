//! How every operation runs: [`Operation::run`].

use std::ffi::OsStr;

use crate::check::CheckedPath;
use crate::dir::Budget;
use crate::error::{Code, Error, Result};
use crate::path::{IntoLocation, Location};
use crate::roots::{Intent, Root, Roots, retry_changed};

/// One call of an operation on a path, or on a source and a destination.
pub(crate) struct Operation<'a> {
    name: &'static str,
    source: Side<'a>,
    destination: Option<Side<'a>>,
    /// The text of the source and of the destination, as they were sent.
    sent: (&'a OsStr, Option<&'a OsStr>),
}

/// A path of an operation.
#[derive(Clone, Copy)]
pub(crate) enum Side<'a> {
    /// A request, which each attempt decides.
    Request(&'a Roots, &'a Location),
    /// A place that was checked before.
    Checked(&'a CheckedPath),
}

impl<'a> Operation<'a> {
    pub(crate) fn on(name: &'static str, source: Side<'a>) -> Self {
        Self { name, source, destination: None, sent: (source.sent(), None) }
    }

    pub(crate) fn between(name: &'static str, source: Side<'a>, destination: Side<'a>) -> Self {
        let sent = (source.sent(), Some(destination.sent()));
        Self { destination: Some(destination), sent, ..Self::on(name, source) }
    }

    /// Adds the text that an error shows as the destination, which is no path of the operation.
    pub(crate) fn to_text(self, text: &'a OsStr) -> Self {
        Self { sent: (self.sent.0, Some(text)), ..self }
    }

    /// Shows this text in errors instead of the source.
    pub(crate) fn shown_as(self, sent: &'a OsStr) -> Self {
        Self { sent: (sent, self.sent.1), ..self }
    }

    /// Runs an operation, and retries it while the path changes concurrently. An error names the
    /// operation and its paths, and is reported to the operator.
    ///
    /// After any error except [`OutsideRoots`](Code::OutsideRoots), this looks at the roots of the
    /// operation. If the name of one leads to no directory, the error is
    /// [`RootUnavailable`](Code::RootUnavailable).
    pub(crate) fn run<T>(self, attempt: impl FnMut(&mut Budget<'_>) -> Result<T>) -> Result<T> {
        let roots = self.source.roots();
        self.run_as_part(attempt).map_err(|error| roots.log_refusal(error))
    }

    /// Like [`run`](Self::run), for a part of an operation, which reports the error.
    pub(crate) fn run_as_part<T>(
        self,
        mut attempt: impl FnMut(&mut Budget<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut budget = Budget::new();
        retry_changed(|| attempt(&mut budget)).map_err(|error| {
            let error = self.explain(error);
            match self.sent {
                (source, Some(destination)) => error.between(self.name, source, destination),
                (source, None) => error.at(self.name, source),
            }
        })
    }

    fn explain(&self, error: Error) -> Error {
        // A request that leaves the roots is refused, whether or not a root is available.
        if error.reason() == Code::OutsideRoots {
            return error;
        }
        let (of_source, of_destination) = match error.is_of_destination() {
            false => (error.root(), None),
            true => (None, error.root()),
        };
        if self.source.has_lost_root(of_source) {
            return Code::RootUnavailable.into();
        }
        match self.destination {
            Some(side) if side.has_lost_root(of_destination) => {
                Error::from(Code::RootUnavailable).of_destination()
            }
            _ => error,
        }
    }
}

impl<'a> Side<'a> {
    fn sent(self) -> &'a OsStr {
        match self {
            Self::Request(_, request) => request.sent(),
            Self::Checked(place) => place.request().sent(),
        }
    }

    fn roots(self) -> &'a Roots {
        match self {
            Self::Request(roots, _) => roots,
            Self::Checked(place) => place.roots(),
        }
    }

    /// Whether the name of the root where the request started, or of the one with the number
    /// `reached`, does not lead to what the root is.
    fn has_lost_root(self, reached: Option<usize>) -> bool {
        match self {
            Self::Request(roots, request) => {
                let start = roots.start(request).map(|(number, _)| number);
                let numbers = [start, reached.filter(|reached| Some(*reached) != start)];
                let mut involved =
                    numbers.into_iter().flatten().filter_map(|number| roots.root(number).ok());
                !involved.all(Root::is_there)
            }
            Self::Checked(place) => !place.root().is_there(),
        }
    }
}

impl Roots {
    /// Runs an operation on two requests, which are checked for these intents.
    pub(crate) fn run_between<T>(
        &self,
        name: &'static str,
        source: impl IntoLocation,
        destination: impl IntoLocation,
        [of_source, of_destination]: [Intent; 2],
        attempt: impl Fn(&CheckedPath, &CheckedPath) -> Result<T>,
    ) -> Result<T> {
        let (source, destination) = (self.location(source)?, self.location(destination)?);
        let sides = [&source, &destination].map(|request| Side::Request(self, request));
        Operation::between(name, sides[0], sides[1]).run(|budget| {
            let source = self.decide(&source, of_source, budget)?;
            let destination = self.decide(&destination, of_destination, budget);
            let destination = destination.map_err(Error::of_destination)?;
            attempt(&source, &destination).map_err(|error| {
                let side = if error.is_of_destination() { &destination } else { &source };
                side.in_root(error)
            })
        })
    }

    /// Runs an operation on a request.
    pub(crate) fn run<T>(
        &self,
        name: &'static str,
        request: &Location,
        attempt: impl FnMut(&mut Budget<'_>) -> Result<T>,
    ) -> Result<T> {
        Operation::on(name, Side::Request(self, request)).run(attempt)
    }
}

impl CheckedPath {
    /// Runs an operation on this place.
    pub(crate) fn run<T>(
        &self,
        name: &'static str,
        mut attempt: impl FnMut(&Self) -> Result<T>,
    ) -> Result<T> {
        Operation::on(name, Side::Checked(self)).run(|_| attempt(self))
    }

    /// Runs an operation from this place to another one.
    pub(crate) fn run_to<T>(
        &self,
        name: &'static str,
        destination: &Self,
        attempt: impl Fn(&Self, &Self) -> Result<T>,
    ) -> Result<T> {
        Operation::between(name, Side::Checked(self), Side::Checked(destination))
            .run(|_| attempt(self, destination))
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
