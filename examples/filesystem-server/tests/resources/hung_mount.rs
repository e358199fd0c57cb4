//! A client's subscriptions on a mounted filesystem that hangs do not affect other clients.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::http::{Http, serve, updated};
use crate::client::served::Served;
use crate::client::uri;
use crate::hung_filesystem::{HungFilesystem, in_namespace};

/// The server, with the healthy directory `ok` and the mounted filesystem `mnt`.
struct Mounted {
    http: Http,
    served: Served,
    mount: PathBuf,
}

/// Runs a test against a server whose filesystem can hang.
fn with_mounted(test: impl FnOnce(&Mounted, &mut HungFilesystem) + Send) {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root mounts a filesystem");
    }
    in_namespace(|| {
        let served = Served::new();
        served.put("ok/f", "served");
        let mount = served.path("mnt");
        std::fs::create_dir(&mount).unwrap();
        let http = serve(&served.server, |limits| {
            (limits.sessions, limits.connections) = (1_024, 1_024);
        });
        let mounted = Mounted { http, served, mount };
        // Dropped first, so that pending requests fail.
        let Some(mut filesystem) = HungFilesystem::mount(&mounted.mount) else { return };
        test(&mounted, &mut filesystem);
    });
}

impl Mounted {
    fn attackers(&self, count: usize, subscribed: &Path) -> Vec<Http> {
        let attackers: Vec<_> = (0..count).map(|_| self.http.open().unwrap()).collect();
        for attacker in &attackers {
            attacker.resource("subscribe", subscribed);
        }
        attackers
    }

    /// Asserts that a new client can read a file, subscribe to it, and learn of a change.
    fn serves_a_new_client(&self, name: &str) {
        let (start, file) = (Instant::now(), self.served.put(&format!("ok/{name}"), "served"));
        let client = self.http.open().unwrap();
        let mut listening = client.listen();
        assert!(client.resource("read", &file).contains("served"));
        assert!(client.resource("subscribe", &file).contains(r#""result":{}"#));
        std::fs::write(&file, "changed").unwrap();
        assert_eq!(updated(&mut listening), Some(uri(&file)));
        println!("{name}: served and notified in {:?}", start.elapsed());
    }
}

/// Ending subscriptions and sessions waits for no filesystem.
#[test]
fn subscriptions_that_hang_stop_only_their_own_client() {
    with_mounted(|mounted, filesystem| {
        let ok = mounted.served.path("ok");
        let attackers = mounted.attackers(2, &ok);
        filesystem.hang();
        let mut begun = Vec::new();
        let mut request = |attacker: &Http, method: &str, path: &Path| {
            let method = format!("resources/{method}");
            let params = json!({ "uri": uri(path) });
            let id = begun.len();
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            begun.push(attacker.begin("POST", "", &request.to_string()));
        };
        // One client's share of the slots is 64.
        for attacker in attackers.iter().flat_map(|attacker| [attacker; 64]) {
            request(attacker, "subscribe", &mounted.mount.join("in.txt"));
        }
        while filesystem.pending() < 1 {
            sleep(Duration::from_millis(10));
        }
        for attacker in &attackers {
            request(attacker, "unsubscribe", &ok);
        }
        sleep(Duration::from_secs(1));
        mounted.serves_a_new_client("unsubscribed");
        attackers.iter().for_each(Http::delete);
        mounted.serves_a_new_client("deleted");
    });
}

/// The filesystem hangs for every thread once there are subscriptions.
#[test]
fn looks_that_hang_occupy_few_threads() {
    with_mounted(|mounted, filesystem| {
        let attackers = mounted.attackers(600, &mounted.mount.join("in.txt"));
        filesystem.hang();
        // The server tries to look at each of them at least once.
        sleep(Duration::from_secs(3));
        let pending = filesystem.pending();
        println!("{pending} threads wait for a look");
        attackers.iter().for_each(Http::delete);
        mounted.serves_a_new_client("looked");
        assert!(pending <= 16, "{pending}");
    });
}
