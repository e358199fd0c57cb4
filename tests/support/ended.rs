//! Everything that can begin through roots and through what was made from them: each operation of
//! the table by each way, and what a walk, a listing, an entry, a begun file and a change set can
//! still do. The suites make it, let the roots end in some way, and then try all of it.

use std::path::Path;

use mcp_roots_guard::{
    ContentHash, FileType, Precondition, Result, Roots, Walk, WalkOptions, WriteOptions,
};

use super::operations::{CONTENT, NO_PAUSE, OPERATIONS, Operation, Target, WAYS, Way};
use super::proof::Proof;

/// Something to try after the end, which returns what it learned or did.
pub(crate) type Attempt = (String, Box<dyn FnOnce() -> Result<String> + Send>);

/// Writes the files that the attempts are about into a directory.
pub(crate) fn create(directory: &Path) {
    for path in ["d/tree", "empty"] {
        std::fs::create_dir_all(directory.join(path)).unwrap();
    }
    for path in ["f", "g", "d/x", "d/tree/y"] {
        std::fs::write(directory.join(path), CONTENT).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink("f", directory.join("l")).unwrap();
}

fn name(target: Target, position: usize) -> &'static str {
    match (target, position) {
        (Target::Missing, _) => "new",
        (Target::MissingTree, _) => "parent/new",
        (Target::Directory | Target::Tree, _) | (Target::Any, 0) => "d",
        (Target::EmptyDirectory, _) => "empty",
        (Target::Symlink, _) => "l",
        (_, 0) => "f",
        _ => "g",
    }
}

/// Prepares all attempts on the files of [`create`], in the directory where the roots begin.
pub(crate) fn attempts(roots: &Roots) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for operation in OPERATIONS {
        let paths = operation.paths.iter().enumerate();
        let texts: Vec<_> = paths.map(|(position, path)| name(path.target, position)).collect();
        if cfg!(windows) && texts.contains(&"l") {
            continue;
        }
        for way in WAYS {
            attempts.extend(attempt(operation, way, roots, &texts));
        }
    }
    attempts.extend(others(roots));
    attempts
}

fn attempt(
    operation: &'static Operation,
    way: Way,
    roots: &Roots,
    texts: &[&'static str],
) -> Option<Attempt> {
    let name = format!("{} {way:?}", operation.name);
    if way == Way::Directly {
        let (roots, texts) = (roots.clone(), texts.to_vec());
        return Some((name, Box::new(move || operation.run(way, &roots, &texts))));
    }
    // The proofs of these two rows are what is made here, and they are no operation.
    let by_proof = operation.by_proof.filter(|_| !operation.name.starts_with("check"))?;
    if !operation.ways().any(|it| it == way) {
        return None;
    }
    let proofs = operation.proofs(way, roots, texts, NO_PAUSE).unwrap();
    Some((name, Box::new(move || by_proof(&proofs, NO_PAUSE))))
}

fn others(roots: &Roots) -> Vec<Attempt> {
    let path = roots.check("f").unwrap();
    let entry = roots.check_entry("f").unwrap();
    let directory = roots.check("d").unwrap();
    let mut walk = roots.walk(".", WalkOptions::default()).unwrap();
    let found = find(&mut walk, "x");
    let mut listed = roots.read_dir("d").unwrap();
    let in_listing = listed.next().unwrap().unwrap();
    let file = path.atomic_file(WriteOptions::default()).unwrap();
    let (mut set, mut other) = (roots.change_set(), roots.change_set());
    set.write("g", "changed", WriteOptions::default()).unwrap();
    set.rename("d/x", "d/z", Precondition::Missing).unwrap();
    let version = ContentHash::of(CONTENT.as_bytes());
    other.remove_file("f", Precondition::Unchanged(version)).unwrap();
    let again = roots.clone();
    let (in_set, another) = (found.clone(), found.clone());
    let exists = Proof::Path(path.clone());
    let mut attempts: Vec<Attempt> = vec![
        ("a walk".into(), Box::new(move || Ok(format!("{:?}", walk.next_entry()?)))),
        (
            "a listing".into(),
            Box::new(move || match listed.next() {
                None => Ok("ended".into()),
                Some(entry) => {
                    let entry = entry.map(|entry| format!("{entry:?}"));
                    // An adapter such as `flatten` does not go on for ever.
                    assert!(entry.is_ok() || listed.next().is_none());
                    entry
                }
            }),
        ),
        ("DirEntry::read".into(), Box::new(move || Ok(format!("{:?}", found.read(99)?)))),
        ("DirEntry::read_to_string".into(), Box::new(move || in_listing.read_to_string(99))),
        ("DirEntry::metadata".into(), Box::new(move || Ok(format!("{:?}", another.metadata()?)))),
        (
            "DirEntry::to_entry".into(),
            Box::new(move || in_set.to_entry().remove_file().map(|()| "removed".into())),
        ),
        ("CheckedPath::join".into(), Box::new(move || Ok(directory.join("x")?.uri()))),
        ("Roots::check_all".into(), Box::new(move || Ok(format!("{:?}", again.check_all()?)))),
        ("AtomicFile::commit".into(), Box::new(move || file.commit().map(|()| "written".into()))),
        ("ChangeSet::commit".into(), Box::new(move || Ok(set.commit().map(|()| "made".into())?))),
        (
            "ChangeSet::rename".into(),
            Box::new(move || {
                other.rename("g", "h", Precondition::Missing).map(|()| "added".into())
            }),
        ),
        (
            "CheckedEntry::rename".into(),
            Box::new(move || {
                entry.rename(&entry.parent().unwrap().join_entry("h")?, Precondition::Missing)?;
                Ok("renamed".into())
            }),
        ),
    ];
    let still = roots.clone();
    attempts.push((
        "Roots::still_allows".into(),
        Box::new(move || still.still_allows(&path).map(|()| "allows".into())),
    ));
    attempts.push((
        "Proof::exists".into(),
        Box::new(move || {
            // It has no error. What is refused does not exist.
            if exists.exists() {
                Ok("exists".into())
            } else {
                Err(exists.path().read(9).unwrap_err())
            }
        }),
    ));
    attempts
}

fn find(walk: &mut Walk, name: &str) -> mcp_roots_guard::DirEntry {
    loop {
        let entry = walk.next_entry().unwrap().unwrap();
        if entry.file_name() == name && entry.file_type() == FileType::File {
            return entry;
        }
    }
}

/// Tries everything, and asserts that it is refused with the code and the text, and that nothing
/// was changed in the directory.
#[track_caller]
pub(crate) fn assert_all_refused(
    attempts: Vec<Attempt>,
    directory: &Path,
    code: &str,
    text: &str,
    how: &str,
) {
    let before = snapshot(directory);
    let count = attempts.len();
    for (name, attempt) in attempts {
        match attempt() {
            Ok(done) => panic!("{how}: {name} returned {done}"),
            Err(error) => {
                assert_eq!(error.code(), code, "{how}: {name}: {error}");
                assert!(error.to_string().contains(text), "{how}: {name}: {error}");
            }
        }
    }
    assert_eq!(snapshot(directory), before, "{how}");
    println!("{how}: {count} attempts were refused");
}

/// The paths and contents, except temporary files, which go with what created them.
fn snapshot(directory: &Path) -> Vec<String> {
    let mut found: Vec<_> = super::tree::entries(directory)
        .into_iter()
        .filter(|path| !path.to_string_lossy().contains(".guarded-fs-"))
        .map(|path| format!("{}: {:?}", path.display(), std::fs::read(&path).ok()))
        .collect();
    found.sort();
    found
}
