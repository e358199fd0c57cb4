//! Server-side enforcement of MCP roots: decides whether a request may touch a file under the roots in force, and touches it without a
//! race.

#[cfg(not(unix))]
compile_error!("mcp-roots-guard does not know the names of this system yet, and would rather not guess");

mod beneath;
mod boundary;
mod check;
mod error;
mod fs;
mod granted;
mod location;
mod metadata;
mod policy;
mod resolve;
mod roots;
mod spellings;
mod wire;

pub use boundary::{Boundary, BoundaryBuilder, HANDLES};
pub use check::CheckedPath;
pub use error::{Error, ErrorKind, Result};
pub use fs::{
    DirEntry, OpenFile, OpenOptions, ReadDir, Replace, WALK_DEPTH, WALK_ENTRIES, Walk, WalkEntry, WalkOptions,
};
pub use location::{Location, NAME_BYTES, PATH_BYTES, URI_BYTES};
pub use metadata::{FileType, Metadata};
pub use policy::{Access, Policy, Rule};
pub use resolve::{Intent, LINK_HOPS};
pub use roots::{Root, Roots, Skipped, VERIFY_EVERY};
pub use wire::{ListRootsResult, ROOT_LIST_ENTRIES, RootEntry};
