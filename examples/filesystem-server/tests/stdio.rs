//! Every kind of standard input and output works.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl};

const MESSAGES: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"test","version":"0"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n",
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_text_file","#,
    r#""arguments":{"path":"large.txt"}}}"#,
    "\n",
);

/// The size of a file whose content fits in no pipe or socket at once.
const LARGE: usize = 3 << 20;

/// Runs a server. `send` sends the messages, closes the server's input, and returns its output.
fn serve(input: Stdio, output: Stdio, send: impl FnOnce() -> String) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("large.txt"), "x".repeat(LARGE)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_filesystem-server"));
    command.arg(directory.path()).stdin(input).stdout(output);
    let server = Running(command.spawn().unwrap());
    // Closes the server's ends in this process.
    drop(command);
    let received = send();
    drop(server);
    assert!(received.contains(r#""id":1,"#) && received.contains(r#""id":2,"#), "{received:.500}");
    assert!(received.contains(&"x".repeat(LARGE)));
}

/// Ends the process when the test ends, even if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads the responses to both requests, each of which is a line.
fn two_lines(stream: impl std::io::Read) -> String {
    let mut lines = BufReader::new(stream).lines();
    let mut line = || lines.next().expect("the server is running").unwrap();
    [line(), line()].join("\n")
}

/// Other processes can have the same pipes as their standard input and output, and would fail if a
/// read or write did not block.
#[test]
fn pipes_work_and_keep_their_flags() {
    let (far_input, mut input) = std::io::pipe().unwrap();
    let (output, far_output) = std::io::pipe().unwrap();
    let shared =
        [OwnedFd::from(far_input.try_clone().unwrap()), far_output.try_clone().unwrap().into()];
    serve(far_input.into(), far_output.into(), || {
        input.write_all(MESSAGES.as_bytes()).unwrap();
        let received = two_lines(output);
        for shared in shared {
            assert!(!fcntl_getfl(shared).unwrap().contains(OFlags::NONBLOCK));
        }
        received
    });
}

#[test]
fn sockets_work() {
    let [(mut input, far_input), (output, far_output)] =
        [(); 2].map(|()| UnixStream::pair().unwrap());
    serve(OwnedFd::from(far_input).into(), OwnedFd::from(far_output).into(), || {
        input.write_all(MESSAGES.as_bytes()).unwrap();
        two_lines(output)
    });
}

/// The server reads the file to its end, responds, and ends.
#[test]
fn input_from_a_file_works() {
    let messages = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(messages.path(), MESSAGES).unwrap();
    let (output, far_output) = std::io::pipe().unwrap();
    serve(File::open(messages.path()).unwrap().into(), far_output.into(), || two_lines(output));
}

#[test]
fn output_to_a_file_works() {
    let (far_input, mut input) = std::io::pipe().unwrap();
    let responses = tempfile::NamedTempFile::new().unwrap();
    serve(far_input.into(), responses.reopen().unwrap().into(), || {
        input.write_all(MESSAGES.as_bytes()).unwrap();
        loop {
            let mut received = String::new();
            File::open(responses.path()).unwrap().read_to_string(&mut received).unwrap();
            if received.ends_with('\n') && received.lines().count() == 2 {
                return received;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    });
}
