//! Copying files, from one open file to another.
//!
//! The source is opened and verified before the destination is looked up. The destination is
//! written like any other file ([`AtomicFile`](super::AtomicFile)).

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use super::open::PRIVATE_FILE;
use super::options::{Durability, WriteMethod, WriteOptions};
use super::permissions::{Permissions, narrow_mode};
use super::permit::ChangeKind;
use super::version::{Condition, change_in_place_if};
use crate::check::{CheckedPath, Proof};
use crate::dir::{Metadata, OpenHow};
use crate::error::{Code, Error, Result};
use crate::limits::COPY_PIECE;
use crate::path::IntoLocation;
use crate::roots::{LastName, Roots};

impl Roots {
    /// Copies a file of at most `limit` bytes, within a root or from one root to another, and
    /// returns its size. Symlinks are followed. The options apply to the destination, as in
    /// [`write_with`](Self::write_with).
    ///
    /// Where the system can, the content is not read into memory, and both files share their
    /// blocks. A sparse file counts with its full size, which its copy can take. A file that grows
    /// during the copy is copied to its end, or refused beyond the limit.
    ///
    /// The copy belongs to this process, and grants nobody else access that the source denies:
    ///
    /// - A new file has the permission bits of the source minus the umask, without set-user-ID and
    ///   set-group-ID. On Unix, it inherits the access control list of its directory within these
    ///   limits.
    /// - If the owner or the group differs, the group and others keep only the bits that they would
    ///   keep in a [write](Self::write). If the source has a list, they get nothing.
    /// - An existing destination keeps what it would keep in a write, narrowed by the permissions
    ///   of the source, in place before its content changes. If it has a list, the group's bits are
    ///   the mask, so they keep only what the owner, the group and all others may do with the
    ///   source.
    ///
    /// Extended attributes and times are not copied.
    ///
    /// # Errors
    ///
    /// - Those of [`Roots::check`] for both paths, of [`open`](Self::open) for the source, and of
    ///   [`write_with`](Self::write_with) for the destination.
    /// - [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`) for a FIFO, a socket
    ///   or a device, whatever the policy allows.
    /// - [`TooLarge`](crate::ErrorKind::TooLarge). Only a file written in place keeps part of the
    ///   content.
    /// - [`Overlap`](crate::ErrorKind::Overlap) (`same_file`), also by different names. Nothing is
    ///   changed.
    ///
    /// ```
    /// # use guarded_fs::{Access, ErrorKind, Precondition, Roots, WriteOptions};
    /// # let work = tempfile::tempdir().unwrap();
    /// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
    /// roots.write("a.txt", "text")?;
    /// let options = WriteOptions::default().precondition(Precondition::Missing);
    /// assert_eq!(roots.copy("a.txt", "b.txt", 1 << 20, options)?, 4);
    /// let refused = roots.copy("a.txt", "b.txt", 1 << 20, options).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    /// # Ok::<(), guarded_fs::Error>(())
    /// ```
    pub fn copy(
        &self,
        from: impl IntoLocation,
        to: impl IntoLocation,
        limit: u64,
        options: impl Into<WriteMethod>,
    ) -> Result<u64> {
        let (method, last_names) = (options.into(), [LastName::Existing, LastName::New]);
        self.run_between("copy", from, to, last_names, |from, to| from.copy_to(to, limit, method))
    }
}

impl CheckedPath {
    /// Like [`Roots::copy`].
    ///
    /// # Errors
    ///
    /// The same.
    pub fn copy(&self, to: &Self, limit: u64, options: impl Into<WriteMethod>) -> Result<u64> {
        let method = options.into();
        self.0.run_to("copy", &to.0, |from, to| from.copy_to(to, limit, method))
    }
}

impl Proof {
    fn copy_to(&self, to: &Self, limit: u64, method: WriteMethod) -> Result<u64> {
        let of_destination = Error::of_destination;
        to.ensure_writable().map_err(of_destination)?;
        let source = Source::open(self, to, limit)?;
        // Until the commit, only the owner can read it. While the source is open, no other file has
        // its identity.
        let source_id = Some(source.metadata.identity());
        let file = to.begin_write(method, PRIVATE_FILE, source_id).map_err(|error| {
            if error.reason() == Code::SameFile { error } else { error.of_destination() }
        })?;
        let Some(mut file) = file else { return source.copy_in_place(method.options) };
        let copied = source.copy_to(file.file())?;
        // The source can have become private, and have got more content, while it was copied.
        file.copied_from(Permissions::of(&source.file)?).map_err(of_destination)?;
        file.put_in_place().map_err(of_destination)?;
        Ok(copied)
    }
}

struct Source<'a> {
    from: &'a Proof,
    to: &'a Proof,
    file: File,
    metadata: Metadata,
    limit: u64,
}

impl<'a> Source<'a> {
    fn open(from: &'a Proof, to: &'a Proof, limit: u64) -> Result<Self> {
        let (file, metadata) = from.open_existing()?;
        if !metadata.is_file() {
            return Err(Code::SpecialFile.into());
        }
        if metadata.len() > limit {
            return Err(Error::too_large(limit));
        }
        Ok(Self { from, to, file, metadata, limit })
    }

    /// Copies the content from the current positions, in pieces, so that a file that grows without
    /// end does not keep the copy running. [`io::copy`] uses copy_file_range(2) on Linux.
    fn copy_to(&self, to: &File) -> Result<u64> {
        let mut copied = 0_u64;
        loop {
            // One byte more than the limit shows that the file is too large.
            let piece = COPY_PIECE.min((self.limit - copied).saturating_add(1));
            let bytes = io::copy(&mut (&self.file).take(piece), &mut &*to)?;
            copied += bytes;
            if copied > self.limit {
                return Err(Error::too_large(self.limit));
            }
            if bytes < piece {
                return Ok(copied);
            }
            self.from.roots().ensure_usable()?;
            self.to.roots().ensure_usable()?;
        }
    }

    fn copy_in_place(&self, options: WriteOptions) -> Result<u64> {
        let at = &self.to.parent_dir().map_err(Error::of_destination)?;
        let condition = Condition::new(self.to, at, options.precondition.version());
        let condition = condition.map(Condition::of_destination);
        change_in_place_if(condition, || self.overwrite(options.durability))
    }

    fn overwrite(&self, durability: Durability) -> Result<u64> {
        let of_destination = Error::of_destination;
        let opened = self.to.open_to_change(ChangeKind::Overwrite, OpenHow::WRITE);
        let (to, metadata) = opened.map_err(of_destination)?;
        // The name can refer to another file than when it was looked up.
        if metadata.identity() == self.metadata.identity() {
            return Err(Code::SameFile.into());
        }
        if !metadata.is_file() {
            return Err(Error::from(Code::SpecialFile).of_destination());
        }
        let limit = Permissions::of(&self.file)?.limit_of_copy(&Permissions::of(&to)?);
        let narrowed = narrow_mode(&to, &metadata, limit);
        narrowed.map_err(|error| Error::from(error).of_destination())?;
        (&self.file).rewind()?;
        let copied = self.copy_to(&to)?;
        to.set_len(copied)?;
        if durability != Durability::None {
            to.sync_all()?;
        }
        Ok(copied)
    }
}
