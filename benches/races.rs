//! Races reads of a file with swaps of the file for a symlink to the outside, and counts the reads
//! that return the file outside: `cargo bench -p benches --bench races`. Each way runs for ten
//! seconds. `cargo test` runs each for a tenth of a second, to show that it works. Fails if the guard
//! reads the file outside once. Needs Linux (renameat2).
#![allow(clippy::unwrap_used)] // A benchmark cannot continue without its files.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    use std::thread;
    use std::time::{Duration, Instant};

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use mcp_roots_guard::{Access, Roots};
    use path_jail::guard::{FdJail, OpenOptions};
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use strict_path::PathBoundary;

    type Read = Box<dyn Fn() -> Option<Vec<u8>>>;

    pub(super) fn main() {
        let is_bench = std::env::args().any(|argument| argument == "--bench");
        let time = Duration::from_millis(if is_bench { 10_000 } else { 100 });
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().canonicalize().unwrap().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("f"), "inside").unwrap();
        fs::write(tree.path().join("secret"), "outside").unwrap();
        symlink("../secret", root.join("other")).unwrap();
        println!("| | reads in total | reads of the file outside |\n| --- | --- | --- |");
        for (name, read) in ways(&root) {
            let (reads, leaks) = race(&root, time, &read);
            println!("| {name} | {reads} | {leaks} |");
            assert!(name != "guard" || leaks == 0, "the guard read the file outside");
        }
    }

    /// Reads while another thread swaps. Returns the numbers of reads and of leaks.
    fn race(root: &Path, time: Duration, read: &Read) -> (u64, u64) {
        let (one, other) = (root.join("f"), root.join("other"));
        let (is_done, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
        let (mut reads, mut leaks) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(SeqCst) {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                    swaps.fetch_add(1, SeqCst);
                }
            });
            let start = Instant::now();
            // On a loaded machine, the swaps may begin late.
            while start.elapsed() < time || swaps.load(SeqCst) == 0 {
                reads += 1;
                leaks += u64::from(read().is_some_and(|content| content == b"outside"));
            }
            is_done.store(true, SeqCst);
        });
        (reads, leaks)
    }

    fn ways(root: &Path) -> Vec<(&'static str, Read)> {
        let (here, roots) = (root.to_owned(), Roots::from_dirs([root], Access::ReadWrite).unwrap());
        let (dir, jail) =
            (Dir::open_ambient_dir(root, ambient_authority()).unwrap(), FdJail::new(root).unwrap());
        let boundary = PathBoundary::<()>::try_new(root).unwrap();
        vec![
            ("guard", Box::new(move || roots.read("f", 1024).ok())),
            // The usual recipe.
            (
                "std",
                Box::new(move || {
                    let path = here.join("f").canonicalize().ok()?;
                    path.starts_with(&here).then(|| fs::read(path).ok())?
                }),
            ),
            ("cap-std", Box::new(move || dir.read("f").ok())),
            (
                "path_jail",
                Box::new(move || {
                    let options = OpenOptions::new().read(true).require_regular_file(true);
                    let mut content = Vec::new();
                    jail.open("f", options).ok()?.read_to_end(&mut content).ok()?;
                    Some(content)
                }),
            ),
            ("strict-path", Box::new(move || boundary.strict_join("f").ok()?.read().ok())),
        ]
    }
}
