//! A client that speaks MCP with the server over pipes gets what is inside the roots. The rest is
//! refused as a tool error, with the text of guarded-fs.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the test is a client")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// A client and the server that it started.
struct Client {
    server: Child,
    requests: ChildStdin,
    messages: BufReader<ChildStdout>,
    /// The result of `roots/list`, or an error. `None` if the client declares no roots.
    roots: Option<Value>,
}

impl Client {
    fn start(directory: &Path, roots: Option<Value>) -> Self {
        let mut server = Command::new(env!("CARGO_BIN_EXE_rmcp-2-server"))
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = server.stdin.take().unwrap();
        let messages = BufReader::new(server.stdout.take().unwrap());
        let capabilities = roots.as_ref().map_or_else(|| json!({}), |_| json!({"roots": {}}));
        let mut client = Self { server, requests, messages, roots };
        let initialized = client.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            }),
        );
        assert_eq!(initialized["result"]["protocolVersion"], "2025-11-25");
        client.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: Value) {
        writeln!(self.requests, "{message}").unwrap();
    }

    /// Sends a request and returns the response. Until then, it answers each request for the roots.
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert_ne!(self.messages.read_line(&mut line).unwrap(), 0, "the server has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == method {
                return message;
            }
            assert_eq!(message["method"], "roots/list");
            let mut answer = self.roots.clone().expect("a client without roots is not asked");
            answer["jsonrpc"] = "2.0".into();
            answer["id"] = message["id"].clone();
            self.send(answer);
        }
    }

    /// Calls a tool. Returns the text of its result, or of its tool error.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<String, String> {
        let response = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &response["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"));
        if result["isError"] == true { Err(text.into()) } else { Ok(text.into()) }
    }

    fn read(&mut self, path: &str) -> Result<String, String> {
        self.call("read_file", json!({"path": path}))
    }

    fn write(&mut self, path: &str, content: &str) -> Result<String, String> {
        self.call("write_file", json!({"path": path, "content": content}))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A workspace with two projects, next to a directory that is outside.
fn workspace() -> (tempfile::TempDir, PathBuf) {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().canonicalize().unwrap();
    for (file, content) in [("work/one/a.txt", "1"), ("work/two/a.txt", "2"), ("out/b.txt", "b")] {
        let file = path.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    (top, path)
}

fn refused(operation: &str, path: &str) -> Result<String, String> {
    Err(format!("{operation} {path:?}: not inside the allowed directories"))
}

#[test]
fn only_the_allowed_directory_is_served() {
    let (_top, top) = workspace();
    let (work, outside) = (top.join("work"), top.join("out"));
    symlink(&outside, work.join("dir")).unwrap();
    symlink(outside.join("b.txt"), work.join("link.txt")).unwrap();
    symlink(outside.join("new.txt"), work.join("dangling.txt")).unwrap();
    let mut client = Client::start(&work, None);

    assert_eq!(client.read("one/a.txt"), Ok("1".into()));
    assert_eq!(client.write("one/c.txt", "3"), Ok("written".into()));
    assert_eq!(fs::read_to_string(work.join("one/c.txt")).unwrap(), "3");

    let absolute = outside.join("b.txt");
    for path in [absolute.to_str().unwrap(), "../out/b.txt", "one/../../out/b.txt", "link.txt"] {
        assert_eq!(client.read(path), refused("read", path));
    }
    for path in ["link.txt", "dangling.txt", "dir/new.txt", "../out/new.txt"] {
        assert_eq!(client.write(path, "overwritten"), refused("write", path));
    }
    let names = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["b.txt"]);
    assert_eq!(fs::read_to_string(outside.join("b.txt")).unwrap(), "b");
}

#[test]
fn each_call_uses_the_current_list_of_the_client() {
    let (_top, top) = workspace();
    let list = |directories: &[&str]| {
        let uri = |name: &&str| json!({"uri": format!("file://{}", top.join(name).display())});
        Some(json!({"result": {"roots": directories.iter().map(uri).collect::<Vec<_>>()}}))
    };
    let mut client = Client::start(&top.join("work"), list(&["work/one", "out"]));
    let two = top.join("work/two/a.txt");
    let outside = top.join("out/b.txt");
    let (two, outside) = (two.to_str().unwrap(), outside.to_str().unwrap());

    assert_eq!(client.read("a.txt"), Ok("1".into()));
    assert_eq!(client.read(two), refused("read", two));
    // The list does not widen the allowed directory.
    assert_eq!(client.read(outside), refused("read", outside));
    client.roots = list(&["work/two"]);
    assert_eq!(client.read("a.txt"), Ok("2".into()));
    client.roots = list(&[]);
    assert!(client.read(two).is_err());
    client.roots = Some(json!({"error": {"code": -32603, "message": "failed"}}));
    assert_eq!(client.read(two), Err("the client did not list its roots".into()));
}
