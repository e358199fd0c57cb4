//! Operations that change something.

use std::io::Write as _;

use mcp_roots_guard::{
    Attributes, CheckedPath, Durability, Existing, Intent, OpenOptions, Replace, Version,
    WriteOptions,
};
use serde_json::{Map, Value, json};

use super::look::call;
use super::operations::CHANGES;
use super::reply::of_proof;
use super::request::{Failure, Request, path_of};

type Answer = Result<Value, Failure>;

pub(crate) fn write(request: &Request) -> Answer {
    let content = request.bytes("content")?;
    let options = write_options(request)?;
    call!(request, new_intent(request)?, write_with(&content, options));
    Ok(json!({}))
}

fn write_options(request: &Request) -> Result<WriteOptions, Failure> {
    let options = WriteOptions::new()
        .existing(match request.text("existing")? {
            "in_place" => Existing::InPlace,
            "in_place_if_owner_changes" => Existing::InPlaceIfOwnerChanges,
            "refuse" => Existing::Refuse,
            _ => Existing::Replace,
        })
        .create_parents(request.boolean("create_parents")?)
        .durability(durability(request)?);
    Ok(match version(request, "if_unchanged")? {
        Some(version) => options.if_unchanged(version),
        None => options,
    })
}

fn durability(request: &Request) -> Result<Durability, Failure> {
    Ok(match request.text("durability")? {
        "none" => Durability::None,
        "data" => Durability::Data,
        _ => Durability::DataAndDirectory,
    })
}

fn version(request: &Request, name: &'static str) -> Result<Option<Version>, Failure> {
    Ok(request.optional_text(name)?.map(str::parse).transpose()?)
}

/// The intent for a place whose missing parents are created if the request says so.
fn new_intent(request: &Request) -> Result<Intent, Failure> {
    Ok(if request.boolean("create_parents")? { Intent::NewTree } else { Intent::New })
}

pub(crate) fn atomic_file(request: &Request) -> Answer {
    let options = write_options(request)?;
    let pieces = request.pieces("pieces")?;
    let mut file = call!(request, new_intent(request)?, atomic_file(options));
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
                changes.remove_file(step.text("path")?, version(&step, "if_unchanged")?)?;
            }
            _ => changes.rename(step.text("from")?, step.text("to")?, replace(&step)?)?,
        }
    }
    if request.boolean("commit")? {
        changes.commit().map_err(|partial| {
            let list = |places: &[CheckedPath]| places.iter().map(of_proof).collect::<Value>();
            let places = Map::from_iter([
                ("committed".to_owned(), list(partial.committed())),
                ("pending".to_owned(), list(partial.pending())),
            ]);
            Failure::Partial(partial.into(), places)
        })?;
    }
    Ok(json!({}))
}

pub(crate) fn append(request: &Request) -> Answer {
    let options = OpenOptions::new().append(true).create(true);
    let mut file = call!(request, Intent::New, open_with(options));
    file.write_all(&request.bytes("content")?)?;
    Ok(json!({}))
}

pub(crate) fn create_dir(request: &Request) -> Answer {
    call!(request, Intent::NewTree, create_dir());
    Ok(json!({}))
}

pub(crate) fn create_dir_all(request: &Request) -> Answer {
    call!(request, Intent::NewTree, create_dir_all());
    Ok(json!({}))
}

pub(crate) fn rename(request: &Request) -> Answer {
    let (roots, replace) = (&request.roots, replace(request)?);
    let (from, to) = (request.text("from")?, request.text("to")?);
    if request.boolean("checked")? {
        let from = roots.check(from, Intent::NoFollow)?;
        from.rename(&roots.check(to, Intent::NoFollow)?, replace)?;
    } else {
        roots.rename(from, to, replace)?;
    }
    Ok(json!({}))
}

fn replace(request: &Request) -> Result<Replace, Failure> {
    Ok(match (version(request, "if_unchanged")?, request.text("replace")?) {
        (Some(version), _) => Replace::IfUnchanged(version),
        (None, "existing") => Replace::Existing,
        (None, _) => Replace::Never,
    })
}

pub(crate) fn copy(request: &Request) -> Answer {
    let (limit, options) = (request.integer("limit")?, write_options(request)?);
    let (roots, from, to) = (&request.roots, request.text("from")?, request.text("to")?);
    let bytes = if request.boolean("checked")? {
        let from = roots.check(from, Intent::Existing)?;
        from.copy(&roots.check(to, new_intent(request)?)?, limit, options)?
    } else {
        roots.copy(from, to, limit, options)?
    };
    Ok(json!({"bytes": bytes}))
}

pub(crate) fn symlink(request: &Request) -> Answer {
    let (roots, at) = (&request.roots, request.text("path")?);
    let target = path_of(request.bytes("target")?)?;
    if request.boolean("checked")? {
        roots.check(at, Intent::NoFollow)?.symlink(target)?;
    } else {
        roots.symlink(target, at)?;
    }
    Ok(json!({}))
}

pub(crate) fn hard_link(request: &Request) -> Answer {
    let (roots, from, to) = (&request.roots, request.text("from")?, request.text("to")?);
    if request.boolean("checked")? {
        let from = roots.check(from, Intent::NoFollow)?;
        from.hard_link(&roots.check(to, Intent::NoFollow)?)?;
    } else {
        roots.hard_link(from, to)?;
    }
    Ok(json!({}))
}

pub(crate) fn set_attributes(request: &Request) -> Answer {
    let mut attributes = Attributes::new();
    if request.has("executable") {
        attributes = attributes.executable(request.boolean("executable")?);
    }
    if request.has("read_only") {
        attributes = attributes.read_only(request.boolean("read_only")?);
    }
    if request.has("modified") {
        attributes = attributes.modified(request.time("modified")?);
    }
    if request.has("accessed") {
        attributes = attributes.accessed(request.time("accessed")?);
    }
    call!(request, Intent::Existing, set_attributes(attributes));
    Ok(json!({}))
}

pub(crate) fn remove_file(request: &Request) -> Answer {
    if let Some(version) = version(request, "if_unchanged")? {
        call!(request, Intent::NoFollow, remove_file_if_unchanged(version));
    } else {
        call!(request, Intent::NoFollow, remove_file());
    }
    Ok(json!({}))
}

pub(crate) fn remove_dir(request: &Request) -> Answer {
    call!(request, Intent::NoFollow, remove_dir());
    Ok(json!({}))
}

pub(crate) fn remove_dir_all(request: &Request) -> Answer {
    call!(request, Intent::NoFollow, remove_dir_all());
    Ok(json!({}))
}
