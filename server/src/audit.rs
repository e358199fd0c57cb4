//! The audit log: a line of JSON for each operation that changes files, for each refusal, and for
//! each session that begins.
//!
//! The fields are those of the guard's events that others may read, and `time` in RFC 3339. They
//! name files but never show content. A line is written before the call ends, by one write at the
//! end of the file (`O_APPEND`, open(2)), so a disk that is slow delays the calls. If a line cannot
//! be written, the call succeeds all the same, and the operator's log says why. The part that was
//! written stays as a line of its own.

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
    /// The file, and whether its last line was written only in part.
    file: Mutex<(File, bool)>,
}

impl AuditLog {
    /// Opens the file, or creates it so that only this user can read it.
    ///
    /// # Errors
    ///
    /// The path with the error of opening it, or that it is not a regular file.
    pub fn open(path: &Path) -> Result<Arc<Self>, String> {
        let file = open(path).map_err(|error| format!("--audit {}: {error}", path.display()))?;
        Ok(Arc::new(Self { path: path.to_owned(), file: Mutex::new((file, false)) }))
    }

    /// Goes on in the file that has the path now, for example after a rotation. If it cannot be
    /// opened, the lines go to the earlier one.
    pub fn reopen(&self) {
        match open(&self.path) {
            Ok(file) => *lock(&self.file) = (file, false),
            Err(error) => {
                rarely("audit reopened", format_args!("the audit log is not reopened: {error}"));
            }
        }
    }

    fn write(&self, line: &str) {
        let written = {
            let (file, is_cut) = &mut *lock(&self.file);
            let end = if *is_cut { "\n" } else { "" };
            let written = file.write_all(format!("{end}{line}\n").as_bytes());
            *is_cut = written.is_err();
            written
        };
        if let Err(error) = written {
            rarely("audit written", format_args!("the audit log cannot be written: {error}"));
        }
    }

    /// Receives the events of the guard.
    pub(crate) fn layer<S>(self: Arc<Self>) -> impl Layer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_wanted = |event: &Metadata<'_>| match event.target() {
            "guarded_fs" => true,
            "mcp_roots_guard" => *event.level() <= Level::DEBUG,
            _ => false,
        };
        let filter = filter_fn(is_wanted).with_max_level_hint(LevelFilter::TRACE);
        AuditLayer(self).with_filter(filter)
    }
}

/// Opens a regular file for adding to its end. Does not wait for the reader of a pipe, and does not
/// follow a symlink, which could lead to where clients may write.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
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
        let mut found = Fields(Map::new());
        event.record(&mut found);
        let mut fields = found.0;
        let has = |name, texts: &[&str]| {
            fields.get(name).is_some_and(|value| texts.iter().any(|text| value == text))
        };
        // A list, or an entry of one, that was refused, is a warning.
        let is_of_session = event.metadata().target() == "mcp_roots_guard"
            && *event.metadata().level() > Level::WARN;
        let is_left_out = if is_of_session {
            !has("event", &["session opened"])
        } else {
            has("event", &["allowed"]) && has("operation", READS)
        };
        if !is_left_out {
            fields.insert("time".into(), Timestamp::now().to_string().into());
            self.0.write(&Value::Object(fields).to_string());
        }
    }
}

/// The [`FIELDS`] of an event by name, with its message as `event`.
struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &Field, value: Value) {
        if FIELDS.contains(&field.name()) {
            self.0.insert(field.name().into(), value);
        }
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.insert("event".into(), format!("{value:?}").into());
        }
    }
}

/// The fields that are written. `error` can contain the output of a program, and `detail` names of
/// files outside the directories, so neither is.
const FIELDS: &[&str] = &[
    "session",
    "mcp_session_id",
    "operation",
    "request",
    "root",
    "path",
    "destination",
    "destination_path",
    "code",
    "os_error",
    "index",
    "entry",
];

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

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_ends_before_the_next_one() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("log");
        let log = AuditLog::open(&path).unwrap();
        log.write("first");
        // A device that is always full (full(4)).
        let file = std::mem::replace(&mut lock(&log.file).0, File::create("/dev/full").unwrap());
        log.write("lost");
        lock(&log.file).0 = file;
        log.write("second");
        log.write("third");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\n\nsecond\nthird\n");
    }
}
