//! Command-line options.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use mcp_roots_guard::{Access, Boundary, Guard};

use crate::http::Limits;

/// An MCP filesystem server.
///
/// Each client can access the given directories, narrowed by its roots. If no directory is given,
/// each client can access only its own roots.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Options {
    /// Directories that clients may access.
    pub directories: Vec<PathBuf>,
    /// Allow only read access to the directories.
    // Without directories, this option would have no effect, and an ignored restriction is unsafe.
    #[arg(long, requires = "directories")]
    pub read_only: bool,
    /// Also confine the process to the directories with Landlock (Linux 5.13 and later).
    ///
    /// If confinement is not available, the server does not start. If a directory is replaced, it
    /// stays inaccessible until the server is restarted.
    #[arg(long)]
    pub confine: bool,
    /// Serve streamable HTTP on this loopback address and port instead of stdio.
    ///
    /// There is no authentication: any program that can connect to the address has access.
    #[arg(long, value_name = "ADDR", value_parser = loopback)]
    pub http: Option<SocketAddr>,
    /// Maximum number of concurrent HTTP connections. Others receive a 503 response. [default: 256]
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one, requires = "http")]
    pub max_connections: Option<usize>,
    /// Maximum number of concurrent HTTP sessions. Others receive a 503 response. [default: 256]
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one, requires = "http")]
    pub max_sessions: Option<usize>,
}

/// Parses an address. Only loopback is accepted, because clients are not authenticated.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "expected an address and port, such as 127.0.0.1:8000")?;
    if address.ip().is_loopback() { Ok(address) } else { Err("not a loopback address".to_owned()) }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=MOST) => Ok(number),
        _ => Err(format!("expected a number from 1 to {MOST}")),
    }
}

/// The maximum number of connections or sessions. Processes rarely have this many descriptors, so a
/// larger number is probably a mistake.
const MOST: usize = 1 << 16;

impl Options {
    /// The limits for HTTP clients.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.connections = self.max_connections.unwrap_or(limits.connections);
        limits.sessions = self.max_sessions.unwrap_or(limits.sessions);
        limits
    }

    /// Creates the guard for these directories.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`BoundaryBuilder::build`](mcp_roots_guard::BoundaryBuilder::build),
    /// for example if a directory does not exist.
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
    fn read_only_without_directories_is_an_error() {
        let parse = |arguments: &[&str]| {
            Options::try_parse_from([&["filesystem-server"], arguments].concat())
        };
        assert!(parse(&["--read-only"]).is_err());
        assert!(parse(&["--read-only", "/srv"]).unwrap().read_only);
        assert!(!parse(&[]).unwrap().read_only);
    }

    #[test]
    fn only_loopback_addresses_are_accepted() {
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
