"""Measures the start and the memory of file servers: footprint.py COMMAND...

Prints a table with a row for each command. If the first one is this server, prints a
second table: its memory over HTTP with 0 and with 1,000 sessions. Each of these clients has listed
a root and read a file. Memory is Pss, the proportional share of what the process has in memory
(proc(5), smaps_rollup), in MiB.
"""

import http.client
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from servers import INSIDE, Server, said, title

STARTS = 9
SESSIONS = 1000


def memory(process):
    """Returns the memory of a process and its descendants."""
    children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
    rollup = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    own = int(re.search(r"^Pss: +(\d+) kB", rollup, re.MULTILINE)[1]) / 1024
    return own + sum(memory(child) for child in children)


def planted(directory):
    """Creates a tree in a new directory, because some servers keep files of their own there."""
    tree = pathlib.Path(tempfile.mkdtemp(dir=directory)).resolve()
    (tree / "op").mkdir()
    (tree / "op/f").write_text(INSIDE)
    return tree


def start(command, tree):
    """Returns the milliseconds to the first response, and the memory after a call."""
    begin = time.monotonic()
    with Server(command, tree) as server:
        took = (time.monotonic() - begin) * 1000
        assert said(server.wait(server.open(tree / "op/f"))) == "reads"
        return took, memory(server.process.pid)


class Client:
    """A connection over HTTP, in this session or in a new one. `root` is the only root that the
    client lists."""

    def __init__(self, address, root, session=None):
        self.address, self.root, self.session = address, root, session or {}
        self.connection = http.client.HTTPConnection(address)

    def begin(self):
        client = {"name": "footprint", "version": "1"}
        capabilities = {"roots": {"listChanged": True}}
        hello = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client}
        response = self.post({"id": 0, "method": "initialize", "params": hello})
        response.read()
        self.session = {"Mcp-Session-Id": response.headers["Mcp-Session-Id"]}
        self.post({"method": "notifications/initialized"}).read()
        return self

    def post(self, message):
        accept = "application/json, text/event-stream"
        headers = {"Content-Type": "application/json", "Accept": accept, **self.session}
        body = json.dumps({"jsonrpc": "2.0", **message})
        self.connection.request("POST", "/mcp", body, headers)
        response = self.connection.getresponse()
        assert response.status < 300, (response.status, response.read())
        return response

    def read(self, path):
        """Reads a file. The server requests the roots on the stream of the call."""
        call = {"name": "read_text_file", "arguments": {"path": path}}
        stream = self.post({"id": 1, "method": "tools/call", "params": call})
        for line in stream:
            if not line.startswith(b"data: {"):
                continue
            message = json.loads(line[6:])
            if message.get("method") == "roots/list":
                other = Client(self.address, self.root, self.session)
                roots = {"roots": [{"uri": self.root}]}
                other.post({"id": message["id"], "result": roots}).read()
            elif message.get("id") == 1:
                return message
        raise AssertionError("no response")


def sessions(command, tree):
    """Returns the memory with each number of sessions."""
    program = [command, "--http", "127.0.0.1:0", "--max-sessions", str(SESSIONS), str(tree / "op")]
    server = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            if found := re.search(r"127\.0\.0\.1:\d+", line):
                break
        held = {0: memory(server.pid)}
        for number in range(SESSIONS):
            client = Client(found[0], (tree / "op").as_uri()).begin()
            assert said(client.read(str(tree / "op/f"))) == "reads"
            client.connection.close()
            if number == 0:
                held[1] = memory(server.pid)
        held[SESSIONS] = memory(server.pid)
        return held
    finally:
        server.kill()
        server.wait()


def main():
    commands = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="footprint-") as directory:
        print("| server | first response | memory |\n| --- | --- | --- |")
        for command in commands:
            starts = [start(command, planted(directory)) for _ in range(STARTS)]
            took, held = map(statistics.median, zip(*starts))
            print(f"| {title(command)} | {took:.0f} ms | {held:.0f} MiB |", flush=True)
        print("\n| sessions | memory |\n| --- | --- |")
        for number, held in sessions(commands[0], planted(directory)).items():
            print(f"| {number:,} | {held:.1f} MiB |")


if __name__ == "__main__":
    main()
