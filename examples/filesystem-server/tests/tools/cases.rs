//! Calls of tools that are lines of data. `tests/data/tools.txt` describes their form.

use serde_json::{Value, json};

use crate::client::served::Served;
use crate::client::{Client, uri};

/// The case that is being tested.
struct Case {
    served: Served,
    client: Client,
}

impl Case {
    /// Creates the server and the client that a line describes.
    fn new(begin: &Value) -> Self {
        let options = begin["options"].as_array().into_iter().flatten();
        let options: Vec<_> = options.map(|option| option.as_str().unwrap()).collect();
        let served = if options.is_empty() { Served::new() } else { Served::with(&options) };
        for (name, content) in begin["files"].as_object().unwrap() {
            served.put(name, content.as_str().unwrap());
        }
        let Some(_) = begin.get("roots") else {
            return Self { client: served.client(), served };
        };
        let mut case = Self { client: served.with_roots(&[]), served };
        case.client.roots = case.list(&begin["roots"]);
        case
    }

    /// The URIs of the roots in a line. One that is not a path is used unchanged.
    fn list(&self, roots: &Value) -> Vec<String> {
        let uri = |root: &Value| match root.as_str().unwrap() {
            path if path.starts_with('$') => uri(self.filled(path).as_ref()),
            other => other.to_owned(),
        };
        roots.as_array().unwrap().iter().map(uri).collect()
    }

    /// Replaces `$D` and `$O`. The rest of a text with one of them consists of paths.
    fn filled(&self, text: &str) -> String {
        if !text.contains("$D") && !text.contains("$O") {
            return text.to_owned();
        }
        let text = if cfg!(windows) { text.replace('/', r"\") } else { text.to_owned() };
        let text = text.replace("$D", self.served.directory.to_str().unwrap());
        text.replace("$O", self.served.outside.to_str().unwrap())
    }

    /// Performs the call of a line, and checks its result.
    fn check(&mut self, line: &str, call: &[Value]) {
        let (tool, relation) = (call[0].as_str().unwrap(), call[2].as_str().unwrap());
        let expected: Vec<_> =
            call[3..].iter().filter_map(Value::as_str).map(|text| self.filled(text)).collect();
        if tool == "file" {
            let content = self.served.content(call[1].as_str().unwrap());
            return assert_eq!(content.as_ref(), expected.first(), "{line}");
        }
        let mut arguments = call[1].clone();
        for argument in arguments.as_object_mut().unwrap().values_mut() {
            if let Some(text) = argument.as_str() {
                *argument = json!(self.filled(text));
            }
        }
        let result = self.client.call(tool, &arguments);
        let (Ok(text) | Err(text)) = &result;
        assert_eq!(result.is_err(), relation == "!", "{line}: {text}");
        match relation {
            "=" => assert_eq!(text, &expected[0], "{line}"),
            "tree" => assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), &call[3], "{line}"),
            _ => assert!(expected.iter().all(|part| text.contains(part)), "{line}: {text}"),
        }
    }
}

/// Performs all calls of a text with cases.
pub(crate) fn check(cases: &str) {
    let mut case = None;
    for line in cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let row = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        match (&row, &mut case) {
            (Value::Array(call), Some(case)) => Case::check(case, line, call),
            (row, Some(case)) if row.get("list").is_some() => {
                case.client.roots = case.list(&row["list"]);
                case.client.notify("roots/list_changed", &json!({}));
            }
            _ => case = Some(Case::new(&row)),
        }
    }
}

#[test]
fn calls_have_the_results_in_the_data() {
    check(include_str!("../data/tools.txt"));
}
