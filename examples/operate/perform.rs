//! Performs the operations.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use mcp_roots_guard::{
    Attribute, CheckedEntry, DirEntry, Error, OpenMode, Overwrite, Roots, WalkOptions, WriteOptions,
};
use serde_json::{Map, Value, json};

use super::reply::{
    Failure, Proof, error_json, insert_bytes, insert_path, of_content, of_entry, of_metadata,
    of_root,
};
use super::request::{
    Action, Attribute as Name, Bytes, Change, ChangeFields, Common, EntryFields, Mode, OpenFields,
    Operation, WalkFields,
};

type Answer = Result<Value, Failure>;

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
        let mut roots = all.clone();
        if let Some(base) = common.base {
            roots = roots.with_base(base)?;
        }
        if let Some(directory) = common.within {
            roots = roots.within(directory)?;
        }
        if common.roots_read_only {
            roots = roots.read_only();
        }
        Ok(Self { all: all.clone(), roots, checked: common.checked })
    }

    #[expect(clippy::too_many_lines, reason = "each operation has an arm")]
    pub(crate) fn perform(&self, operation: Operation) -> Answer {
        let roots = &self.roots;
        Ok(match operation {
            Operation::Roots(_) => {
                json!({"roots": roots.iter().map(of_root).collect::<Vec<_>>()})
            }
            Operation::Rejected(_) => self.rejected(),
            Operation::Check(of) => roots.check(of.path)?.describe(),
            Operation::CheckEntry(of) => roots.check_entry(of.path)?.describe(),
            Operation::Join(join) => {
                let relative = path_of(join.relative)?;
                roots.check(join.path)?.join(relative)?.describe()
            }
            Operation::JoinEntry(join) => {
                let relative = path_of(join.relative)?;
                roots.check(join.path)?.join_entry(relative)?.describe()
            }
            Operation::Parent(of) => {
                let parent = roots.check(of.path)?.parent();
                json!({"parent": parent.as_ref().map(Proof::describe)})
            }
            Operation::NoFollow(of) => roots.check(of.path)?.entry()?.describe(),
            Operation::Follow(of) => roots.check_entry(of.path)?.follow()?.describe(),
            Operation::Exists(of) => json!({"exists": roots.exists(of.path)?}),
            Operation::StillAllows(of) => {
                let checked = self.all.check(of.path)?;
                roots.still_allows(&checked)?;
                checked.describe()
            }
            Operation::Open(open) => self.open(open)?,
            Operation::Read(of) => of_content(call!(self, of.path, check, read(of.limit.0))?),
            Operation::ReadToString(of) => {
                let text = call!(self, of.path, check, read_to_string(of.limit.0))?;
                of_content(text.into())
            }
            Operation::Metadata(of) => of_metadata(&call!(self, of.path, check, metadata())?),
            Operation::SymlinkMetadata(of) => of_metadata(&roots.check_entry(of.path)?.metadata()?),
            Operation::Version(of) => {
                let version = roots.check(of.path)?.content_hash(of.limit.0)?;
                json!({"version": version.to_string()})
            }
            Operation::ReadLink(of) => {
                let (target, mut object) = (roots.check_entry(of.path)?.read_link()?, Map::new());
                let target = target.as_os_str().as_encoded_bytes().to_vec();
                insert_bytes(&mut object, "target", target);
                object.into()
            }
            Operation::ToUnguardedPath(of) => {
                let (checked, mut object) = (roots.check(of.path)?, Map::new());
                insert_path(&mut object, &checked.to_unguarded_path(), || checked.uri());
                object.into()
            }
            Operation::OpenUnguardedDir(of) => {
                let directory = roots.check(of.path)?.open_unguarded_dir()?;
                // A handle of a directory, so that nothing can be read from the file.
                let is_dir = File::from(directory).metadata()?.is_dir();
                json!({"type": if is_dir { "directory" } else { "other" }})
            }
            Operation::List(of) => {
                let entries = call!(self, of.path, check, read_dir())?;
                let entries: Result<Vec<_>, Error> = entries.map(|it| Ok(of_entry(&it?))).collect();
                json!({ "entries": entries? })
            }
            Operation::Walk(walk) => self.walk(walk)?,
            Operation::Entry(entry) => self.entry(entry)?,
            Operation::Write(write) => {
                let options = write.how.options()?;
                call!(self, write.path, check, write_with(&write.content.0, options))
                    .map(nothing)?
            }
            Operation::AtomicFile(write) => {
                let mut file = roots.check(write.path)?.atomic_file(write.how.options()?)?;
                for Bytes(piece) in write.pieces {
                    file.write_all(&piece)?;
                }
                if write.commit {
                    file.commit()?;
                }
                json!({})
            }
            Operation::ChangeSet(set) => self.change(set).map(nothing)?,
            Operation::CreateDir(of) => call!(self, of.path, check, create_dir()).map(nothing)?,
            Operation::CreateDirAll(of) => {
                call!(self, of.path, check, create_dir_all()).map(nothing)?
            }
            Operation::Rename(it) => {
                let overwrite = it.overwrite.unless(it.if_unchanged.as_deref())?;
                let renamed = if self.checked {
                    let from = roots.check_entry(it.from)?;
                    from.rename(&roots.check_entry(it.to)?, overwrite)
                } else {
                    roots.rename(it.from, it.to, overwrite)
                };
                renamed.map(nothing)?
            }
            Operation::Copy(it) => {
                let options = it.how.options()?;
                let bytes = if self.checked {
                    let from = roots.check(it.from)?;
                    from.copy(&roots.check(it.to)?, it.limit, options)?
                } else {
                    roots.copy(it.from, it.to, it.limit, options)?
                };
                json!({ "bytes": bytes })
            }
            Operation::Symlink(it) => {
                roots.check_entry(it.path)?.symlink(path_of(it.target)?).map(nothing)?
            }
            Operation::HardLink(it) => {
                let from = roots.check_entry(it.from)?;
                from.hard_link(&roots.check_entry(it.to)?).map(nothing)?
            }
            Operation::SetAttribute(it) => {
                let attribute = match it.attribute {
                    Name::Modified => Attribute::Modified(it.time.0),
                    Name::Accessed => Attribute::Accessed(it.time.0),
                    Name::Executable => Attribute::Executable,
                    Name::NotExecutable => Attribute::NotExecutable,
                    Name::ReadOnly => Attribute::ReadOnly,
                    Name::Writable => Attribute::Writable,
                };
                roots.check(it.path)?.set_attribute(attribute).map(nothing)?
            }
            Operation::RemoveFile(of) => {
                call!(self, of.path, check_entry, remove_file()).map(nothing)?
            }
            Operation::RemoveDir(of) => {
                call!(self, of.path, check_entry, remove_dir()).map(nothing)?
            }
            Operation::RemoveDirAll(of) => {
                call!(self, of.path, check_entry, remove_dir_all()).map(nothing)?
            }
        })
    }

    fn rejected(&self) -> Value {
        let rejected = self.roots.rejected().iter().map(|rejected| {
            let error = error_json(rejected.error());
            json!({"index": rejected.index(), "entry": rejected.entry(), "error": error})
        });
        json!({"rejected": rejected.collect::<Vec<_>>()})
    }

    fn open(&self, OpenFields { path, mode, offset, content, limit }: OpenFields) -> Answer {
        let mut file = match mode {
            Mode::Read => call!(self, path, check, open())?,
            Mode::ReadWrite => call!(self, path, check, open_with(OpenMode::ReadWrite))?,
            Mode::Create => call!(self, path, check, open_with(OpenMode::Create))?,
            Mode::CreateNew => call!(self, path, check, open_with(OpenMode::CreateNew))?,
            Mode::Truncate => call!(self, path, check, open_with(OpenMode::Truncate))?,
            Mode::Append => call!(self, path, check, open_with(OpenMode::Append))?,
        };
        let mut object = Map::from_iter([("metadata".to_owned(), of_metadata(file.metadata()))]);
        let offset = SeekFrom::Start(offset);
        if let Some(Bytes(content)) = content {
            file.seek(offset)?;
            file.write_all(&content)?;
        }
        if let Some(limit) = limit {
            file.seek(offset)?;
            let mut content = Vec::new();
            file.take(limit.0).read_to_end(&mut content)?;
            insert_bytes(&mut object, "content", content);
        }
        Ok(object.into())
    }

    fn walk(&self, request: WalkFields) -> Answer {
        let mut options = WalkOptions::default().max_entries(request.max_entries);
        if request.skip_dot_files {
            options = options.skip_dot_files();
        }
        if request.skip_unreadable {
            options = options.skip_unreadable();
        }
        if let Some(depth) = request.max_depth {
            options = options.max_depth(depth);
        }
        #[cfg(feature = "ignore")]
        if request.git_ignore {
            options = options.git_ignore();
        }
        let mut entries: Vec<Value> = Vec::new();
        let mut walk = call!(self, request.path, check, walk(options))?;
        loop {
            match walk.next_entry() {
                Ok(Some(entry)) => {
                    entries.push(of_entry(&entry));
                    if request.skip.iter().any(|name| entry.file_name() == name.as_str()) {
                        walk.skip_current_dir();
                    }
                }
                Ok(None) => break,
                // The entries before the error, because a limit is an ordinary end of a walk.
                Err(error) => {
                    let members = Map::from_iter([("entries".to_owned(), entries.into())]);
                    return Err(Failure::Partial(error, members));
                }
            }
        }
        let unreadable: Vec<_> = walk.unreadable().iter().map(error_json).collect();
        Ok(json!({"entries": entries, "unreadable": unreadable}))
    }

    /// Walks to an entry, and describes or reads it through the entry.
    fn entry(&self, request: EntryFields) -> Answer {
        let wanted = path_of(request.entry)?;
        let mut walk = call!(self, request.path, check, walk(WalkOptions::default()))?;
        while let Some(entry) = walk.next_entry()? {
            if entry.relative() == wanted {
                return act(request.action, request.limit.0, &entry);
            }
            if !wanted.starts_with(entry.relative()) {
                walk.skip_current_dir();
            }
        }
        Err(io::Error::from(io::ErrorKind::NotFound).into())
    }

    fn change(&self, ChangeFields { changes, commit }: ChangeFields) -> Result<(), Failure> {
        let mut set = self.roots.change_set();
        for change in changes {
            match change {
                Change::Write(it) => set.write(it.path, it.content.0, it.how.options()?)?,
                Change::RemoveFile(it) => match it.if_unchanged {
                    Some(version) => set.remove_file_if_unchanged(it.path, version.parse()?)?,
                    None => set.remove_file(it.path)?,
                },
                Change::WriteMoved(it) => {
                    let (version, content) = (it.if_unchanged.parse()?, it.content.0);
                    let options = WriteOptions::default().overwrite(Overwrite::Never);
                    let parents =
                        if it.create_parents { options.create_parents() } else { options };
                    set.write_moved(it.from, version, it.to, content, parents)?;
                }
                Change::Rename(it) => {
                    let overwrite = it.overwrite.unless(it.if_unchanged.as_deref())?;
                    set.rename(it.from, it.to, overwrite)?;
                }
            }
        }
        if !commit {
            return Ok(());
        }
        set.commit().map_err(|partial| {
            let list =
                |places: &[CheckedEntry]| places.iter().map(Proof::describe).collect::<Value>();
            let places = Map::from_iter([
                ("committed".to_owned(), list(partial.committed())),
                ("pending".to_owned(), list(partial.pending())),
            ]);
            Failure::Partial(partial.into(), places)
        })
    }
}

fn act(action: Action, limit: u64, entry: &DirEntry) -> Answer {
    Ok(match action {
        Action::Describe => entry.to_entry().describe(),
        Action::Metadata => of_metadata(&entry.metadata()?),
        Action::Open => {
            if entry.file_type().is_symlink() {
                // Fails: a listed symlink is not opened.
                entry.read(0)?;
            }
            of_metadata(entry.follow()?.open()?.metadata())
        }
        Action::Read => of_content(entry.read(limit)?),
        Action::ReadToString => of_content(entry.read_to_string(limit)?.into()),
        Action::RemoveFile => entry.to_entry().remove_file().map(nothing)?,
    })
}

/// The result of an operation that returns nothing.
fn nothing((): ()) -> Value {
    json!({})
}

/// The path with these bytes, which need not be UTF-8 on Unix.
#[cfg_attr(unix, allow(clippy::unnecessary_wraps, reason = "other systems refuse some bytes"))]
fn path_of(Bytes(bytes): Bytes) -> Result<PathBuf, Failure> {
    #[cfg(unix)]
    return Ok(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into());
    #[cfg(not(unix))]
    String::from_utf8(bytes)
        .map(PathBuf::from)
        .map_err(|_| Failure::Invalid("invalid_value", "the path must be UTF-8".into()))
}
