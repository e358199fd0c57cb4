//! The programs that the server may run for its clients, as configured by the operator.

use std::path::PathBuf;
use std::time::Duration;

use mcp_roots_guard::{Access, Boundary, ChildCommand, Confinement, ExtraAccess, Result};

/// The programs that tools may run. None by default.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// Whether the tools `git_status`, `git_diff` and `git_log` are offered.
    pub git: bool,
    /// The programs that the tool `run` accepts: names in `PATH`, or absolute paths.
    pub run: Vec<String>,
    /// Further paths that the programs of `run` may read and execute.
    pub extras: Vec<PathBuf>,
}

impl Programs {
    /// Verifies that each program exists and that the kernel can confine it.
    ///
    /// # Errors
    ///
    /// The errors of [`output`](mcp_roots_guard::ChildCommand::output).
    pub fn verify(&self, boundary: &Boundary) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut roots = boundary.allowed_roots();
        if roots.iter().len() == 0 {
            // Without allowed directories, any other one serves.
            let anywhere = std::env::temp_dir();
            let boundary = Boundary::builder().directory(anywhere, Access::ReadOnly).build()?;
            roots = boundary.allowed_roots();
        }
        let first = roots.iter().find(|root| !root.is_file()).map(|root| root.path().to_owned());
        let directory = roots.check(first.unwrap_or_else(|| ".".into()))?;
        if self.git {
            let git = ChildCommand::new(&directory, "git")?.confined(git_confinement());
            git.arg("--version").time_limit(Duration::from_secs(30)).output()?.into_stdout()?;
        }
        for program in &self.run {
            let _ = ChildCommand::new(&directory, program)?;
        }
        if !self.run.is_empty() {
            let shell = ChildCommand::new(&directory, "sh")?.confined(self.confinement());
            shell.arg("-c").arg(":").output()?;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        !self.git && self.run.is_empty()
    }

    /// The paths outside the allowed directories that the server itself needs if it is confined. A
    /// program that it starts cannot use more than the server.
    pub fn process_confinement(&self, boundary: &Boundary) -> Confinement {
        if self.is_empty() {
            return Confinement::default();
        }
        if self.run.is_empty() {
            return self.confinement();
        }
        // The programs of `run` can run files in the directories, such as tests.
        let roots = boundary.allowed_roots();
        roots.iter().fold(self.confinement(), |confinement, root| {
            confinement.extra(root.path(), ExtraAccess::Execute)
        })
    }

    /// The paths outside the roots that the programs of `run` may use.
    pub(crate) fn confinement(&self) -> Confinement {
        self.extras.iter().fold(Confinement::default().programs(), |confinement, path| {
            confinement.extra(path, ExtraAccess::Execute)
        })
    }
}

/// The paths outside the roots that git may use. It can read the system's files, but can run only
/// the dynamic loader, so no program that a repository's configuration names can start. The stores
/// of Nix and Guix also contain programs, which can start there.
pub(crate) fn git_confinement() -> Confinement {
    let loaders = [
        "/gnu/store",
        "/lib/ld-linux-aarch64.so.1",
        "/lib/ld-linux-riscv64-lp64d.so.1",
        "/lib/ld-musl-aarch64.so.1",
        "/lib/ld-musl-x86_64.so.1",
        "/lib64/ld-linux-x86-64.so.2",
        "/nix/store",
    ];
    let confinement = Confinement::default().runtime_files();
    let confinement = confinement.optional_extra("/usr", ExtraAccess::ReadOnly);
    let confinement = confinement.optional_extra("/etc/ld.so.cache", ExtraAccess::ReadOnly);
    loaders.into_iter().fold(confinement, |confinement, path| {
        confinement.optional_extra(path, ExtraAccess::Execute)
    })
}
