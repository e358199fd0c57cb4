//! Server-side enforcement of [MCP](https://modelcontextprotocol.io) roots: checks whether a
//! request may access a file in the directories that the server allows and the client lists, and
//! performs the access without a race. With the official SDK, start at the module `rmcp`, which
//! needs none of this code:
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
//! [`CheckedPath`] or a [`CheckedEntry`], which nothing else can create and whose methods are the
//! file operations. The methods of [`Roots`] check and operate in one step. Every failure is an
//! [`Error`] with an [`ErrorKind`] and a fine-grained [code](Error::code). Its text is safe to show
//! to the sender of the request.
//!
//! All of this is in the crate [`guarded_fs`](https://docs.rs/guarded-fs), which is synchronous and
//! knows nothing about clients. A program without MCP depends on it alone. Its examples also work
//! with `mcp-roots-guard`, which re-exports its names, except those of `guarded_fs::host`. On top of
//! it, a [`Guard`] creates a [`Session`] for each client. [`Session::roots`] returns the roots in
//! force for a request, from the cache or by asking the client through a [`RootsSource`]. A
//! [`Revision`] converts an [`Error`] to a tool result or a JSON-RPC error.
//!
//! With the official SDK (feature `rmcp`), a server wraps its transport once and calls the guard in
//! each tool, whatever the protocol revision. With another SDK, an [`Observer`] begins the session
//! and marks the changes before the SDK sees them. The module [`recipes`] has code for more kinds
//! of programs.
//!
//! # What is guaranteed
//!
//! - About requests and files, what [`guarded_fs`](https://docs.rs/guarded-fs#what-is-guaranteed)
//!   guarantees. Above all, a request is allowed if and only if the file that it named, with all
//!   symlinks followed, was inside a root **when it was checked**, and the file is then reached
//!   without following any other symlink. A root is a name below an allowed directory. The other
//!   guarantees are about what a refusal reveals, special files, failed writes, who gains access by
//!   a write, and the time that a decision takes.
//! - No root outside the allowed directories is ever in force, whatever a client lists, unless the
//!   operator grants [any listed directory](Boundary::any_listed). No list and no narrowing raises
//!   the access of a place.
//! - A call to [`Session::roots`] that starts after [`Session::list_changed`] has returned never
//!   uses a list that was requested before the change. No session uses another session's list.
//! - A list that is empty, late, malformed or unavailable grants nothing. The server can configure
//!   two exceptions: directories that are [always in force](DirectoryOptions::always), and the
//!   meaning of an [empty list](ClientRoots::NarrowIfListed).
//! - A client that does not answer delays a call by at most the guard's
//!   [`fetch_limit`](GuardBuilder::fetch_limit).
//! - No input causes a panic in this crate, and every loop and every input is bounded.
//!
//! # What is not guaranteed
//!
//! - What [`guarded_fs`](https://docs.rs/guarded-fs#what-is-not-guaranteed) does not guarantee.
//!   Above all, hard links to files outside the roots are served, unless the boundary
//!   [refuses](BoundaryBuilder::refuse_hard_links) them, and code that opens files without the
//!   guard is not stopped. On Linux, the feature `process` confines such code to the allowed
//!   directories. The other limits are about FIFOs, and directories that are replaced or moved.
//! - A child process (`ChildCommand`) starts inside a root, but is not restricted to the roots
//!   unless it is confined (Linux, feature `process`). Protected names are not enforced for it.
//! - A filesystem inside a root that hangs, such as NFS or FUSE, blocks the call, so run operations
//!   on threads that may block. With the feature `rmcp`, and in [`Session::run`], they run on the
//!   guard's own threads, where hung operations delay a client that has none by about two seconds
//!   at most. If twice as many operations hang as there are slots, new ones are refused (`busy`).
//! - A file that was opened before the client's roots changed stays open. Roots and proofs obtained
//!   before refuse everything from then on: work that goes on asks for the [known
//!   roots](Session::known_roots) again.
//! - A client's list with an entry through a symlink is resolved again only after
//!   [`SYMLINKED_LIST_TTL`](limits::SYMLINKED_LIST_TTL).
//!
//! # Platforms
//!
//! The module [`platforms`] says what each system guarantees and lacks.
//!
//! # Features
//!
//! - `process`: `ChildCommand`, which runs a program in a checked directory, and `Confinement`, by
//!   which the Linux kernel restricts it to the roots in force, or the whole process to the allowed
//!   directories. On other systems, confining returns an error. It is the crate `guarded-process`.
//! - `tracing`: emits [events](#events), for the operator's log and for an audit log.
//! - `ignore`: adds `WalkOptions::git_ignore`, for walks that omit the files that git ignores.
//! - `schemars`: JSON schemas of [`Location`] and [`ContentHash`], for the arguments of tools.
//! - `rmcp`: the adapter for rmcp 3, the official SDK. Enables rmcp's feature `server`.
//! - `rmcp-http`: the adapter for rmcp's streamable HTTP transport. Enables rmcp's feature
//!   `transport-streamable-http-server`.
//!
//! The minimum Rust version is 1.85, or 1.88 with `rmcp` or `rmcp-http`.
//!
//! # Events
//!
//! With the feature `tracing`, operations and refusals are the events `allowed` and `refused` of
//! [`guarded_fs`](https://docs.rs/guarded-fs#events), whose documentation describes them, the
//! fields that are missing below, and the contract that applies to all events: what may change, and
//! what must not leave the operator's log. This crate emits, with the target `mcp_roots_guard`:
//!
//! | message | level | when | fields |
//! | --- | --- | --- | --- |
//! | `roots fetched` | debug | a client's list was received and resolved | `session`, `roots`, `rejected`, `pages` |
//! | `roots resolved again` | debug | a cached list was resolved again | `session`, `roots` |
//! | `root in force` | debug | after these two, for each of the first 20 roots | `session`, `index`, `root` |
//! | `entry rejected` | warn | after `roots fetched`, for each of the first 20 rejected entries | `session`, `index`, `entry`, `code`, `os_error`, `detail` |
//! | `roots not fetched` | warn | a client's list could not be obtained | `session`, `code`, `os_error`, `detail` |
//! | `roots changed` | debug | a client announced that its roots changed | `session` |
//! | `session opened` | debug | a client of a wrapped transport began a session (feature `rmcp`) | `session`, `mcp_session_id` |
//! | `session closed` | debug | a session ended | `session` |
//! | `handler failed` | warn | a handler failed with an error that only the operator may see (`HandlerError::other`, feature `rmcp`) | `session`, `os_error`, `error` |
//!
//! | field | type | meaning |
//! | --- | --- | --- |
//! | `session` | number | the number of the client's session (`Session::id`), or of the request in the stateless era |
//! | `mcp_session_id` | text | over HTTP, the first 8 characters of the id by which the client knows its session. Not more, because the whole id is a secret |
//! | `index` | number | the position in [`Roots::iter`] or, for a rejected entry, in the list |
//! | `entry` | text | the rejected entry as the client sent it, shortened and escaped |
//! | `error` | text | the handler's error with its causes, only for the operator |
//! | `os_error` | number | the operating system's number: that of the error, or of the first cause of the handler's error that has one |
//! | `roots`, `rejected`, `pages` | number | how many roots are in force, entries were rejected, and pages the list had |
//!
//! The guard does the work of a request in the span of its caller, also on its own threads. The
//! recipe for [an audit log](recipes#an-audit-log) uses this.
//!
//! # Memory
//!
//! One cache of at most 512 MiB holds the snapshots of all sessions. 100,000 sessions with one root
//! each take less than two KiB of heap each (`tests/session/memory.rs`).
// docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(doctest, doc = include_str!("../docs/migration.md"))]
#![cfg_attr(all(doctest, feature = "__rmcp-tests"), doc = include_str!("../README.md"))]

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
    CommitError, ContentHash, DirEntry, DirectoryOptions, Durability, Error, ErrorKind,
    Explanation, FileType, IntoLocation, ListEntry, Location, Metadata, OpenFile, OpenMode,
    PROTECTED_DEFAULTS, PlaceKey, Precondition, Proof, ReadDir, RejectedEntry, Result, Root, Roots,
    StopHandle, Walk, WalkOptions, WhyNone, WriteMethod, WriteOptions,
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
