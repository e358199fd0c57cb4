//! What is served after a directory was replaced, removed or created, and from when: each cell of
//! the rows of `tests/data/deployments.txt`, which `docs/deployments.md` shows as a table.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use guarded_fs::internals::trust_links_until;
use mcp_roots_guard::limits::SYMLINKED_LIST_TTL;
use mcp_roots_guard::{
    Access, Boundary, ClientCapabilities, DirectoryOptions, Guard, ListRootsResult, Result, Roots,
    RootsResponse,
};

use crate::support::tree::Tree;

/// How a change is made.
struct Row {
    change: &'static str,
    /// The tree before the change. The file that is read has the content `old`.
    before: &'static str,
    configured: &'static str,
    listed: &'static str,
    make: fn(&Tree),
}

const ROWS: &[Row] = &[
    Row {
        change: "another directory takes the place of `app`",
        before: "file app/f = old",
        configured: "app",
        listed: "app",
        make: |tree| replace(tree, "app"),
    },
    Row {
        change: "`app` is removed",
        before: "file app/f = old",
        configured: "app",
        listed: "app",
        make: |tree| fs::remove_dir_all(tree.path("app")).unwrap(),
    },
    Row {
        change: "`app` is removed, and created again later",
        before: "file app/f = old",
        configured: "app",
        listed: "app",
        make: |tree| {
            fs::remove_dir_all(tree.path("app")).unwrap();
            sleep(Duration::from_millis(600));
            tree.add("file app/f = new");
        },
    },
    Row {
        change: "a symlink takes the place of `app`",
        before: "file app/f = old; file other/f = new",
        configured: "app",
        listed: "app",
        make: |tree| {
            fs::remove_dir_all(tree.path("app")).unwrap();
            tree.add("link app -> other");
        },
    },
    Row {
        change: "the symlink `current`, which is configured, is switched",
        before: "file app/f = old; file other/f = new; link current -> app",
        configured: "current",
        listed: "current",
        make: |tree| switch(tree, "current", "other"),
    },
    Row {
        change: "`current` is removed",
        before: "file app/f = old; link current -> app",
        configured: "current",
        listed: "current",
        make: |tree| fs::remove_file(tree.path("current")).unwrap(),
    },
    Row {
        change: "the optional directory `later`, which is configured, appears",
        before: "dir app",
        configured: "later",
        listed: "later",
        make: |tree| tree.add("file later/f = new"),
    },
    Row {
        change: "another directory takes the place of `app/site`, which the client listed",
        before: "file app/site/f = old",
        configured: "app",
        listed: "app/site",
        make: |tree| replace(tree, "app/site"),
    },
    Row {
        change: "`app/site` is removed",
        before: "file app/site/f = old",
        configured: "app",
        listed: "app/site",
        make: |tree| fs::remove_dir_all(tree.path("app/site")).unwrap(),
    },
    Row {
        change: "`app/site`, which was missing, appears",
        before: "dir app",
        configured: "app",
        listed: "app/site",
        make: |tree| tree.add("file app/site/f = new"),
    },
    Row {
        change: "a symlink takes the place of `app/site`",
        before: "file app/site/f = old; file app/other/f = new",
        configured: "app",
        listed: "app/site",
        make: |tree| {
            fs::remove_dir_all(tree.path("app/site")).unwrap();
            tree.add("link app/site -> other");
        },
    },
    Row {
        change: "the symlink `app/link`, which the client listed, is switched",
        before: "file app/a/f = old; file app/b/f = new; link app/link -> a",
        configured: "app",
        listed: "app/link",
        make: |tree| switch(tree, "app/link", "b"),
    },
];

fn replace(tree: &Tree, path: &str) {
    fs::rename(tree.path(path), tree.path(format!("{path}-was"))).unwrap();
    tree.add(&format!("file {path}/f = new"));
}

fn switch(tree: &Tree, path: &str, target: &str) {
    // Filesystems read a coarse clock, so a change a moment after the start looks older.
    sleep(Duration::from_millis(20));
    tree.add(&format!("link next -> {target}"));
    fs::rename(tree.path("next"), tree.path(path)).unwrap();
}

#[test]
fn each_change_is_served_as_the_table_says() {
    let lines = include_str!("../data/deployments.txt").lines();
    let expected: Vec<Vec<String>> = lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('|').map(|cell| cell.trim().into()).collect())
        .collect();
    let changes: Vec<_> = expected.iter().map(|cells| cells[0].as_str()).collect();
    assert_eq!(changes, ROWS.iter().map(|row| row.change).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for (row, cells) in ROWS.iter().zip(&expected) {
            scope.spawn(|| check(row, &cells[1..]));
        }
    });
}

/// Makes the change once, and checks the three cells of the row.
fn check(row: &Row, cells: &[String]) {
    let tree = Tree::in_memory(row.before);
    let options = DirectoryOptions::from(Access::ReadWrite);
    let options = if row.configured == "later" { options.optional() } else { options };
    // As if the server had started now.
    let builder = trust_links_until(Boundary::builder(), SystemTime::now());
    let boundary = builder.directory(tree.path(row.configured), options).build().unwrap();
    let of_dirs = (cells[0] != "-")
        .then(|| Roots::from_dirs([tree.path(row.configured)], Access::ReadWrite).unwrap());
    // The clock of the runtime is paused, so that five seconds pass at once.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let guard = Guard::builder(boundary.clone()).runtime(runtime.handle().clone()).build().unwrap();
    let announcing = ClientCapabilities::WithAnnouncedRoots;
    let session = guard.session(announcing).unwrap();
    let list = ListRootsResult::from_uris([tree.uri(row.listed)]);
    let listed = RootsResponse::List(list);
    let call = || runtime.block_on(session.roots(|_| std::future::ready(listed.clone()))).unwrap();
    let before = (boundary.allowed_roots(), call());
    row.make_checked(&tree, &before);
    let served = |column: usize| {
        let of = |roots: &Roots| outcome(roots.read_to_string("f", 9));
        match column {
            0 => of(of_dirs.as_ref().unwrap()),
            1 => of(&boundary.allowed_roots()),
            _ => of(&call()),
        }
    };
    for (column, cell) in cells.iter().enumerate().filter(|(_, cell)| *cell != "-") {
        let (expected, when) = cell.split_once(", ").unwrap_or((cell, "after a second"));
        match when {
            "at once" => {}
            "within 5 s" => runtime.block_on(tokio::time::advance(SYMLINKED_LIST_TTL)),
            "within 0.5 s" => sleep(Duration::from_millis(550)),
            "after a second" => sleep(Duration::from_secs(1)),
            other => panic!("{other}"),
        }
        // The first use after this time may find that another thread is opening the directory.
        let start = Instant::now();
        while when == "within 0.5 s"
            && served(column) != expected
            && start.elapsed() < Duration::from_secs(60)
        {
            sleep(Duration::from_millis(10));
        }
        assert_eq!(served(column), expected, "{}, column {column}", row.change);
    }
}

impl Row {
    /// Makes the change, after checking that the old content is served before it.
    fn make_checked(&self, tree: &Tree, (allowed, session): &(Roots, Roots)) {
        if self.before.contains("= old") {
            assert_eq!(outcome(session.read_to_string("f", 9)), "old", "{}", self.change);
        }
        if self.configured == self.listed && self.before.contains("= old") {
            assert_eq!(outcome(allowed.read_to_string("f", 9)), "old", "{}", self.change);
        }
        (self.make)(tree);
    }
}

/// The content, or the code of the refusal as the table writes it.
fn outcome(read: Result<String>) -> String {
    read.unwrap_or_else(|error| format!("`{}`", error.code()))
}
