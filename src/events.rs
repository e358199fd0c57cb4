//! The macro by which the events of sessions and handlers are emitted. The
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
