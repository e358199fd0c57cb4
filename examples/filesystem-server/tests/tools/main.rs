//! Each tool, as a client sees it: over a transport in memory, on real files.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod client;
mod files;
mod edits;
mod lists;
mod walks;
