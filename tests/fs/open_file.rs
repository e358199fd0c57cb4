//! [`OpenFile`] offers the same reads, writes and seeks as `std::fs::File`, and nothing else.

use std::fmt::Debug;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};

use mcp_roots_guard::{OpenFile, OpenMode};

use crate::support::tree::Tree;

trait ReadWriteSeek: Read + Write + Seek {}

impl<F: Read + Write + Seek> ReadWriteSeek for F {}

type Step = fn(&mut dyn ReadWriteSeek) -> io::Result<String>;

/// The steps that a program performs on a file, in this order.
const STEPS: [(&str, Step); 8] = [
    ("read", |file| {
        let mut some = [0; 3];
        let len = file.read(&mut some)?;
        Ok(some[..len].escape_ascii().to_string())
    }),
    ("write", |file| file.write(b"XY").map(|len| len.to_string())),
    ("seek back", |file| file.seek(SeekFrom::Current(-1)).map(|at| at.to_string())),
    ("seek to before the start", |file| file.seek(SeekFrom::End(-99)).map(|at| at.to_string())),
    ("write a line", |file| writeln!(file, "{}", 7).map(|()| String::new())),
    ("flush", |file| file.flush().map(|()| String::new())),
    ("rewind", |file| file.rewind().map(|()| String::new())),
    ("read the rest", |file| {
        let mut text = String::new();
        file.read_to_string(&mut text).map(|_| text)
    }),
];

/// Asserts that each step returns the same result for both files, or the same operating system
/// error.
fn assert_same_results(ours: &mut OpenFile, std: &mut fs::File, what: &dyn Debug) {
    for (name, step) in STEPS {
        let plain = |result: io::Result<String>| {
            result.map_err(|error| (error.kind(), error.raw_os_error()))
        };
        assert_eq!(plain(step(ours)), plain(step(std)), "{name}, opened with {what:?}");
    }
}

type Options = fn(&mut fs::OpenOptions) -> &mut fs::OpenOptions;

/// Each mode, and the options of `std` that mean the same.
const MODES: [(OpenMode, Options); 5] = [
    (OpenMode::ReadWrite, |std| std.read(true).write(true)),
    (OpenMode::Create, |std| std.read(true).write(true).create(true)),
    (OpenMode::CreateNew, |std| std.read(true).write(true).create_new(true)),
    (OpenMode::Truncate, |std| std.write(true).create(true).truncate(true)),
    (OpenMode::Append, |std| std.append(true).create(true)),
];

#[test]
fn an_open_file_reads_writes_and_seeks_like_std_file() {
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let (ours, theirs) = (tree.path("root/ours"), tree.path("root/theirs"));
    for ((mode, options), exists) in MODES.iter().flat_map(|it| [(it, false), (it, true)]) {
        for path in [&ours, &theirs] {
            let _ = fs::remove_file(path);
            if exists {
                fs::write(path, "123456789").unwrap();
            }
        }
        let std = options(&mut fs::File::options()).open(&theirs);
        let guarded = roots.open_with("ours", *mode);
        assert_eq!(guarded.is_ok(), std.is_ok(), "{mode:?} {exists}");
        let (Ok(mut guarded), Ok(mut std)) = (guarded, std) else { continue };
        assert_same_results(&mut guarded, &mut std, mode);
        assert_eq!(fs::read(&ours).unwrap(), fs::read(&theirs).unwrap(), "{mode:?} {exists}");
        let permissions = [&ours, &theirs].map(|path| fs::metadata(path).unwrap().permissions());
        assert_eq!(permissions[0], permissions[1], "{mode:?} {exists}");
    }
    // `open` opens a file for reading only.
    fs::write(&ours, "123456789").unwrap();
    let mut guarded = roots.open("ours").unwrap();
    assert_same_results(&mut guarded, &mut fs::File::open(&ours).unwrap(), &"open");
    guarded.seek(SeekFrom::Start(6)).unwrap();
    assert_eq!(guarded.read_all(9).unwrap(), b"789");
    assert_eq!(fs::read(&ours).unwrap(), b"123456789");
}

#[test]
fn a_range_ends_with_the_file() {
    let tree = Tree::new("file root/f = 0123456789");
    let roots = tree.roots(["root"]);
    let mut file = roots.open("f").unwrap();
    for (offset, length, expected) in [
        (0, 4, "0123"),
        (8, 4, "89"),
        (10, 1, ""),
        (3, 0, ""),
        (1 << 50, 9, ""),
        (u64::MAX, u64::MAX, ""),
        (2, u64::MAX, "23456789"),
    ] {
        let read = file.read_range(offset, length).unwrap();
        assert_eq!(read, expected.as_bytes(), "{offset} {length}");
    }
}
