//! [`OpenFile`] offers the same reads, writes and seeks as `std::fs::File`, and nothing else.

use std::cell::RefCell;
use std::fmt::Debug;
use std::fs;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use mcp_roots_guard::{OpenFile, OpenOptions};

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

#[test]
fn an_open_file_reads_writes_and_seeks_like_std_file() {
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let (ours, theirs) = (tree.path("root/ours"), tree.path("root/theirs"));
    let mut opened = 0;
    for bits in 0..32_u8 {
        let [read, write, append, truncate, create] = [1, 2, 4, 8, 16].map(|bit| bits & bit != 0);
        fs::write(&ours, "123456789").unwrap();
        fs::write(&theirs, "123456789").unwrap();
        let options = OpenOptions::new().read(read).write(write).append(append);
        let options = options.truncate(truncate).create(create);
        let guarded = roots.open_with("ours", options);
        let mut of_std = fs::File::options();
        of_std.read(read).write(write).append(append).truncate(truncate).create(create);
        let std = of_std.open(&theirs);
        assert_eq!(guarded.is_ok(), std.is_ok(), "{options:?}");
        let (Ok(mut guarded), Ok(mut std)) = (guarded, std) else { continue };
        assert_same_results(&mut guarded, &mut std, &options);
        assert_eq!(fs::read(&ours).unwrap(), fs::read(&theirs).unwrap(), "{options:?}");
        opened += 1;
    }
    assert!(opened > 10, "only {opened} combinations of options opened the file");
    // `open` opens a file for reading only.
    fs::write(&ours, "123456789").unwrap();
    let mut guarded = roots.open("ours").unwrap();
    assert_same_results(&mut guarded, &mut fs::File::open(&ours).unwrap(), &"open");
    guarded.seek(SeekFrom::Start(6)).unwrap();
    assert_eq!(guarded.read_all(9).unwrap(), b"789");
    assert_eq!(fs::read(&ours).unwrap(), b"123456789");
}

/// An open file has its own descriptor and does not depend on the roots that it was opened in.
#[cfg(unix)]
#[test]
fn an_open_file_is_unaffected_when_its_name_is_replaced() {
    let tree = Tree::new("file root/f = old; file root/g = other");
    let roots = tree.roots(["root"]);
    let options = OpenOptions::new().read(true).write(true);
    let mut file = roots.open_with("f", options).unwrap();
    drop(roots);
    fs::rename(tree.path("root/g"), tree.path("root/f")).unwrap();
    file.write_all(b"new").unwrap();
    file.rewind().unwrap();
    assert_eq!(file.read_all_to_string(9).unwrap(), "new");
    assert_eq!(fs::read(tree.path("root/f")).unwrap(), b"other");
}

/// Buffered content is written when its thread ends, after the guard's own thread-local data is
/// dropped.
#[test]
fn a_buffered_thread_local_file_is_flushed_when_its_thread_ends() {
    thread_local! {
        static LOG: RefCell<Option<BufWriter<OpenFile>>> = const { RefCell::new(None) };
    }
    let tree = Tree::new("dir root");
    let roots = tree.roots(["root"]);
    let work = move || {
        let open = || roots.open_with("log", OpenOptions::new().append(true).create(true)).unwrap();
        // This thread-local is registered before those of the guard, so it is dropped after them.
        LOG.with_borrow_mut(|log| *log = Some(BufWriter::new(open())));
        LOG.with_borrow_mut(|log| log.as_mut().unwrap().write_all(b"a line").unwrap());
    };
    std::thread::spawn(work).join().unwrap();
    assert_eq!(fs::read(tree.path("root/log")).unwrap(), b"a line");
}
