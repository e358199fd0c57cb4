//! How the events of sessions and handlers are emitted, and in which span. The
//! [crate documentation](crate#events) is their contract.

/// Emits an event if the feature `tracing` is enabled.
macro_rules! event {
    ($level:ident, $message:literal, $($field:ident = $value:expr),*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "mcp_roots_guard", $($field = $value,)* $message);
        #[cfg(not(feature = "tracing"))]
        if false { let _ = ($(&$value,)*); }
    };
}

/// Returns the work, which runs in the caller's span on whatever thread it runs.
pub(crate) fn in_span_of_caller<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    #[cfg(feature = "tracing")]
    let span = tracing::Span::current();
    move || {
        #[cfg(feature = "tracing")]
        let _entered = span.enter();
        work()
    }
}
