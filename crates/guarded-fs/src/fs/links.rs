//! Symlinks and hard links.
//!
//! The resolver decides where a symlink leads, so nothing outside the roots is looked up.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::permit::{ChangeKind, ChangePermit};
use crate::check::{CheckedEntry, Name, Proof};
use crate::dir::{Budget, Metadata, Rule, Stat, TemporaryName, symlink_text};
use crate::error::{Code, Error, Result, quoted};
use crate::limits::PATH_BYTES;
use crate::roots::{PlaceInRoot, Presence, resolve_symlink_in};

impl CheckedEntry {
    /// Returns the text of a symlink as stored, or on Windows the normal form of the stored path.
    /// Its target is not looked up.
    ///
    /// The text is untrusted: whoever can write to the root can choose it. Show it, or pass it to
    /// [`symlink`](Self::symlink), but do not open it. To learn whether it leads inside the roots,
    /// [check](crate::Roots::check) the path of the symlink.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound); [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile)
    /// (`not_a_symlink`); [`OutsideRoots`](crate::ErrorKind::OutsideRoots) for a symlink in a proc
    /// filesystem.
    pub fn read_link(&self) -> Result<PathBuf> {
        self.0.run("read link", read_link)
    }

    /// Creates a symlink here with the text `target`. An existing entry is never replaced.
    ///
    /// The target must be inside the roots, but need not exist. A relative one starts at the
    /// directory that contains the symlink (symlink(7)). The text is stored unchanged, or
    /// normalized on Windows. There, this requires developer mode or a privilege, and a symlink is
    /// for either files or directories, for files if the target does not exist.
    ///
    /// Later, the target can be outside, for example if the symlink is moved, or a directory on the
    /// target's path is replaced by a symlink. Every access through the guard is decided again, and
    /// a symlink in a granted directory never grants a client root. Programs without the guard
    /// follow the symlink wherever it leads.
    ///
    /// # Errors
    ///
    /// - [`AlreadyExists`](crate::ErrorKind::AlreadyExists),
    ///   [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Protected`](crate::ErrorKind::Protected),
    ///   [`RootItself`](crate::ErrorKind::RootItself); [`NotFound`](crate::ErrorKind::NotFound),
    ///   also for a new name that ends in a slash.
    /// - For the target, which the error names: [`OutsideRoots`](crate::ErrorKind::OutsideRoots);
    ///   [`Protected`](crate::ErrorKind::Protected) if it is denied;
    ///   [`InvalidPath`](crate::ErrorKind::InvalidPath) (`empty`, `nul`) and
    ///   [`TooLong`](crate::ErrorKind::TooLong) for the text; those of
    ///   [`Roots::check`](crate::Roots::check) if it cannot be resolved.
    ///
    /// ```
    /// # #[cfg(unix)] fn main() -> Result<(), guarded_fs::Error> {
    /// # use guarded_fs::{Access, ErrorKind, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// # std::fs::create_dir(work.path().join("docs")).unwrap();
    /// let roots = Roots::from_dirs([work.path()], Access::ReadWrite)?;
    /// roots.write("readme.md", "Hello")?;
    /// let index = roots.check_entry("docs/index.md")?;
    /// index.symlink("../readme.md")?;
    /// assert_eq!(roots.read_to_string("docs/index.md", 99)?, "Hello");
    /// let index = roots.check_entry("docs/index.md")?;
    /// assert_eq!(index.read_link()?, std::path::Path::new("../readme.md"));
    /// let secret = roots.check_entry("docs/secret")?;
    /// let refused = secret.symlink("../../secret").unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::OutsideRoots);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))] fn main() {}
    /// ```
    pub fn symlink(&self, target: impl AsRef<Path>) -> Result<()> {
        let text = target.as_ref().as_os_str();
        self.0.run(Name::with_target(SYMLINK, text), |path| symlink(path, text))
    }

    /// Creates the hard link `to` to this regular file, in the same root. An existing entry is
    /// never replaced, and a symlink is not followed.
    ///
    /// The file must be readable. On Linux, the file that was opened and verified is linked.
    /// Without `/proc`, and on other systems, a temporary name is linked first, in the directory of
    /// `to`. If it refers to the verified file, it is linked to `to`, and then removed:
    ///
    /// - A process that can write to the directory can replace the temporary name between the
    ///   comparison and the link.
    /// - The temporary name remains if this process is killed, or may not remove it, which the
    ///   error says.
    ///
    /// If the client withdraws the directory of one name, the file can still be read and written
    /// through the other. To prevent this, use
    /// [`BoundaryBuilder::refuse_hard_links`](crate::BoundaryBuilder::refuse_hard_links).
    ///
    /// # Errors
    ///
    /// - [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Protected`](crate::ErrorKind::Protected) and
    ///   [`RootItself`](crate::ErrorKind::RootItself) for both paths.
    /// - [`NotFound`](crate::ErrorKind::NotFound), also for a new name that ends in a slash;
    ///   [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if `to` exists;
    ///   [`IsADirectory`](crate::ErrorKind::IsADirectory).
    /// - [`ForbiddenFile`](crate::ErrorKind::ForbiddenFile) (`special_file`, or `hard_linked` if
    ///   the policy refuses hard links); [`CrossDevice`](crate::ErrorKind::CrossDevice)
    ///   (`different_roots`, `cross_device`).
    /// - [`PermissionDenied`](crate::ErrorKind::PermissionDenied), also if the filesystem has no
    ///   hard links, or the system protects another user's file (proc_sys_fs(5)).
    pub fn hard_link(&self, to: &Self) -> Result<()> {
        self.0.run_to("hard link", &to.0, hard_link)
    }
}

impl Proof {
    /// Resolves the target of a symlink at this place, which must be inside. Neither needs to
    /// exist. Returns the text to store, and on Windows, which has two kinds of symlink, whether
    /// the target is a directory.
    fn resolve_symlink<'a>(&self, text: &'a OsStr) -> Result<(Cow<'a, OsStr>, bool)> {
        match text.as_encoded_bytes() {
            b"" => return Err(Code::Empty.into()),
            text if text.contains(&0) => return Err(Code::Nul.into()),
            text if text.len() > PATH_BYTES => return Err(Code::TooLong.into()),
            _ => {}
        }
        let (roots, text) = (self.roots(), symlink_text(text)?);
        // Defense: A new symlink must lead to a place inside the roots.
        let PlaceInRoot { root, path, found, .. } = resolve_symlink_in(
            roots,
            self.root_number(),
            self.relative().to_owned(),
            text.to_os_string(),
            &mut Budget::new(),
        )?;
        if !cfg!(windows) || found != Presence::Exists {
            return Ok((text, false));
        }
        let root = roots.root(root)?;
        let look = root.handle()?.look(&root.beneath_handle(&path), roots.policy().mounts)?;
        Ok((text, matches!(look, Stat::Other(metadata) if metadata.is_dir())))
    }
}

fn read_link(path: &Proof) -> Result<PathBuf> {
    match path.look()? {
        Stat::Link(text, _) => Ok(text.into()),
        Stat::Missing => Err(Code::NotFound.into()),
        Stat::Other(_) => Err(Code::NotASymlink.into()),
    }
}

fn symlink(path: &Proof, text: &OsStr) -> Result<()> {
    let permit = path.permit(ChangeKind::CreateLink)?;
    // symlink(2): the text of a symlink to its own name would be a loop.
    if !matches!(permit.look()?, Stat::Missing) {
        return Err(Code::AlreadyExists.into());
    }
    let (text, is_dir) = path.resolve_symlink(text).map_err(Error::of_target)?;
    permit.slot().symlink(&text, is_dir)
}

fn hard_link(from: &Proof, to: &Proof) -> Result<()> {
    from.ensure_may_change(ChangeKind::Link)?;
    to.ensure_may_change(ChangeKind::CreateLink).map_err(Error::of_destination)?;
    // Defense: A hard link gives a file no other access than that of its root.
    if from.root().path() != to.root().path() {
        return Err(Code::DifferentRoots.into());
    }
    let policy = from.roots().policy();
    if policy.hard_links == Rule::Refuse || to.roots().policy().hard_links == Rule::Refuse {
        return Err(Error::from(Code::HardLinked).with_text("the server refuses hard links"));
    }
    let to = to.permit(ChangeKind::CreateLink).map_err(Error::of_destination)?;
    // While the file is open, no other file has its identity.
    let (file, metadata) = from.open_entry()?;
    if !metadata.is_file() {
        return Err(Code::SpecialFile.into());
    }
    let linked = match to.slot().link_file(&file) {
        Some(linked) => linked,
        None => link_by_name(from, &file, &to),
    };
    linked.map_err(|error| match error.reason() {
        Code::AlreadyExists => error.of_destination(),
        _ => error,
    })
}

/// Links a file by its name: first to a temporary name, which must then refer to the open file.
fn link_by_name(from: &Proof, file: &File, to: &ChangePermit<'_>) -> Result<()> {
    let from = from.permit(ChangeKind::Link)?;
    let linked = TemporaryName::of_link(&from.slot(), &to.slot(), Arc::clone(&to.at().directory));
    let temporary = linked.map_err(|error| match error.reason() {
        // The file was there when it was opened.
        Code::NotFound => Code::Changed.into(),
        _ => error,
    })?;
    let link = || match temporary.look(Rule::Allow)? {
        // The identity is read again, because overlayfs can change it when a file is linked.
        Stat::Other(it) if it.identity() == Metadata::without_birth(file)?.identity() => {
            temporary.link(&to.slot())
        }
        _ => Err(Code::Changed.into()),
    };
    let linked = link();
    temporary.remove().map_err(|error| {
        let created =
            if linked.is_ok() { "the link was created, but" } else { "no link was created, and" };
        let name = quoted(temporary.name());
        Error::from(error).with_outcome(format!("{created} the temporary name {name} remains"))
    })?;
    linked
}

const SYMLINK: &str = "create symlink";
