//! The table of operations. It is one table, and therefore longer than other files.

use serde_json::Value;

use super::change;
use super::form::Kind::{self, Boolean, Bytes, Choice, Integer, Path, Size, Time};
use super::form::{Field, Form, optional, or, required};
use super::look;
use super::request::{Failure, Request};

pub(crate) struct Operation {
    pub(crate) form: Form,
    pub(crate) run: fn(&Request) -> Result<Value, Failure>,
}

const fn operation(
    name: &'static str,
    about: &'static str,
    fields: &'static [Field],
    run: fn(&Request) -> Result<Value, Failure>,
) -> Operation {
    Operation { form: Form { name, about, fields }, run }
}

/// The fields of every operation.
pub(crate) const COMMON: &[Field] = &[
    optional("base", Path, "Resolves relative paths against this root, instead of the first one."),
    optional("within", Path, "Narrows the roots to this directory or file."),
    or("roots_read_only", Boolean, "false", "Makes all roots read-only."),
];

/// Applies the fields of every operation to the roots.
pub(crate) fn narrow(request: &mut Request) -> Result<(), Failure> {
    let mut roots = request.roots.clone();
    if let Some(base) = request.optional_text("base")? {
        roots = roots.with_base(base)?;
    }
    if let Some(directory) = request.optional_text("within")? {
        roots = roots.within(directory)?;
    }
    if request.boolean("roots_read_only")? {
        roots = roots.read_only();
    }
    request.roots = roots;
    Ok(())
}

const PATH: Field = required("path", Path, "The file or directory.");
const FROM: Field = required("from", Path, "The source.");
const TO: Field = required("to", Path, "The destination.");

/// The field of operations that are methods of both `Roots` and a proof. The others are methods of
/// a proof only.
const CHECKED: Field =
    or("checked", Boolean, "false", "Checks first, and then performs the operation on the proof.");

const RELATIVE: Field = required("relative", Bytes, "A relative path.");

const ACTIONS: &[&str] = &["describe", "metadata", "open", "read", "read_to_string", "remove_file"];

const MODES: &[&str] = &["read", "read_write", "create", "create_new", "truncate", "append"];

const ATTRIBUTES: &[&str] =
    &["modified", "accessed", "executable", "not_executable", "read_only", "writable"];

const LIMIT: Field = or("limit", Size, "1048576", "A file with more bytes is refused.");

const CONTENT: Field = required("content", Bytes, "The content.");

const VERSION: &str = "Refuses a file that does not have this `version`.";

const OVERWRITES: Kind = Choice(&["never", "always"]);
const OVERWRITE: Field = or(
    "overwrite",
    OVERWRITES,
    "\"always\"",
    "Whether an existing file is overwritten. `if_unchanged` takes precedence.",
);
const IN_PLACE: Field = or(
    "in_place",
    Choice(&["never", "always", "if_owner_changes"]),
    "\"never\"",
    "Whether an existing file is overwritten in place.",
);
const CREATE_PARENTS: Field =
    or("create_parents", Boolean, "false", "Creates missing parent directories.");
const DURABILITIES: Kind = Choice(&["none", "data", "data_and_directory"]);
const DURABILITY: Field =
    or("durability", DURABILITIES, "\"data_and_directory\"", "The data to sync to the device.");
const IF_UNCHANGED: Field = optional("if_unchanged", Kind::Text, VERSION);
const REPLACE: Field = or(
    "overwrite",
    OVERWRITES,
    "\"never\"",
    "Whether an existing destination is replaced. `if_unchanged` takes precedence.",
);
const COMMIT: Field = or("commit", Boolean, "true", "If this is false, nothing is changed.");

/// The changes of the operation `change_set`.
pub(crate) const CHANGES: &[Form] = &[
    Form {
        name: "write",
        about: "Writes a whole file.",
        fields: &[PATH, CONTENT, OVERWRITE, IN_PLACE, CREATE_PARENTS, DURABILITY, IF_UNCHANGED],
    },
    Form {
        name: "remove_file",
        about: "Removes a file or a symlink.",
        fields: &[PATH, IF_UNCHANGED],
    },
    Form {
        name: "create_dir_all",
        about: "Creates a directory and its missing parents.",
        fields: &[PATH],
    },
    Form { name: "rename", about: "Renames an entry.", fields: &[FROM, TO, REPLACE, IF_UNCHANGED] },
];

/// Every operation, in the order of `--help`.
pub(crate) const OPERATIONS: &[Operation] = &[
    operation("roots", "Lists the roots in force.", &[], look::roots),
    operation(
        "rejected",
        "Lists the entries of the client's list that grant nothing.",
        &[],
        look::rejected,
    ),
    operation("check", "Checks a path, and describes the proof.", &[PATH], look::check),
    operation(
        "check_entry",
        "Checks a path, not following a symlink at its end, and describes the proof.",
        &[PATH],
        look::check_entry,
    ),
    operation(
        "join",
        "Checks a path, then a path relative to it, and describes the second proof.",
        &[PATH, RELATIVE],
        look::join,
    ),
    operation(
        "join_entry",
        "Like `join`, not following a symlink at the end of the relative path.",
        &[PATH, RELATIVE],
        look::join_entry,
    ),
    operation(
        "parent",
        "Checks a path, and describes the proof of its parent, which is null for a root.",
        &[PATH],
        look::parent,
    ),
    operation(
        "no_follow",
        "Checks a path, and describes the proof of the entry itself.",
        &[PATH],
        look::no_follow,
    ),
    operation(
        "follow",
        "Checks an entry, and describes the proof of the place to which it leads.",
        &[PATH],
        look::follow,
    ),
    operation("exists", "Whether a file or directory exists.", &[PATH], look::exists),
    operation(
        "still_allows",
        "Checks a path, and then whether the roots narrowed by the common fields still allow it.",
        &[PATH],
        look::still_allows,
    ),
    operation(
        "open",
        "Opens a file, writes the content at the offset, and describes the file.",
        &[
            PATH,
            CHECKED,
            or("mode", Choice(MODES), "\"read\"", "Whether the file is changed or created."),
            or("offset", Integer, "0", "The position at which reading and writing start."),
            optional("content", Bytes, "The content to write."),
            optional("limit", Size, "Reads at most this many bytes, after writing."),
        ],
        look::open,
    ),
    operation("read", "Reads a file.", &[PATH, CHECKED, LIMIT], look::read),
    operation(
        "read_to_string",
        "Reads a file that is UTF-8 text.",
        &[PATH, CHECKED, LIMIT],
        look::read_to_string,
    ),
    operation("metadata", "Describes a file or directory.", &[PATH, CHECKED], look::metadata),
    operation(
        "symlink_metadata",
        "Describes an entry, which may be a symlink.",
        &[PATH],
        look::symlink_metadata,
    ),
    operation("version", "Returns the version of a file.", &[PATH, LIMIT], look::version),
    operation(
        "read_link",
        "Reads the text of a symlink, and whether it leads inside the roots.",
        &[PATH],
        look::read_link,
    ),
    operation(
        "to_unguarded_path",
        "Returns the path of a file for a program that opens it without the guard.",
        &[PATH],
        look::to_unguarded_path,
    ),
    operation(
        "open_unguarded_dir",
        "Opens a directory without the guard, and describes the open directory.",
        &[PATH],
        look::open_unguarded_dir,
    ),
    operation("list", "Lists a directory.", &[PATH, CHECKED], look::list),
    operation(
        "walk",
        "Lists a directory and the directories in it. An error has the entries before it.",
        &[
            PATH,
            CHECKED,
            optional("max_depth", Integer, "The entries of the directory itself have depth 1."),
            or("max_entries", Integer, "100000", "With more entries, the walk is an error."),
            or("skip_dot_files", Boolean, "false", "Omits names that begin with a dot."),
            #[cfg(feature = "ignore")]
            or("git_ignore", Boolean, "false", "Whether files that git ignores are omitted."),
            or("skip_unreadable", Boolean, "false", "Continues if a directory cannot be read."),
            or("skip", Kind::Texts, "[]", "Names of directories that are not entered."),
        ],
        look::walk,
    ),
    operation(
        "entry",
        "Walks to an entry of a directory, and operates on it without resolving its path again.",
        &[
            PATH,
            CHECKED,
            required("entry", Bytes, "The path of the entry in the directory."),
            required("action", Choice(ACTIONS), "The operation. `describe` returns the proof."),
            LIMIT,
        ],
        look::entry,
    ),
    operation(
        "write",
        "Writes a whole file.",
        &[PATH, CHECKED, CONTENT, OVERWRITE, IN_PLACE, CREATE_PARENTS, DURABILITY, IF_UNCHANGED],
        change::write,
    ),
    operation(
        "atomic_file",
        "Writes a file in pieces, and commits it.",
        &[
            PATH,
            required("pieces", Kind::Pieces, "The content, in pieces."),
            COMMIT,
            OVERWRITE,
            IN_PLACE,
            CREATE_PARENTS,
            DURABILITY,
            IF_UNCHANGED,
        ],
        change::atomic_file,
    ),
    operation(
        "change_set",
        "Changes several files. Each change is prepared before the first is made.",
        &[required("changes", Kind::Steps(CHANGES), "The changes, in order."), COMMIT],
        change::change_set,
    ),
    operation("create_dir", "Creates a directory.", &[PATH, CHECKED], change::create_dir),
    operation(
        "create_dir_all",
        "Creates a directory and its missing parents.",
        &[PATH, CHECKED],
        change::create_dir_all,
    ),
    operation(
        "rename",
        "Renames an entry.",
        &[FROM, TO, CHECKED, REPLACE, IF_UNCHANGED],
        change::rename,
    ),
    operation(
        "copy",
        "Copies a file.",
        &[
            FROM,
            TO,
            CHECKED,
            or("limit", Integer, "8589934592", "A file with more bytes is refused."),
            OVERWRITE,
            IN_PLACE,
            CREATE_PARENTS,
            DURABILITY,
            IF_UNCHANGED,
        ],
        change::copy,
    ),
    operation(
        "symlink",
        "Creates a symlink whose target is inside the roots.",
        &[PATH, required("target", Bytes, "The text of the symlink.")],
        change::symlink,
    ),
    operation(
        "hard_link",
        "Gives a file another name in the same root.",
        &[FROM, TO],
        change::hard_link,
    ),
    operation(
        "set_attribute",
        "Sets an attribute of a file or directory.",
        &[
            PATH,
            required("attribute", Choice(ATTRIBUTES), "The attribute."),
            or("time", Time, "0", "The time, for `modified` and `accessed`."),
        ],
        change::set_attribute,
    ),
    operation("remove_file", "Removes a file or a symlink.", &[PATH, CHECKED], change::remove_file),
    operation("remove_dir", "Removes an empty directory.", &[PATH, CHECKED], change::remove_dir),
    operation(
        "remove_dir_all",
        "Removes a directory and its content.",
        &[PATH, CHECKED],
        change::remove_dir_all,
    ),
];
