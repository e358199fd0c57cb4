//! The example `operate`, driven over pipes: the effect and the refusals of each operation, invalid
//! requests, and that `--help` and the public API list the same operations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mcp_roots_guard::limits::WALK_ENTRIES;
use program::{common_fields, operations};
use serde_json::{Map, Value, json};

use crate::TO_CHILD;
use crate::support::operations::{OPERATIONS as TABLE, Operation};
use crate::support::random::Random;
use crate::support::tree::Tree;

#[path = "../../examples/operate/main.rs"]
#[allow(dead_code, reason = "the test calls `run` instead of `main`")]
pub(super) mod program;

/// The program in a process of its own.
struct Program {
    child: Child,
    requests: ChildStdin,
    responses: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the test again, in a child process that becomes the program. It is told the arguments,
    /// one a line.
    fn start(test: &str, arguments: &[String]) -> Self {
        if let Ok(arguments) = std::env::var(TO_CHILD) {
            let arguments = arguments.lines().map(Into::into);
            let (input, mut out) = (std::io::stdin().lock(), std::io::stdout().lock());
            program::run(arguments, input, &mut out);
            std::process::exit(0);
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--quiet"])
            .env(TO_CHILD, arguments.join("\n"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let mut responses = BufReader::new(child.stdout.take().unwrap());
        // The test harness writes an empty line and `running 1 test` first.
        let mut preamble = String::new();
        while !preamble.ends_with("running 1 test\n") {
            assert_ne!(responses.read_line(&mut preamble).unwrap(), 0, "{preamble}");
        }
        Self { child, requests, responses }
    }

    /// Sends a line, and returns the response.
    fn send(&mut self, line: &[u8]) -> Value {
        self.requests.write_all(line).unwrap();
        self.requests.write_all(b"\n").unwrap();
        let mut response = String::new();
        self.responses.read_line(&mut response).unwrap();
        let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        let response: Value = serde_json::from_str(&response)
            .unwrap_or_else(|error| panic!("{shown}: {response:?}: {error}"));
        let members: Vec<_> = response.as_object().unwrap().keys().collect();
        assert!(members == ["ok"] || members == ["error"], "{shown}: {response}");
        response
    }

    /// Closes the input, and waits for the program to end.
    fn end(self) -> String {
        let Self { mut child, requests, mut responses } = self;
        drop(requests);
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut responses, &mut rest).unwrap();
        assert!(child.wait().unwrap().success(), "{rest}");
        rest
    }
}

/// The roots: one for reading and writing, one for reading, and an entry that grants nothing.
fn arguments(tree: &Tree) -> Vec<String> {
    [
        "--root",
        "$T/root",
        "--read-only-dir",
        "$T/other",
        "--protect",
        ".git",
        "--list",
        "file:$T/root",
        "--list",
        "file:$T/other",
        "--list",
        "file:///nonexistent",
    ]
    .map(|argument| tree.expand(argument))
    .to_vec()
}

fn tree() -> Tree {
    let tree = Tree::new(
        "file root/docs/a.txt = alpha; link root/in -> docs/a.txt; file root/.git/config
        file root/tree/one/two/three.txt; fifo root/pipe; file other/b.txt
        file outside/secret.txt = secret; link root/out -> ../outside/secret.txt
        link root/up -> ..; link root/dangling -> ../outside/new.txt
        link root/plan.tmp -> ../outside/secret.txt; link root/over -> ../outside/secret.txt
        fifo root/fifo/pipe; link root/link/out -> ../../outside/secret.txt",
    );
    fs::write(tree.path("root/b.bin"), b"\xFF\xFE\0").unwrap();
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xFF");
    fs::write(tree.path("root").join(name), "odd").unwrap();
    tree
}

/// Whether `response` contains all members and elements of `expected`. Objects may have more
/// members, but lists may not have more elements.
fn contains(response: &Value, expected: &Value) -> bool {
    match (response, expected) {
        (Value::Object(response), Value::Object(expected)) => expected
            .iter()
            .all(|(name, value)| response.get(name).is_some_and(|found| contains(found, value))),
        (Value::Array(response), Value::Array(expected)) => {
            response.len() == expected.len()
                && response.iter().zip(expected).all(|(one, other)| contains(one, other))
        }
        _ => response == expected,
    }
}

/// Each operation of `--help` has an effect in the data, and is refused.
#[test]
fn each_operation_of_the_help_has_its_effect_and_is_refused() {
    let tree = tree();
    let mut program = Program::start(
        "fs::operate::each_operation_of_the_help_has_its_effect_and_is_refused",
        &arguments(&tree),
    );
    let (mut request, mut response, mut results) = (String::new(), Value::Null, BTreeMap::new());
    for (number, line) in include_str!("../data/operate.txt").lines().enumerate() {
        let shown = format!("tests/data/operate.txt:{}: {request}", number + 1);
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (path, value) = rest.split_once(" = ").unwrap_or((rest.trim_end_matches(" ="), ""));
        let at = |path: &str| tree.path(path);
        match kind {
            "" | "#" => {}
            ">" => {
                request = rest.replace("$T", tree.path("").to_str().unwrap().trim_end_matches('/'));
                response = program.send(request.as_bytes());
            }
            "<" => {
                let top = tree.path("");
                let expected = rest.replace("$T", top.to_str().unwrap().trim_end_matches('/'));
                let expected: Value = serde_json::from_str(&expected).unwrap();
                assert!(contains(&response, &expected), "{shown}: {response}");
                let operation: Value = serde_json::from_str(&request).unwrap();
                let operation = operation["op"].as_str().unwrap().to_owned();
                let is_refused = expected.get("error").is_some();
                assert_ne!(response["error"]["kind"], "InvalidRequest", "{shown}: {response}");
                results.entry(operation).or_insert_with(BTreeSet::new).insert(is_refused);
            }
            "file" => assert_eq!(fs::read_to_string(at(path)).unwrap(), value, "{shown}"),
            "dir" => assert!(fs::symlink_metadata(at(path)).unwrap().is_dir(), "{shown}"),
            "none" => assert!(fs::symlink_metadata(at(path)).is_err(), "{shown}"),
            "link" => {
                let (path, target) = rest.split_once(" -> ").unwrap();
                assert_eq!(fs::read_link(at(path)).unwrap().to_str(), Some(target), "{shown}");
            }
            _ => panic!("{shown}: {line}"),
        }
    }
    program.end();
    assert_eq!(fs::read_to_string(tree.path("outside/secret.txt")).unwrap(), "secret");
    assert_eq!(fs::read_dir(tree.path("outside")).unwrap().count(), 1);

    let mut help = Vec::new();
    program::run(["--help".into()].into_iter(), &[][..], &mut help);
    let help = String::from_utf8(help).unwrap();
    // The default is that of the crate.
    assert_eq!(help.matches(&format!("default {WALK_ENTRIES}.")).count(), 1, "{help}");
    let (_, operations) = help.split_once("\nOperations:\n").unwrap();
    let is_name = |line: &&str| !line.is_empty() && !line.starts_with(' ');
    let names = operations.lines().filter(is_name).map(|line| line.split_once(": ").unwrap().0);
    let both = BTreeSet::from([false, true]);
    let expected: BTreeMap<_, _> = names.map(|name| (name.to_owned(), both.clone())).collect();
    assert_eq!(results, expected);
}

/// Every public method that operates on a path is in the table of operations, and `operate` offers
/// it. The list of public methods is that of the supply chain's checks.
#[test]
fn every_operation_is_in_the_table_and_is_offered() {
    let method = |operation: &Operation| operation.name.split('(').next().unwrap();
    let table: BTreeSet<&str> = TABLE.iter().map(method).collect();
    let api = include_str!("../../.ci/supply-chain/api/guarded-fs.txt");
    let is_none = |method: &str| NO_OPERATIONS.split(' ').any(|other| other == method);
    let methods = api.lines().filter_map(|line| {
        let (of, method) = line.strip_prefix("pub fn guarded_fs::")?.split_once("::")?;
        let method = method.split(['<', '(']).next()?;
        (["Roots", "CheckedPath", "CheckedEntry"].contains(&of) && !is_none(method))
            .then_some(method)
    });
    assert_eq!(table, methods.collect());
    let offered = operations().into_iter().map(|(name, ..)| name).collect::<BTreeSet<_>>();
    let missing: Vec<_> = table
        .into_iter()
        .filter(|method| !offered.contains(*method))
        .filter(|method| {
            !OTHERWISE_NAMED.iter().any(|(from, to)| from == method && offered.contains(*to))
        })
        .collect();
    assert_eq!(missing, [""; 0]);
}

/// Methods of roots and proofs that describe them or derive others from them.
const NO_OPERATIONS: &str = "check_all clone deref ensure_usable entry eq exists explain failure \
    follow fmt from_dirs hash iter join join_entry read_only rejected still_allows stoppable \
    why_none with_base";

/// Methods that `operate` offers by options of another operation.
const OTHERWISE_NAMED: &[(&str, &str)] = &[
    ("content_hash", "version"),
    ("open_with", "open"),
    ("read_dir", "list"),
    ("within", "roots"),
    ("within_all", "roots"),
    ("write_with", "write"),
];

#[test]
fn each_invalid_request_has_a_code() {
    let tree = tree();
    let mut program =
        Program::start("fs::operate::each_invalid_request_has_a_code", &arguments(&tree));
    let long = format!("{{\"op\":\"{}\"}}", "x".repeat(1000));
    for (line, code) in [
        ("{", "not_json"),
        ("[]", "not_an_object"),
        ("{}", "missing_field"),
        (r#"{"op":1}"#, "wrong_type"),
        (r#"{"op":"none"}"#, "unknown_operation"),
        (long.as_str(), "unknown_operation"),
        (r#"{"op":"read"}"#, "missing_field"),
        (r#"{"op":"read","path":1}"#, "wrong_type"),
        (r#"{"op":"read","path":"x","limit":1000000000}"#, "wrong_type"),
        (r#"{"op":"read","path":"x","checked":1}"#, "wrong_type"),
        (r#"{"op":"read","path":"x","content":""}"#, "unknown_field"),
        (r#"{"op":"roots","path":"x"}"#, "unknown_field"),
        (r#"{"op":"open","path":"x","mode":"none"}"#, "wrong_type"),
        (r#"{"op":"write","path":"x","content":"","in_place":"never","none":1}"#, "unknown_field"),
        (r#"{"op":"write","path":"x","content":"","content_base64":""}"#, "conflicting_fields"),
        (r#"{"op":"write","path":"x","content_base64":"YQ"}"#, "wrong_type"),
        (r#"{"op":"write","path":"x","content":["YQ=="]}"#, "wrong_type"),
        (r#"{"op":"copy","from":"x","to":"y","none":1}"#, "unknown_field"),
        (r#"{"op":"change_set","changes":[{"op":"none"}]}"#, "unknown_operation"),
        (
            r#"{"op":"change_set","changes":[{"op":"remove_file","path":"x","to":""}]}"#,
            "unknown_field",
        ),
        (r#"{"op":"change_set","changes":[1]}"#, "wrong_type"),
    ] {
        let error = &program.send(line.as_bytes())["error"];
        let found = (error["kind"].as_str(), error["code"].as_str());
        assert_eq!(found, (Some("InvalidRequest"), Some(code)), "{line}: {error}");
    }
    program.end();
    assert!(!tree.path("root/x").exists());
}

/// Whether a value has the type that a schema says.
fn has_type(value: &Value, schema: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        _ => false,
    };
    match (&schema["enum"], &schema["type"]) {
        (Value::Array(choices), _) => choices.contains(value),
        (_, Value::Array(kinds)) => kinds.iter().any(is),
        (_, kind) => is(kind),
    }
}

/// Random bytes, random changes of valid lines, and values of every type in every field get a
/// response, and nothing outside the roots or in read-only places changes.
#[test]
fn random_requests_get_a_response_and_change_nothing_outside() {
    let tree = tree();
    let mut program = Program::start(
        "fs::operate::random_requests_get_a_response_and_change_nothing_outside",
        &arguments(&tree),
    );
    let before = ["outside", "other", "root/.git"].map(|name| tree.snapshot(name));
    let seed = Random::seed();
    println!("seed {seed}");
    let mut random = Random(seed);
    let texts = [
        "",
        "docs",
        "docs/a.txt",
        "made/deep/b",
        "in",
        "dangling",
        "up/outside/secret.txt",
        ".",
        "pipe",
        "$T/other",
        "/",
        "\0",
        "../outside",
        "existing",
        "new_tree",
        "no_follow",
        "refuse",
        "in_place",
        "skip",
        "data",
        "read",
        "append",
        "modified",
        "describe",
        "metadata",
        "remove_file",
        "6-b6a98d9ce9a2d9149288fa3df42d377c3e42737afdcdaf714e33c0a100b51060",
    ];
    let others = json!([
        null, true, false, 0, 3, -1, 1.5, u64::MAX, i64::MIN, {}, [], ["YQ==", 1], ["YQ=="], [{}],
        [{"op": "write", "path": "made/deep/c", "content": "", "create_parents": true},
            {"op": "remove_file", "path": "in"}],
        [{"op": "rename", "from": "docs", "to": "up/docs"}],
    ]);
    let texts = texts.map(|text| Value::from(tree.expand(text)));
    let values = [&texts, others.as_array().unwrap().as_slice()].concat();
    let mut counts = [0_usize; 3];
    let common = common_fields();
    for (operation, _, form) in operations() {
        let is_required = |name: &str| {
            form["required"].as_array().is_some_and(|names| names.iter().any(|it| it == name))
        };
        let fields = [&form, &common].map(|schema| schema["properties"].as_object());
        for _ in 0..100 {
            let mut object = Map::from_iter([("op".to_owned(), json!(operation))]);
            for (name, field) in fields.iter().copied().flatten().flatten() {
                if is_required(name) || random.below(6) == 0 {
                    let mut next =
                        || &values[usize::try_from(random.next()).unwrap() % values.len()];
                    // Most values have the type of their field.
                    let typed = (0..20).map(|_| next()).find(|value| has_type(value, field));
                    let value = typed.filter(|_| random.below(20) > 0);
                    object.insert(name.clone(), value.unwrap_or(&values[0]).clone());
                }
            }
            let mut line = Value::Object(object).to_string().into_bytes();
            if random.below(8) == 0 {
                for _ in 0..=random.below(4) {
                    let at = usize::try_from(random.next()).unwrap() % line.len();
                    line[at] = u8::try_from(random.below(256)).unwrap();
                }
                line.retain(|byte| *byte != b'\n');
            }
            let response = program.send(&line);
            let kind = &response["error"]["kind"];
            counts[if kind.is_null() { 0 } else { 1 + usize::from(kind == "InvalidRequest") }] += 1;
        }
    }
    program.end();
    println!("{} succeeded, {} refused, {} invalid", counts[0], counts[1], counts[2]);
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
    let after = ["outside", "other", "root/.git"].map(|name| tree.snapshot(name));
    assert_eq!(after, before);
}
