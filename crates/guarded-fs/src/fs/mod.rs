//! File operations on checked paths, each beneath the handle of its root.
//!
//! An operation that follows symlinks is a method of [`CheckedPath`](crate::CheckedPath), and one on
//! a directory entry itself is a method of [`CheckedEntry`](crate::CheckedEntry). Those that most
//! tools need are also methods of [`Roots`](crate::Roots), which check the request and perform the
//! operation in one step. Nothing outside the roots is read or changed, and every opened file is
//! verified before it is read or changed. What a change requires of its place is the table of
//! `permit`.
//!
//! | operation | on a | module | requires |
//! | --- | --- | --- | --- |
//! | open, read, read_to_string, content_hash | path | `open`, `version` | a file |
//! | metadata | path, entry | `open` | something |
//! | read_dir, walk | path | `list` | a directory |
//! | open to create, write, write_with, atomic_file | path | `open`, `write`, `atomic` | its directory, unless the options create parents |
//! | create_dir | path | `write` | its directory, and nothing |
//! | create_dir_all | path | `write` | no file on the way |
//! | copy | path to path | `copy` | a file; as for a write |
//! | set_attribute, open_unguarded_dir | path | `attributes` | something; a directory |
//! | remove_file, remove_dir, remove_dir_all, rename | entry | `change` | an entry |
//! | read_link | entry | `links` | a symlink |
//! | symlink, hard_link | entry | `links` | its directory, and nothing; a file to link |
//!
//! A write replaces a file by an [`AtomicFile`]. A [`ChangeSet`] (`changes`) prepares several of
//! these operations and commits them in order.

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
pub use options::{Durability, Overwrite, WalkOptions, WriteOptions};
pub use version::ContentHash;
