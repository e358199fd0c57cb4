//! A client's subscriptions on a mounted filesystem that hangs do not affect other clients.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

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
        let http = serve(&served, |limits| {
            (limits.sessions, limits.connections) = (1_024, 1_024);
        });
        let mounted = Mounted { http, served, mount };
        // Dropped first, so that pending requests fail.
        let Some(mut filesystem) = HungFilesystem::mount(&mounted.mount) else { return };
        test(&mounted, &mut filesystem);
    });
}

impl Mounted {
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

/// The filesystem hangs for every thread once there are subscriptions.
#[test]
fn looks_that_hang_occupy_few_threads() {
    with_mounted(|mounted, filesystem| {
        let attackers: Vec<_> = (0..600).map(|_| mounted.http.open().unwrap()).collect();
        for attacker in &attackers {
            attacker.resource("subscribe", &mounted.mount.join("in.txt"));
        }
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
