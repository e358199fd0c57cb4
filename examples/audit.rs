//! An audit log: a line of JSON for each operation and refusal, and for each change of a session.
//!
//! The program reads files of a directory, and prints the log of that:
//!
//! ```text
//! cargo run --features tracing --example audit -- src lib.rs ../Cargo.toml
//! ```
//!
//! Lines are written by a thread of their own, so a slow disk delays no request. If the disk is
//! full, or more than [`QUEUED`] lines wait, lines are lost and requests are served all the same.
//! Standard error says so, and the log itself, as soon as it can be written again. A server that
//! must not serve what it cannot record exits in [`write_lines`] instead.
#![allow(clippy::print_stderr)]

use std::fmt::Debug;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

use mcp_roots_guard::{Access, Roots};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// The fields that are written. `error` can contain the output of a program, and `detail` names of
/// files outside the roots, so both stay in the operator's own log.
const SHOWN: &[&str] = &[
    "session",
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
    "roots",
    "rejected",
];

/// The fields of the server's spans that are written: the client, if the server knows more of it
/// than the number of its session, and the tool.
const OF_SPANS: &[&str] = &["client", "tool"];

/// The targets of the events: those of operations, and those of sessions and handlers.
const OF_EVENTS: &[&str] = &["guarded_fs", "mcp_roots_guard"];

/// The longest text from a span, in characters. The other texts have limits of their own.
const SPAN_CHARS: usize = 64;

/// The number of lines that may wait to be written.
const QUEUED: usize = 4096;

struct Audit {
    lines: SyncSender<Option<String>>,
    lost: Arc<AtomicU64>,
}

/// Waits, when it is dropped, until all lines are written.
pub(crate) struct AuditWriter(SyncSender<Option<String>>, Option<JoinHandle<()>>);

/// Starts an audit log. Keep the second value until the end of the program.
pub(crate) fn audit<S>(file: impl Write + Send + 'static) -> (impl Layer<S>, AuditWriter)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let (lines, queue) = sync_channel(QUEUED);
    let lost = Arc::new(AtomicU64::new(0));
    let audit = Audit { lines: lines.clone(), lost: lost.clone() };
    let thread = std::thread::spawn(move || write_lines(file, &queue, &lost));
    let is_wanted = |metadata: &Metadata<'_>| {
        let has = |name: &&str| metadata.fields().field(name).is_some();
        OF_EVENTS.contains(&metadata.target()) || metadata.is_span() && OF_SPANS.iter().any(has)
    };
    (audit.with_filter(filter_fn(is_wanted)), AuditWriter(lines, Some(thread)))
}

/// Writes lines until there is a `None`. Lines that cannot be written are counted, and the next one
/// that can be is preceded by the count.
pub(crate) fn write_lines(
    mut file: impl Write,
    queue: &Receiver<Option<String>>,
    lost: &AtomicU64,
) {
    let mut is_cut = false;
    while let Ok(Some(line)) = queue.recv() {
        let missing = lost.swap(0, Ordering::Relaxed);
        // A line that was written in part ends here.
        let end = if is_cut { "\n" } else { "" };
        let text = match missing {
            0 => line,
            _ => format!("{end}{}\n{line}", json!({ "event": "lines lost", "lines": missing })),
        };
        match file.write_all(text.as_bytes()).and_then(|()| file.flush()) {
            Ok(()) => is_cut = false,
            Err(error) => {
                if !is_cut {
                    eprintln!("the audit log cannot be written: {error}");
                }
                lost.fetch_add(missing + 1, Ordering::Relaxed);
                is_cut = true;
            }
        }
    }
}

impl Drop for AuditWriter {
    fn drop(&mut self) {
        let _ = self.0.send(None);
        self.1.take().map(JoinHandle::join);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Audit {
    fn on_new_span(&self, span: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let mut fields = Fields { shown: OF_SPANS, values: Map::new() };
        span.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields.values);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields { shown: SHOWN, values: Map::new() };
        for span in context.event_scope(event).into_iter().flatten() {
            fields.values.extend(span.extensions().get::<Map<_, _>>().cloned().unwrap_or_default());
        }
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        fields.values.insert("time".into(), json!(time.as_secs_f64()));
        event.record(&mut fields);
        // This neither blocks nor fails the request.
        if self.lines.try_send(Some(format!("{}\n", Value::Object(fields.values)))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Collects fields by their names.
struct Fields {
    shown: &'static [&'static str],
    values: Map<String, Value>,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let is_of_span = OF_SPANS.contains(&field.name());
        let length = if is_of_span { SPAN_CHARS } else { usize::MAX };
        self.insert(field, value.chars().take(length).collect::<String>().into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.values.insert("event".into(), format!("{value:?}").into());
        }
    }
}

impl Fields {
    fn insert(&mut self, field: &Field, value: Value) {
        if self.shown.contains(&field.name()) {
            self.values.insert(field.name().into(), value);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let roots = Roots::from_dirs(
        [arguments.next().ok_or("usage: audit DIRECTORY FILE...")?],
        Access::ReadOnly,
    )?;
    let (audit, _written) = audit(std::io::stdout());
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(audit))?;
    for file in arguments {
        let _tool = tracing::info_span!("call", tool = "read").entered();
        let _ = roots.read(&file, 1 << 20);
    }
    Ok(())
}
