//! A temporary directory, and the options of a server for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser as _;
use filesystem_server::options::Options;
use filesystem_server::server::Server;
use mcp_roots_guard::GuardBuilder;

use super::{Client, Declares, Era, PROGRAM, uri};

pub(crate) struct ServedDirectory {
    pub(crate) directory: PathBuf,
    /// A directory with the file `secret`, next to the one that is served.
    pub(crate) outside: PathBuf,
    options: Vec<String>,
    _keep: tempfile::TempDir,
}

impl ServedDirectory {
    pub(crate) fn new() -> Self {
        Self::with(&["$D"])
    }

    /// In the options, `$D` stands for the directory and `$O` for the one outside.
    pub(crate) fn with(options: &[&str]) -> Self {
        let keep = tempfile::Builder::new().prefix("guard-").tempdir().unwrap();
        let top = dunce::canonicalize(keep.path()).unwrap();
        let [directory, outside] = ["site", "outside"].map(|name| top.join(name));
        fs::create_dir(&directory).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        let fill = |option: &&str| {
            let option = option.replace("$D", directory.to_str().unwrap());
            option.replace("$O", outside.to_str().unwrap())
        };
        Self { options: options.iter().map(fill).collect(), directory, outside, _keep: keep }
    }

    /// A server in this process, for HTTP.
    pub(crate) fn server(&self) -> Server {
        self.server_with(|guard| guard)
    }

    pub(crate) fn server_with(&self, change: impl FnOnce(GuardBuilder) -> GuardBuilder) -> Server {
        let options = self.options.iter().map(String::as_str);
        let options = Options::parse_from(["mcp-filesystem-guarded"].into_iter().chain(options));
        Server::new(
            change(options.guard(options.boundary(|_| ()).unwrap())).build().unwrap(),
            options.programs(),
        )
    }

    /// A client in a session, without roots.
    pub(crate) fn client(&self) -> Client {
        self.client_with(Era::Session, Declares::Nothing, &[])
    }

    /// A client whose root is the directory.
    pub(crate) fn client_of(&self, era: Era, declares: Declares) -> Client {
        self.client_with(era, declares, &[&self.directory])
    }

    /// A client in a session that announces changes to its roots.
    pub(crate) fn with_roots(&self, roots: &[&Path]) -> Client {
        self.client_with(Era::Session, Declares::Changes, roots)
    }

    pub(crate) fn client_with(&self, era: Era, declares: Declares, roots: &[&Path]) -> Client {
        let mut program = Command::new(PROGRAM);
        program.args(&self.options);
        let mut client = Client::of(program, era, declares);
        client.roots = roots.iter().map(|root| uri(root)).collect();
        client
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn content(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }
}
