//! File operations that stay inside allowed directories, for programs that handle paths they do not
//! trust: agents and their tools, servers, and programs that extract archives.
//!
//! ```
//! use guarded_fs::{Access, ErrorKind, OpenMode, Roots};
//!
//! # let project = tempfile::tempdir().unwrap();
//! # let project = project.path();
//! let roots = Roots::from_dirs([project], Access::ReadWrite)?;
//! // Check and access in one step, or check first.
//! roots.write("notes.txt", "hello")?;
//! assert_eq!(roots.read_to_string("notes.txt", 1 << 20)?, "hello");
//! assert_eq!(roots.open("../../etc/passwd").unwrap_err().kind(), ErrorKind::OutsideRoots);
//! let checked = roots.check("log.txt")?;
//! let log = checked.open_with(OpenMode::Append)?;
//! # Ok::<(), guarded_fs::Error>(())
//! ```
//!
//! # The path of a request
//!
//! ```text
//! text ─ path ─▶ Location ─ resolve ─▶ place ─ check ─▶ CheckedPath ─ fs ─▶ File
//!                              ▲
//! configuration, a list ─ boundary ─▶ Roots
//! ```
//!
//! [`Location`] parses a request without I/O. A [`Boundary`] has the directories that the operator
//! allows. [`Roots`] is an immutable snapshot of those in force, which an untrusted list can only
//! narrow ([`Boundary::narrow`], [`Roots::within`]). [`Roots::check`] and [`Roots::check_entry`]
//! decide a request, and return a [`CheckedPath`] or a [`CheckedEntry`], which nothing outside this
//! crate can create. File operations are methods of both. The methods of [`Roots`] check and
//! operate in one step. Every failure is an [`Error`] with an [`ErrorKind`], a fine-grained
//! [code](Error::code), and a text that is safe to show to the sender.
//!
//! The crate is synchronous, with no asynchronous runtime and no unsafe code. `guarded-process`
//! runs programs in a checked directory and confines them. For servers of the Model Context
//! Protocol, `mcp-roots-guard` adds the roots that their clients list, and re-exports this crate.
//! What only such crates call is in [`host`], which any version may change.
//!
//! # What is guaranteed
//!
//! - A request is allowed if and only if the file that it named, with all symlinks followed, was
//!   inside a root **when it was checked**. A root is a name below an allowed directory.
//! - Every file that is opened, created, renamed or removed was reached from the allowed directory
//!   along the root's own names **when its parent directory was opened**, following only the
//!   symlinks that the check followed.
//! - No file is read, written or truncated until its handle has shown, **after it was opened**,
//!   that it is a regular file (unless [special files](BoundaryBuilder::allow_special_files) are
//!   allowed), with a single name if [`refuse_hard_links`](BoundaryBuilder::refuse_hard_links) is
//!   set.
//! - Deciding a request opens, looks up and reads nothing outside the roots, so a refusal reveals
//!   nothing about files there. The only exception is the names of the allowed directories and of
//!   the roots themselves.
//! - No root outside the allowed directories is ever in force, whatever a client lists, unless the
//!   operator grants [any listed directory](Boundary::any_listed).
//! - A place is changed only if the innermost root in force that contains it is writable and no
//!   pattern for [protected names](BoundaryBuilder::protect) matches it. No list and no narrowing
//!   raises the access of a place.
//! - A failed [`write`](Roots::write) leaves the old file intact. A write gives nobody but the new
//!   file's owner read or write access that they did not have before, within limits on macOS and
//!   Windows that [`write`](Roots::write) lists.
//! - No input causes a panic, and every loop and every input is bounded.
//! - Resolving a request takes at most [`LOOKUPS`](limits::LOOKUPS) look-ups, beyond which it is
//!   refused, and 20 ms of CPU time in a release build, whatever symlinks the path contains. With a
//!   hundred patterns for denied names, it takes up to 30 ms, and with the maximum of a thousand
//!   0.3 s.
//!
//! # What is not guaranteed
//!
//! - Hard links to files outside the roots are served, unless the boundary
//!   [refuses](BoundaryBuilder::refuse_hard_links) files with several names.
//! - The guard stops neither an administrator nor code that opens files without it. On Linux,
//!   `guarded-process` confines such code to the allowed directories.
//! - A filesystem inside a root that hangs, such as NFS or FUSE, blocks the call. Run operations on
//!   threads that may block.
//! - A request to read a FIFO or a device is refused at once, but the file is open for an instant.
//!   This unblocks a writer that waits for a reader, or makes the device's driver handle the open.
//! - If another directory takes the name of an allowed directory, requests can reach the previous
//!   one for [`VERIFY_EVERY`](limits::VERIFY_EVERY), and while the new one is being opened. After
//!   two seconds of that, requests are refused.
//! - Whoever may rename directories above a listed root, inside an allowed directory, decides what
//!   the root's name leads to: never a place outside the allowed directory, and never through a
//!   symlink.
//! - A symlink to a path outside the roots is refused, even if that path is a symlink back in. One to
//!   a directory above a root leads on into the root, because its names are known.
//! - A directory that is moved out of the root while it is open stays accessible through its
//!   handle.
//!
//! # Platforms
//!
//! Linux, macOS and Windows are supported. The repository's `docs/platforms.md` says what each
//! guarantees and lacks.
//!
//! # Features
//!
//! - `tracing`: [events](#events) for the operator's log and for an audit log.
//! - `ignore`: `WalkOptions::git_ignore`, for walks that omit the files that git ignores.
//! - `schemars`: JSON schemas of [`Location`] and [`ContentHash`], for the arguments of tools.
//!
//! The minimum Rust version is 1.85.
//!
//! # Events
//!
//! With the feature `tracing`, the crate emits two events with the target `guarded_fs`:
//!
//! - `allowed` (trace): an operation has succeeded. Its fields are `session`, `operation`,
//!   `request`, `root`, `path`, `destination` and `destination_path`.
//! - `refused` (info): an operation was refused or has failed, a request got no roots, or a program
//!   logged a refusal of its own ([`Error::logged`]). Its fields are `session`, `operation`,
//!   `request`, `destination`, `code`, `os_error`, `error` and `detail`.
//!
//! They are a contract: within a major version, no event or field is removed or renamed, or changes
//! its type, its meaning or its level. Events, fields, operations and codes may be added, so a log
//! that others read should copy fields by name. A field without a value is absent. All are texts,
//! except the numbers `session` (unsigned) and `os_error` (signed):
//!
//! - `session`: the [number of the scope](host::Scope::number), in an MCP server that of the client's
//!   session or of the request.
//! - `operation`: `check`, `parse`, `open`, `open for writing`, `read`, `write`,
//!   `create directory`, `list`, `walk`, `describe`, `set attribute of`, `remove`, `rename`,
//!   `copy`, `read link`, `create symlink`, `hard link`, `open directory`, `narrow to`, `run` or
//!   what a program gave to [`Error::with_request`].
//! - `request`: the path or URI as it was sent, or the program of `run`, shortened to 160
//!   characters and an ellipsis.
//! - `destination`: the destination, or the target of a symlink, likewise.
//! - `root`: the canonical path of the root.
//! - `path`, `destination_path`: the canonical path of the place, or the
//!   directory in which a program ran.
//! - `code`, `error`: the [code](Error::code) and the text of the error.
//! - `os_error`: its [`raw_os_error`](Error::raw_os_error), the operating system's number, such as
//!   28 for a full disk on Linux. Refusals that are the guard's alone, such as `outside_roots`, have
//!   none, so it does not say whether something outside exists.
//! - `detail`: its [`operator_detail`](Error::operator_detail).
//!
//! `request` and `destination` are the sender's text, and the paths can contain names that it
//! chose. All of them are escaped as in error texts, so they contain no line break. They name
//! nothing outside the roots that the sender did not name itself. **`error` and `detail` are for
//! the operator's log only**: `error` can contain what a program or a handler wrote, and `detail`
//! the names of places outside the roots.
//!
//! No event contains the content of a file: `open` and `open for writing` are logged, but not what
//! is then read or written. A file written in pieces, and each change of a change set, is logged
//! when it is committed. If no subscriber wants events of the level trace, `allowed` costs one
//! atomic read. Otherwise, opening a file for reading takes more system calls, to look up its
//! canonical path.
// docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![forbid(unsafe_code)]

#[cfg(not(any(unix, windows)))]
compile_error!("guarded-fs supports only Unix and Windows");

pub mod limits;
mod error;
mod events;
mod path;
mod dir;
mod roots;
mod boundary;
mod check;
mod fs;
pub mod host;
#[cfg(feature = "schemars")]
mod schema;

/// What the property tests, the fuzz targets and the benchmarks of this repository call. It is not
/// public, and any release may change it.
#[cfg(feature = "__internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::error::Code;
    pub use crate::path::index::{Node, PathIndex, Position, RootKind, TOP};
    pub use crate::path::names::windows;

    use std::time::SystemTime;

    use crate::boundary::BoundaryBuilder;

    /// Lets lists name symlinks in writable places that last changed before this time, instead of
    /// before the process built its first boundary.
    pub fn trust_links_until(mut builder: BoundaryBuilder, time: SystemTime) -> BoundaryBuilder {
        builder.links_until = Some(time);
        builder
    }
}

pub use boundary::{Boundary, BoundaryBuilder, DirectoryOptions, ListEntry};
pub use check::{CheckedEntry, CheckedPath, Explanation, PlaceKey, Proof};
pub use dir::{Access, FileType, Metadata};
pub use error::{Error, ErrorKind, Result};
pub use fs::{
    AtomicFile, Attribute, ChangeSet, CommitError, ContentHash, DirEntry, Durability, OpenFile,
    OpenMode, Precondition, ReadDir, Walk, WalkOptions, WriteMethod, WriteOptions,
};
pub use path::{IntoLocation, Location, PROTECTED_DEFAULTS};
pub use roots::{RejectedEntry, Root, Roots, StopHandle, WhyNone};
