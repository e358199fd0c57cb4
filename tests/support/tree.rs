//! File trees described in text and built in a fresh temporary directory.
//!
//! Lines or semicolons separate the entries: `dir PATH`, `file PATH [= CONTENT]`, `link PATH ->
//! TARGET`, `hard PATH = EXISTING`, `fifo PATH`, `socket PATH`. Missing parents are created. A file
//! without explicit content contains its own path. `$T` stands for the top directory.
//!
//! On Windows, symlink targets are also written with slashes. A target that is a directory must
//! exist before its symlink, because Windows has two kinds of symlink. Wine cannot create symlinks,
//! so [`link`] creates them on the host. A program under Wine follows a host symlink but does not
//! see it as one.

use std::fs;
use std::path::{Path, PathBuf};

use mcp_roots_guard::{Access, Roots};

/// A temporary directory that contains a tree. It is removed on drop, except under Wine, where a
/// recursive removal would follow the symlinks.
pub(crate) struct Tree {
    _keep: Option<tempfile::TempDir>,
    top: PathBuf,
}

impl Tree {
    /// Builds the tree.
    pub(crate) fn new(text: &str) -> Self {
        Self::beneath(&std::env::temp_dir(), text)
    }

    /// Builds a tree with many files in an in-memory filesystem, if the system has one.
    pub(crate) fn in_memory(text: &str) -> Self {
        let memory = Path::new("/dev/shm");
        if cfg!(unix) && memory.is_dir() { Self::beneath(memory, text) } else { Self::new(text) }
    }

    pub(crate) fn beneath(directory: &Path, text: &str) -> Self {
        let keep = tempfile::Builder::new().prefix("guard-").tempdir_in(directory).unwrap();
        // `dunce` omits the `\\?\` prefix on Windows.
        let top = dunce::canonicalize(keep.path()).unwrap();
        let keep = if symlinks_are_visible() {
            Some(keep)
        } else {
            let _ = keep.keep();
            None
        };
        let tree = Self { top, _keep: keep };
        tree.add(text);
        tree
    }

    /// Adds entries to the tree.
    pub(crate) fn add(&self, text: &str) {
        for line in text.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty()) {
            self.add_line(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    pub(crate) fn add_line(&self, line: &str) -> std::io::Result<()> {
        let (kind, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line}: no path"));
        let at = |path: &str| self.top.join(path.trim());
        let made = |path: &str| {
            let path = at(path);
            fs::create_dir_all(path.parent().unwrap()).map(|()| path)
        };
        match kind {
            "dir" => fs::create_dir_all(at(rest)),
            "file" => {
                let (path, content) = rest.split_once('=').unwrap_or((rest, rest));
                fs::write(made(path)?, content.trim())
            }
            "link" => {
                let (path, target) = rest.split_once("->").expect("link PATH -> TARGET");
                link(self.expand(target.trim()).as_ref(), &made(path)?)
            }
            "hard" => {
                let (path, existing) = rest.split_once('=').expect("hard PATH = EXISTING");
                fs::hard_link(at(existing), made(path)?)
            }
            #[cfg(target_os = "linux")]
            "fifo" => {
                use rustix::fs::{CWD, FileType, Mode, mknodat};
                Ok(mknodat(CWD, made(rest)?, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?)
            }
            #[cfg(unix)]
            "socket" => std::os::unix::net::UnixListener::bind(made(rest)?).map(drop),
            _ => panic!("{line}: unknown kind"),
        }
    }

    /// The absolute path of an entry in the tree.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.top.join(path)
    }

    /// Replaces `$T` with the top directory, in paths and in URIs.
    pub(crate) fn expand(&self, text: &str) -> String {
        if text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:")) {
            return text.replace("$T", uri(&self.top).trim_start_matches("file://"));
        }
        text.replace("$T", self.top.to_str().unwrap())
    }

    /// The `file:` URI of an entry in the tree.
    pub(crate) fn uri(&self, path: impl AsRef<Path>) -> String {
        uri(&self.path(path))
    }

    /// Opens directories of the tree as roots.
    pub(crate) fn roots<const N: usize>(&self, directories: [&str; N]) -> Roots {
        Roots::from_dirs(directories.map(|directory| self.path(directory)), Access::ReadWrite)
            .unwrap()
    }

    /// Returns one line for each entry below a path, with its content. Comparing two snapshots
    /// shows whether anything changed.
    pub(crate) fn snapshot(&self, path: &str) -> Vec<String> {
        let line = |path: &PathBuf| {
            let what = match fs::symlink_metadata(path).unwrap().file_type() {
                t if t.is_dir() => "dir".into(),
                t if t.is_file() => format!("file {:?}", fs::read(path).unwrap()),
                t if t.is_symlink() => format!("link {}", fs::read_link(path).unwrap().display()),
                t => format!("{t:?}"),
            };
            format!("{}: {what}", path.display())
        };
        entries(&self.path(path)).iter().map(line).collect()
    }
}

/// The paths of all entries at and below a path, sorted.
pub(crate) fn entries(top: &Path) -> Vec<PathBuf> {
    let (mut todo, mut found) = (vec![top.to_owned()], Vec::new());
    while let Some(path) = todo.pop() {
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push(path);
    }
    found.sort();
    found
}

/// A path as a `file:` URI.
pub(crate) fn uri(path: &Path) -> String {
    let path = path.to_str().unwrap().replace('\\', "/");
    format!("file://{}{path}", if path.starts_with('/') { "" } else { "/" })
}

#[cfg(unix)]
pub(crate) fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(windows)]
pub(crate) fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    let target = PathBuf::from(target.to_str().unwrap().replace('/', "\\"));
    if !symlinks_are_visible() {
        return run_on_host(&target, at, "ln -s -- \"$1\" \"$2\"");
    }
    let is_dir =
        fs::metadata(at.parent().unwrap().join(&target)).is_ok_and(|metadata| metadata.is_dir());
    let link =
        if is_dir { std::os::windows::fs::symlink_dir } else { std::os::windows::fs::symlink_file };
    link(target, at)
}

/// Whether programs can recognize symlinks. Returns `false` under Wine.
pub(crate) fn symlinks_are_visible() -> bool {
    std::env::var_os("GUARD_TEST_WINE").is_none()
}

/// Replaces a directory with a symlink, even if a process has the directory open. The script runs
/// on the host, where Wine's file sharing rules do not apply.
#[cfg(windows)]
pub(crate) fn replace_with_symlink(target: &Path, at: &Path) {
    run_on_host(target, at, "mv -- \"$2\" \"$2.was\" && ln -s -- \"$1\" \"$2\"").unwrap();
}

/// Runs a script on the host. Wine's `Z:` is the host's `/`. Wine cannot wait for a host process,
/// so the script writes its exit status to a file.
#[cfg(windows)]
fn run_on_host(target: &Path, at: &Path, script: &str) -> std::io::Result<()> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // A recursive removal under Wine follows host symlinks without noticing. This check ensures
    // that it can reach only files that tests created.
    let place = at.parent().unwrap().join(target);
    let mut names = 0_i32;
    for component in place
        .strip_prefix(std::env::temp_dir())
        .expect("the target is in the temporary directory")
        .components()
    {
        names += if component == std::path::Component::ParentDir { -1 } else { 1 };
        assert!(names > 0, "{} points outside the temporary directory", target.display());
    }
    let host = |path: &Path| path.to_str().unwrap().trim_start_matches("Z:").replace('\\', "/");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let done = std::env::temp_dir().join(format!("link-{}-{number}", std::process::id()));
    let script = format!("{script}; echo $? >\"$3\"");
    let arguments = ["-c", &script, "sh", &host(target), &host(at), &host(&done)];
    let _ = std::process::Command::new(r"Z:\bin\sh").args(arguments).spawn()?;
    for _ in 0..1_000 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        match fs::read_to_string(&done) {
            Ok(status) if status.ends_with('\n') => {
                let _ = fs::remove_file(done);
                return if status == "0\n" {
                    Ok(())
                } else {
                    Err(std::io::ErrorKind::AlreadyExists.into())
                };
            }
            _ => {}
        }
    }
    Err(std::io::ErrorKind::TimedOut.into())
}

/// Reports a property that a test cannot show under Wine, and the reason. `.ci/windows/run` lists
/// these reports.
#[cfg(windows)]
pub(crate) fn report_not_shown(test: &str, reason: &str) {
    println!("not shown under Wine: {test}: {reason}");
}
