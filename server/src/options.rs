//! Command-line options.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PathBufValueParser, RangedI64ValueParser, TypedValueParser as _};
use clap::{ArgGroup, CommandFactory as _, Parser, ValueEnum};
use clap_complete::Shell;
use hyper::http::uri::Authority;
use mcp_roots_guard::{Access, Boundary, ClientRoots, DirectoryOptions, Guard, GuardBuilder};

use crate::audit::AuditLog;
use crate::http::{Limits, Names};
use crate::listen::Address;
use crate::log::Format;
use crate::names;
use crate::own_files::OwnFile;
use crate::programs::Programs;

/// An MCP filesystem server that stays inside the directories that you allow.
///
/// Each client can access the given directories, narrowed by its roots. If no directory is given,
/// each client can access only its own roots. Options with DIR or NAME can be repeated, and options
/// for the same directory are combined.
#[derive(Clone, Debug, Parser)]
#[command(name = "mcp-filesystem-guarded", version, after_long_help = MANUAL)]
// The last value of an option that cannot be repeated counts, so that one of the command line takes
// the place of one in the file.
#[command(args_override_self = true)]
// Without directories, an option that requires this group would have no effect, and an ignored
// restriction is unsafe.
#[command(group = ArgGroup::new("allowed").multiple(true))]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Options {
    /// Directories that clients may access.
    #[arg(group = "allowed")]
    pub directories: Vec<PathBuf>,
    /// Allow only read access to all directories.
    #[arg(long, requires = "allowed")]
    pub read_only: bool,
    /// Also allow this directory, but only for reading.
    ///
    /// Directories in it can be given as well, and are writable. To make a part of a writable
    /// directory read-only, use --protect.
    #[arg(long, value_name = "DIR", group = "allowed")]
    pub read_only_dir: Vec<PathBuf>,
    /// Also allow this directory, which client roots do not narrow.
    ///
    /// It stays accessible whatever roots a client lists, and also if the client's roots cannot be
    /// obtained.
    #[arg(long, value_name = "DIR", alias = "always", group = "allowed")]
    pub always_dir: Vec<PathBuf>,
    /// Accept PATH as another path of the allowed directory DIR.
    ///
    /// Use this if clients know DIR by a different path, for example because the server runs in a
    /// container. PATH may be a path of another system, such as C:\proj on Linux. It cannot contain
    /// an equals sign.
    #[arg(long, value_name = "PATH=DIR", value_parser = alias)]
    pub alias: Vec<(String, PathBuf)>,
    /// Make files and directories with this name read-only.
    ///
    /// The name matches at any depth, or, if it begins with a slash, only at the top of each
    /// allowed directory. It is not a path of the system. It may consist of several names separated
    /// by slashes, and the last one may contain the wildcards * and ?. Everything inside a matching
    /// directory is also protected.
    #[arg(long, value_name = "NAME")]
    pub protect: Vec<String>,
    /// Refuse any access to files and directories with this name. NAME is matched as in --protect.
    #[arg(long, value_name = "NAME")]
    pub deny: Vec<String>,
    /// Exempt this name from --protect, --deny and the default protection.
    ///
    /// NAME is compared exactly as written, and without wildcards. Only the name itself is exempt,
    /// and not the names in it.
    #[arg(long, value_name = "NAME")]
    pub exempt: Vec<String>,
    /// Do not protect .git and the configuration of editors and agents.
    ///
    /// By default, they are read-only, because a change to them could run code or lift
    /// restrictions. Does not affect --protect and --deny.
    #[arg(long)]
    pub no_protect: bool,
    /// Access for clients that list no roots at all.
    #[arg(long, alias = "empty", value_name = "ACCESS", value_enum, default_value = "deny")]
    #[arg(requires = "allowed")]
    pub empty_list: Empty,
    /// Do not offer these tools. Can be repeated, or have several names with commas.
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub disable_tools: Vec<String>,
    /// Maximum number of files and directories that a search looks at.
    #[arg(long, value_name = "NUMBER", default_value = "100000")]
    #[arg(value_parser = RangedI64ValueParser::<usize>::new().range(1..=10_000_000))]
    pub search_entries: usize,
    /// Do not start if the kernel cannot confine the server to the directories.
    ///
    /// By default, the server confines itself with Landlock (Linux 5.13 and later) where the kernel
    /// can, and prints a line where it cannot. With --confine=LIST, it also does not start unless
    /// the kernel enforces all of each: files (Linux 6.10), network (TCP and UDP), sockets (Unix
    /// sockets of other processes).
    #[arg(long, overrides_with = "no_confine", value_name = "LIST", value_enum)]
    #[arg(num_args = 0.., require_equals = true, value_delimiter = ',')]
    #[arg(default_missing_value = "available")]
    pub confine: Vec<Demand>,
    /// Do not confine the server.
    ///
    /// If a directory is replaced, it stays inaccessible to a confined server until a restart.
    #[arg(long, overrides_with = "confine")]
    pub no_confine: bool,
    /// Read options from this TOML file, too. Can be repeated.
    ///
    /// A key is the long name of an option, such as read-only-dir. A value is a text, a number,
    /// true, or a list of texts for an option that can be repeated. The key directories is for the
    /// directories without an option.
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Also offer the tools git_status, git_diff and git_log, which change nothing.
    ///
    /// They run git, confined with Landlock (Linux 6.12 and later) to the directories that the
    /// client can access. If the kernel cannot do this, the server does not start. Git can show the
    /// content of denied files.
    #[arg(long, conflicts_with = "deny")]
    pub git: bool,
    /// Also offer the tool run, which runs this program. Can be repeated.
    ///
    /// PROGRAM is a name, which is looked up in PATH, or an absolute path. The program is confined
    /// with Landlock (Linux 6.12 and later) to the directories that the client can access and to
    /// the system's programs and libraries, without the network and other processes' sockets. If
    /// the kernel cannot do this, the server does not start. The program can change protected files.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "deny")]
    pub run: Vec<String>,
    /// Also let the programs of --run read and execute the files in this file or directory.
    #[arg(long, alias = "run-extra", value_name = "PATH", requires = "run")]
    pub run_path: Vec<PathBuf>,
    /// Offer --run even if the server runs as root.
    ///
    /// The programs have none of root's capabilities, but can change the modes and times of the
    /// system's files, which root owns.
    #[arg(long, requires = "run")]
    pub run_as_root: bool,
    /// Serve streamable HTTP on this loopback address and port, or on unix:PATH, instead of stdio.
    ///
    /// There is no authentication: any program that can connect to the address has access. Only
    /// programs of the same user can connect to a Unix socket (mode 0600). A confined server may
    /// change the files beside the socket, so give it a directory of its own, in which no other user
    /// may write.
    #[arg(long, value_name = "ADDR")]
    pub http: Option<Address>,
    /// Also answer HTTP requests for this host name, for example one that a proxy passes on.
    ///
    /// Without a port, any port is accepted. By default, only the names of this machine are:
    /// localhost, 127.0.0.1 and ::1.
    #[arg(long, value_name = "NAME", value_parser = host, requires = "http")]
    pub allow_host: Vec<String>,
    /// Also answer browsers' requests from pages of this origin: a scheme, a host and a port.
    #[arg(long, value_name = "ORIGIN", value_parser = origin, requires = "http")]
    pub allow_origin: Vec<String>,
    /// Maximum number of concurrent HTTP connections. Others wait until one closes.
    #[arg(long, value_name = "NUMBER", default_value = "256", value_parser = number())]
    #[arg(requires = "http")]
    pub max_connections: usize,
    /// Maximum number of concurrent HTTP sessions. Others receive a 503 response.
    #[arg(long, value_name = "NUMBER", default_value = "256", value_parser = number())]
    #[arg(requires = "http")]
    pub max_sessions: usize,
    /// Add a line of JSON to this file for each operation that changes files and for each refusal.
    ///
    /// It is opened again on SIGHUP, so it can be rotated. A confined server may change the files
    /// beside it, so give it a directory of its own, in which no other user may write.
    #[arg(long, value_name = "FILE")]
    #[arg(value_parser = PathBufValueParser::new().try_map(|path| absolute(&path)))]
    pub audit: Option<PathBuf>,
    /// The form of what is logged to standard error while the server runs.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub log_format: Format,
    /// Print what would be in force with these options, and exit.
    ///
    /// Opens the directories and looks up the programs as at a start, and serves nothing. Fails if
    /// the server would not start.
    #[arg(long)]
    pub check: bool,
    /// Print a manual page, or completions for a shell, and exit.
    #[arg(long, value_name = "KIND", value_enum, exclusive = true)]
    pub generate: Option<Generate>,
}

/// What the kernel must enforce for the server to start.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Demand {
    /// Some confinement to the directories
    Available,
    /// All that concerns files
    Files,
    /// No TCP or UDP
    Network,
    /// No Unix sockets of other processes
    Sockets,
}

/// What `--generate` prints.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Generate {
    /// A manual page in roff
    Man,
    /// Completions for Bash
    CompleteBash,
    /// Completions for fish
    CompleteFish,
    /// Completions for PowerShell
    CompletePowershell,
    /// Completions for Zsh
    CompleteZsh,
}

impl Generate {
    /// Writes it.
    ///
    /// # Errors
    ///
    /// The error of writing.
    pub fn write_to(self, out: &mut impl io::Write) -> io::Result<()> {
        let mut command = Options::command();
        let shell = match self {
            Self::Man => return clap_mangen::Man::new(command).render(out),
            Self::CompleteBash => Shell::Bash,
            Self::CompleteFish => Shell::Fish,
            Self::CompletePowershell => Shell::PowerShell,
            Self::CompleteZsh => Shell::Zsh,
        };
        let (name, mut script) = (command.get_name().to_owned(), Vec::new());
        clap_complete::generate(shell, &mut command, name, &mut script);
        out.write_all(&script)
    }
}

/// The end of the manual page.
const MANUAL: &str = "\
Examples:
  mcp-filesystem-guarded ~/projects                     serve one directory
  mcp-filesystem-guarded ~/app --read-only-dir ~/docs   and another, for reading only
  mcp-filesystem-guarded ~/app --deny '.env*' --exempt .env.example
                                                        without the files with secrets
  mcp-filesystem-guarded ~/app --read-only-dir /        and everything else, for reading only
  mcp-filesystem-guarded --config /etc/files.toml       options from a file

Environment:
  RUST_LOG   what to log to standard error. With guarded_fs=info, each refusal with its reason

Exit status:
  0 after the client has disconnected, or with --http after a signal; 1 if the server cannot start
  or receives no request; 2 if an option is invalid";

/// What a client that lists no roots can access.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Empty {
    /// Only the directories that are always in force
    Deny,
    /// All allowed directories
    Allow,
}

/// Parses another path of an allowed directory, and the directory.
fn alias(text: &str) -> Result<(String, PathBuf), String> {
    let (path, directory) = text.split_once('=').ok_or("expected PATH=DIR")?;
    Ok((path.to_owned(), directory.into()))
}

/// Parses the name of a host, which may have a port. There are no wildcards.
fn host(text: &str) -> Result<String, String> {
    match text.parse::<Authority>() {
        Ok(host) if is_plain(&host) => Ok(text.to_owned()),
        _ => Err("expected a host name, such as files.example.com".to_owned()),
    }
}

/// Whether a host has a name and, after a colon, a port.
fn is_plain(host: &Authority) -> bool {
    let has_port = host.as_str() == host.host() || host.port_u16().is_some();
    !host.host().is_empty() && has_port && !host.as_str().contains(['@', '*'])
}

/// Parses an origin (RFC 6454). There are no wildcards.
fn origin(text: &str) -> Result<String, String> {
    let parsed = text.split_once("://").and_then(|(scheme, host)| {
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let host = host.parse::<Authority>().ok().filter(is_plain)?;
        // rmcp accepts any port for an origin without one.
        Some(format!("{scheme}://{}:{}", host.host(), host.port_u16().unwrap_or(port)))
    });
    parsed.ok_or_else(|| "expected an origin, such as https://app.example.com".to_owned())
}

fn number() -> RangedI64ValueParser<usize> {
    // Processes rarely have more descriptors, so a larger number is probably a mistake.
    RangedI64ValueParser::new().range(1..=65_536)
}

impl Options {
    /// The limits for HTTP clients.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let (connections, sessions) = (self.max_connections, self.max_sessions);
        Limits { connections, sessions, ..Limits::default() }
    }

    /// The names by which HTTP clients may address the server.
    #[must_use]
    pub fn names(&self) -> Names {
        Names { hosts: self.allow_host.clone(), origins: self.allow_origin.clone() }
    }

    /// The files of the server itself.
    #[must_use]
    pub fn own_files(&self) -> Vec<OwnFile> {
        let mut files = Vec::new();
        if let Some(path) = &self.audit {
            files.push(OwnFile { option: "--audit", path: path.clone() });
        }
        #[cfg(unix)]
        if let Some(Address::Socket(path)) = &self.http {
            files.push(OwnFile { option: "--http", path: path.clone() });
        }
        files
    }

    /// Opens the audit log, if there is one. `--check` does not create it.
    ///
    /// # Errors
    ///
    /// Those of [`AuditLog::open`].
    #[expect(clippy::disallowed_methods, reason = "the operator's own path, not a request's")]
    pub fn audit_log(&self) -> Result<Option<Arc<AuditLog>>, String> {
        let is_left_out = |path: &&PathBuf| {
            self.check && !path.exists() && path.parent().is_some_and(Path::is_dir)
        };
        let path = self.audit.as_ref().filter(|path| !is_left_out(path));
        path.map(|path| AuditLog::open(path)).transpose()
    }

    /// The programs that tools may run.
    #[must_use]
    pub fn programs(&self) -> Programs {
        Programs {
            git: self.git,
            run: self.run.clone(),
            extras: self.run_path.iter().map(|path| at_home(path)).collect(),
        }
    }

    /// A line about names whose form suggests something else.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        names::literal(self.protect.iter().chain(&self.deny))
    }

    /// The guard of a boundary, with what these options say about client roots.
    pub fn guard(&self, boundary: Boundary) -> GuardBuilder {
        let guard = Guard::builder(boundary).stalled_after(FILE_TIME);
        match self.empty_list {
            Empty::Allow => guard.client_roots(ClientRoots::NarrowIfListed),
            Empty::Deny => guard,
        }
    }

    /// Builds the boundary for these options. `opening` is called before each directory is opened.
    ///
    /// # Errors
    ///
    /// An alias is for a directory that is not allowed, a directory does not exist, or a name has a
    /// form that protects nothing.
    pub fn boundary(&self, opening: impl Fn(&Path)) -> Result<Boundary, Box<dyn Error>> {
        let directories = self.allowed_directories()?;
        let resolved = directories.iter().map(|(path, _)| {
            opening(path);
            names::canonical(path)
        });
        let resolved: Vec<_> = resolved.collect();
        for name in self.protect.iter().chain(&self.deny) {
            names::ensure_name(name, &resolved)?;
        }
        let mut boundary =
            if directories.is_empty() { Boundary::any_listed() } else { Boundary::builder() };
        if !self.no_protect {
            boundary = boundary.protect_defaults();
        }
        for (path, options) in directories {
            boundary = boundary.directory(path, options);
        }
        for name in &self.protect {
            boundary = boundary.protect(name);
        }
        for name in &self.deny {
            boundary = boundary.deny(name);
        }
        for name in &self.exempt {
            boundary = boundary.exempt(name);
        }
        boundary.build().map_err(|error| match error.code() {
            "access_conflict" => format!("{error}; as an option: --protect NAME").into(),
            _ => Box::<dyn Error>::from(error),
        })
    }

    /// Returns the directories of all options, each of them once.
    fn allowed_directories(&self) -> Result<Vec<(PathBuf, DirectoryOptions)>, Box<dyn Error>> {
        let plain = all_absolute(&self.directories)?;
        let read_only = all_absolute(&self.read_only_dir)?;
        let always = all_absolute(&self.always_dir)?;
        let mut paths = Vec::new();
        for path in plain.iter().chain(&read_only).chain(&always) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let named = all_absolute(self.alias.iter().map(|(_, directory)| directory))?;
        let aliases: Vec<_> = self.alias.iter().map(|(alias, _)| alias).zip(&named).collect();
        if let Some((alias, path)) = aliases.iter().find(|(_, path)| !paths.contains(path)) {
            let path = path.display();
            let error = format!("--alias {alias}={path}: not one of the allowed directories");
            return Err(error.into());
        }
        let options = |path: &PathBuf| {
            let is_read_only = self.read_only || read_only.contains(path);
            let access = if is_read_only { Access::ReadOnly } else { Access::ReadWrite };
            let mut options = DirectoryOptions::from(access);
            if always.contains(path) {
                options = options.always();
            }
            for (alias, _) in aliases.iter().filter(|(_, directory)| *directory == path) {
                options = options.alias(alias);
            }
            options
        };
        Ok(paths.into_iter().map(|path| (path.clone(), options(path))).collect())
    }
}

/// The absolute form of a path of the operator's.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(at_home(path)).map_err(|error| {
        let path = path.display();
        format!("{path:?}: {error}; if the working directory is gone, give an absolute path")
    })
}

fn all_absolute<P: AsRef<Path>>(
    paths: impl IntoIterator<Item = P>,
) -> Result<Vec<PathBuf>, String> {
    paths.into_iter().map(|path| absolute(path.as_ref())).collect()
}

/// Replaces `~` as the first name by the user's home directory. A shell does this, but a client
/// starts the server without one.
pub(crate) fn at_home(path: &Path) -> PathBuf {
    let home = || Some(std::env::home_dir()?.join(path.strip_prefix("~").ok()?));
    home().unwrap_or_else(|| path.to_owned())
}

/// How long a call waits for a file operation: half of what clients commonly wait for a response,
/// and longer than a disk takes to spin up.
const FILE_TIME: Duration = Duration::from_secs(30);
