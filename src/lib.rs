//! Server-side enforcement of [MCP](https://modelcontextprotocol.io) roots: decides whether a
//! request may access a file under the roots in force, and accesses it without a race.
//!
//! ```
//! use mcp_roots_guard::{Access, Boundary, ErrorKind, Intent, ListRootsResult, OpenOptions};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # std::fs::create_dir(directory.path().join("site")).unwrap();
//! # let projects = directory.path().to_str().unwrap();
//! // Once: the directories that this server may serve.
//! let boundary = Boundary::builder().directory(projects, Access::ReadWrite).build()?;
//!
//! // For each list that a client sends: the part of it inside these directories.
//! let site = format!("file://{projects}/site");
//! let list = ListRootsResult::from_uris([site.as_str(), "file:///etc"]);
//! let roots = boundary.resolve(&list)?;
//! for rejected in roots.rejected() {
//!     eprintln!("{:?}: {}", rejected.entry(), rejected.error());
//! }
//!
//! // For each request of a tool: checked and executed in one step, or checked first.
//! roots.write("notes.txt", "hello")?;
//! assert_eq!(roots.read_to_string("notes.txt", 1 << 20)?, "hello");
//! assert_eq!(roots.open("../../etc/passwd").unwrap_err().kind(), ErrorKind::OutsideRoots);
//! let checked = roots.check("log.txt", Intent::New)?;
//! let log = checked.open_with(OpenOptions::new().append(true).create(true))?;
//! # Ok::<(), mcp_roots_guard::Error>(())
//! ```
//!
//! # The path of a request
//!
//! ```text
//! text ─ path ─▶ Location ─ resolve ─▶ place in a root ─ check ─▶ CheckedPath ─ fs ─▶ File, names
//!                                           ▲
//! client, operator ─ wire ─▶ root list ─ boundary ─▶ Roots ◀─ session (cache, until it changes)
//! ```
//!
//! [`Location`] parses a request without I/O. [`Boundary`] resolves root lists into [`Roots`], a
//! snapshot that never changes. [`Roots::check`] decides and returns a [`CheckedPath`], which no
//! other function creates. File operations are methods of `CheckedPath`, and of [`Roots`], where
//! they check and operate in one step. Every failure is an [`Error`] with an [`ErrorKind`] and a
//! fine-grained [code](Error::code), safe to show to whoever sent the request.
//!
//! This core is synchronous and knows nothing of clients. Around it, a [`Guard`] creates a
//! [`Session`] for each client. [`Session::roots`] returns the roots in force for a request: the
//! cached ones, or else those that a [`RootsSource`] obtains by asking the client. An [`Error`]
//! becomes a tool's result or a JSON-RPC error, in the form that each [`Revision`] requires.
//!
//! ```
//! use mcp_roots_guard::{ClientCapabilities, Guard, RootsResponse};
//!
//! # async fn request(_: &str) -> Result<serde_json::Value, String> {
//! #     Ok(serde_json::json!({"roots": []}))
//! # }
//! # async fn example(guard: &Guard, capabilities: serde_json::Value)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! // As declared in `initialize`: `params.capabilities`.
//! let declared: ClientCapabilities = serde_json::from_value(capabilities)?;
//! let session = guard.session(declared)?;
//! let ask = |_: Option<String>| async {
//!     request("roots/list").await.map_or_else(RootsResponse::Failed, RootsResponse::from_result)
//! };
//! let roots = session.roots(ask).await?; // for each request
//! session.list_changed(); // for each `notifications/roots/list_changed`
//! # Ok(())
//! # }
//! ```
//!
//! A server of the official SDK does not need this code: with the feature `rmcp` it wraps its
//! transport once and calls the guard in each tool, for every revision of the protocol. See the
//! module `rmcp`.
//!
//! The module [`recipes`] has the code for each kind of server.
//!
//! # What is guaranteed
//!
//! - A request is allowed if and only if what it really named, all links followed, was in a root
//!   **when it was checked**, by the names that the roots had when their list was resolved.
//! - What is opened, created, renamed or removed was beneath the root's own directory **when its
//!   directory was opened**, through no link that the check did not follow. Only directories past
//!   the first [`HANDLES`](limits::HANDLES) are opened by their path again, and then verified.
//! - Nothing is read from a file, written to it or truncated before it was verified to be a regular
//!   file (and, by policy, one with a single name) **after it was opened**.
//! - Nothing outside the roots is opened, looked up or read to decide a request, so a refusal
//!   reveals nothing about what is there. Only the roots' own paths are walked again, to verify
//!   that they still lead to the roots.
//! - With allowed directories, nothing outside them is ever in force, whatever a client lists.
//! - A call of [`Session::roots`] that began after [`Session::list_changed`] returned does not use
//!   a list that was requested before. A list that is empty, late, malformed or failed grants
//!   nothing. No session uses another session's list.
//! - A client that does not answer costs a call at most the guard's time limit.
//! - A failed [`write`](Roots::write) leaves the old file whole. A write lets nobody but the new
//!   file's owner read or write what they could not before (its documentation has the limits on
//!   macOS and Windows).
//! - No input makes this crate panic, and every loop and input has a bound.
//! - Resolving a request takes at most [`LOOKUPS`](limits::LOOKUPS) look-ups, and at most 20 ms of
//!   CPU time in a release build, whatever symlinks are on the way. A request that needs more is
//!   refused. This covers the decision, not reading what was found.
//!
//! # What is not guaranteed
//!
//! - Hard links to files outside are served, unless the [`Policy`] refuses files with several
//!   names.
//! - Code that opens files without the guard is not stopped, and neither is an administrator. On
//!   Linux, the feature `landlock` confines such code to the allowed directories.
//! - A filesystem that hangs (NFS, FUSE) inside a root makes a call wait, so run operations on
//!   threads that may block. With the feature `rmcp` they run on threads of the guard, and one that
//!   hangs delays other clients by a few seconds at most.
//! - Opening a FIFO or a device for reading is refused at once, but it is open for that instant: a
//!   writer that waits for a reader continues, and a driver sees an open.
//! - A request whose [`Roots`] were obtained before the client's roots changed is decided by those,
//!   and what it opened stays open. Long work calls [`Session::still_allows`] before each step.
//! - A cached snapshot serves the directories that were resolved, even after they were moved away,
//!   until an operation fails or [`Roots::verify`] notices. A [`Boundary`] verifies each snapshot
//!   that it returns, at most once every [`VERIFY_EVERY`](limits::VERIFY_EVERY).
//! - On Linux, two names that a filesystem treats as one (case, normal forms) are two names here.
//!   On macOS and Windows the roots' own names are compared as those systems do by default; beneath
//!   a root the filesystem decides which names are one.
//! - A link that leads out to a link that leads back in is refused. On Windows, so is a link to a
//!   volume that no root names.
//! - A directory that was opened and is then moved out of the root stays open.
//!
//! # Platforms
//!
//! | | Linux with `openat2` (5.6) | Linux without | macOS | Windows |
//! | --- | --- | --- | --- | --- |
//! | decision | the resolver, or one walk of the kernel with the same result | the resolver | the resolver | the resolver |
//! | operations | one `openat2` without links | held descriptors, one name at a time | the same | held handles, one name at a time, the final path of each verified; to create, rename and remove, by the path of a held directory, pinned by a temporary file in it |
//! | `..` | after links are followed | the same | the same | removed from the text first, as the system does |
//! | names that the system would read as another | | | | refused: devices, streams, trailing dots and spaces, short aliases, `\\.\`, `\\?\` except drives and shares, paths relative to a drive |
//! | names of roots compared | by bytes | by bytes | ignoring case and normal form; `/tmp`, `/var` and `/etc` also stand for their targets | by upper case |
//! | names that are not Unicode | served | served | served | refused |
//! | a directory that is not held open is identified by | its numbers and its time of birth, if the filesystem has one | the same | the same | its numbers alone |
//! | mounts detected | by the kernel | by mount id (5.8), else by device number | by device number | a mounted volume is a link that leads out |
//! | directories on the way | must be searchable | the same | the same | must be readable |
//! | paths beneath a root | up to 4,096 bytes | longer ones can be listed and removed | the same | the same |
//! | rename without replacing | one step | one step | one step | it looks first, so another process may interfere |
//! | a replaced file keeps | permission bits, owner, group and POSIX access control list, as far as permitted | the same | permission bits, owner and group, as far as permitted; its access control list comes from its directory | nothing: its owner is the process, its access control list comes from its directory |
//! | a file written in place keeps | everything | the same | the same | the same |
//! | durable after a write | content and name | the same | the same | the content |
//! | a root in force can be moved or removed meanwhile | yes, and it is noticed | the same | the same | no; its parents cannot either |
//! | FIFOs, sockets, devices refused | yes | yes | yes | device names are refused, and so are sockets and the aliases of apps |
//! | confinement (feature `landlock`) | by Landlock, from 5.13 | the same | an error: not available | the same |
//! | run by the tests | yes | yes, behind a seccomp filter | type-checked here, run by CI on macOS | under Wine, and by CI on Windows |
//!
//! On Windows a share is accessed only if the operator names it. `.ci/windows/run` lists what Wine
//! cannot show (links, junctions, cloud placeholders, long paths); those tests run only on Windows.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `tracing`: events for the operator's log about fetches, changes, rejected entries and
//!   refusals; the README lists them.
//! - `landlock`: on Linux, `Guard::confine_process` has the kernel restrict the whole process to
//!   the allowed directories. On other systems it returns an error.
//! - `rmcp`: the adapter for rmcp 3, the official SDK. It enables rmcp's `server`.
//! - `rmcp-http`: the same for its streamable HTTP. It enables rmcp's
//!   `transport-streamable-http-server`.
//!
//! The minimum Rust version is 1.85, and 1.88 with `rmcp` or `rmcp-http`.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

#[cfg(not(any(unix, windows)))]
compile_error!(
    "mcp-roots-guard does not know the names of this system yet, and would rather not guess"
);

pub mod limits;
mod error;
mod events;
mod path;
mod wire;
mod workers;
mod dir;
mod roots;
mod boundary;
mod check;
mod fs;
mod session;
#[cfg(feature = "landlock")]
mod confine;
#[cfg(feature = "rmcp")]
pub mod rmcp;
#[cfg(any(doc, doctest))]
pub mod recipes;

pub use boundary::{Boundary, BoundaryBuilder};
pub use check::CheckedPath;
#[cfg(feature = "landlock")]
pub use confine::{Confined, ConfinedPath, Confinement, Enforced, ExtraAccess, RUNTIME_FILES};
pub use dir::{Access, FileType, Metadata, Policy, Rule};
pub use error::{Error, ErrorKind, Result};
pub use events::SessionId;
pub use fs::{
    DirEntry, Existing, OpenFile, OpenOptions, ReadDir, Replace, Walk, WalkEntry, WalkOptions,
    WriteOptions,
};
pub use path::Location;
pub use roots::{Intent, RejectedRoot, Root, Roots};
pub use session::{
    Changes, ClientRoots, Guard, GuardBuilder, RootsResponse, RootsSource, RootsState, Session,
    WithoutClientRoots,
};
pub use wire::{
    ClientCapabilities, ErrorBody, ListRootsResult, Revision, RootEntry, RootsCapability,
    RootsListChanged,
};
