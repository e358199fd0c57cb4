//! The audit log: a line of JSON for each change of a file, and for each refusal.
//!
//! The fields are those of the guard's events, with `time` in RFC 3339. They name files but never
//! show content. A line is written before the call ends, by one write at the end of the file
//! (`O_APPEND`, open(2)), so a disk that is slow delays the calls. If a line cannot be written, it
//! is lost, the call is served, and the operator reads why.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::lock;
use crate::log::rarely;

/// A file to which lines are added.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    file: Mutex<File>,
}

impl AuditLog {
    /// Opens the file, or creates it so that only this user can read it.
    ///
    /// # Errors
    ///
    /// The path with the error of opening it, or that it is not a regular file.
    pub fn open(path: &Path) -> Result<Arc<Self>, String> {
        let path = crate::options::at_home(path);
        let path = std::path::absolute(&path).unwrap_or(path);
        let file = open(&path).map_err(|error| format!("--audit {}: {error}", path.display()))?;
        Ok(Arc::new(Self { path, file: Mutex::new(file) }))
    }

    /// The absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Goes on in the file that has the path now, for example after a rotation. If it cannot be
    /// opened, the lines go to the earlier one.
    pub fn reopen(&self) {
        match open(&self.path) {
            Ok(file) => *lock(&self.file) = file,
            Err(error) => rarely("audit", format_args!("the audit log is not reopened: {error}")),
        }
    }

    fn write(&self, line: &str) {
        let written = lock(&self.file).write_all(line.as_bytes());
        if let Err(error) = written {
            rarely("audit", format_args!("the audit log cannot be written: {error}"));
        }
    }

    /// Receives the events of the guard.
    pub(crate) fn layer<S>(self: Arc<Self>) -> impl Layer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_wanted = |event: &Metadata<'_>| match event.target() {
            "guarded_fs" => true,
            // A list, or an entry of one, that was refused.
            "mcp_roots_guard" => *event.level() <= Level::WARN,
            _ => false,
        };
        let filter = filter_fn(is_wanted).with_max_level_hint(LevelFilter::TRACE);
        AuditLayer(self).with_filter(filter)
    }
}

/// Opens a regular file for adding to its end. Does not wait for the reader of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        options.mode(0o600).custom_flags(flags);
    }
    #[expect(clippy::disallowed_methods, reason = "the operator's own path, not a request's")]
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

struct AuditLayer(Arc<AuditLog>);

impl<S: Subscriber> Layer<S> for AuditLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let Fields(mut fields) = fields;
        let is_read = fields.get("event").is_some_and(|event| event == "allowed")
            && fields
                .get("operation")
                .is_some_and(|operation| READS.iter().any(|it| operation == it));
        if !is_read {
            fields.insert("time".into(), Timestamp::now().to_string().into());
            self.0.write(&format!("{}\n", Value::Object(fields)));
        }
    }
}

/// The fields of an event by name, with its message as `event`.
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let name = if field.name() == "message" { "event" } else { field.name() };
        self.0.insert(name.into(), format!("{value:?}").into());
    }
}

/// The operations of the guard that change nothing. Another one, also of a later version, is a
/// change.
const READS: &[&str] = &[
    "check",
    "parse",
    "open",
    "read",
    "list",
    "walk",
    "describe",
    "read link",
    "open directory",
    "narrow to",
];
