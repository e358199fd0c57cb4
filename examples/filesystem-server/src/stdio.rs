//! Standard input and output for the protocol.
//!
//! tokio's own handles pass each read and write to another thread, because they must also work for
//! terminals and files. A client usually connects a server with pipes or sockets, for which the
//! runtime can wait itself. This makes small calls up to five times as fast, with a fifth of the
//! processor time ([docs/speed.md]).
//!
//! [docs/speed.md]: https://docs.rs/crate/mcp-roots-guard/latest/source/docs/speed.md

use tokio::io::{AsyncRead, AsyncWrite};
// Opening a pipe again creates a description of its own (proc(5)), so that `O_NONBLOCK` does not
// affect other processes that have the same standard input or output.
#[cfg(target_os = "linux")]
use tokio::net::unix::pipe::OpenOptions as Pipe;

/// A stream that a client's messages come from.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// A stream that the server's messages go to.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Returns the standard input and output as the transport of one client. Must be called in a tokio
/// runtime.
#[must_use]
pub fn stdio() -> (Input, Output) {
    (input(), output())
}

fn input() -> Input {
    #[cfg(target_os = "linux")]
    if let Ok(pipe) = Pipe::new().open_receiver("/proc/self/fd/0") {
        return Box::new(pipe);
    }
    #[cfg(unix)]
    if let Ok(socket) = socket(&std::io::stdin()) {
        return Box::new(socket);
    }
    Box::new(tokio::io::stdin())
}

fn output() -> Output {
    #[cfg(target_os = "linux")]
    if let Ok(pipe) = Pipe::new().open_sender("/proc/self/fd/1") {
        // A large response then needs fewer writes. The system may limit the size.
        let _ = rustix::pipe::fcntl_setpipe_size(&pipe, 1 << 20);
        return Box::new(pipe);
    }
    #[cfg(unix)]
    if let Ok(socket) = socket(&std::io::stdout()) {
        return Box::new(socket);
    }
    Box::new(tokio::io::stdout())
}

/// Returns a connected socket. Node.js starts programs with sockets that no other process has.
#[cfg(unix)]
fn socket(stream: &impl std::os::fd::AsFd) -> std::io::Result<tokio::net::UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(stream.as_fd().try_clone_to_owned()?);
    // Fails for anything that is not a connected Unix socket.
    socket.peer_addr()?;
    socket.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(socket)
}
