//! Calls with their results, as lines of data. `tests/data/tools.txt` describes their form.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::served::ServedDirectory;
use super::{Client, Declares, Era, uri};
use crate::tree::symlinks_are_visible;

/// Performs all calls of a text with cases. Clients without roots in the data are of this era.
pub(crate) fn check(cases: &str, era: Era, declares: Declares) {
    let mut case: Option<Case> = None;
    for line in cases.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let row: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        if let Value::Array(call) = &row {
            if let Some(case) = &mut case {
                case.check(line, &call.iter().map(|part| case.filled(part)).collect::<Vec<_>>());
            }
        } else if let Some(list) = row.get("list") {
            let case = case.as_mut().unwrap();
            case.client.roots = case.roots(list);
            case.client.notify("roots/list_changed", &json!({}));
        } else {
            let can_run = match row["needs"].as_str() {
                Some("symlinks") => symlinks_are_visible(),
                #[cfg(unix)]
                Some("another user than root") => !rustix::process::geteuid().is_root(),
                Some(_) => cfg!(unix),
                None => true,
            };
            case = can_run.then(|| Case::new(&row, era, declares));
        }
    }
}

struct Case {
    served: ServedDirectory,
    client: Client,
    era: Era,
}

impl Case {
    /// Creates the server and the client that a line describes.
    fn new(begin: &Value, era: Era, declares: Declares) -> Self {
        let options = begin["options"].as_array().into_iter().flatten();
        let options: Vec<_> = options.map(|option| option.as_str().unwrap()).collect();
        let served = if options.is_empty() {
            ServedDirectory::new()
        } else {
            ServedDirectory::with(&options)
        };
        for (name, content) in begin["files"].as_object().into_iter().flatten() {
            match content {
                Value::String(text) => served.put(name, text),
                _ => served.put(name, serde_json::from_value::<Vec<u8>>(content.clone()).unwrap()),
            };
        }
        if let Some(script) = begin["setup"].as_str() {
            served.sh(script);
        }
        let Some(roots) = begin.get("roots") else {
            let client = served.client_of(era, declares);
            return Self { served, client, era };
        };
        let client = served.with_roots(&[]);
        let mut case = Self { served, client, era };
        case.client.roots = case.roots(roots);
        case
    }

    /// The URIs of roots. One that does not begin with `$` is used unchanged.
    fn roots(&self, roots: &Value) -> Vec<String> {
        let uri = |root: &Value| match self.filled(root).as_str().unwrap() {
            path if root.as_str().unwrap().starts_with('$') => uri(path.as_ref()),
            other => other.to_owned(),
        };
        roots.as_array().unwrap().iter().map(uri).collect()
    }

    /// Replaces the variables in all texts of a value. The rest of a text with `$D` or `$O`
    /// consists of paths.
    fn filled(&self, value: &Value) -> Value {
        let [directory, outside] = [&self.served.directory, &self.served.outside];
        match value {
            Value::String(text) => {
                let is_path = cfg!(windows) && (text.contains("$D") || text.contains("$O"));
                let text = if is_path { text.replace('/', r"\") } else { text.clone() };
                let text = text.replace("$D", directory.to_str().unwrap());
                let text = text.replace("$O", outside.to_str().unwrap());
                let text = text.replace("$S", &uri(directory)["file:///".len()..]);
                json!(text.replace("$U", &uri(directory)))
            }
            Value::Array(values) => values.iter().map(|value| self.filled(value)).collect(),
            Value::Object(values) => {
                let fill = |(name, value): (&String, _)| (name.clone(), self.filled(value));
                values.iter().map(fill).collect()
            }
            other => other.clone(),
        }
    }

    /// Performs the call of a line, and checks its result.
    fn check(&mut self, line: &str, call: &[Value]) {
        let [tool, arguments, relation, expected @ ..] = call else { panic!("{line}") };
        let tool = tool.as_str().unwrap();
        let result = match tool {
            "file" => Ok(json!(self.served.content(arguments.as_str().unwrap()))),
            "sh" => Ok(json!(self.served.sh(arguments.as_str().unwrap()))),
            "edit" => self.edit(arguments),
            "patch" => self.patch(arguments),
            "read" => self.read(arguments),
            "complete" => self.complete(arguments),
            "list" => self.request("list", arguments.clone()).map(|it| it["resources"].clone()),
            "uris" => {
                self.request("list", arguments.clone()).map(|it| each(&it["resources"], "uri"))
            }
            "tools" => {
                self.client.request("tools/list", json!({})).map(|it| each(&it["tools"], "name"))
            }
            "request" => self.client.request(arguments[0].as_str().unwrap(), arguments[1].clone()),
            "subscribe" | "unsubscribe" => self.request(tool, json!({ "uri": arguments })),
            "told" => Ok(json!(self.client.told(Duration::from_secs(6)))),
            "quiet" => Ok(json!(self.client.told(Duration::from_millis(1_200)))),
            "put" => {
                for (name, content) in arguments.as_object().unwrap() {
                    self.served.put(name, content.as_str().unwrap());
                }
                Ok(Value::Null)
            }
            "media" => {
                let arguments = json!({ "path": arguments });
                let call = json!({ "name": "read_media_file", "arguments": arguments });
                let result = self.client.request("tools/call", call);
                result.map(|mut result| result["content"][0].take())
            }
            _ => self.client.call(tool, arguments).map(Value::from).map_err(Value::from),
        };
        let (Ok(value) | Err(value)) = &result;
        let parts = || expected.iter().map(|part| part.as_str().unwrap());
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match relation.as_str().unwrap() {
            "=" => assert_eq!(result.as_ref(), Ok(&expected[0]), "{line}"),
            "tree" => {
                assert_eq!(serde_json::from_str(&text).ok().as_ref(), expected.first(), "{line}");
            }
            "lacks" => assert!(!parts().any(|part| text.contains(part)), "{line}: {text}"),
            "error" => assert_eq!(result.as_ref(), Err(&expected[0]), "{line}"),
            relation => {
                assert_eq!(result.is_err(), relation == "!", "{line}: {value}");
                assert!(parts().all(|part| text.contains(part)), "{line}: {value}");
            }
        }
    }

    /// Sends a request for resources. An error is its code.
    fn request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let result = self.client.request(&format!("resources/{method}"), params);
        result.map_err(|mut error| error["code"].take())
    }

    /// Edits a file with this content, first in a dry run, and returns the new content.
    fn edit(&mut self, arguments: &Value) -> Result<Value, Value> {
        let edit = |edit: &Value| {
            let mut arguments = edit.get(2).cloned().unwrap_or(json!({}));
            (arguments["oldText"], arguments["newText"]) = (edit[0].clone(), edit[1].clone());
            arguments
        };
        let edits: Vec<_> = arguments[1].as_array().unwrap().iter().map(edit).collect();
        self.served.put("edited", arguments[0].as_str().unwrap());
        let diffs = [true, false].map(|dry_run| {
            let arguments = json!({ "path": "edited", "edits": edits, "dryRun": dry_run });
            self.client.call("edit_file", &arguments)
        });
        assert_eq!(diffs[0], diffs[1]);
        let content = json!(self.served.content("edited"));
        assert!(diffs[0].is_ok() || content == arguments[0], "a failed edit changes nothing");
        diffs[0].clone().map(|_| content).map_err(Value::from)
    }

    /// Applies hunks to a file with this content, and returns the new content.
    fn patch(&mut self, arguments: &Value) -> Result<Value, Value> {
        let [old, hunks] = [0, 1].map(|number| arguments[number].as_str().unwrap());
        self.served.put("edited", old);
        let patch = format!("*** Begin Patch\n*** Update File: edited\n{hunks}\n*** End Patch\n");
        let done = self.client.call("apply_patch", &json!({ "patch": patch }));
        let content = json!(self.served.content("edited"));
        assert!(done.is_ok() || content == arguments[0], "a failed patch changes nothing");
        done.map(|_| content).map_err(Value::from)
    }

    /// Reads a resource. An error is its kind, URI, and code in a session, where not found is
    /// -32002 instead of -32602.
    fn read(&mut self, uri: &Value) -> Result<Value, Value> {
        let result = self.client.request("resources/read", json!({ "uri": uri }));
        let mut result = result.map_err(|error| {
            let (data, code) = (&error["data"], error["code"].as_i64().unwrap());
            let names_uri = data.get("uri").is_some_and(|named| named == uri);
            let is_not_found = error["message"] == "Resource not found";
            let code = if self.era == Era::Stateless && is_not_found {
                code - 32_002 + 32_602
            } else {
                code
            };
            json!([data["code"], names_uri, code])
        })?;
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
        assert_eq!(&result["contents"][0]["uri"], uri);
        result["contents"][0].as_object_mut().unwrap().remove("uri");
        Ok(result["contents"][0].take())
    }

    /// Completes a path, with and without a slash at its beginning.
    fn complete(&mut self, typed: &Value) -> Result<Value, Value> {
        let [one, other] = ["", "/"].map(|slash| {
            let typed = format!("{slash}{}", typed.as_str().unwrap());
            let argument = json!({ "name": "path", "value": typed });
            let template = json!({ "type": "ref/resource", "uri": "file:///{path}" });
            let params = json!({ "ref": template, "argument": argument });
            self.client.request("completion/complete", params)
        });
        assert_eq!(one, other);
        one.map(|mut result| result["completion"]["values"].take())
    }
}

/// A member of each object in a list.
fn each(list: &Value, member: &str) -> Value {
    list.as_array().unwrap().iter().map(|it| it[member].clone()).collect()
}

impl ServedDirectory {
    /// Runs a shell script in the directory, after the functions of the data, and returns its
    /// output.
    fn sh(&self, script: &str) -> String {
        let functions = include_str!("../data/functions.sh");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-ec", &format!("{functions}\n{script}")]);
        let shell = shell.current_dir(&self.directory).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let done = shell.output().unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}
