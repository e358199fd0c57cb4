"""Performs twenty tasks of a coding agent on file servers over stdio, and prints a table with the
number of calls and the bytes of their messages.

tasks.py COMMAND...: this server, the reference server, rust-mcp-filesystem and DesktopCommander.
agents.py says what an agent does with the tools of each. A task is done only if its outcome is
right: on disk, or in what the agent then knows. Exits with 1 if this server does not do one.
"""

import pathlib
import re
import sys
import tempfile

from agents import PART, Agent, Cannot, DesktopCommander, Guarded, RustServer
from servers import Server

AGENTS = Guarded, Agent, RustServer, DesktopCommander
ENTRIES = 30_000
LOG = [f"{number:07} INFO {'request served; ' * 5}" for number in range(1, 210_001)]
LONG = "".join(f"f({number:06});" for number in range(300_000))
COLUMN = 1_500_001
WANTED = r"fn wanted\b"
FIRST, SECOND = r"#\[must_use\]", r"fn helper"
STOP = "\npub fn stop() {\n    std::process::exit(0);\n}\n"
LIB = [("    let a = 1;", "    let a = 10;"), ("    let b = 2;", "    let b = 20;")]
MAIN = [("    one();", "    open();"), ("    two();", "    work();"),
        ("    three();", "    close();")]


def planted(top):
    """Creates the files that the tasks name."""
    def plant(name, text):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    for module in range(200):
        lines = [f"    let value_{module}_{at} = compute({at}, input);" for at in range(100)]
        lines[3:5] = "#[must_use]", "fn helper() {" if module == 42 else "pub fn public() {"
        lines[90] = "fn helper() {"
        if module % 10 == 7:
            lines[20] = lines[30] = "    // TODO: handle the error"
        if module in (10, 20, 30):
            lines[50 : 50 + module // 10] = ["    add(old_total);"] * (module // 10)
        if module == 137:
            lines[70] = "fn wanted(input: &str) {"
        plant(f"src/m{module:03}.rs", "\n".join(lines) + "\n")
    plant("src/notes.md", "TODO: explain the modules\n")
    (top / "app/.git").mkdir(parents=True)
    plant("app/.gitignore", "target/\n")
    for number in range(40):
        todo = "TODO: test this\n" if number % 20 == 5 else "done\n"
        plant(f"app/src/a{number}.rs", todo)
        plant(f"app/target/debug/a{number}.rs", "TODO: generated\n" * 50)
        plant(f"packages/p{number:02}/src/deep/file.rs", "")
        plant(f"packages/p{number:02}/Cargo.toml", "")
    for number in range(ENTRIES):
        plant(f"names/n{number:05}.txt", "")
    plant("server.log", "\n".join(LOG) + "\n")
    plant("app.min.js", LONG)
    plant("work/config.toml", "[client]\nretries = 3\n\n[server]\nretries = 3\n")
    for name, edits in (("lib", LIB), ("main", MAIN)):
        body = "\n".join(f"{old}\n    log();" for old, _ in edits)
        plant(f"work/{name}.rs", f"pub fn start() {{\n{body}\n}} // {name}\n")
    plant("work/run.sh", "#!/bin/sh\nset -e\ncargo test\n")
    (top / "work/run.sh").chmod(0o755)
    for name in ("mod", "read", "write", "frame"):
        plant(f"work/codec/{name}.rs", f"//! {name}\n" + "use std::io;\n" * 100)
        plant(f"work/old/{name}/{name}.rs", name)
    plant("work/plan.md", "# Plan\n")


def tasks(agent, top):
    """Returns each task: its title, and a function that performs it, and returns whether the
    outcome is right."""
    src, app, work, log = top / "src", top / "app", top / "work", top / "server.log"
    matches = {word: grep(top, src, word) for word in (WANTED, "TODO", "old_total")}
    [(module, [line])] = matches[WANTED].items()
    around = (top / module).read_text().splitlines()[line - 21 : line + 20]

    def gives(expected, perform, *arguments):
        return lambda: perform(*arguments) == expected

    def shows(lines, perform, *arguments):
        def outcome():
            said = perform(*arguments)
            return all(line in said for line in lines)
        return outcome

    def changes(change, perform, *arguments):
        """Whether only the files that `change` changes in a copy of the contents are changed."""
        def outcome():
            expected = contents(top)
            change(expected)
            perform(*arguments)
            return contents(top) == expected
        return outcome

    def replaced(edits, *names):
        def change(files):
            for name in names:
                mode, text = files[name]
                for old, new in edits:
                    text = text.replace(old, new)
                files[name] = mode, text
        return change

    def moved(files):
        files["work/archive"] = files["work/archive/2026"] = files["work"]
        files["work/archive/2026/plan.md"] = files.pop("work/plan.md")

    def copied(files):
        for name in [name for name in files if name.startswith("work/codec")]:
            files[name.replace("codec", "frames")] = files[name]

    def deleted(files):
        for name in [name for name in files if name.startswith("work/old")]:
            del files[name]

    def foreign():
        (work / "main.rs").write_text((work / "main.rs").read_text() + "// by another program\n")

    todos = {name: len(lines) for name, lines in matches["TODO"].items()}
    second = [("[server]\nretries = 3", "[server]\nretries = 5")]
    appended = [("} // lib\n", "} // lib\n" + STOP)]
    return [
        ("find where a function is defined", gives(matches[WANTED], agent.search, src, WANTED)),
        ("read the 20 lines on both sides of it", shows(around, agent.around, src, WANTED, 20)),
        ("find all TODOs in the Rust files", gives(
            grep(top, src, "TODO", ".rs"), agent.search, src, "TODO", ".rs")),
        ("count the TODOs in each file", gives(todos, agent.count, src, "TODO")),
        ("find all TODOs outside of what git ignores", gives(
            grep(top, app / "src", "TODO"), agent.search, app, "TODO")),
        ("find two lines that follow each other", gives(
            {"src/m042.rs": [4]}, agent.pair, src, FIRST, SECOND)),
        ("read the last 50 lines of a log of 20 MB", shows(LOG[-50:], agent.tail, log, 50)),
        ("read 40 lines in its middle", shows(
            LOG[99_999:100_039], agent.lines, log, 100_000, 40)),
        ("read 400 characters in a line of 3 MB", gives(
            LONG[COLUMN - 1 :][:PART], agent.part, top / "app.min.js", COLUMN)),
        ("list a directory with 30,000 names", shows(
            [f"n{number:05}.txt" for number in range(ENTRIES)], agent.list, top / "names")),
        ("show a tree, two levels deep", shows(
            [f"p{number:02}" for number in range(40)] + ["Cargo.toml", "src"],
            agent.tree, top / "packages")),
        ("rename an identifier in the three files that use it", changes(
            replaced([("old_total", "sum")], *matches["old_total"]),
            agent.rename, src, "old_total", "sum")),
        ("replace a line where it occurs the second time", changes(
            replaced(second, "work/config.toml"),
            agent.edit_occurrence, work / "config.toml", "retries = 3", "retries = 5", 2)),
        ("add a function at the end of a file", changes(
            replaced(appended, "work/lib.rs"), agent.append, work / "lib.rs", STOP)),
        ("change two files in five places", changes(
            replaced(LIB + MAIN, "work/lib.rs", "work/main.rs"),
            agent.patch, {work / "lib.rs": LIB, work / "main.rs": MAIN})),
        ("change a script, which stays executable", changes(
            replaced([("cargo test", "cargo check")], "work/run.sh"),
            agent.edit, work / "run.sh", ("cargo test", "cargo check"))),
        ("notice that a file changed after it was read", gives(
            True, agent.notices, work / "main.rs", foreign)),
        ("copy a directory of four files", changes(
            copied, agent.copy, work / "codec", work / "frames")),
        ("move a file into a new directory", changes(
            moved, agent.move, work / "plan.md", work / "archive/2026/plan.md")),
        ("delete a directory with its files", changes(deleted, agent.delete, work / "old")),
    ]


def grep(top, directory, pattern, suffix=""):
    """The numbers of the lines that match, by the path of their file."""
    found = {}
    for path in sorted(directory.rglob(f"*{suffix}")):
        lines = enumerate(path.read_text().splitlines() if path.is_file() else [], 1)
        if numbers := [at for at, line in lines if re.search(pattern, line)]:
            found[str(path.relative_to(top))] = numbers
    return found


def contents(top):
    """The modes of all files in the directories that tasks change, and the texts, by path."""
    paths = [path for part in ("src", "work") for path in [top / part, *(top / part).rglob("*")]]
    return {str(path.relative_to(top)): (
        path.stat().st_mode, path.read_text() if path.is_file() else None) for path in paths}


def measure(agent, task):
    """Returns the calls and the bytes, or why the task is not done."""
    agent.calls, before = 0, agent.server.bytes
    try:
        if not task():
            return "the outcome is wrong"
    except Cannot as refusal:
        return str(refusal)
    return agent.calls, agent.server.bytes - before


def cell(calls, size):
    return f"{calls:,}, {size / 1e6:,.1f} MB" if size >= 1e6 else f"{calls:,}, {size / 1e3:.1f} KB"


def main():
    columns = []
    for command, kind in zip(sys.argv[1:], AGENTS, strict=True):
        with tempfile.TemporaryDirectory(prefix="tasks-") as directory:
            tree = pathlib.Path(directory).resolve()
            planted(tree / "op")
            with Server(command, tree) as server:
                agent = kind(server, tree / "op")
                columns.append({title: measure(agent, task)
                                for title, task in tasks(agent, tree / "op")})
    everyone = [title for title in columns[0]
                if not any(isinstance(column[title], str) for column in columns)]
    print("| task |", " | ".join(kind.__name__ for kind in AGENTS), "|")
    print("| --- " * (1 + len(AGENTS)) + "|")
    for title in columns[0]:
        cells = [column[title] for column in columns]
        print(f"| {title} |", " | ".join(
            "-" if isinstance(it, str) else cell(*it) for it in cells), "|")
    sums = [[sum(part) for part in zip(*[column[title] for title in everyone])]
            for column in columns]
    print(f"| the {len(everyone)} that all can do |", " | ".join(cell(*it) for it in sums), "|")
    for kind, column in zip(AGENTS, columns):
        for title, why in column.items():
            if isinstance(why, str):
                print(f"{kind.__name__}: {title}: {why}", file=sys.stderr)
    sys.exit(any(isinstance(it, str) for it in columns[0].values()))


if __name__ == "__main__":
    main()
