//! Copying files.
//!
//! A file is copied through two open files. The source is verified after it was opened, and the
//! destination is written like any other file ([`AtomicFile`](super::AtomicFile)).
//!
//! | case | result |
//! | --- | --- |
//! | the source is a FIFO, a socket or a device | refused, whatever the policy allows |
//! | source and destination are the same file, also by different names | `same_file`; nothing is truncated or replaced |
//! | the source is larger than the limit, or grows beyond it during the copy | `too_large`; nothing is left, except part of the content in a file that is written in place |
//! | the source grows during the copy, within the limit | copied to its end |
//! | the source is sparse | its size counts; holes are filled, or stay holes, as the system decides |
//! | the destination does not exist | mode of the source, minus the umask, narrowed because the copy has the owner and group of this process |
//! | the source has an access control list | it is not copied, and the group and others get nothing |
//! | the destination exists and is replaced | attributes as for a write, and no bit that a copy of the source may not have |
//! | the destination exists and is written in place | its mode is narrowed likewise, before its content changes |
//! | set-user-ID and set-group-ID | never copied |
//! | the source cannot be read | refused before the destination is looked up |

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use super::open::PRIVATE_FILE;
use super::options::{Durability, WriteOptions};
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
    /// returns its size. Symlinks are followed. The options are those of
    /// [`write_with`](Self::write_with) and apply to the destination.
    ///
    /// Where the system can, the content is not read into memory, and filesystems that support it
    /// share the blocks of both files. A sparse file counts with its full size, because its copy
    /// can take that much space. A file that grows during the copy is copied to its end, or refused
    /// beyond the limit.
    ///
    /// The copy belongs to this process. It gets the permission bits of the source minus the umask,
    /// without set-user-ID and set-group-ID, and grants nobody else access that the source denies:
    /// if the owner or the group differs, the group and others keep only the bits that they would
    /// keep in a [write](Self::write); if the source has an access control list, they get nothing.
    /// If the destination exists, it keeps the attributes that it would keep in a write, and its
    /// permissions are narrowed by those of the source. If it has a list, its group bits are the
    /// mask, so they keep only what the owner, the group and all others may do with the source.
    /// Extended attributes and times are not copied. A new file inherits the list of its directory,
    /// within these limits on Unix.
    ///
    /// # Errors
    ///
    /// - The errors of [`Roots::check`] for both paths, and of [`open`](Self::open) for the source.
    /// - The errors of [`write_with`](Self::write_with) for the destination.
    /// - [`LimitExceeded`](crate::ErrorKind::LimitExceeded) (`too_large`).
    /// - [`Overlap`](crate::ErrorKind::Overlap) (`same_file`).
    ///
    /// ```
    /// # use guarded_fs::{ErrorKind, Overwrite, Roots, WriteOptions};
    /// # let work = tempfile::tempdir().unwrap();
    /// let roots = Roots::from_dirs([work.path()])?;
    /// roots.write("a.txt", "text")?;
    /// let options = WriteOptions::default().overwrite(Overwrite::Never);
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
        options: WriteOptions,
    ) -> Result<u64> {
        let last_names = [LastName::Existing, LastName::New];
        self.run_between("copy", from, to, last_names, |from, to| from.copy_to(to, limit, options))
    }
}

impl CheckedPath {
    /// Copies the file to another checked path.
    ///
    /// # Errors
    ///
    /// Same as [`Roots::copy`].
    pub fn copy(&self, to: &Self, limit: u64, options: WriteOptions) -> Result<u64> {
        self.0.run_to("copy", &to.0, |from, to| from.copy_to(to, limit, options))
    }
}

impl Proof {
    fn copy_to(&self, to: &Self, limit: u64, options: WriteOptions) -> Result<u64> {
        let of_destination = Error::of_destination;
        // An overwritten destination would be left incomplete.
        self.roots().ensure_not_ended()?;
        to.roots().ensure_not_ended().map_err(of_destination)?;
        to.ensure_writable().map_err(of_destination)?;
        let source = Source::open(self, to, limit)?;
        // Until the commit, only the owner can read it. While the source is open, no other file has
        // its identity.
        let source_id = Some(source.metadata.identity());
        let file = to.begin_write(options, PRIVATE_FILE, source_id).map_err(|error| {
            if error.reason() == Code::SameFile { error } else { error.of_destination() }
        })?;
        let Some(mut file) = file else { return source.copy_in_place(options) };
        let copied = source.copy_to(file.file())?;
        // The source can have become private, and have got more content, while it was copied.
        file.copied_from(Permissions::of(&source.file)?).map_err(of_destination)?;
        file.put_in_place().map_err(of_destination)?;
        Ok(copied)
    }
}

/// The file to be copied, which is open and verified.
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

    /// Copies the content, from the current positions of both files to the end of the source, in
    /// pieces, so a file that grows without end does not keep the copy running.
    ///
    /// [`io::copy`] uses copy_file_range(2) on Linux.
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
            self.from.roots().ensure_not_ended()?;
            self.to.roots().ensure_not_ended()?;
            if bytes < piece {
                return Ok(copied);
            }
        }
    }

    fn copy_in_place(&self, options: WriteOptions) -> Result<u64> {
        let at = &self.to.parent_dir().map_err(Error::of_destination)?;
        let condition = Condition::new(self.to, at, options.version());
        let condition = condition.map(Condition::of_destination);
        change_in_place_if(condition, || self.overwrite(options.durability))
    }

    /// Overwrites the destination before truncating it, as a write in place does.
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
