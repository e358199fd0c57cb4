//! The operations, with their fields, and how each is performed.
//!
//! `--help` prints the schema of [`Operation`].

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use guarded_fs::host;
use mcp_roots_guard::{
    Attribute, CheckedEntry, DirEntry, Error, ErrorKind, Precondition, Root, Roots, WalkOptions,
    WriteOptions,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{
    Action, AttributeName, Bytes, Common, JoinFields, Mode, OnePath, ReadFields, RenameFields,
    Size, WalkFields, WriteFields, WriteOptionFields, largest_copy, time, yes,
};
use super::reply::{Failure, Reply, of_bytes, of_path, of_root, with};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Operation {
    /// Lists the roots in force.
    Roots {},
    /// Lists the entries of the client's list that grant nothing.
    Rejected {},
    /// Checks a path, and describes the proof.
    Check(OnePath),
    /// Checks a path, not following a symlink at its end, and describes the proof.
    CheckEntry(OnePath),
    /// Checks a path, then a path relative to it, and describes the second proof.
    Join(JoinFields),
    /// Like `join`, not following a symlink at the end of the relative path.
    JoinEntry(JoinFields),
    /// Checks a path, and describes the proof of its parent, which is null for a root.
    Parent(OnePath),
    /// Checks a path, and describes the proof of the entry itself.
    NoFollow(OnePath),
    /// Checks an entry, and describes the proof of the place to which it leads.
    Follow(OnePath),
    /// Whether a file or directory exists.
    Exists(OnePath),
    /// Checks a path, and then whether the roots narrowed by the common fields still allow it.
    StillAllows(OnePath),
    /// Opens a file, writes the content at the offset, and describes the file.
    Open {
        /// The file.
        path: String,
        /// Whether the file is changed or created.
        #[serde(default)]
        mode: Mode,
        /// The position at which reading and writing start.
        #[serde(default)]
        offset: u64,
        /// The content to write.
        content: Option<Bytes>,
        /// Reads at most this many bytes, after writing.
        limit: Option<Size>,
    },
    /// Reads a file.
    Read(ReadFields),
    /// Reads a file that is UTF-8 text.
    ReadToString(ReadFields),
    /// Describes a file or directory.
    Metadata(OnePath),
    /// Describes an entry, which may be a symlink.
    SymlinkMetadata(OnePath),
    /// Returns the version of a file.
    Version(ReadFields),
    /// Reads the text of a symlink, and whether it leads inside the roots.
    ReadLink(OnePath),
    /// Returns the path of a file for a program that opens it without the guard.
    ToUnguardedPath(OnePath),
    /// Opens a directory without the guard, and describes the open directory.
    OpenUnguardedDir(OnePath),
    /// Lists a directory.
    List(OnePath),
    /// Lists a directory and the directories in it. An error has the entries before it.
    Walk(WalkFields),
    /// Walks to an entry of a directory, and operates on it without resolving its path again.
    Entry {
        /// The directory.
        path: String,
        /// The path of the entry in the directory.
        entry: Bytes,
        /// The operation. `describe` returns the proof.
        action: Action,
        /// A file with more bytes is refused.
        #[serde(default)]
        limit: Size,
    },
    /// Writes a whole file.
    Write(WriteFields),
    /// Writes a file in pieces, and commits it.
    AtomicFile {
        /// The file.
        path: String,
        /// The content, in pieces.
        pieces: Vec<Bytes>,
        /// If this is false, nothing is changed.
        #[serde(default = "yes")]
        commit: bool,
        #[serde(flatten)]
        options: WriteOptionFields,
    },
    /// Changes several files. Each change is prepared before the first is made.
    ChangeSet {
        /// The changes, in order.
        changes: Vec<Change>,
        /// If this is false, nothing is changed.
        #[serde(default = "yes")]
        commit: bool,
    },
    /// Creates a directory.
    CreateDir(OnePath),
    /// Creates a directory and its missing parents.
    CreateDirAll(OnePath),
    /// Renames an entry.
    Rename(RenameFields),
    /// Copies a file.
    Copy {
        /// The source.
        from: String,
        /// The destination.
        to: String,
        /// A file with more bytes is refused.
        #[serde(default = "largest_copy")]
        limit: u64,
        #[serde(flatten)]
        options: WriteOptionFields,
    },
    /// Creates a symlink whose target is inside the roots.
    Symlink {
        /// The symlink.
        path: String,
        /// The text of the symlink.
        target: Bytes,
    },
    /// Gives a file another name in the same root.
    HardLink {
        /// The source, as a path or `file:` URI.
        from: String,
        /// The destination, as a path or `file:` URI.
        to: String,
    },
    /// Sets an attribute of a file or directory.
    SetAttribute {
        /// The file or directory.
        path: String,
        /// The attribute.
        attribute: AttributeName,
        /// The time, for `modified` and `accessed`, in milliseconds since 1970.
        #[serde(default)]
        time: i64,
    },
    /// Removes a file or a symlink.
    RemoveFile(OnePath),
    /// Removes an empty directory.
    RemoveDir(OnePath),
    /// Removes a directory and its content.
    RemoveDirAll(OnePath),
}

/// One change of a set.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Change {
    /// Writes a whole file.
    Write(WriteFields),
    /// Removes a file or a symlink.
    RemoveFile {
        /// The file or symlink.
        path: String,
        /// Refuses a file that does not have this `version`.
        if_unchanged: Option<String>,
    },
    /// Moves a file, and changes its content.
    WriteMoved {
        /// The source.
        from: String,
        /// Refuses a source that does not have this `version`.
        if_unchanged: String,
        /// The destination, which must not exist.
        to: String,
        /// The content.
        content: Bytes,
        /// Creates missing parent directories.
        #[serde(default)]
        create_parents: bool,
    },
    /// Renames an entry.
    Rename(RenameFields),
}

/// Calls a method of `Roots` with the path or, if the request says so, checks the path and calls
/// the method of the proof.
macro_rules! call {
    ($self:ident, $path:expr, $check:ident, $method:ident($($argument:expr),*)) => {
        if $self.checked {
            $self.roots.$check($path).and_then(|checked| checked.$method($($argument),*))
        } else {
            $self.roots.$method($path, $($argument),*)
        }
    };
}

/// What a request operates in.
pub(crate) struct Performer {
    /// The roots of the command line.
    all: Roots,
    /// The roots, narrowed by the common fields.
    roots: Roots,
    checked: bool,
}

impl Performer {
    pub(crate) fn new(all: &Roots, common: Common) -> Result<Self, Failure> {
        let roots = common.base.map_or_else(|| Ok(all.clone()), |base| all.with_base(base))?;
        let roots = common.within.map_or_else(|| Ok(roots.clone()), |it| roots.within(it))?;
        let roots = if common.roots_read_only { roots.read_only() } else { roots };
        Ok(Self { all: all.clone(), roots, checked: common.checked })
    }

    #[expect(clippy::too_many_lines, reason = "each operation has an arm")]
    pub(crate) fn perform(&self, operation: Operation) -> Result<Value, Failure> {
        let roots = &self.roots;
        Ok(match operation {
            Operation::Roots {} => {
                let unknown = Error::new(ErrorKind::Other("unknown"), "unknown", "no list");
                let always = host::always_in_force(roots, &unknown);
                let always: Vec<_> = always.iter().map(Root::path).collect();
                let of = |root: &Root| of_root(root, always.contains(&root.path()));
                json!({"roots": roots.iter().map(of).collect::<Value>()})
            }
            Operation::Rejected {} => {
                let entries = roots.rejected().iter().map(|it| {
                    json!({"index": it.index(), "entry": it.entry(), "error": it.error().reply()})
                });
                json!({"rejected": entries.collect::<Value>()})
            }
            Operation::Check(of) => roots.check(of.path)?.reply(),
            Operation::CheckEntry(of) => roots.check_entry(of.path)?.reply(),
            Operation::Join(of) => {
                let relative = of.relative.path()?;
                roots.check(of.path)?.join(relative)?.reply()
            }
            Operation::JoinEntry(of) => {
                let relative = of.relative.path()?;
                roots.check(of.path)?.join_entry(relative)?.reply()
            }
            Operation::Parent(of) => {
                let parent = roots.check(of.path)?.parent();
                json!({"parent": parent.map(|parent| parent.reply())})
            }
            Operation::NoFollow(of) => roots.check(of.path)?.entry()?.reply(),
            Operation::Follow(of) => roots.check_entry(of.path)?.follow()?.reply(),
            Operation::Exists(of) => json!({"exists": roots.exists(of.path)?}),
            Operation::StillAllows(of) => {
                let checked = self.all.check(of.path)?;
                roots.still_allows(&checked)?;
                checked.reply()
            }
            Operation::Open { path, mode, offset, content, limit } => {
                let mut file = match mode.to_change() {
                    None => call!(self, path, check, open())?,
                    Some(mode) => call!(self, path, check, open_with(mode))?,
                };
                let (described, offset) = (file.metadata().reply(), SeekFrom::Start(offset));
                let mut answer = json!({ "metadata": described });
                if let Some(Bytes(content)) = content {
                    file.seek(offset)?;
                    file.write_all(&content)?;
                }
                if let Some(limit) = limit {
                    file.seek(offset)?;
                    let mut content = Vec::new();
                    file.take(limit.0).read_to_end(&mut content)?;
                    answer = with(answer, of_bytes("content", &content));
                }
                answer
            }
            Operation::Read(of) => call!(self, of.path, check, read(of.limit.0))?.reply(),
            Operation::ReadToString(of) => {
                call!(self, of.path, check, read_to_string(of.limit.0))?.into_bytes().reply()
            }
            Operation::Metadata(of) => call!(self, of.path, check, metadata())?.reply(),
            Operation::SymlinkMetadata(of) => roots.check_entry(of.path)?.metadata()?.reply(),
            Operation::Version(of) => {
                let version = roots.check(of.path)?.content_hash(of.limit.0)?;
                json!({"version": version.to_string()})
            }
            Operation::ReadLink(of) => {
                let target = roots.check_entry(of.path)?.read_link()?;
                of_bytes("target", target.as_os_str().as_encoded_bytes())
            }
            Operation::ToUnguardedPath(of) => {
                let checked = roots.check(of.path)?;
                of_path(&checked.to_unguarded_path(), || checked.uri())
            }
            Operation::OpenUnguardedDir(of) => {
                let directory = roots.check(of.path)?.open_unguarded_dir()?;
                // A handle of a directory, so that nothing can be read from the file.
                let is_dir = File::from(directory).metadata()?.is_dir();
                json!({"type": if is_dir { "directory" } else { "other" }})
            }
            Operation::List(of) => {
                let entries = call!(self, of.path, check, read_dir())?;
                let entries: Result<Value, Error> = entries.map(|it| Ok(it?.reply())).collect();
                json!({ "entries": entries? })
            }
            Operation::Walk(of) => self.walk(&of)?,
            Operation::Entry { path, entry, action, limit } => {
                let wanted = entry.path()?;
                let mut walk = call!(self, path, check, walk(WalkOptions::default()))?;
                while let Some(entry) = walk.next_entry()? {
                    if entry.relative() == wanted {
                        return act(action, limit.0, &entry);
                    }
                    if !wanted.starts_with(entry.relative()) {
                        walk.skip_current_dir();
                    }
                }
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            Operation::Write(of) => {
                let options = of.options.method()?;
                call!(self, of.path, check, write_with(&of.content.0, options))?.reply()
            }
            Operation::AtomicFile { path, pieces, commit, options } => {
                let mut file = roots.check(path)?.atomic_file(options.get()?)?;
                for Bytes(piece) in pieces {
                    file.write_all(&piece)?;
                }
                if commit {
                    file.commit()?;
                }
                json!({})
            }
            Operation::ChangeSet { changes, commit } => self.change(changes, commit)?.reply(),
            Operation::CreateDir(of) => call!(self, of.path, check, create_dir())?.reply(),
            Operation::CreateDirAll(of) => call!(self, of.path, check, create_dir_all())?.reply(),
            Operation::Rename(of) => {
                let precondition = of.precondition()?;
                if self.checked {
                    let from = roots.check_entry(of.from)?;
                    from.rename(&roots.check_entry(of.to)?, precondition)?.reply()
                } else {
                    roots.rename(of.from, of.to, precondition)?.reply()
                }
            }
            Operation::Copy { from, to, limit, options } => {
                let options = options.method()?;
                let bytes = if self.checked {
                    let from = roots.check(from)?;
                    from.copy(&roots.check(to)?, limit, options)?
                } else {
                    roots.copy(from, to, limit, options)?
                };
                json!({ "bytes": bytes })
            }
            Operation::Symlink { path, target } => {
                roots.check_entry(path)?.symlink(target.path()?)?.reply()
            }
            Operation::HardLink { from, to } => {
                let from = roots.check_entry(from)?;
                from.hard_link(&roots.check_entry(to)?)?.reply()
            }
            Operation::SetAttribute { path, attribute, time: milliseconds } => {
                let attribute = match attribute {
                    AttributeName::Modified => Attribute::Modified(time(milliseconds)?),
                    AttributeName::Accessed => Attribute::Accessed(time(milliseconds)?),
                    AttributeName::Executable => Attribute::Executable,
                    AttributeName::NotExecutable => Attribute::NotExecutable,
                    AttributeName::ReadOnly => Attribute::ReadOnly,
                    AttributeName::Writable => Attribute::Writable,
                };
                roots.check(path)?.set_attribute(attribute)?.reply()
            }
            Operation::RemoveFile(of) => call!(self, of.path, check_entry, remove_file())?.reply(),
            Operation::RemoveDir(of) => call!(self, of.path, check_entry, remove_dir())?.reply(),
            Operation::RemoveDirAll(of) => {
                call!(self, of.path, check_entry, remove_dir_all())?.reply()
            }
        })
    }

    fn walk(&self, of: &WalkFields) -> Result<Value, Failure> {
        let mut entries: Vec<Value> = Vec::new();
        let mut walk = call!(self, of.path.as_str(), check, walk(of.options()))?;
        loop {
            match walk.next_entry() {
                Ok(Some(entry)) => {
                    entries.push(entry.reply());
                    if of.skip.iter().any(|name| entry.file_name() == name.as_str()) {
                        walk.skip_current_dir();
                    }
                }
                Ok(None) => break,
                // The entries before the error, because a limit is an ordinary end of a walk.
                Err(error) => {
                    return Err(Failure(with(error.reply(), json!({ "entries": entries }))));
                }
            }
        }
        let unreadable: Value = walk.unreadable().iter().map(Reply::reply).collect();
        Ok(json!({"entries": entries, "unreadable": unreadable}))
    }

    fn change(&self, changes: Vec<Change>, commit: bool) -> Result<(), Failure> {
        let mut set = self.roots.change_set();
        for change in changes {
            match change {
                Change::Write(of) => set.write(of.path, of.content.0, of.options.get()?)?,
                Change::RemoveFile { path, if_unchanged: None } => {
                    set.remove_file(path, Precondition::Any)?;
                }
                Change::RemoveFile { path, if_unchanged: Some(version) } => {
                    set.remove_file(path, Precondition::Unchanged(version.parse()?))?;
                }
                Change::WriteMoved { from, if_unchanged, to, content, create_parents } => {
                    let options = WriteOptions::default().precondition(Precondition::Missing);
                    let options = if create_parents { options.create_parents() } else { options };
                    let unchanged = Precondition::Unchanged(if_unchanged.parse()?);
                    set.write_moved(from, unchanged, to, content.0, options)?;
                }
                Change::Rename(of) => {
                    let precondition = of.precondition()?;
                    set.rename(of.from, of.to, precondition)?;
                }
            }
        }
        if !commit {
            return Ok(());
        }
        set.commit().map_err(|partial| {
            let list = |places: &[CheckedEntry]| places.iter().map(Reply::reply).collect::<Value>();
            let (committed, pending) = (list(partial.committed()), list(partial.pending()));
            let places = json!({"committed": committed, "pending": pending});
            Failure(with(Error::from(partial).reply(), places))
        })
    }
}

fn act(action: Action, limit: u64, entry: &DirEntry) -> Result<Value, Failure> {
    Ok(match action {
        Action::Describe => entry.to_entry().reply(),
        Action::Metadata => entry.metadata()?.reply(),
        Action::Open => {
            if entry.file_type().is_symlink() {
                // Fails: a listed symlink is not opened.
                entry.read(0)?;
            }
            entry.follow()?.open()?.metadata().reply()
        }
        Action::Read => entry.read(limit)?.reply(),
        Action::ReadToString => entry.read_to_string(limit)?.into_bytes().reply(),
        Action::RemoveFile => entry.to_entry().remove_file()?.reply(),
    })
}
