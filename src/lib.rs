//! Server-side enforcement of [MCP](https://modelcontextprotocol.io) roots: checks whether a
//! request may access a file under the roots in force, and performs the access without a race.
//!
//! ```
//! use mcp_roots_guard::{Access, Boundary, ClientCapabilities, Guard, RootsResponse};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! # let directory = tempfile::tempdir().unwrap();
//! # std::fs::create_dir(directory.path().join("site")).unwrap();
//! # let projects = directory.path().to_str().unwrap();
//! # let capabilities = serde_json::json!({ "roots": { "listChanged": true } });
//! # let site = format!("file://{projects}/site");
//! # let listed = serde_json::json!({ "roots": [{ "uri": site }, { "uri": "file:///etc" }] });
//! # let request = |_: &str| std::future::ready(Ok::<_, String>(listed.clone()));
//! // When the server starts: the directories that it may serve.
//! let boundary = Boundary::builder().directory(projects, Access::ReadWrite).build()?;
//! let guard = Guard::new(boundary);
//!
//! // For each client: what it declared in `initialize`, in `params.capabilities`.
//! let declared: ClientCapabilities = serde_json::from_value(capabilities)?;
//! let session = guard.session(declared)?;
//!
//! // For each tool call: the roots in force, cached until the client's list changes.
//! let ask = |_: Option<String>| async {
//!     match request("roots/list").await {
//!         Ok(list) => RootsResponse::from_result(list),
//!         Err(error) => RootsResponse::Failed(error),
//!     }
//! };
//! let roots = session.roots(ask).await?;
//! roots.write("notes.txt", "hello")?; // checks and writes in one step
//! assert_eq!(roots.open("../../etc/passwd").unwrap_err().code(), "outside_roots");
//!
//! // For each `notifications/roots/list_changed`: the next call asks again.
//! session.list_changed();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # The path of a request
//!
//! ```text
//! text ─ path ─▶ Location ─ resolve ─▶ place ─ check ─▶ CheckedPath ─ fs ─▶ File
//!                              ▲
//! client's list ─ wire ─▶ boundary ─▶ Roots ◀─ session (cache)
//! ```
//!
//! [`Location`] parses a request without I/O. [`Boundary`] resolves root lists into [`Roots`], an
//! immutable snapshot. [`Roots::check`] decides whether a request is allowed and returns a
//! [`CheckedPath`] or a [`CheckedEntry`], which nothing else can create. File operations are methods
//! of both. The methods of [`Roots`] check and operate in one step. Every failure is an [`Error`] with
//! an [`ErrorKind`] and a fine-grained [code](Error::code). Its text is safe to show to the sender of
//! the request.
//!
//! All of this is in the crate [`guarded_fs`](https://docs.rs/guarded-fs), which is synchronous and
//! knows nothing about clients. On top of it, a [`Guard`] creates a [`Session`] for each client.
//! [`Session::roots`] returns the roots in force for a request, from the cache or by asking the
//! client through a [`RootsSource`]. A [`Revision`] converts an [`Error`] to a tool result or a
//! JSON-RPC error.
//!
//! A server that uses the official SDK does not need this code. With the feature `rmcp`, it wraps
//! its transport once and calls the guard in each tool, whatever the protocol revision. See the
//! module `rmcp`. With another SDK, an [`Observer`] begins the session and marks the changes before
//! the SDK sees them.
//!
//! The module [`recipes`] has code for each kind of server.
//!
//! # What is guaranteed
//!
//! - A request is allowed if and only if the file that it named, with all symlinks followed, was
//!   inside a root **when it was checked**. A root is a name below an allowed directory.
//! - Every file that is opened, created, renamed or removed was reached from the allowed directory,
//!   along the root's own names, **when its parent directory was opened**, without following any
//!   symlink except those that the check followed.
//! - No file is read, written or truncated until it has been verified to be a regular file (and, if
//!   [`refuse_hard_links`](BoundaryBuilder::refuse_hard_links) requires it, one with a single name).
//!   Each file is verified **after it was opened**, through its open handle.
//! - Nothing outside the roots is opened, looked up or read to decide a request, so a refusal
//!   reveals nothing about files outside the roots. The only exception is the names of the allowed
//!   directories and of the roots themselves.
//! - If allowed directories are configured, no root outside them is ever in force, whatever a
//!   client lists.
//! - A place is changed only if the innermost root in force that contains it is writable and no
//!   pattern for [protected names](BoundaryBuilder::protect) matches it. No list and no narrowing
//!   raises the access of a place.
//! - A call to [`Session::roots`] that starts after [`Session::list_changed`] has returned never
//!   uses a list that was requested before the change. A list that is empty, late, malformed or
//!   unavailable grants nothing. No session uses another session's list. Directories that the
//!   server configured to be [always in force](DirectoryOptions::always) do not depend on a
//!   client's list, and the server can choose what an [empty list](ClientRoots::Narrow)
//!   means.
//! - A client that does not answer delays a call by at most the guard's
//!   [`fetch_limit`](GuardBuilder::fetch_limit).
//! - A failed [`write`](Roots::write) leaves the old file intact. A write gives nobody except the
//!   new file's owner read or write access that they did not have before. See
//!   [`write`](Roots::write) for the limits of the permission guarantee on macOS and Windows.
//! - No input causes a panic in this crate, and every loop and every input is bounded.
//! - Resolving a request takes at most [`LOOKUPS`](limits::LOOKUPS) look-ups and 20 ms of CPU time
//!   in a release build, whatever symlinks the path contains. A request that needs more look-ups is
//!   refused. With a hundred patterns for denied names, it takes up to 30 ms, and with the maximum
//!   of a thousand 0.3 s. These bounds cover the decision, not reading the file.
//!
//! # What is not guaranteed
//!
//! - Hard links to files outside the roots are served, unless the boundary
//!   [refuses](BoundaryBuilder::refuse_hard_links) files with more than one name.
//! - The guard stops neither code that opens files without it nor an administrator. On Linux, the
//!   feature `process` confines such code to the allowed directories.
//! - A child process (`ChildCommand`) starts inside a root, but is not restricted to the roots unless
//!   it is confined (Linux, feature `process`). Protected names are not enforced for it.
//! - A filesystem inside a root that hangs, such as NFS or FUSE, blocks the call, so run operations
//!   on threads that may block. With the feature `rmcp`, and in [`Session::run`], they run on the
//!   guard's own threads, where hung operations delay a client that has none by about two seconds at
//!   most. If twice as many operations hang as there are slots, new ones are refused (`busy`).
//! - A request to read a FIFO or a device is refused at once, but the file is open for an instant.
//!   This unblocks a writer that is waiting for a reader of the FIFO, or makes the device's driver
//!   handle the open.
//! - A request that obtained its [`Roots`] before the client's roots changed is decided by that
//!   snapshot, and the files that it opened stay open. Long-running work should call
//!   [`Session::still_allows`] before each step.
//! - If another directory takes the name of an allowed directory, requests can still reach the one
//!   that had the name before for [`VERIFY_EVERY`](limits::VERIFY_EVERY), and while the new one is
//!   being opened. After two seconds of that, requests are refused. A client's list with an entry
//!   through a symlink is resolved again after [`SYMLINKED_LIST_TTL`](limits::SYMLINKED_LIST_TTL).
//! - Whoever may rename directories above a client's root, inside an allowed directory, decides
//!   what the root's name leads to: never a place outside the allowed directory, and never through
//!   a symlink.
//! - A symlink to a path outside the roots is refused, even if that path is a symlink back into a
//!   root.
//! - A directory that is moved out of the root after it was opened stays open and accessible
//!   through its handle.
//!
//! # Platforms
//!
//! The module [`platforms`] says what each system guarantees and lacks: Linux with and without
//! `openat2`, containers, network filesystems, macOS and Windows.
//!
//! # Features
//!
//! - `process`: `ChildCommand`, which runs a program in a checked directory, and `Confinement`, by
//!   which the Linux kernel restricts it to the roots in force, or the whole process to the allowed
//!   directories. On other systems, confining returns an error. It is the crate `guarded-process`.
//! - `tracing`: emits [events](#events) about operations, refusals and changes of roots, for the
//!   operator's log and for an audit log.
//! - `ignore`: adds `WalkOptions::git_ignore`, for walks that omit the files that git ignores.
//! - `schemars`: JSON schemas of [`Location`] and [`ContentHash`], for the arguments of tools.
//! - `rmcp`: the adapter for rmcp 3, the official SDK. Enables rmcp's feature `server`.
//! - `rmcp-http`: the adapter for rmcp's streamable HTTP transport. Enables rmcp's feature
//!   `transport-streamable-http-server`.
//!
//! The minimum Rust version is 1.85, or 1.88 with `rmcp` or `rmcp-http`.
//!
//! The boundary, the check and the file operations are those of the crate `guarded-fs`, which this
//! one re-exports. Its examples import from `guarded_fs`. They work with `mcp-roots-guard` alone if
//! they import from `mcp_roots_guard`. A program without MCP depends on `guarded-fs` alone, and has no asynchronous runtime then.
//!
//! # Events
//!
//! With the feature `tracing`, the crate emits these events with the target `mcp_roots_guard`, except
//! the first two, whose target is `guarded_fs`. They are a contract: within a major version, no event or field is removed or renamed, and each keeps
//! its type, its meaning and its level. New events, fields, operations and codes may be added, so a
//! log that others read should copy fields by name. A field without a value is absent.
//!
//! | message | level | when | fields |
//! | --- | --- | --- | --- |
//! | `allowed` | trace | an operation was allowed and has succeeded | `session`, `operation`, `request`, `root`, `path`, `destination`, `destination_path` |
//! | `refused` | info | an operation was refused or has failed, a request got no roots, or a program logged a refusal of its own (`Error::logged`) | `session`, `operation`, `request`, `destination`, `code`, `error`, `detail` |
//! | `roots fetched` | debug | a client's list was received and resolved | `session`, `roots`, `rejected`, `pages` |
//! | `roots resolved again` | debug | a cached list was resolved again | `session`, `roots` |
//! | `root in force` | debug | after these two, for each of the first 20 roots | `session`, `index`, `root` |
//! | `entry rejected` | warn | after `roots fetched`, for each of the first 20 rejected entries | `session`, `index`, `entry`, `code`, `detail` |
//! | `roots not fetched` | warn | a client's list could not be obtained | `session`, `code`, `detail` |
//! | `roots changed` | debug | a client announced that its roots changed | `session` |
//! | `session opened` | debug | a client of a wrapped transport began a session (feature `rmcp`) | `session`, `mcp_session_id` |
//! | `session closed` | debug | a session ended | `session` |
//! | `handler failed` | warn | a handler failed with an error that only the operator may see (`HandlerError::other`, feature `rmcp`) | `session`, `error` |
//!
//! | field | type | meaning |
//! | --- | --- | --- |
//! | `session` | number | the number of the client's session (`Session::id`), or of the request in the stateless era, or of a program's own scope (`Scope::number`) |
//! | `mcp_session_id` | text | over HTTP, the first 8 characters of the id by which the client knows its session. Not more, because the whole id is a secret |
//! | `operation` | text | `check`, `parse`, `open`, `open for writing`, `read`, `write`, `create directory`, `list`, `walk`, `describe`, `set attribute of`, `remove`, `rename`, `copy`, `read link`, `create symlink`, `hard link`, `open directory`, `narrow to`, `run` or what a program gave to `Error::with_request` |
//! | `request` | text, at most 160 characters and an ellipsis | the path or URI as the client sent it, or the program of `run` |
//! | `destination` | the same | what the client sent as the destination, or as the target of a symlink |
//! | `root` | text | the canonical path of the root |
//! | `path`, `destination_path` | text | the [canonical path](Proof::display_path) of the place, with all symlinks followed, or the directory in which a program ran |
//! | `code` | text | the [code](Error::code) of the error |
//! | `error` | text | the text of the refusal, or a handler's error with its causes |
//! | `detail` | text | the [`operator_detail`](Error::operator_detail) |
//! | `index` | number | the position in [`Roots::iter`] or, for a rejected entry, in the list |
//! | `entry` | text | the rejected entry as the client sent it, shortened |
//! | `roots`, `rejected`, `pages` | number | how many roots are in force, entries were rejected, and pages the list had |
//!
//! `request`, `destination` and `entry` are a client's text, and the paths can contain names that a
//! client chose. All of them are escaped as in error texts, so they contain no line break. They
//! name nothing outside the roots that the client did not name itself. **`error` and `detail` are
//! for the operator's log only**: `error` can contain what a program or a handler wrote, and
//! `detail` the names of places outside the roots.
//!
//! No event contains the content of a file. `open` and `open for writing` are logged, but not what
//! is then read or written through the open file. A file written in pieces, and each change of a
//! change set, is logged when it is committed. If no subscriber wants events of the level trace,
//! `allowed` costs one atomic read. Otherwise, opening a file for reading takes more system calls,
//! because its canonical path is then looked up.
//!
//! The guard does the work of a request in the span of its caller, also on its own threads. The
//! recipe for [an audit log](recipes#an-audit-log) uses this.
//!
//! # Memory
//!
//! One cache of at most 512 MiB holds the snapshots of all sessions and of clients with a key.
//! 100,000 sessions with one root each take less than two KiB of heap each
//! (`tests/session/memory.rs`).
// docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(doctest, doc = include_str!("../docs/migration.md"))]
#![cfg_attr(all(doctest, feature = "__rmcp-tests"), doc = include_str!("../README.md"))]
#![cfg_attr(all(doctest, feature = "__rmcp-tests"), doc = include_str!("../docs/tools.md"))]

#[macro_use]
mod events;
pub mod limits;
pub mod kinds;
mod wire;
mod session;
#[cfg(feature = "rmcp")]
pub mod rmcp;
#[cfg(any(doc, doctest))]
pub mod recipes;
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/platforms.md")]
pub mod platforms {}

#[doc(inline)]
pub use guarded_fs::{
    Access, AtomicFile, Attribute, Boundary, BoundaryBuilder, ChangeSet, CheckedEntry, CheckedPath,
    CommitError, ContentHash, Deadline, DirEntry, DirectoryOptions, Durability, Error, ErrorKind,
    Explanation, FileType, IntoLocation, ListEntry, Location, Metadata, OpenFile, OpenMode,
    Overwrite, PROTECTED_DEFAULTS, Proof, ReadDir, RejectedEntry, Result, Root, Roots, Scope, Use,
    Walk, WalkOptions, WhyNone, WritablePlaces, WriteOptions,
};
#[cfg(feature = "process")]
#[doc(inline)]
pub use guarded_process::{
    CHILD_ENVIRONMENT, Channel, ChildCommand, ChildOutput, Confinement, ConfinementReport,
    ExitReason, ExtraAccess, PROGRAM_DIRECTORIES, RUNTIME_FILES,
};
pub use session::{
    ClientRoots, Guard, GuardBuilder, Observer, RootsChanges, RootsResponse, RootsSource,
    RootsState, Session,
};
pub use wire::{ClientCapabilities, ErrorBody, ListRootsResult, Revision, RootEntry};
