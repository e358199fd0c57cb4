//! A mounted filesystem that hangs: its calls are answered, and other clients are not affected.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::PROGRAM;
use crate::client::http::{Http, call, next, serve, updated};
use crate::client::served::ServedDirectory;
use crate::client::uri;
use crate::hung_filesystem::{HungFilesystem, in_namespace};

/// The filesystem hangs for every thread once there are subscriptions.
#[test]
fn looks_that_hang_occupy_few_threads() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root mounts a filesystem");
    }
    in_namespace(|| {
        let served = ServedDirectory::new();
        let mount = served.path("mnt");
        std::fs::create_dir(&mount).unwrap();
        let http = serve(served.server(), |limits| {
            (limits.sessions, limits.connections) = (1_024, 1_024);
        });
        // Dropped first, so that pending requests fail.
        let Some(mut filesystem) = HungFilesystem::mount(&mount) else { return };
        let attackers: Vec<_> = (0..600).map(|_| http.open().unwrap()).collect();
        for attacker in &attackers {
            attacker.resource("subscribe", &mount.join("in.txt"));
        }
        filesystem.hang();
        // The server tries to look at each of them at least once.
        sleep(Duration::from_secs(3));
        let pending = filesystem.pending();
        attackers.iter().for_each(Http::delete);
        // A new client can read a file, subscribe to it, and learn of a change.
        let (file, client) = (served.put("ok/file", "served"), http.open().unwrap());
        let mut listening = client.listen();
        assert!(client.resource("read", &file).contains("served"));
        assert!(client.resource("subscribe", &file).contains(r#""result":{}"#));
        std::fs::write(&file, "changed").unwrap();
        assert_eq!(updated(&mut listening), Some(uri(&file)));
        assert!(pending <= 16, "{pending} threads wait for a look");
    });
}

/// How long calls wait for a filesystem.
const SHORT: Duration = Duration::from_millis(800);

/// A client's jobs can take 64 slots. Its further calls wait for them.
#[test]
fn calls_on_a_filesystem_that_hangs_are_answered() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root mounts a filesystem");
    }
    in_namespace(|| {
        let served = ServedDirectory::new();
        served.put("f", "served");
        let mount = served.path("mnt");
        std::fs::create_dir(&mount).unwrap();
        let http = serve(served.server_with(|guard| guard.stalled_after(SHORT)), |_| ());
        let Some(mut filesystem) = HungFilesystem::mount(&mount) else { return };
        let (client, file) = (http.open().unwrap(), mount.join("in.txt"));
        filesystem.hang();
        let begin = |id| {
            let read = call(id, "read_text_file", &json!({ "path": file }));
            client.begin("POST", "", &read.to_string())
        };
        let mut calls: Vec<_> = (2..72).map(begin).collect();
        let allowed = client.call("list_allowed_directories", &json!({}));
        assert!(allowed.contains(served.directory.to_str().unwrap()), "{allowed}");
        assert!(http.open().unwrap().is_served());
        for method in ["read", "subscribe"] {
            let (method, params) = (format!("resources/{method}"), json!({ "uri": uri(&file) }));
            let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            calls.push(http.open().unwrap().begin("POST", "", &request.to_string()));
        }
        for call in calls {
            // Less than the time between keep-alive messages.
            call.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let answer = next(&mut BufReader::new(call), "the filesystem does not answer");
            assert!(answer.is_some(), "a call is not answered");
        }
        assert!(http.open().unwrap().is_served());
    });
}

#[test]
fn a_call_that_advances_is_not_ended() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root mounts a filesystem");
    }
    in_namespace(|| {
        let served = ServedDirectory::new();
        let mount = served.path("mnt");
        std::fs::create_dir(&mount).unwrap();
        let http = serve(served.server_with(|guard| guard.stalled_after(SHORT)), |_| ());
        let Some(mut filesystem) = HungFilesystem::mount(&mount) else { return };
        filesystem.delay(SHORT / 20);
        let start = Instant::now();
        let paths = vec![mount.join("in.txt"); 20];
        let answer = http.open().unwrap().call("read_multiple_files", &json!({ "paths": paths }));
        assert!(!answer.contains("does not answer") && answer.contains("content"), "{answer}");
        assert!(start.elapsed() > 2 * SHORT, "{:?}", start.elapsed());
    });
}

#[test]
fn start_names_a_directory_that_does_not_open() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root mounts a filesystem");
    }
    in_namespace(|| {
        let served = ServedDirectory::new();
        let Some(mut filesystem) = HungFilesystem::mount(&served.directory) else { return };
        filesystem.hang();
        let mut program = Command::new(PROGRAM);
        program.arg(&served.outside).arg(&served.directory);
        let mut process = program.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
        // Its threads cannot be ended before the filesystem answers.
        drop(filesystem);
        process.kill().unwrap();
        process.wait().unwrap();
        let expected = format!("still opening {}: its filesystem", served.directory.display());
        assert!(line.contains(&expected), "{line}");
    });
}

/// The first call waits for the directory. Others are refused soon.
#[test]
fn an_allowed_directory_that_hangs_is_not_called_missing() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root mounts a filesystem");
    }
    in_namespace(|| {
        let served = ServedDirectory::new();
        let Some(mut filesystem) = HungFilesystem::mount(&served.directory) else { return };
        let client =
            serve(served.server_with(|guard| guard.stalled_after(SHORT)), |_| ()).open().unwrap();
        // The directory is opened again by the next call.
        sleep(mcp_roots_guard::limits::VERIFY_EVERY);
        filesystem.hang();
        let text = ["no file operation of this call", r#"the filesystem does not answer""#];
        let mut found = [false; 2];
        // A job that hangs still has the id of its request.
        for id in 1..8 {
            let answer = client.post(&call(id, "read_text_file", &json!({ "path": "in.txt" })));
            let texts = text.map(|text| answer.contains(text));
            assert!(texts[0] || texts[1], "{answer}");
            found = [found[0] || texts[0], found[1] || texts[1]];
        }
        assert_eq!(found, [true; 2]);
    });
}
