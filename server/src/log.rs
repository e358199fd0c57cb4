//! What the operator reads without asking: refusals of the transport, failures of the machine, and
//! clients that can access nothing. Each kind of line is printed at most once a minute.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::io::stderr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::lock;

/// The form of the lines on standard error.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Format {
    /// A line of text
    #[default]
    Text,
    /// A line of JSON
    Json,
}

/// Starts logging to standard error: what `RUST_LOG` says or, without it, the lines of this module.
pub fn init(format: Format) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(TARGET));
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr);
    let lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().boxed(),
    };
    let of_operations =
        |of: &Metadata<'_>| of.target() == "guarded_fs" && *of.level() == Level::INFO;
    let of_operations = filter_fn(of_operations).with_max_level_hint(LevelFilter::INFO);
    let failures = Failures.with_filter(of_operations);
    tracing_subscriber::registry().with(lines.with_filter(filter)).with(failures).init();
}

/// Prints a line, unless one of the same kind was printed in the last minute. Those that are left
/// out are counted in the next one.
pub(crate) fn rarely(kind: &'static str, line: impl Display) {
    static LAST: Mutex<BTreeMap<&str, (Instant, u64)>> = Mutex::new(BTreeMap::new());
    let now = Instant::now();
    let left_out = match lock(&LAST).get_mut(kind) {
        Some((last, left_out)) if now.duration_since(*last) < EVERY => {
            *left_out += 1;
            return;
        }
        Some((last, left_out)) => {
            *last = now;
            Some(std::mem::take(left_out)).filter(|left_out| *left_out > 0)
        }
        None => None,
    };
    lock(&LAST).entry(kind).or_insert((now, 0));
    tracing::warn!(target: TARGET, like_it = left_out, "{line}");
}

/// Reports the failures of the machine among the guard's refusals. A wrong path is not one.
struct Failures;

impl<S: Subscriber> Layer<S> for Failures {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut refusal = Refusal::default();
        event.record(&mut refusal);
        let kind = match refusal.code.as_str() {
            "io" => "the system fails",
            "root_unavailable" => "an allowed directory is gone or was replaced",
            "busy" | "queue_full" => "clients wait for the server",
            _ => return,
        };
        rarely(kind, format_args!("{kind}: {}{}", refusal.error, refusal.detail));
    }
}

#[derive(Default)]
struct Refusal {
    code: String,
    error: String,
    detail: String,
}

impl Visit for Refusal {
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

/// The target of these lines in `RUST_LOG`.
const TARGET: &str = "mcp_filesystem_guarded";

/// How often a kind of line is printed: a cause that lasts is seen, and fills no disk.
const EVERY: Duration = Duration::from_secs(60);
