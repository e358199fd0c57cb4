//! What the operator reads without asking: refusals of the transport, failures of the machine, and
//! clients that can access nothing. Each kind of line is printed at most once a minute.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{Debug, Display};
use std::io::stderr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::header::HeaderValue;
#[cfg(unix)]
use rustix::io::Errno;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::audit::AuditLog;
use crate::lock;
use crate::nothing::NOTHING_IN_FORCE;

/// The form of the lines on standard error.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Format {
    /// A line of text
    #[default]
    Text,
    /// A line of JSON
    Json,
}

/// Starts logging to standard error: what `RUST_LOG` says or, without it, errors and the lines of this
/// module. Also starts the audit log, if there is one.
pub fn init(format: Format, audit: Option<Arc<AuditLog>>) {
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    let filter = match asked.trim() {
        "" => EnvFilter::new(format!("error,{TARGET}=info")),
        asked => EnvFilter::builder().parse_lossy(asked),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr);
    let lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().boxed(),
    };
    let of_operations =
        |of: &Metadata<'_>| of.target() == "guarded_fs" && *of.level() == Level::INFO;
    let of_operations = filter_fn(of_operations).with_max_level_hint(LevelFilter::INFO);
    let failures = Failures.with_filter(of_operations);
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter)).with(failures);
    subscriber.with(audit.map(AuditLog::layer)).init();
}

/// Prints a line, unless one of the same kind was printed in the last minute. The next one says how
/// many were left out.
pub(crate) fn rarely(kind: &'static str, line: impl Display) {
    static LAST: Mutex<BTreeMap<&str, (Instant, u64)>> = Mutex::new(BTreeMap::new());
    let now = Instant::now();
    let left_out = match lock(&LAST).entry(kind) {
        Entry::Vacant(new) => {
            new.insert((now, 0));
            0
        }
        Entry::Occupied(mut last) if now.duration_since(last.get().0) < EVERY => {
            last.get_mut().1 += 1;
            return;
        }
        Entry::Occupied(mut last) => last.insert((now, 0)).1,
    };
    let left_out = Some(left_out).filter(|left_out| *left_out > 0);
    tracing::warn!(target: TARGET, left_out, "{line}");
}

/// Text from a client as part of a line.
pub(crate) fn shortened(text: Option<&HeaderValue>) -> String {
    let text = text.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
    let short = text.unwrap_or_default().chars().take(CHARS).collect::<String>();
    format!("{short:?}")
}

/// Reports the failures of the machine among the guard's refusals, and clients that can access
/// nothing. A wrong path is neither.
struct Failures;

impl<S: Subscriber> Layer<S> for Failures {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut refusal = Refusal::default();
        event.record(&mut refusal);
        let kind = match refusal.code.as_str() {
            "io" if refusal.os_error.is_some_and(|it| MACHINE.contains(&it)) => "the system fails",
            "root_unavailable" => "a directory is gone, or its filesystem does not answer",
            "stalled" => "a filesystem does not answer, so a call that uses it was given up",
            "busy" | "queue_full" => "clients wait for the server",
            NOTHING_IN_FORCE | "roots_failed" | "roots_timed_out" | "roots_unsupported" => {
                "a client can access nothing"
            }
            _ => return,
        };
        rarely(kind, format_args!("{kind}: {}{}", refusal.error, refusal.detail));
    }
}

#[derive(Default)]
struct Refusal {
    code: String,
    os_error: Option<i32>,
    error: String,
    detail: String,
}

impl Visit for Refusal {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "os_error" {
            self.os_error = i32::try_from(value).ok();
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "code" => value.clone_into(&mut self.code),
            "detail" => self.detail = format!(" ({value})"),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "error" {
            self.error = format!("{value:?}");
        }
    }
}

/// The numbers of failures that no path causes (errno(3)).
#[cfg(unix)]
const MACHINE: &[i32] = &[
    Errno::NOSPC.raw_os_error(),
    Errno::DQUOT.raw_os_error(),
    Errno::MFILE.raw_os_error(),
    Errno::NFILE.raw_os_error(),
    Errno::NOMEM.raw_os_error(),
    Errno::IO.raw_os_error(),
    Errno::STALE.raw_os_error(),
    Errno::NOTCONN.raw_os_error(),
    Errno::TIMEDOUT.raw_os_error(),
    Errno::HOSTDOWN.raw_os_error(),
    Errno::NODEV.raw_os_error(),
];

/// The same on Windows (winerror.h).
#[cfg(windows)]
const MACHINE: &[i32] = &[
    4,    // ERROR_TOO_MANY_OPEN_FILES
    8,    // ERROR_NOT_ENOUGH_MEMORY
    14,   // ERROR_OUTOFMEMORY
    23,   // ERROR_CRC
    39,   // ERROR_HANDLE_DISK_FULL
    53,   // ERROR_BAD_NETPATH
    55,   // ERROR_DEV_NOT_EXIST
    64,   // ERROR_NETNAME_DELETED
    112,  // ERROR_DISK_FULL
    121,  // ERROR_SEM_TIMEOUT
    1117, // ERROR_IO_DEVICE
    1295, // ERROR_DISK_QUOTA_EXCEEDED
];

/// The longest text of a client in a line, in characters.
const CHARS: usize = 100;

/// The target of these lines in `RUST_LOG`.
const TARGET: &str = "mcp_filesystem_guarded";

/// How often a kind of line is printed: a cause that lasts is seen, and fills no disk.
const EVERY: Duration = Duration::from_secs(60);
