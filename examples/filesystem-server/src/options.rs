//! What the operator says on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use mcp_roots_guard::{Access, Boundary, Guard, Result};

/// Serves files to MCP clients.
///
/// Clients' roots narrow the directories. Without directories, clients' roots alone are served.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Options {
    /// The directories to serve.
    pub directories: Vec<PathBuf>,
    /// Serves them read-only.
    #[arg(long)]
    pub read_only: bool,
    /// Speaks streamable HTTP on this address, instead of stdio. Nobody is authenticated: use a loopback address.
    #[arg(long, value_name = "ADDR")]
    pub http: Option<SocketAddr>,
}

impl Options {
    /// The guard for these directories.
    ///
    /// # Errors
    ///
    /// As [`BoundaryBuilder::build`](mcp_roots_guard::BoundaryBuilder::build): a directory that is missing, say.
    pub fn guard(&self) -> Result<Guard> {
        let access = if self.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let boundary = match &self.directories[..] {
            [] => Boundary::builder().client_roots_only(),
            some => some.iter().fold(Boundary::builder(), |boundary, path| boundary.directory(path, access)),
        };
        Ok(Guard::new(boundary.build()?))
    }
}
