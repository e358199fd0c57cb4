//! Clients' subscriptions on a mounted filesystem that hangs do not affect other clients.

use std::thread::sleep;
use std::time::Duration;

use crate::client::http::{Http, serve, updated};
use crate::client::served::Served;
use crate::client::uri;
use crate::hung_filesystem::{HungFilesystem, in_namespace};

/// The filesystem hangs for every thread once there are subscriptions.
#[test]
fn looks_that_hang_occupy_few_threads() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root mounts a filesystem");
    }
    in_namespace(|| {
        let served = Served::new();
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
