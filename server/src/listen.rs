//! Where the server listens for HTTP: a loopback address, or a Unix socket that only this user can
//! connect to.
//!
//! | at the path | outcome |
//! | --- | --- |
//! | nothing | the socket is created with mode 0600 |
//! | a socket on which nobody listens | it is replaced |
//! | a socket on which a process listens | an error |
//! | anything else | an error |
//!
//! The socket is removed when the server ends, unless another one has its name by then. Of two
//! servers that start at the same time, one can replace the socket of the other.

use std::fmt::{self, Display};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use tokio::net::{TcpListener, TcpStream};

#[cfg(unix)]
pub use unix::SocketFile;

/// Where to listen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Address {
    /// A loopback address.
    Loopback(SocketAddr),
    /// A Unix socket.
    #[cfg(unix)]
    Socket(std::path::PathBuf),
}

impl FromStr for Address {
    type Err = String;

    /// Parses `unix:PATH`, or an address and a port. Only loopback is accepted, because clients are
    /// not authenticated.
    fn from_str(text: &str) -> Result<Self, String> {
        #[cfg(unix)]
        if let Some(path) = text.strip_prefix("unix:") {
            let path = crate::options::absolute(path.as_ref())?;
            return match path.file_name() {
                Some(_) => Ok(Self::Socket(path)),
                None => Err("expected the path of a socket after unix:".to_owned()),
            };
        }
        let parsed = text.to_socket_addrs();
        let mut addresses: Vec<_> = parsed
            .map_err(|error| {
                format!("expected an address and port, such as 127.0.0.1:8000 ({error})")
            })?
            .collect();
        // A name such as localhost can have several, of which most clients try this one.
        addresses.sort_by_key(SocketAddr::is_ipv6);
        match addresses.first() {
            Some(address) if addresses.iter().all(|it| it.ip().is_loopback()) => {
                Ok(Self::Loopback(*address))
            }
            _ => Err("not a loopback address".to_owned()),
        }
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback(address) => address.fmt(f),
            #[cfg(unix)]
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// Listens. Clients can connect from now on, and are served later.
    ///
    /// # Errors
    ///
    /// The address with what the system says, for example that another process listens there.
    pub fn bind(&self) -> Result<Bound, String> {
        let bound = match self {
            Self::Loopback(address) => std::net::TcpListener::bind(address).map(Bound::Loopback),
            #[cfg(unix)]
            Self::Socket(path) => {
                SocketFile::bind(path).map(|(listener, file)| Bound::Socket(listener, file))
            }
        };
        bound.map_err(|error| format!("{self}: {error}"))
    }
}

/// A listener that exists before the runtime does, because a confined process could not create it.
#[derive(Debug)]
pub enum Bound {
    /// On a loopback address.
    Loopback(std::net::TcpListener),
    /// On a Unix socket.
    #[cfg(unix)]
    Socket(std::os::unix::net::UnixListener, SocketFile),
}

impl Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback(listener) => match listener.local_addr() {
                Ok(address) => write!(f, "http://{address}/mcp"),
                Err(error) => error.fmt(f),
            },
            #[cfg(unix)]
            Self::Socket(_, file) => write!(f, "unix:{}", file.path().display()),
        }
    }
}

/// Accepts connections.
#[derive(Debug)]
pub enum Listener {
    /// On a loopback address.
    Loopback(TcpListener),
    /// On a Unix socket, which is removed when this is dropped.
    #[cfg(unix)]
    Socket(tokio::net::UnixListener, SocketFile),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Loopback(listener)
    }
}

/// A connection.
#[cfg(unix)]
pub(crate) type Stream = tokio_util::either::Either<TcpStream, tokio::net::UnixStream>;
#[cfg(not(unix))]
pub(crate) type Stream = TcpStream;

impl Listener {
    /// Accepts connections in the current runtime.
    ///
    /// # Errors
    ///
    /// The system cannot make the listener non-blocking.
    pub fn new(bound: Bound) -> io::Result<Self> {
        match bound {
            Bound::Loopback(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::Loopback)
            }
            #[cfg(unix)]
            Bound::Socket(listener, file) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(listener)?;
                Ok(Self::Socket(listener, file))
            }
        }
    }

    /// Lets the system queue no further connections (listen(2)). The client of a connection that is
    /// in the queue when the listener is closed would lose its request; one that is not connects to
    /// nothing.
    #[cfg_attr(not(unix), expect(clippy::unused_self, reason = "it has the signature of Unix's"))]
    pub(crate) fn close_queue(&self) {
        #[cfg(unix)]
        let _ = match self {
            Self::Loopback(listener) => rustix::net::listen(listener, 0),
            Self::Socket(listener, _) => rustix::net::listen(listener, 0),
        };
    }

    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Loopback(listener) => {
                let (stream, _) = listener.accept().await?;
                // The end of a response does not wait for the client to acknowledge its beginning.
                let _ = stream.set_nodelay(true);
                #[cfg(unix)]
                let stream = Stream::Left(stream);
                Ok(stream)
            }
            #[cfg(unix)]
            Self::Socket(listener, _) => Ok(Stream::Right(listener.accept().await?.0)),
        }
    }
}

#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the operator's own path, not a request's")]
mod unix {
    use std::fs::{self, Metadata};
    use std::io::{self, ErrorKind};
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    use std::os::unix::net::UnixListener;
    use std::path::{Path, PathBuf};

    use rustix::fs::Mode;
    use rustix::io::{Errno, ioctl_fionbio};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    use rustix::process::umask;

    /// The file of a socket, which is removed when this is dropped.
    #[derive(Debug)]
    pub struct SocketFile {
        path: PathBuf,
        id: (u64, u64),
    }

    fn id(metadata: &Metadata) -> (u64, u64) {
        (metadata.dev(), metadata.ino())
    }

    impl SocketFile {
        pub(super) fn path(&self) -> &Path {
            &self.path
        }

        /// Creates the socket. Must run before there are other threads, because the mode of new
        /// files belongs to the whole process (umask(2)).
        pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, Self)> {
            match fs::symlink_metadata(path) {
                Ok(found) if !found.file_type().is_socket() => {
                    return Err(io::Error::new(ErrorKind::AlreadyExists, "it is not a socket"));
                }
                Ok(_) if is_in_use(path)? => return Err(ErrorKind::AddrInUse.into()),
                Ok(_) => fs::remove_file(path)?,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            let earlier = umask(Mode::from_raw_mode(0o177));
            let listener = UnixListener::bind(path);
            umask(earlier);
            let listener = listener?;
            let id = id(&fs::symlink_metadata(path)?);
            Ok((listener, Self { path: path.to_owned(), id }))
        }
    }

    /// Whether a process listens. Does not wait for one that accepts no connections.
    fn is_in_use(path: &Path) -> io::Result<bool> {
        let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        ioctl_fionbio(&socket, true)?;
        match connect(socket, &SocketAddrUnix::new(path)?) {
            Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS) => Ok(true),
            Err(Errno::CONNREFUSED) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    impl Drop for SocketFile {
        fn drop(&mut self) {
            let is_own = fs::symlink_metadata(&self.path).is_ok_and(|now| id(&now) == self.id);
            if is_own {
                let _ = fs::remove_file(&self.path);
            }
        }
    }
}
