//! Operations that change something.

use std::io::Write as _;

use mcp_roots_guard::{Attribute, CheckedEntry, ContentHash, Durability, Overwrite, WriteOptions};
use serde_json::{Map, Value, json};

use super::look::call;
use super::operations::CHANGES;
use super::reply::Proof;
use super::request::{Failure, Request, path_of};

type Answer = Result<Value, Failure>;

pub(crate) fn write(request: &Request) -> Answer {
    let content = request.bytes("content")?;
    let options = write_options(request)?;
    call!(request, check, write_with(&content, options));
    Ok(json!({}))
}

fn write_options(request: &Request) -> Result<WriteOptions, Failure> {
    let options =
        WriteOptions::default().overwrite(overwrite(request)?).durability(durability(request)?);
    let options = match request.text("in_place")? {
        "always" => options.in_place(),
        "if_owner_changes" => options.in_place_if_owner_changes(),
        _ => options,
    };
    Ok(if request.boolean("create_parents")? { options.create_parents() } else { options })
}

fn durability(request: &Request) -> Result<Durability, Failure> {
    Ok(match request.text("durability")? {
        "none" => Durability::None,
        "data" => Durability::Data,
        _ => Durability::DataAndDirectory,
    })
}

fn version(request: &Request, name: &'static str) -> Result<Option<ContentHash>, Failure> {
    Ok(request.optional_text(name)?.map(str::parse).transpose()?)
}

pub(crate) fn atomic_file(request: &Request) -> Answer {
    let options = write_options(request)?;
    let pieces = request.pieces("pieces")?;
    let mut file = request.check()?.atomic_file(options)?;
    for piece in pieces {
        file.write_all(&piece)?;
    }
    if request.boolean("commit")? {
        file.commit()?;
    }
    Ok(json!({}))
}

pub(crate) fn change_set(request: &Request) -> Answer {
    let mut changes = request.roots.change_set();
    for (name, step) in request.steps("changes", CHANGES)? {
        match name {
            "write" => {
                let content = step.bytes("content")?;
                changes.write(step.text("path")?, content, write_options(&step)?)?;
            }
            "remove_file" => {
                let path = step.text("path")?;
                match version(&step, "if_unchanged")? {
                    Some(version) => changes.remove_file_if_unchanged(path, version)?,
                    None => changes.remove_file(path)?,
                }
            }
            "create_dir_all" => changes.create_dir_all(step.text("path")?)?,
            _ => changes.rename(step.text("from")?, step.text("to")?, overwrite(&step)?)?,
        }
    }
    if request.boolean("commit")? {
        changes.commit().map_err(|partial| {
            let list =
                |places: &[CheckedEntry]| places.iter().map(Proof::describe).collect::<Value>();
            let places = Map::from_iter([
                ("committed".to_owned(), list(partial.committed())),
                ("pending".to_owned(), list(partial.pending())),
            ]);
            Failure::Partial(partial.into(), places)
        })?;
    }
    Ok(json!({}))
}

pub(crate) fn create_dir(request: &Request) -> Answer {
    call!(request, check, create_dir());
    Ok(json!({}))
}

pub(crate) fn create_dir_all(request: &Request) -> Answer {
    call!(request, check, create_dir_all());
    Ok(json!({}))
}

pub(crate) fn rename(request: &Request) -> Answer {
    let (roots, overwrite) = (&request.roots, overwrite(request)?);
    let (from, to) = (request.text("from")?, request.text("to")?);
    if request.boolean("checked")? {
        let from = roots.check_entry(from)?;
        from.rename(&roots.check_entry(to)?, overwrite)?;
    } else {
        roots.rename(from, to, overwrite)?;
    }
    Ok(json!({}))
}

fn overwrite(request: &Request) -> Result<Overwrite, Failure> {
    Ok(match (version(request, "if_unchanged")?, request.text("overwrite")?) {
        (Some(version), _) => Overwrite::IfUnchanged(version),
        (None, "always") => Overwrite::Always,
        (None, _) => Overwrite::Never,
    })
}

pub(crate) fn copy(request: &Request) -> Answer {
    let (limit, options) = (request.integer("limit")?, write_options(request)?);
    let (roots, from, to) = (&request.roots, request.text("from")?, request.text("to")?);
    let bytes = if request.boolean("checked")? {
        let from = roots.check(from)?;
        from.copy(&roots.check(to)?, limit, options)?
    } else {
        roots.copy(from, to, limit, options)?
    };
    Ok(json!({"bytes": bytes}))
}

pub(crate) fn symlink(request: &Request) -> Answer {
    let target = path_of(request.bytes("target")?)?;
    request.check_entry()?.symlink(target)?;
    Ok(json!({}))
}

pub(crate) fn hard_link(request: &Request) -> Answer {
    let (roots, from, to) = (&request.roots, request.text("from")?, request.text("to")?);
    let from = roots.check_entry(from)?;
    from.hard_link(&roots.check_entry(to)?)?;
    Ok(json!({}))
}

pub(crate) fn set_attribute(request: &Request) -> Answer {
    let time = request.time("time")?;
    let attribute = match request.text("attribute")? {
        "modified" => Attribute::Modified(time),
        "accessed" => Attribute::Accessed(time),
        "executable" => Attribute::Executable,
        "not_executable" => Attribute::NotExecutable,
        "read_only" => Attribute::ReadOnly,
        _ => Attribute::Writable,
    };
    request.check()?.set_attribute(attribute)?;
    Ok(json!({}))
}

pub(crate) fn remove_file(request: &Request) -> Answer {
    call!(request, check_entry, remove_file());
    Ok(json!({}))
}

pub(crate) fn remove_dir(request: &Request) -> Answer {
    call!(request, check_entry, remove_dir());
    Ok(json!({}))
}

pub(crate) fn remove_dir_all(request: &Request) -> Answer {
    call!(request, check_entry, remove_dir_all());
    Ok(json!({}))
}
