//! The session against a model of ten lines, over random operations one after the other.

use std::time::Duration;

use mcp_roots_guard::{Access, Answer, Boundary, Guard, ListRootsResult, RootsCapability, Session};

use crate::tree::Tree;

const LISTS: usize = 4;
const LIVE: Duration = Duration::from_millis(20);

/// Which of the client's lists is in force: what a session must come to.
#[derive(Default)]
struct Model {
    client: usize,
    fails: bool,
    keeps: bool,
    kept: Option<usize>,
    backs_off: bool,
}

impl Model {
    /// The list that decides a request, and how often the client is asked for it.
    fn roots(&mut self) -> (Option<usize>, usize) {
        match (self.kept, self.backs_off, self.fails) {
            (Some(kept), ..) => return (Some(kept), 0),
            (None, true, _) => return (None, 0),
            (None, false, fails) => self.backs_off = fails,
        }
        let told = (!self.fails).then_some(self.client);
        self.kept = told.filter(|_| self.keeps);
        (told, 1)
    }
}

/// What a client declares, and whether its list is kept.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Announcing,
    Silent,
    SilentAndTrusted,
}

#[tokio::test]
async fn a_session_comes_to_what_the_model_says() {
    let tree = Tree::in_memory("dir 0; dir 1; dir 2; dir 3");
    let boundary = Boundary::builder().directory(tree.path(""), Access::ReadWrite).build().unwrap();
    let (mut requests, mut asked_for, mut random) = (0, 0, 0x2545_f491_4f6c_dd1d_u64);
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from((random >> 32) % below).unwrap()
    };
    for round in 0..300 {
        let kind = [Kind::Announcing, Kind::Silent, Kind::SilentAndTrusted][round % 3];
        let trusted = if matches!(kind, Kind::SilentAndTrusted) { LIVE } else { Duration::ZERO };
        let builder = Guard::builder(boundary.clone()).time_to_live(LIVE).time_to_live_unannounced(trusted);
        let guard = builder.build().unwrap();
        let announces = matches!(kind, Kind::Announcing);
        let capability = if announces { RootsCapability::announcing() } else { RootsCapability::silent() };
        let session = guard.session(Some(capability)).unwrap();
        let mut model = Model { keeps: !matches!(kind, Kind::Silent), ..Model::default() };
        let mut told = std::time::Instant::now();
        let mut done = Vec::new();
        for _ in 0..20 {
            let step = next(12);
            done.push(step);
            match step {
                0 => model.client = next(LISTS as u64),
                // A client that announces changes does so; a session is told of any, whoever says so.
                1 | 2 => {
                    model.client = next(LISTS as u64);
                    session.list_changed();
                    (model.kept, model.backs_off) = (None, false);
                }
                3 => {
                    tokio::time::sleep(LIVE).await;
                    model.kept = None;
                }
                4 => {
                    guard.forget_all();
                    model.kept = None;
                }
                5 => model.fails = next(3) == 0,
                _ => {
                    // Time passes for a test, too: what is about to be too old is so for both.
                    if model.kept.is_some() && told.elapsed() > LIVE / 3 {
                        tokio::time::sleep(LIVE).await;
                        model.kept = None;
                    }
                    let (fails, client) = (model.fails, model.client);
                    let (was_kept, mut expected) = (model.kept.is_some(), model.roots());
                    let seen = request(&tree, &session, client, fails).await;
                    // This process may have been kept from running in between.
                    if was_kept && seen != expected && told.elapsed() >= LIVE {
                        model.kept = None;
                        expected = model.roots();
                    }
                    assert_eq!(seen, expected, "round {round}, {kind:?}, steps {done:?}");
                    if expected.1 == 1 {
                        told = std::time::Instant::now();
                    }
                    requests += 1;
                    asked_for += expected.1;
                }
            }
        }
    }
    println!("{requests} requests, {asked_for} questions, as the model says");
    assert!(requests > 2000 && asked_for > 500);
}

/// Which list decides a request, by what can be reached, and how often the client was asked.
async fn request(tree: &Tree, session: &Session, client: usize, fails: bool) -> (Option<usize>, usize) {
    let mut asked = 0;
    let source = |_: Option<String>| {
        asked += 1;
        let uri = format!("file://{}", tree.path(client.to_string()).display());
        let answer =
            if fails { Answer::Failed(String::new()) } else { Answer::List(ListRootsResult::from_uris([uri])) };
        std::future::ready(answer)
    };
    let Ok(roots) = session.roots(source).await else { return (None, asked) };
    let reached: Vec<_> = (0..LISTS).filter(|list| roots.metadata(tree.path(list.to_string())).is_ok()).collect();
    assert_eq!(reached.len(), 1, "{reached:?}");
    (reached.first().copied(), asked)
}
