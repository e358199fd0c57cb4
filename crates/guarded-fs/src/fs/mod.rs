//! File operations on checked paths, each beneath the handle of its root.
//!
//! An operation that follows symlinks is a method of [`CheckedPath`](crate::CheckedPath), and one
//! on a directory entry itself a method of [`CheckedEntry`](crate::CheckedEntry). Those that most
//! tools need are also methods of [`Roots`](crate::Roots), which check the request and perform the
//! operation in one step. Every opened file is verified before it is read or changed, and `permit`
//! permits every change.
//!
//! An operation is in the module of its name or its kind. `changes` makes several in a set.

mod version;
mod options;
mod permit;
mod open;
#[cfg(feature = "ignore")]
mod ignored;
#[cfg(not(feature = "ignore"))]
#[path = "not_ignored.rs"]
mod ignored;
mod list;
#[cfg(unix)]
mod acl;
#[cfg(unix)]
mod permissions;
#[cfg(windows)]
#[path = "no_permissions.rs"]
mod permissions;
mod parents;
mod atomic;
mod write;
mod change;
mod changes;
mod links;
mod copy;
mod attributes;

pub use atomic::AtomicFile;
pub use attributes::Attribute;
pub use changes::{ChangeSet, CommitError};
pub use list::{DirEntry, ReadDir, Walk};
pub use open::{OpenFile, OpenMode};
pub use options::{Durability, Precondition, WalkOptions, WriteMethod, WriteOptions};
pub use version::ContentHash;
