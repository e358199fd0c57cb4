//! What the operator says on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use mcp_roots_guard::{Access, Boundary, Guard};

use crate::http::Limits;

/// Serves files to MCP clients.
///
/// Clients' roots narrow the directories. Without directories, clients' roots alone are served.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Options {
    /// The directories to serve.
    pub directories: Vec<PathBuf>,
    /// Serves them read-only.
    // Clients' roots alone have no access but their own; what is asked for must not be ignored.
    #[arg(long, requires = "directories")]
    pub read_only: bool,
    /// Has the kernel confine this process to the directories, too (Landlock; Linux 5.13 and later), or does not start. A directory that is
    /// replaced then takes a restart.
    #[arg(long)]
    pub confine: bool,
    /// Speaks streamable HTTP on this loopback address, instead of stdio. Whoever may connect to it is served.
    #[arg(long, value_name = "ADDR", value_parser = loopback)]
    pub http: Option<SocketAddr>,
    /// Over HTTP, the most connections at once; more are answered with 503. [default: 256]
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one, requires = "http")]
    pub max_connections: Option<usize>,
    /// Over HTTP, the most sessions at once; more are answered with 503. [default: 256]
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one, requires = "http")]
    pub max_sessions: Option<usize>,
}

/// Nobody is authenticated, so nobody else's machine may connect.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "not an address and a port, as 127.0.0.1:8000".to_owned())?;
    if address.ip().is_loopback() { Ok(address) } else { Err("not a loopback address".to_owned()) }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=MOST) => Ok(number),
        _ => Err(format!("not a number from 1 to {MOST}")),
    }
}

/// More of either than a process commonly has descriptors for is a mistake.
const MOST: usize = 1 << 16;

impl Options {
    /// What HTTP clients may use.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.connections = self.max_connections.unwrap_or(limits.connections);
        limits.sessions = self.max_sessions.unwrap_or(limits.sessions);
        limits
    }

    /// The guard for these directories.
    ///
    /// # Errors
    ///
    /// As [`BoundaryBuilder::build`](mcp_roots_guard::BoundaryBuilder::build): a directory that is missing, say.
    pub fn guard(&self) -> mcp_roots_guard::Result<Guard> {
        let access = if self.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let boundary = match &self.directories[..] {
            [] => Boundary::builder().client_roots_only(),
            some => some
                .iter()
                .fold(Boundary::builder(), |boundary, path| boundary.directory(path, access)),
        };
        Ok(Guard::new(boundary.build()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_is_not_ignored_without_directories() {
        let parse = |arguments: &[&str]| {
            Options::try_parse_from([&["filesystem-server"], arguments].concat())
        };
        assert!(parse(&["--read-only"]).is_err());
        assert!(parse(&["--read-only", "/srv"]).unwrap().read_only);
        assert!(!parse(&[]).unwrap().read_only);
    }

    #[test]
    fn only_loopback_is_listened_on() {
        for (address, listens) in [
            ("127.0.0.1:0", true),
            ("127.1.2.3:80", true),
            ("[::1]:8000", true),
            ("0.0.0.0:8000", false),
            ("[::]:8000", false),
            ("192.168.0.1:80", false),
            ("localhost:80", false),
            ("127.0.0.1", false),
        ] {
            let options = Options::try_parse_from(["filesystem-server", "--http", address]);
            assert_eq!(options.is_ok(), listens, "{address}");
        }
    }
}
