//! Conversion of errors to protocol messages, which contain only the error's text, its code and the
//! URI that the client itself sent, never [`Error::operator_detail`].

use guarded_fs::{Error, ErrorKind};
use serde_json::{Map, Value, json};

use crate::kinds;
use crate::limits::URI_BYTES;
use crate::wire::{ErrorBody, Revision};

impl Revision {
    /// Converts an error to a tool result (schema `CallToolResult`), so that the model can read its
    /// text and correct its request.
    ///
    /// Since 2026-07-28, the result contains the `resultType` that the schema requires, and
    /// [`ROOTS_UNSUPPORTED`](crate::kinds::ROOTS_UNSUPPORTED) must be sent as a JSON-RPC
    /// [error](Self::error_body), even by a tool.
    ///
    /// ```
    /// # use mcp_roots_guard::{Location, Revision};
    /// let error = Location::parse("https://example.com/").unwrap_err();
    /// let text = r#"parse "https://example.com/": only paths and file: URIs are accepted"#;
    /// assert_eq!(
    ///     Revision::V2025_11_25.tool_result(&error),
    ///     serde_json::json!({ "content": [{ "type": "text", "text": text }], "isError": true })
    /// );
    /// ```
    #[must_use]
    pub fn tool_result(self, error: &Error) -> Value {
        let mut result =
            json!({ "content": [{ "type": "text", "text": error.to_string() }], "isError": true });
        if let (true, Value::Object(result)) = (self.is_stateless(), &mut result) {
            result.insert("resultType".into(), "complete".into());
        }
        result
    }

    /// Converts an error to the `error` of a JSON-RPC response, for a request other than a tool
    /// call.
    ///
    /// | kinds | until 2025-11-25 | 2026-07-28 |
    /// | --- | --- | --- |
    /// | the text cannot name a file or a version: `InvalidPath`, `InvalidUri`, `InvalidVersion`, `TooLong` | -32602 | -32602 |
    /// | the named file cannot be served: `OutsideRoots`, `NotFound`, `NotADirectory`, `IsADirectory`, `PermissionDenied`, `TooCostly`, `RootUnavailable`, `ForbiddenFile`, `Protected` | -32002 for a resource, otherwise -32602 | -32602 |
    /// | the client offers no roots: `ROOTS_UNSUPPORTED` | -32603 | -32021 with `data.requiredCapabilities`, HTTP 400 |
    /// | everything else | -32603 | -32603 |
    ///
    /// The message is "Resource not found" in the second row if there is a resource, and otherwise
    /// the error's text. In every row, `data.code` is the error's [`code`](Error::code). Whether it
    /// is `outside_roots` depends only on the request and the roots, so it reveals nothing about
    /// files outside.
    ///
    /// `resource` is the URI in a request for a resource (`resources/read` or a subscription), as
    /// the client sent it. It becomes `data.uri`, shortened to [`URI_BYTES`]. Use `None` if the
    /// path was a parameter, for example of a prompt or a completion.
    ///
    /// ```
    /// # use mcp_roots_guard::{Access, Revision, Roots};
    /// # let work = tempfile::tempdir().unwrap();
    /// let (roots, uri) = (Roots::from_dirs([work.path()], Access::ReadOnly)?, "file:///etc/passwd");
    /// # #[cfg(windows)]
    /// # let uri = "file:///C:/Windows/win.ini";
    /// let error = roots.read(uri, 1 << 20).unwrap_err();
    /// let body = Revision::V2025_11_25.error_body(&error, Some(uri));
    /// assert_eq!((body.code, body.message.as_str()), (-32002, "Resource not found"));
    /// assert_eq!(body.data, Some(serde_json::json!({ "code": "outside_roots", "uri": uri })));
    /// assert_eq!(Revision::V2026_07_28.error_body(&error, Some(uri)).code, -32602);
    /// # Ok::<(), mcp_roots_guard::Error>(())
    /// ```
    #[must_use]
    pub fn error_body(self, error: &Error, resource: Option<&str>) -> ErrorBody {
        let (kind, code) = (error.kind(), error.code());
        let is_not_served = NOT_SERVED.contains(&kind);
        let is_without_roots = kind == kinds::ROOTS_UNSUPPORTED && self.is_stateless();
        let number = match resource {
            Some(_) if is_not_served && !self.is_stateless() => RESOURCE_NOT_FOUND,
            _ if is_not_served || INVALID_TEXT.contains(&kind) => INVALID_PARAMS,
            _ if is_without_roots => MISSING_CAPABILITY,
            _ => INTERNAL_ERROR,
        };
        let message = match resource {
            Some(_) if is_not_served => "Resource not found".into(),
            // Defense: The client does not see the detail for the operator.
            _ => error.to_string(),
        };
        let mut data = Map::from_iter([("code".into(), code.into())]);
        data.extend(resource.map(|uri| ("uri".into(), shortened(uri).into())));
        let required = is_without_roots.then(|| json!({ "roots": {} }));
        data.extend(required.map(|required| ("requiredCapabilities".into(), required)));
        ErrorBody { code: number, message, data: Some(data.into()) }
    }
}

const INVALID_TEXT: [ErrorKind; 4] =
    [ErrorKind::InvalidPath, ErrorKind::InvalidUri, ErrorKind::InvalidVersion, ErrorKind::TooLong];

const NOT_SERVED: [ErrorKind; 9] = [
    ErrorKind::OutsideRoots,
    ErrorKind::NotFound,
    ErrorKind::NotADirectory,
    ErrorKind::IsADirectory,
    ErrorKind::PermissionDenied,
    ErrorKind::TooCostly,
    ErrorKind::RootUnavailable,
    ErrorKind::ForbiddenFile,
    ErrorKind::Protected,
];

impl ErrorBody {
    /// The HTTP status that the protocol requires for a response with this error. `None` if the
    /// transport chooses it.
    #[must_use]
    pub const fn http_status(&self) -> Option<u16> {
        match self.code {
            MISSING_CAPABILITY => Some(400),
            _ => None,
        }
    }
}

fn shortened(uri: &str) -> String {
    let end = (0..=URI_BYTES.min(uri.len())).rfind(|&at| uri.is_char_boundary(at)).unwrap_or(0);
    let (shown, rest) = uri.split_at(end);
    if rest.is_empty() { shown.to_owned() } else { format!("{shown}…") }
}

/// Defined by JSON-RPC 2.0, section 5.1.
const INVALID_PARAMS: i64 = -32602;

/// Defined by JSON-RPC 2.0, section 5.1.
const INTERNAL_ERROR: i64 = -32603;

/// Defined for resources by MCP 2024-11-05 to 2025-11-25, and removed in 2026-07-28 (SEP-2164).
const RESOURCE_NOT_FOUND: i64 = -32002;

/// Defined by MCP 2026-07-28, schema `MissingRequiredClientCapabilityError`.
const MISSING_CAPABILITY: i64 = -32021;

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    /// The kinds of `guarded-fs`.
    const KINDS: &[ErrorKind] = &[
        ErrorKind::InvalidPath,
        ErrorKind::InvalidUri,
        ErrorKind::InvalidVersion,
        ErrorKind::TooLong,
        ErrorKind::OutsideRoots,
        ErrorKind::NotFound,
        ErrorKind::NotADirectory,
        ErrorKind::IsADirectory,
        ErrorKind::PermissionDenied,
        ErrorKind::TooCostly,
        ErrorKind::RootUnavailable,
        ErrorKind::ForbiddenFile,
        ErrorKind::AlreadyExists,
        ErrorKind::DirectoryNotEmpty,
        ErrorKind::Protected,
        ErrorKind::ReadOnly,
        ErrorKind::RootItself,
        ErrorKind::TooLarge,
        ErrorKind::TooManyEntries,
        ErrorKind::TooDeep,
        ErrorKind::TooManyRoots,
        ErrorKind::TooManyChanges,
        ErrorKind::NotUtf8,
        ErrorKind::Overlap,
        ErrorKind::CrossDevice,
        ErrorKind::Unsupported,
        ErrorKind::Changed,
        ErrorKind::Stopped,
        ErrorKind::InvalidInput,
        ErrorKind::InvalidConfiguration,
        ErrorKind::RootRejected,
        ErrorKind::Io,
    ];

    const URI: &str = "file:///etc/passwd";

    /// For each row of the documented table, the codes in both eras, first with a resource and then
    /// without.
    const CODES: &[[[i64; 2]; 2]] = &[
        [[-32602, -32602], [-32602, -32602]],
        [[-32002, -32602], [-32602, -32602]],
        [[-32603, -32021], [-32603, -32021]],
        [[-32603, -32603], [-32603, -32603]],
    ];

    #[test]
    fn each_kind_has_the_codes_of_its_row_in_the_documented_table() {
        let lines = include_str!("errors.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("    /// | "))
            .skip(2);
        let rows: Vec<Vec<&str>> = lines
            .map(|line| line.split_once(" | ").unwrap().0.split('`').skip(1).step_by(2).collect())
            .collect();
        assert_eq!(rows.len(), CODES.len());
        let names: Vec<_> = rows.concat();
        let kinds = KINDS.iter().copied();
        let kinds: Vec<_> = kinds.chain([kinds::ROOTS_UNSUPPORTED, kinds::BUSY]).collect();
        let name_of = |kind: &ErrorKind| match kind {
            ErrorKind::Other(name) => name.to_uppercase(),
            kind => format!("{kind:?}"),
        };
        for (index, name) in names.iter().enumerate() {
            let is_kind = kinds.iter().any(|kind| name_of(kind) == *name);
            assert!(is_kind, "{name} is not a kind");
            assert_eq!(
                names.iter().position(|other| other == name),
                Some(index),
                "{name} occurs twice"
            );
        }
        for kind in kinds {
            let name = name_of(&kind);
            let row = rows.iter().position(|row| row.contains(&name.as_str()));
            let row = row.unwrap_or(CODES.len() - 1);
            for &revision in Revision::ALL {
                let error = Error::new(kind, "code", "text");
                let sent = [Some(URI), None].map(|uri| revision.error_body(&error, uri).code);
                assert_eq!(
                    sent,
                    CODES[row].map(|codes| codes[usize::from(revision.is_stateless())]),
                    "{name}, {revision}"
                );
            }
        }
    }

    #[test]
    fn error_bodies_have_the_expected_json() {
        let no_roots = (
            kinds::ROOTS_UNSUPPORTED,
            "roots_unsupported",
            "the client offers no roots, and this server requires them",
        );
        let timed_out = (
            kinds::ROOTS_FAILED,
            "roots_timed_out",
            "the client's roots could not be obtained in time",
        );
        let missing = (ErrorKind::NotFound, "not_found", "no such file or directory");
        let outside_roots =
            (ErrorKind::OutsideRoots, "outside_roots", "not inside the allowed directories");
        let with_query =
            (ErrorKind::InvalidUri, "query", "the URI contains a query; write ? as %3F");
        let (old, new) = (Revision::V2025_11_25, Revision::V2026_07_28);
        let not_found = concat!(
            r#""message":"Resource not found","#,
            r#""data":{"code":"not_found","uri":"file:///etc/passwd"}"#
        );
        let outside = concat!(
            r#""message":"Resource not found","#,
            r#""data":{"code":"outside_roots","uri":"file:///etc/passwd"}"#
        );
        let parameter =
            r#""message":"read \"a\\n\": no such file or directory","data":{"code":"not_found"}"#;
        let query = concat!(
            r#""message":"read \"a\\n\": the URI contains a query; write ? as %3F","#,
            r#""data":{"code":"query""#
        );
        let unsupported = concat!(
            r#""message":"read \"a\\n\": the client offers no roots, "#,
            r#"and this server requires them","data":{"code":"roots_unsupported""#
        );
        let uri = r#","uri":"file:///etc/passwd"}"#;
        let late = concat!(
            r#""message":"read \"a\\n\": the client's roots could not be obtained in time","#,
            r#""data":{"code":"roots_timed_out","uri":"file:///etc/passwd"}"#
        );
        for ((kind, name, text), revision, resource, code, expected) in [
            (missing, old, Some(URI), -32002, not_found),
            (missing, new, Some(URI), -32602, not_found),
            (outside_roots, old, Some(URI), -32002, outside),
            (outside_roots, new, Some(URI), -32602, outside),
            (missing, old, None, -32602, parameter),
            (with_query, old, Some(URI), -32602, &format!("{query}{uri}")),
            (with_query, new, None, -32602, &format!("{query}}}")),
            (no_roots, old, Some(URI), -32603, &format!("{unsupported}{uri}")),
            (
                no_roots,
                new,
                None,
                -32021,
                &format!(r#"{unsupported},"requiredCapabilities":{{"roots":{{}}}}}}"#),
            ),
            (timed_out, new, Some(URI), -32603, late),
        ] {
            let error = Error::new(kind, name, text).with_request("read", OsStr::new("a\n"));
            let body = revision.error_body(&error, resource);
            let printed = serde_json::to_string(&body).unwrap();
            assert_eq!(printed, format!(r#"{{"code":{code},{expected}}}"#), "{name} in {revision}");
            assert_eq!(body.http_status(), (code == -32021).then_some(400), "{name} in {revision}");
        }
    }

    #[test]
    fn tool_result_contains_the_text_and_matches_its_revision() {
        let text = "not inside the allowed directories";
        let error = Error::new(ErrorKind::OutsideRoots, "outside_roots", text)
            .with_operator_detail("points to /etc/shadow")
            .with_request("open", OsStr::new("a"));
        let content =
            json!([{ "type": "text", "text": r#"open "a": not inside the allowed directories"# }]);
        for &revision in Revision::ALL {
            let expected = if revision.is_stateless() {
                json!({ "content": content, "isError": true, "resultType": "complete" })
            } else {
                json!({ "content": content, "isError": true })
            };
            assert_eq!(revision.tool_result(&error), expected, "{revision}");
        }
    }

    #[test]
    fn operator_detail_is_never_sent() {
        for &kind in KINDS {
            for &revision in Revision::ALL {
                let error = Error::new(kind, "code", "text")
                    .with_operator_detail("SECRET")
                    .with_request("open", OsStr::new("a"));
                let bodies = [None, Some(URI)]
                    .map(|resource| format!("{:?}", revision.error_body(&error, resource)));
                assert!(
                    !format!("{bodies:?}{}", revision.tool_result(&error)).contains("SECRET"),
                    "{kind:?}"
                );
            }
        }
    }

    #[test]
    fn long_uri_is_shortened_at_a_character_boundary() {
        let missing = Error::new(ErrorKind::NotFound, "not_found", "no such file or directory");
        for (uri, expected) in [
            ("x".repeat(URI_BYTES), "x".repeat(URI_BYTES)),
            ("x".repeat(URI_BYTES + 1), "x".repeat(URI_BYTES) + "…"),
            ("x".repeat(URI_BYTES - 1) + "é", "x".repeat(URI_BYTES - 1) + "…"),
            (String::new(), String::new()),
        ] {
            let body = Revision::V2025_11_25.error_body(&missing, Some(&uri));
            assert_eq!(body.data.unwrap()["uri"], expected);
        }
    }
}
