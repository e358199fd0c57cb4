//! Operations that only read.
#![allow(clippy::unnecessary_wraps, reason = "all operations in the table have the same type")]

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};

use mcp_roots_guard::{ContentHash, DirEntry, OpenMode, WalkOptions};
use serde_json::{Map, Value, json};

use super::reply::{Proof, insert_bytes, insert_path, of_metadata, of_root};
use super::request::{Failure, Request, error_json, path_of};

type Answer = Result<Value, Failure>;

/// Calls a method of `Roots` with the path or, if the request says so, checks the path and calls
/// the method of the proof.
macro_rules! call {
    ($request:ident, $check:ident, $method:ident($($argument:expr),*)) => {{
        let path = $request.text("path")?;
        if $request.boolean("checked")? {
            $request.roots.$check(path)?.$method($($argument),*)?
        } else {
            $request.roots.$method(path, $($argument),*)?
        }
    }};
}
pub(crate) use call;

pub(crate) fn roots(request: &Request) -> Answer {
    Ok(json!({"roots": request.roots.iter().map(of_root).collect::<Vec<_>>()}))
}

pub(crate) fn rejected(request: &Request) -> Answer {
    let rejected = request.roots.rejected().iter();
    let rejected = rejected.map(|rejected| {
        let error = error_json(rejected.error());
        json!({"index": rejected.index(), "entry": rejected.entry(), "error": error})
    });
    Ok(json!({"rejected": rejected.collect::<Vec<_>>()}))
}

pub(crate) fn check(request: &Request) -> Answer {
    Ok(request.check()?.describe())
}

pub(crate) fn check_entry(request: &Request) -> Answer {
    Ok(request.check_entry()?.describe())
}

pub(crate) fn join(request: &Request) -> Answer {
    let relative = path_of(request.bytes("relative")?)?;
    Ok(request.check()?.join(relative)?.describe())
}

pub(crate) fn join_entry(request: &Request) -> Answer {
    let relative = path_of(request.bytes("relative")?)?;
    Ok(request.check()?.join_entry(relative)?.describe())
}

pub(crate) fn parent(request: &Request) -> Answer {
    Ok(json!({"parent": request.check()?.parent().as_ref().map(Proof::describe)}))
}

pub(crate) fn no_follow(request: &Request) -> Answer {
    Ok(request.check()?.entry()?.describe())
}

pub(crate) fn follow(request: &Request) -> Answer {
    Ok(request.check_entry()?.follow()?.describe())
}

pub(crate) fn still_allows(request: &Request) -> Answer {
    let checked = request.all_roots.check(request.text("path")?)?;
    request.roots.still_allows(&checked)?;
    Ok(checked.describe())
}

pub(crate) fn exists(request: &Request) -> Answer {
    Ok(json!({"exists": request.roots.exists(request.text("path")?)?}))
}

pub(crate) fn open(request: &Request) -> Answer {
    let mut file = match request.text("mode")? {
        "read_write" => call!(request, check, open_with(OpenMode::ReadWrite)),
        "create" => call!(request, check, open_with(OpenMode::Create)),
        "create_new" => call!(request, check, open_with(OpenMode::CreateNew)),
        "truncate" => call!(request, check, open_with(OpenMode::Truncate)),
        "append" => call!(request, check, open_with(OpenMode::Append)),
        _ => call!(request, check, open()),
    };
    let mut object = Map::new();
    object.insert("metadata".into(), of_metadata(file.metadata()));
    let offset = SeekFrom::Start(request.integer("offset")?);
    if let Some(content) = request.optional_bytes("content")? {
        file.seek(offset)?;
        file.write_all(&content)?;
    }
    if request.has("limit") {
        file.seek(offset)?;
        let mut content = Vec::new();
        file.take(request.integer("limit")?).read_to_end(&mut content)?;
        insert_bytes(&mut object, "content", content);
    }
    Ok(Value::Object(object))
}

pub(crate) fn read(request: &Request) -> Answer {
    let content = call!(request, check, read(request.integer("limit")?));
    Ok(of_content(content))
}

fn of_content(content: Vec<u8>) -> Value {
    let mut object = Map::new();
    object.insert("version".into(), ContentHash::of(&content).to_string().into());
    insert_bytes(&mut object, "content", content);
    Value::Object(object)
}

pub(crate) fn read_to_string(request: &Request) -> Answer {
    let limit = request.integer("limit")?;
    Ok(of_content(call!(request, check, read_to_string(limit)).into()))
}

pub(crate) fn metadata(request: &Request) -> Answer {
    Ok(of_metadata(&call!(request, check, metadata())))
}

pub(crate) fn symlink_metadata(request: &Request) -> Answer {
    Ok(of_metadata(&request.check_entry()?.metadata()?))
}

pub(crate) fn version(request: &Request) -> Answer {
    let version = request.check()?.content_hash(request.integer("limit")?)?;
    Ok(json!({"version": version.to_string()}))
}

pub(crate) fn read_link(request: &Request) -> Answer {
    let target = request.check_entry()?.read_link()?;
    let mut object = Map::new();
    insert_bytes(&mut object, "target", target.as_os_str().as_encoded_bytes().to_vec());
    Ok(Value::Object(object))
}

pub(crate) fn to_unguarded_path(request: &Request) -> Answer {
    let checked = request.check()?;
    let mut object = Map::new();
    insert_path(&mut object, &checked.to_unguarded_path(), || checked.uri());
    Ok(Value::Object(object))
}

pub(crate) fn open_unguarded_dir(request: &Request) -> Answer {
    let directory = request.check()?.open_unguarded_dir()?;
    // A handle of a directory, so that nothing can be read from the file.
    let metadata = File::from(directory).metadata()?;
    Ok(json!({"type": if metadata.is_dir() { "directory" } else { "other" }}))
}

pub(crate) fn list(request: &Request) -> Answer {
    let mut entries = Vec::new();
    for entry in call!(request, check, read_dir()) {
        entries.push(of_entry(&entry?));
    }
    Ok(json!({"entries": entries}))
}

pub(crate) fn walk(request: &Request) -> Answer {
    let options = walk_options(request)?;
    let skipped = request.texts("skip")?;
    let mut entries: Vec<Value> = Vec::new();
    let mut walk = call!(request, check, walk(options));
    loop {
        match walk.next_entry() {
            Ok(Some(entry)) => {
                entries.push(of_entry(&entry));
                let name = entry.file_name().to_str();
                if skipped.iter().any(|skipped| Some(skipped.as_str()) == name) {
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

fn walk_options(request: &Request) -> Result<WalkOptions, Failure> {
    let mut options = WalkOptions::default().max_entries(request.count("max_entries")?);
    if request.boolean("skip_dot_files")? {
        options = options.skip_dot_files();
    }
    if request.boolean("skip_unreadable")? {
        options = options.skip_unreadable();
    }
    if request.has("max_depth") {
        options = options.max_depth(request.count("max_depth")?);
    }
    #[cfg(feature = "ignore")]
    if request.boolean("git_ignore")? {
        options = options.git_ignore();
    }
    Ok(options)
}

/// Walks to an entry, and describes or reads it through the entry.
pub(crate) fn entry(request: &Request) -> Answer {
    let wanted = path_of(request.bytes("entry")?)?;
    let mut walk = call!(request, check, walk(WalkOptions::default()));
    while let Some(entry) = walk.next_entry()? {
        if entry.relative() == wanted {
            return act(request, &entry);
        }
        if !wanted.starts_with(entry.relative()) {
            walk.skip_current_dir();
        }
    }
    Err(io::Error::from(io::ErrorKind::NotFound).into())
}

fn act(request: &Request, entry: &DirEntry) -> Answer {
    let limit = request.integer("limit")?;
    Ok(match request.text("action")? {
        "read" => of_content(entry.read(limit)?),
        "read_to_string" => of_content(entry.read_to_string(limit)?.into()),
        "metadata" => of_metadata(&entry.metadata()?),
        "open" => {
            if entry.file_type().is_symlink() {
                // Fails: a listed symlink is not opened.
                entry.read(0)?;
            }
            of_metadata(entry.follow()?.open()?.metadata())
        }
        "remove_file" => {
            entry.to_entry().remove_file()?;
            json!({})
        }
        _ => entry.to_entry().describe(),
    })
}

fn of_entry(entry: &DirEntry) -> Value {
    let mut object = Map::new();
    insert_path(&mut object, &entry.relative(), || entry.to_entry().uri());
    object.insert("type".into(), entry.file_type().to_string().into());
    object.insert("depth".into(), entry.relative().components().count().into());
    Value::Object(object)
}
