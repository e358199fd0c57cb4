//! Data-driven tests of Windows' rules for names. Each line of `data/windows.txt` is a text and its
//! expected reading. The tests run on every system.
//!
//! ```text
//! path | C:/a/../b         | C:\b             a path and its normal form
//! path | C:\NUL            | reserved_name    a path and the code of its refusal
//! uri  | file:///c%3A/a    | C:\a             a URI and its path
//! key  | ä.txt             | Ä.TXT            a name and its form for comparisons
//! in   | C:\a | C:\A\b     | inside           a root, a request, and whether it is inside
//! ```
//!
//! A text in double quotes is a JSON string.

use std::collections::BTreeMap;
use std::panic::catch_unwind;

use guarded_fs::internals::{Code, windows as rules};

use crate::properties::windows::hold;

#[test]
fn each_row_of_windows_txt_is_read_as_expected() {
    let mut failures = Vec::new();
    let mut rows = 0;
    for (number, line) in include_str!("../data/windows.txt").lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() && !line.starts_with('#') {
            rows += 1;
            if let Err(why) = row(line) {
                failures.push(format!("line {}: {line}\n    {why}", number + 1));
            }
        }
    }
    println!("{rows} rows, {} failed", failures.len());
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(rows > 250, "only {rows} rows were read");
}

#[test]
fn a_windows_name_has_at_most_255_units() {
    let longest = [
        "a".repeat(255),
        "ä".repeat(255),
        format!("{}a", "𝕒".repeat(127)),
        format!("{}.txt", "a".repeat(251)),
    ];
    for name in longest {
        let longer = format!("a{name}");
        for top in [r"C:\", "", r"\\server\share\"] {
            assert_eq!(rules::path(&format!("{top}{name}")), Ok(format!("{top}{name}")), "{name}");
            assert_eq!(rules::path(&format!("{top}{longer}")), Err(Code::TooLong), "{longer}");
        }
        assert_eq!(rules::path(&format!(r"\\{name}\s")), Ok(format!(r"\\{name}\s\")), "{name}");
        assert_eq!(rules::path(&format!(r"\\{longer}\s")), Err(Code::TooLong), "{longer}");
        assert_eq!(rules::path(&format!(r"\\s\{longer}")), Err(Code::TooLong), "{longer}");
        assert_eq!(rules::uri(&format!("file:///C:/{longer}")), Err(Code::TooLong), "{longer}");
    }
    let deep = format!(r"C:\{}", r"a\".repeat(2000));
    assert_eq!(rules::path(&deep), Ok(deep.clone()));
}

#[test]
fn a_windows_key_stands_for_one_or_two_characters() {
    let mut of_key: BTreeMap<String, String> = BTreeMap::new();
    for c in '\0'..='\u{1ffff}' {
        of_key.entry(rules::key(&c.to_string()).into_owned()).or_default().push(c);
    }
    let odd: Vec<_> =
        of_key.values().filter(|all| all.chars().count() > 2).map(String::as_str).collect();
    assert_eq!(odd, ["Σςσ"]);
    assert!(of_key.values().filter(|all| all.chars().count() == 2).count() > 1000);
    assert!(of_key.iter().all(|(key, all)| all.contains(key.as_str())));
}

fn row(line: &str) -> Result<(), String> {
    let fields: Vec<_> = line.split(" | ").map(str::trim).collect();
    let texts: Vec<_> = fields.iter().map(|field| unquoted(field)).collect::<Result<_, _>>()?;
    let found = match texts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["path", text, _] => path_or_code(rules::path(text)),
        ["uri", text, _] => path_or_code(rules::uri(text)),
        ["key", text, _] => rules::key(text).into_owned(),
        ["in", root, request, _] => path_or_code(contains(root, request)),
        _ => return Err("expected a word and two or three texts".into()),
    };
    let expected = texts.last().map_or("", String::as_str);
    if found != expected {
        return Err(format!("is read as {found}"));
    }
    // The failed assertion has printed its reason.
    let holds = catch_unwind(|| texts.iter().for_each(|text| hold(text.as_bytes())));
    holds.map_err(|_| "an invariant fails".into())
}

/// Returns whether a request's names start with the root's names, or the code of the refusal.
fn contains(root: &str, request: &str) -> Result<String, Code> {
    let root = read(root)?;
    let request = read(request)?;
    let request = if rules::is_absolute(&request) {
        request
    } else {
        rules::path(&format!(r"{root}\{request}"))?
    };
    let keys = |path: &str| {
        rules::components(path).map(|(name, _)| rules::key(name).into_owned()).collect::<Vec<_>>()
    };
    Ok(if keys(&request).starts_with(&keys(&root)) { "inside" } else { "outside" }.into())
}

fn read(text: &str) -> Result<String, Code> {
    if text.starts_with("file:") { rules::uri(text) } else { rules::path(text) }
}

fn path_or_code(read: Result<String, Code>) -> String {
    read.unwrap_or_else(|code| code.as_str().into())
}

fn unquoted(field: &str) -> Result<String, String> {
    if field.starts_with('"') {
        serde_json::from_str(field).map_err(|error| error.to_string())
    } else {
        Ok(field.into())
    }
}
