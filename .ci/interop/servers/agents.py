"""What a coding agent does with the tools of a file server, with the fewest calls that they allow.

The agent knows the paths that it passes here, and not what the files contain. Methods return what
it then knows: for a search, the numbers of the lines that match by the path of their file. What a
server has no tool for, the agent does itself, as a model would with the text that it received.
"""

import pathlib
import re
import time

PATIENCE = 60.0
PART = 400


class Cannot(Exception):
    """The server has no tool for this, or refuses it."""


class Agent:
    """Uses the tools that the reference server and rust-mcp-filesystem have in common."""

    read_many = "read_multiple_files"

    def __init__(self, server, top):
        self.server, self.top, self.calls = server, top, 0

    def ask(self, tool, **arguments):
        """Returns the text of the result, and whether it is an error."""
        plain = {name: str(it) if isinstance(it, pathlib.Path) else it
                 for name, it in arguments.items()}
        self.calls += 1
        answer = self.server.wait(self.server.call(tool, **plain), PATIENCE)
        if not answer or "error" in answer:
            return str(answer), True
        result = answer["result"]
        text = "\n".join(block["text"] for block in result["content"])
        return text, bool(result.get("isError"))

    def call(self, tool, **arguments):
        text, is_error = self.ask(tool, **arguments)
        if is_error:
            raise Cannot(f"{tool}: {text[:200]}")
        return text

    def relative(self, path):
        return str(pathlib.Path(path).relative_to(self.top))

    def search(self, path, pattern, suffix=""):
        """Without a tool, the agent reads all files."""
        found = {}
        for name, text in self.files(path).items():
            lines = [at for at, line in enumerate(text.split("\n"), 1) if re.search(pattern, line)]
            if lines and name.endswith(suffix):
                found[name] = lines
        return found

    def count(self, path, pattern):
        return {name: len(lines) for name, lines in self.search(path, pattern).items()}

    def pair(self, path, first, second):
        """The lines that match an expression, if the next line matches the second one."""
        found = self.search(path, f"{first}|{second}")
        pairs = {name: [at for at in lines if at + 1 in lines] for name, lines in found.items()}
        return {name: lines for name, lines in pairs.items() if lines}

    def around(self, path, pattern, lines):
        [(name, [line])] = self.search(path, pattern).items()
        return self.lines(self.top / name, line - lines, 2 * lines + 1)

    def read(self, path):
        return self.call("read_text_file", path=path)

    def lines(self, path, first, count):
        said = self.call("read_text_file", path=path, head=first + count - 1)
        return "\n".join(said.split("\n")[first - 1 :])

    def tail(self, path, count):
        # A newline at the end of a file starts an empty line.
        return self.call("read_text_file", path=path, tail=count + 1)

    def part(self, path, column):
        return self.read(path)[column - 1 :][:PART]

    def files(self, path):
        """The texts of all files in a directory."""
        omitted = self.ignored(path)
        found = self.call("search_files", path=path, pattern="**/*.*", **omitted).splitlines()
        said = self.call(self.read_many, paths=found).removesuffix("\n")
        parts = re.split(r"(?:\A|\n\n---\n)(/[^\n]*):\n", said)[1:]
        return dict(zip(map(self.relative, parts[::2]), parts[1::2]))

    def ignored(self, path):
        """What git ignores, which is in a file that the agent reads first."""
        if not (path / ".gitignore").exists():
            return {}
        names = self.read(path / ".gitignore").split()
        return {"excludePatterns": [f"**/{name.strip('/')}/**" for name in names]}

    def list(self, path):
        return self.call("list_directory", path=path)

    def tree(self, path):
        return self.call("directory_tree", path=path)

    def edit(self, path, *edits):
        edits = [{"oldText": old, "newText": new} for old, new in edits]
        self.call("edit_file", path=path, edits=edits)

    def edit_occurrence(self, path, old, new, number):
        """The agent reads the file to find the line before, which makes the text unique."""
        lines = self.read(path).split("\n")
        before = lines[[at for at, line in enumerate(lines) if line == old][number - 1] - 1]
        self.edit(path, (f"{before}\n{old}", f"{before}\n{new}"))

    def rename(self, path, old, new):
        for name, lines in self.search(path, old).items():
            self.edit(self.top / name, *[(old, new)] * len(lines))

    def append(self, path, text):
        last = self.tail(path, 2)
        self.edit(path, (last, last + text))

    def patch(self, changes):
        for path, edits in changes.items():
            self.edit(path, *edits)

    def notices(self, path, change):
        """Whether the agent notices that another program changes the file after it was read."""
        before = self.call("get_file_info", path=path)
        self.read(path)
        change()
        return self.call("get_file_info", path=path) != before

    def copy(self, source, target):
        texts = self.files(source)
        self.call("create_directory", path=target)
        for name, text in texts.items():
            self.call("write_file", path=target / pathlib.Path(name).name, content=text)

    def move(self, source, target):
        self.call("create_directory", path=target.parent)
        self.call("move_file", source=source, destination=target)

    def delete(self, _):
        raise Cannot("it has no tool")


class RustServer(Agent):
    read_many = "read_multiple_text_files"

    def search(self, path, pattern, suffix=""):
        omitted, files = self.ignored(path), f"**/*{suffix}"
        said = self.call("search_files_content", path=path, pattern=files, query=pattern,
                         is_regex=True, **omitted)
        found = {}
        for line in said.splitlines():
            if number := re.match(r"  (\d+):\d+: ", line):
                found[name].append(int(number[1]))
            elif line:
                found[name := self.relative(line)] = []
        return found

    def lines(self, path, first, count):
        return self.call("read_file_lines", path=path, offset=first - 1, limit=count)

    def tail(self, path, count):
        return self.call("tail_file", path=path, lines=count + 1)

    def tree(self, path):
        return self.call("directory_tree", path=path, max_depth=2)

    def rename(self, path, old, new):
        edits = [{"oldText": old, "newText": new}]
        for name in self.search(path, old):
            self.call("edit_file", path=self.top / name, edits=edits, replaceAll=True)


class DesktopCommander(Agent):
    def search(self, path, pattern, suffix=""):
        # Any pattern would include what git ignores.
        files = {"filePattern": f"*{suffix}"} if suffix else {}
        said = self.call("start_search", path=path, pattern=pattern, searchType="content",
                         contextLines=0, ignoreCase=False, **files)
        session = re.search(r"session: (\S+)", said)[1]
        while "Search completed" not in said or "more results" in said:
            time.sleep(1)
            said = self.call("get_more_search_results", sessionId=session, length=10_000)
        found = {}
        for name, line in re.findall(r"^📄 (.*?):(\d+) - ", said, re.MULTILINE):
            found.setdefault(self.relative(name), []).append(int(line))
        return found

    def read(self, path):
        return self.call("read_file", path=path)

    def lines(self, path, first, count):
        return self.call("read_file", path=path, offset=first - 1, length=count)

    def tail(self, path, count):
        return self.call("read_file", path=path, offset=-count - 1)

    def files(self, path):
        names = re.findall(r"^\[FILE\] (.*)", self.list(path), re.MULTILINE)
        said = self.call(self.read_many, paths=[str(path / name) for name in names])
        parts = re.split(r"\n--- (.*) contents: ---\n(?:\[Reading .*\]\n\n)?", said)[1:]
        # The last newline is left out.
        texts = [text.rstrip("\n") + "\n" for text in parts[1::2]]
        return dict(zip(map(self.relative, parts[::2]), texts))

    def list(self, path):
        return self.call("list_directory", path=path, depth=1)

    def tree(self, path):
        return self.call("list_directory", path=path, depth=2)

    def edit(self, path, *edits):
        for old, new in edits:
            self.call("edit_block", file_path=path, old_string=old, new_string=new)

    def rename(self, path, old, new):
        for name, lines in self.search(path, old).items():
            self.call("edit_block", file_path=self.top / name, old_string=old, new_string=new,
                      expected_replacements=len(lines))

    def append(self, path, text):
        self.call("write_file", path=path, content=text, mode="append")


class Guarded(Agent):
    def search(self, path, pattern, suffix="", **options):
        if suffix:
            options["globs"] = [f"*{suffix}"]
        said = self.call("search_content", path=path, pattern=pattern, limit=1000, **options)
        found = {}
        for name, number in re.findall(r"^([^\s:]+):(\d+)(?::|$)", said, re.MULTILINE):
            found.setdefault(name, []).append(int(number))
        return found

    def count(self, path, pattern):
        found = self.search(path, pattern, output="count")
        return {name: number for name, [number] in found.items()}

    def pair(self, path, first, second):
        found = self.search(path, f"{first}\n{second}", multiline=True)
        return {name: lines[::2] for name, lines in found.items()}

    def around(self, path, pattern, lines):
        return self.call("search_content", path=path, pattern=pattern, before=lines, after=lines)

    def lines(self, path, first, count):
        return self.call("read_text_file", path=path, offset=first, limit=count)

    def tail(self, path, count):
        return self.call("read_text_file", path=path, tail=count)

    def part(self, path, column):
        return self.call("read_text_file", path=path, column=column, length=PART)

    def list(self, path):
        pages = [self.call("list_directory", path=path)]
        while cursor := re.search(r'with cursor "(.*)"$', pages[-1]):
            pages.append(self.call("list_directory", path=path, cursor=cursor[1]))
        return "\n".join(pages)

    def tree(self, path):
        return self.call("directory_tree", path=path, depth=2)

    def edit_occurrence(self, path, old, new, number):
        edit = {"oldText": old, "newText": new, "occurrence": number}
        self.call("edit_file", path=path, edits=[edit])

    def rename(self, path, old, new):
        said = self.call("search_content", path=path, pattern=old, output="files")
        edit = {"oldText": old, "newText": new, "replaceAll": True}
        names = [name for name in said.splitlines() if ": " not in name]
        self.call("edit_files", files=[{"path": name, "edits": [edit]} for name in names])

    def append(self, path, text):
        self.call("append_file", path=path, content=text)

    def patch(self, changes):
        self.apply(*[line for path, edits in changes.items() for line in (
            f"*** Update File: {path}", *[f"@@\n-{old}\n+{new}" for old, new in edits])])

    def apply(self, *lines):
        patch = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
        self.call("apply_patch", patch=patch)

    def notices(self, path, change):
        said = self.call("read_text_file", path=path, withVersion=True)
        change()
        edit = {"oldText": "start", "newText": "begin"}
        version = said.rsplit("version: ", 1)[1]
        text, is_error = self.ask("edit_file", path=path, edits=[edit], version=version)
        return is_error and "has changed" in text

    def copy(self, source, target):
        self.call("copy_directory", source=source, destination=target)

    def move(self, source, target):
        self.apply(f"*** Update File: {source}", f"*** Move to: {target}")

    def delete(self, path):
        self.call("delete_path", path=path, recursive=True)
