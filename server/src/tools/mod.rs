//! The tools of the reference filesystem server, with the same names, parameters, annotations and
//! result formats, and further tools, of which some run programs. README.md lists the differences in
//! behavior.
//!
//! A tool is a file with its description for the model, its schema and its limits. A new one also
//! takes two lines here: `mod`, and one in a table of tools.

mod call;
mod whole_number;
mod globs;
mod steps;
mod text;
mod replace;
mod reading;
mod read_text_file;
mod read_multiple_files;
mod read_media_file;
mod changing;
mod write_file;
mod create_directory;
mod move_file;
mod copy_directory;
mod edit_file;
mod edit_files;
mod patch_format;
mod hunks;
mod apply_patch;
mod append_file;
mod delete_path;
mod listing;
mod list_directory;
mod list_directory_with_sizes;
mod directory_tree;
mod search_files;
mod expression;
mod match_page;
mod search_content;
mod get_file_info;
mod list_allowed_directories;
mod git_config;
mod places;
mod repository;
mod git;
mod run;

use std::sync::Arc;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::model::JsonObject;
use serde_json::Value;

pub(crate) use self::call::ANSWER;
pub use self::list_allowed_directories::allowed_directories;

use crate::programs::Programs;
use crate::server::Server;

/// The tools of a file, and their limits.
type Tools = (fn() -> ToolRouter<Server>, fn() -> Vec<Limit>);

/// What is limited, and the limit, as in README's table.
pub(crate) type Limit = (&'static str, String);

const READING: &[Tools] = &[
    (Server::read_text_file_tools, read_text_file::limits),
    (Server::read_multiple_files_tools, read_multiple_files::limits),
    (Server::read_media_file_tools, Vec::new),
    (Server::list_directory_tools, Vec::new),
    (Server::list_directory_with_sizes_tools, Vec::new),
    (Server::directory_tree_tools, Vec::new),
    (Server::search_files_tools, search_files::limits),
    (Server::search_content_tools, search_content::limits),
    (Server::get_file_info_tools, Vec::new),
    (Server::list_allowed_directories_tools, Vec::new),
];

const CHANGING: &[Tools] = &[
    (Server::write_file_tools, Vec::new),
    (Server::create_directory_tools, Vec::new),
    (Server::move_file_tools, Vec::new),
    (Server::append_file_tools, Vec::new),
    (Server::delete_path_tools, Vec::new),
    (Server::copy_directory_tools, copy_directory::limits),
    (Server::edit_file_tools, edit_file::limits),
    (Server::edit_files_tools, edit_files::limits),
    (Server::apply_patch_tools, Vec::new),
];

impl Server {
    /// The tools that change files.
    pub(crate) fn changing_tools() -> ToolRouter<Self> {
        routers(CHANGING)
    }

    /// The tools that a server with these programs offers.
    pub(crate) fn all_tools(programs: &Programs) -> ToolRouter<Self> {
        let mut tools = routers(READING) + Self::changing_tools();
        if programs.git {
            tools += Self::git_tools();
        }
        if !programs.run.is_empty() {
            tools += Self::run_tools();
        }
        for tool in tools.map.values_mut().map(|route| &mut route.attr) {
            tool.output_schema.get_or_insert_with(call::text_schema);
            simplify(Arc::make_mut(&mut tool.input_schema));
            if let Some(hints) = &mut tool.annotations {
                hints.open_world_hint = Some(false);
            }
        }
        tools
    }
}

fn routers(tools: &[Tools]) -> ToolRouter<Server> {
    tools.iter().fold(ToolRouter::new(), |all, (router, _)| all + router())
}

/// Describes an optional parameter by its type alone. Not every client and model accepts a list of
/// types, `null`, the formats of Rust's numbers, or the name of a dialect. A number from 0 needs no
/// minimum, because all are.
fn simplify(schema: &mut JsonObject) {
    if let Some(kind) = schema.get("type").and_then(|kind| kind.get(0)).cloned() {
        schema.insert("type".to_owned(), kind);
    }
    schema.retain(|name, value| match name.as_str() {
        "$schema" | "format" => !value.is_string(),
        "minimum" => *value != 0,
        _ => !value.is_null(),
    });
    schema.values_mut().filter_map(Value::as_object_mut).for_each(simplify);
}

/// The limits of the tools, each with its value, as in README's table.
#[must_use]
pub fn limits(search_entries: usize) -> Vec<(&'static str, String)> {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let mut limits = vec![
        ("text that a tool returns", mib(reading::TEXT)),
        ("file for read_media_file or as a resource, content to write", mib(LIMIT)),
        ("entries on a page of a listing, or in a tree", listing::ENTRIES.to_string()),
        ("listing, tree, or output of a program", format!("{} MiB", call::ANSWER >> 20)),
        ("entries that a search looks at", search_entries.to_string()),
        ("patterns in a call", globs::PATTERNS.to_string()),
    ];
    limits.extend(READING.iter().chain(CHANGING).flat_map(|(_, limits)| limits()));
    limits
}

/// The maximum number of bytes to read from a file, or write to one. The content, its base64 encoding
/// and the message are in memory at the same time.
pub(crate) const LIMIT: u64 = 10 << 20;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Some clients and models refuse a tool, or all of them, for a schema that they do not know.
    #[test]
    fn schemas_have_one_type_for_each_parameter_and_are_short() {
        let programs = Programs { git: true, run: vec![String::new()], extras: vec![] };
        let mut size = 0;
        for tool in Server::all_tools(&programs).list_all() {
            let schema = serde_json::to_string(&tool.input_schema).unwrap();
            for part in ["null", "\"type\":[", "anyOf", "oneOf", "\"format\"", "\"$ref\""] {
                assert!(!schema.contains(part), "{part} in {}: {schema}", tool.name);
            }
            size += schema.len() + tool.name.len() + tool.description.unwrap_or_default().len();
        }
        assert!(size < 15_000, "{size} bytes");
    }
}
