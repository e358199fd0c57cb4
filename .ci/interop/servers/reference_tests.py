"""Runs the cases of the reference server's own tests on a file server over stdio.

reference_tests.py COMMAND CASES: CASES is a JSON file with the cases. In each case, a server allows
some directories, and a request is expected to be allowed, denied, or an error of the operation.
Each case gets its own tree and server process. All paths are below the top of that tree instead of
`/`.

A request that is expected to be denied names a file that exists, unless no such file can be
created, so that a server without a check would serve it. Exits with 1 if a result differs from the
expected one, except for those in DIFFERENT.
"""

import json
import os
import pathlib
import sys
import tempfile

from servers import Server

# The cases in which the server is meant to do something else.
DIFFERENT = {
    "pvfs-004": "a path through a symlink outside is outside, unless it is an alias",
    "pvfs-006": "the reference server compares paths as written, this one compares the real paths",
    "pvfs-022": "the test calls rename(2), and the tool refuses to replace an existing file",
    "roots-039": "a client's root can be a file",
}


def below(top, path):
    """Moves an absolute path or URI below `top`."""
    if path.startswith("file:///"):
        return "file://" + top + path.removeprefix("file://")
    return top + path if path.startswith("/") else path


def build(case, top):
    """Creates the case's files, its allowed directories, and the file that it requests."""
    for entry in case["needs_fs"]:
        path = pathlib.Path(below(top, entry["path"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry["type"] == "dir":
            path.mkdir(exist_ok=True)
        elif entry["type"] == "file":
            path.write_text(entry.get("content", "content"))
        else:
            # The cases of a race plant a symlink between the check and the use. To this server, it
            # makes no difference when before the use that happens.
            path.unlink(missing_ok=True)
            path.symlink_to(below(top, entry["target"]))
    if case["kind"] == "root-uri":
        return
    roots = [os.path.join(top, below(top, root)) for root in case["allowed_roots"]]
    for root in roots:
        os.makedirs(root, exist_ok=True)
    if case["kind"] == "lexical":
        # A relative path starts at the first directory.
        wanted = os.path.join(roots[0] if roots else top, below(top, case["request"]))
        wanted = os.path.normpath(wanted)
        try:
            os.makedirs(os.path.dirname(wanted), exist_ok=True)
            if not os.path.exists(wanted):
                pathlib.Path(wanted).write_text("content")
        except (OSError, ValueError):
            pass  # no file can have this name


def snapshot(top):
    """Returns the files of the tree with their contents."""
    paths = sorted(pathlib.Path(top).rglob("*"))
    return {path: path.read_bytes() for path in paths if path.is_file() and not path.is_symlink()}


def outcome(case, command, top):
    roots, request = case["allowed_roots"], case["request"]
    if isinstance(request, str):
        request = below(top, request)
    tool, arguments = "get_file_info", {"path": request}
    match case.get("op"):
        case "read":
            tool = "read_text_file"
        case "create" | "write" | "create_exclusive":
            tool, arguments["content"] = "write_file", "new"
        case "mkdir":
            tool = "create_directory"
        case "rename_over":
            source = os.path.join(os.path.dirname(request), "temp.txt")
            tool, arguments = "move_file", {"source": source, "destination": request}
    if case["kind"] == "root-uri":
        listed = [below(top, root) for root in roots]
        server = Server(command, pathlib.Path(top), roots=listed, narrowed=())
        arguments["path"] = request.removeprefix("file://")
    else:
        directories = [below(top, root) for root in roots]
        server = Server(command, pathlib.Path(top), narrowed=directories)
    with server:
        answer = server.wait(server.call(tool, **arguments))
        assert answer, "no response"
        # A server that ended after the call does not respond to this one.
        assert server.wait(server.call("list_allowed_directories")), "the server has ended"
    return not answer.get("result", {"isError": True}).get("isError")


def is_supported(case):
    """Windows is not, and neither are directories that cannot be arguments, and roots that are not
    URIs."""
    roots = case["allowed_roots"]
    if case["platform"] == "windows" or not all(isinstance(root, str) for root in roots or [0]):
        return False
    if case["kind"] == "root-uri":
        return case["request"].startswith("file:")
    return all(root and "\0" not in root for root in roots)


def check(case, command):
    """Returns what is wrong, or an empty text."""
    with tempfile.TemporaryDirectory(prefix="reference-") as directory:
        top = os.path.realpath(directory)
        build(case, top)
        before = snapshot(top)
        try:
            is_allowed = outcome(case, command, top)
        except AssertionError as error:
            return f"failed: {error}"
        if not is_allowed and snapshot(top) != before:
            return "a refused request changed a file"
        is_different = case["id"] in DIFFERENT
        if (is_allowed == (case["expected"] == "allowed")) == is_different:
            seen = "allowed" if is_allowed else "refused"
            return f"expected {'not ' if is_different else ''}{case['expected']}, seen {seen}"
        return ""


def main():
    # The deepest tree has 1,000 directories.
    sys.setrecursionlimit(10_000)
    command, path = sys.argv[1:]
    cases = json.loads(pathlib.Path(path).read_text())["cases"]
    supported = [case for case in cases if is_supported(case)]
    failed = 0
    for case in supported:
        if wrong := check(case, command):
            failed += 1
            print(f"FAIL {case['id']} ({case['note']}): {wrong}")
    different = sum(case["id"] in DIFFERENT for case in supported)
    print(
        f"reference tests: {len(supported)} cases, of which {different} differ on purpose, "
        f"{failed} failed, {len(cases) - len(supported)} not supported here"
    )
    sys.exit(bool(failed or not supported))


if __name__ == "__main__":
    main()
