"""Runs each row of servers.txt on several file servers over stdio, and compares the results with
the recorded ones.

servers.py COMMAND...: one command for each column. Each row gets its own tree and server process.
This script uses no SDK, because an SDK would not send messages in these orders or leave requests
unanswered."""

import ctypes
import functools
import json
import multiprocessing
import os
import pathlib
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time

# Seconds after which a call counts as unanswered. this server answers within
# milliseconds, except in one row, where it waits up to FETCH_LIMIT seconds for the client.
PATIENCE = 2.0
FETCH_LIMIT = 5.0
# Seconds within which the reference server applies a list that it has received.
SETTLED = 0.5
RACE_SECONDS = 10
INSIDE, OUTSIDE = "inside", "outside, and secret"


class Peer:
    """How to use a server like the reference server: with directories as arguments."""

    # Where the tools differ from the reference server's: the name, and arguments to add.
    tools = {}

    @staticmethod
    def set_up(_, directories):
        """Returns the arguments and the environment for these directories."""
        return directories, {}

    @staticmethod
    def content(text):
        """Returns a file's content from the text of a result."""
        return text


class DesktopCommander(Peer):
    """Has its directories in a configuration file below HOME. Nothing here makes it open the
    network: with these settings it sends no telemetry, fetches no feature flags, shows no welcome
    page, and finds a browser (an empty file) instead of downloading one."""

    tools = {
        "read_text_file": ("read_file", {}),
        "write_file": ("write_file", {"mode": "rewrite"}),
        "list_allowed_directories": ("get_config", {}),
    }

    @staticmethod
    def set_up(tree, directories):
        home = tree / "home"
        settings = home / ".claude-server-commander"
        browser = settings / "puppeteer-cache/chrome/none/chrome-linux64/chrome"
        browser.parent.mkdir(parents=True)
        browser.touch()
        allowed = {"allowedDirectories": list(map(str, directories)), "telemetryEnabled": False}
        (settings / "config.json").write_text(json.dumps(allowed))
        offline = {"DESKTOP_COMMANDER_DISABLE_TELEMETRY": "1", "DC_FLAG_URL": "data:,{}"}
        return ["--no-onboarding"], {"HOME": str(home), **offline}

    @staticmethod
    def content(text):
        return re.sub(r"\A\[Reading [^\n]*\]\n\n", "", text)


PEERS = {"desktop-commander": DesktopCommander}


class Server:
    """A server process and its only client.

    `roots` is the client's list, ERROR if the client responds with an error, NO_ANSWER if it does
    not respond, or None if it does not declare roots. The client's roots narrow the directories in
    `narrowed`. They should not narrow those in `always`, but only this one has an
    option for that."""

    def __init__(self, command, tree, roots=None, delay=0.0, narrowed=("op",), always=()):
        self.tree, self.roots, self.delay = tree, roots, delay
        self.peer = PEERS.get(title(command), Peer)
        directories = [tree / directory for directory in narrowed]
        for directory in always:
            if title(command) == "mcp-filesystem-guarded":
                directories.append("--always-dir")
            directories.append(tree / directory)
        arguments, environment = self.peer.set_up(tree, directories)
        self.process = subprocess.Popen(
            [*command.split(), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tree,
            env={**os.environ, **environment},
        )
        self.answers, self.waiting, self.last, self.lock = {}, {}, 0, threading.Lock()
        # The size of the requests and responses so far.
        self.bytes = 0
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        capabilities = {} if roots is None else {"roots": {"listChanged": True}}
        client = {"name": "servers", "version": "1"}
        hello = {"capabilities": capabilities, "clientInfo": client}
        assert self.wait(self.ask("initialize", protocolVersion="2025-11-25", **hello), 20)
        self.tell("notifications/initialized")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def send(self, **message):
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self.lock:
            self.bytes += len(line)
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def ask(self, method, **params):
        self.last += 1
        self.waiting[self.last] = queue.Queue()
        self.send(id=self.last, method=method, params=params)
        return self.last

    def tell(self, method):
        self.send(method=method)

    def wait(self, number, seconds=PATIENCE):
        try:
            answer = self.waiting[number].get(timeout=seconds)
        except queue.Empty:
            return None
        for block in answer.get("result", {}).get("content", []):
            block["text"] = self.peer.content(block["text"])
        return answer

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("method") == "roots/list":
                threading.Timer(self.delay, self.answer, [message["id"]]).start()
            elif message.get("method") is None:
                self.bytes += len(line)
                self.waiting[message["id"]].put(message)

    def answer(self, number):
        roots = self.roots
        try:
            if roots is ERROR:
                self.send(id=number, error={"code": -32603, "message": "not now"})
            elif roots is not NO_ANSWER:
                listed = [{"uri": uri(self.tree, root)} for root in roots]
                self.send(id=number, result={"roots": listed})
        except (BrokenPipeError, ValueError):
            pass  # the server exited before the response

    def call(self, tool, **arguments):
        name, added = self.peer.tools.get(tool, (tool, {}))
        return self.ask("tools/call", name=name, arguments={**added, **arguments})

    def open(self, path):
        return self.call("read_text_file", path=str(path))

    def refusal(self, path):
        answer = self.wait(self.open(path))
        assert answer["result"]["isError"], answer
        return answer["result"]["content"][0]["text"]

    def settle(self):
        """Waits until the client's list is in force. The reference server may request the list
        late."""
        assert self.wait(self.call("list_allowed_directories"), FETCH_LIMIT + PATIENCE)
        time.sleep(SETTLED)
        return self


ERROR, NO_ANSWER = "an error", "no answer"


def title(command):
    return pathlib.Path(command.split(" -")[0]).name


def uri(tree, root):
    return root if root.startswith("file:") else (tree / root).as_uri()


def said(answer):
    """Returns the result of a call, in the terms of servers.txt."""
    if answer is None:
        return "no response"
    result = answer.get("result", {"isError": True})
    if result.get("isError"):
        return "refused"
    text = result["content"][0]["text"].strip()
    return {INSIDE: "reads", OUTSIDE: "reads outside"}.get(text, text)


ROWS = {}


def row(name):
    return lambda function: ROWS.setdefault(name, function)


@row("a symlink to a file outside")
def link_out(start, tree):
    (tree / "op/a/l").symlink_to("../../secret")
    with start() as server:
        return said(server.wait(server.open(tree / "op/a/l")))


@row("an absolute symlink to a file inside")
def link_inside(start, tree):
    (tree / "op/a/l").symlink_to(tree / "op/a/f")
    with start() as server:
        return said(server.wait(server.open(tree / "op/a/l")))


@row("a `file:` URI as a path")
def file_uri(start, tree):
    with start() as server:
        return said(server.wait(server.open((tree / "op/a/f").as_uri())))


@row("a file that is exchanged with a symlink to the outside during the read")
def swapped(start, tree):
    (tree / "op/a/other").symlink_to(tree / "secret")
    names = (tree / "op/a/f", tree / "op/a/other")
    swapper = multiprocessing.Process(target=exchange, args=names, daemon=True)
    with start() as server:
        swapper.start()
        counts, end = {}, time.monotonic() + RACE_SECONDS
        while time.monotonic() < end:
            came = said(server.wait(server.open(tree / "op/a/f")))
            counts[came] = counts.get(came, 0) + 1
        swapper.kill()
        swapper.join()
    print(f"     {sum(counts.values())} reads: {counts}")
    assert counts.get("reads") and counts.get("refused"), "nothing was raced"
    return "reads outside" if "reads outside" in counts else "never reads outside"


def exchange(one, other):
    libc, here, both = ctypes.CDLL(None, use_errno=True), -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    one, other = os.fsencode(one), os.fsencode(other)
    while libc.renameat2(here, one, here, other, both) == 0:
        pass


@row("writing through a dangling symlink to a path outside")
def dangling(start, tree):
    (tree / "op/a/l").symlink_to("../../new")
    with start() as server:
        answer = server.wait(server.call("write_file", path=str(tree / "op/a/l"), content=OUTSIDE))
    if (tree / "new").exists():
        return "writes outside"
    return "refused" if answer["result"].get("isError") else "writes inside"


@row("writing `.git/hooks/pre-commit`, which git would run")
def hook(start, tree):
    (tree / "op/.git/hooks").mkdir(parents=True)
    path = tree / "op/.git/hooks/pre-commit"
    with start() as server:
        answer = server.wait(server.call("write_file", path=str(path), content="#!/bin/sh"))
    return "writes" if path.exists() else said(answer)


@row("renaming a directory to `.git`")
def renamed(start, tree):
    target = tree / "op/.git"
    with start() as server:
        paths = {"source": str(tree / "op/a"), "destination": str(target)}
        answer = server.wait(server.call("move_file", **paths))
    return "renames" if target.exists() else said(answer)


@row("overwriting a file that another process is reading")
def overwrite(start, tree):
    with start() as server, open(tree / "op/a/f", encoding="utf-8") as held:
        written = server.wait(server.call("write_file", path=str(tree / "op/a/f"), content="new"))
        assert not written["result"].get("isError")
        assert (tree / "op/a/f").read_text() == "new"
        return "replaced atomically" if held.read() == INSIDE else "truncated, then written"


@row("a FIFO without a writer")
def fifo(start, tree):
    os.mkfifo(tree / "op/a/p")
    with start() as server:
        return said(server.wait(server.open(tree / "op/a/p")))


@row("any other file, after four reads of a FIFO")
def fifos(start, tree):
    os.mkfifo(tree / "op/a/p")
    with start() as server:
        for _ in range(4):
            server.open(tree / "op/a/p")
        time.sleep(SETTLED)
        return said(server.wait(server.open(tree / "op/a/f")))


@row("the error for a symlink to the outside, if its target is then removed")
def oracle(start, tree):
    (tree / "op/a/l").symlink_to("../../secret")
    with start() as server:
        there = server.refusal(tree / "op/a/l")
        (tree / "secret").unlink()
        return "same error" if there == server.refusal(tree / "op/a/l") else "different error"


@row("the error text for a symlink to a file outside")
def tells(start, tree):
    (tree / "op/a/l").symlink_to("../../secret")
    with start() as server:
        text = server.refusal(tree / "op/a/l").replace(str(tree / "op/a/l"), "")
        return "reveals the target" if str(tree / "secret") in text else "reveals paths" if str(tree) in text else "names only the request"


@row("a client that does not declare roots")
def no_capability(start, tree):
    with start() as server:
        return said(server.wait(server.open(tree / "op/a/f")))


@row("a file outside the client's narrower roots")
def narrow(start, tree):
    with start(["op/a"]) as server:
        server.settle()
        return said(server.wait(server.open(tree / "op/b/f")))


@row("a root list wider than the allowed directory")
def wider(start, tree):
    with start(["file:///"]) as server:
        server.settle()
        return said(server.wait(server.open(tree / "secret")))


@row("an empty root list")
def empty(start, tree):
    with start([]) as server:
        server.settle()
        return said(server.wait(server.open(tree / "op/a/f")))


# https://github.com/modelcontextprotocol/servers/issues/3602
@row("a second allowed directory, if the client lists only the first")
def second(start, tree):
    with start(["op"], always=["external"]) as server:
        server.settle()
        assert said(server.wait(server.open(tree / "op/a/f"))) == "reads"
        return said(server.wait(server.open(tree / "external/f")))


# https://github.com/modelcontextprotocol/servers/issues/3929
@row("the only allowed directory, if the client lists a different one")
def only(start, tree):
    with start(["op"], narrowed=[], always=["external"]) as server:
        server.settle()
        return said(server.wait(server.open(tree / "external/f")))


@row("an error in response to `roots/list`")
def error(start, tree):
    with start(ERROR) as server:
        server.settle()
        return said(server.wait(server.open(tree / "op/a/f")))


@row("a file outside the client's roots, before the client sends them")
def early(start, tree):
    with start(["op/a"], 1.0) as server:
        return said(server.wait(server.open(tree / "op/b/f")))


@row("a withdrawn root, immediately after `list_changed`")
def withdrawn(start, tree):
    with start(["op/a", "op/b"]) as server:
        server.settle()
        assert said(server.wait(server.open(tree / "op/a/f"))) == "reads"
        server.roots = ["op/b"]
        server.tell("notifications/roots/list_changed")
        return said(server.wait(server.open(tree / "op/a/f")))


@row("a withdrawn root, if the client does not send its new list")
def unsaid(start, tree):
    with start(["op/a", "op/b"]) as server:
        server.settle()
        server.roots = NO_ANSWER
        server.tell("notifications/roots/list_changed")
        time.sleep(SETTLED)
        return said(server.wait(server.open(tree / "op/a/f"), FETCH_LIMIT + PATIENCE))


@row("a withdrawn root, if the new list is empty")
def emptied(start, tree):
    with start(["op/a", "op/b"]) as server:
        server.settle()
        server.roots = []
        server.tell("notifications/roots/list_changed")
        time.sleep(SETTLED)
        return said(server.wait(server.open(tree / "op/a/f")))


def run(name, command):
    with tempfile.TemporaryDirectory(prefix="servers-") as directory:
        tree = pathlib.Path(directory).resolve()
        for inside in ("op/a", "op/b", "external"):
            (tree / inside).mkdir(parents=True)
            (tree / inside / "f").write_text(INSIDE)
        (tree / "secret").write_text(OUTSIDE)
        return ROWS[name](functools.partial(Server, command, tree), tree)


def main():
    commands = sys.argv[1:]
    data = (pathlib.Path(__file__).parent / "servers.txt").read_text().splitlines()
    lines = [line for line in data if not line.startswith("#")]
    table = [[cell.strip() for cell in line.split("|")] for line in lines]
    said_of = {name: cells for name, *cells in table}
    differ = 0
    for name in ROWS:
        for column, command in enumerate(commands):
            expected = said_of.get(name, ["nothing"] * len(commands))[column]
            seen = run(name, command)
            is_so = seen == expected.removesuffix(" (documented)")
            differ += not is_so
            instead = "" if is_so else f"; servers.txt expects: {expected}"
            mark = "ok  " if is_so else "FAIL"
            print(f"{mark} {name} | {title(command)}: {seen}{instead}", flush=True)
    unknown = said_of.keys() - ROWS.keys()
    print(f"servers: {len(ROWS)} rows of {len(commands)} servers, {differ} results differ")
    for name in unknown:
        print(f"FAIL not run: {name}")
    sys.exit(bool(differ or unknown))


if __name__ == "__main__":
    main()
