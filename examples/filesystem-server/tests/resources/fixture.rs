//! A server for a temporary directory, as its command line configures it for stdio, with a file
//! outside it.

use std::path::PathBuf;

use clap::Parser as _;
use filesystem_server::options::Options;
use filesystem_server::server::Server;

use crate::client::{Client, Declares, Era};

pub(crate) struct Fixture {
    _directory: tempfile::TempDir,
    pub(crate) top: PathBuf,
    pub(crate) server: Server,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("guard-").tempdir().unwrap();
        let top = dunce::canonicalize(directory.path()).unwrap();
        std::fs::create_dir(top.join("site")).unwrap();
        std::fs::write(top.join("secret.txt"), "secret").unwrap();
        let site = top.join("site");
        let options = Options::parse_from(["filesystem-server".as_ref(), site.as_os_str()]);
        let server = Server::new(options.guard().unwrap());
        Self { _directory: directory, server, top }
    }

    pub(crate) fn site(&self) -> PathBuf {
        self.top.join("site")
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.site().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Creates a symlink. Does nothing if the system does not support symlinks.
    pub(crate) fn link(&self, target: &str, path: &str) {
        if crate::tree::symlinks_are_visible() {
            crate::tree::link(target.as_ref(), &self.site().join(path)).unwrap();
        }
    }

    #[cfg(unix)]
    pub(crate) fn fifo(&self, path: &str) -> PathBuf {
        let path = self.site().join(path);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// A client whose root is the served directory.
    pub(crate) async fn client(&self, era: Era, declares: Declares) -> Client {
        Client::new(&self.server, era, declares, &[&self.site()]).await
    }
}
