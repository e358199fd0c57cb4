"""A client that drives the server through ten calls in each era of the protocol.

client.py DIRECTORY COMMAND... drives the server that COMMAND starts, prints the time to its first
response, and fails if a response is not the expected one. DIRECTORY is an empty directory of this
system. With SEEN, the server knows it by this path.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

CLIENT = {"name": "rehearsal", "version": "1"}
STARTS = 5


class Server:
    """A running server. `sessions` selects the era: revision 2025-11-25, or 2026-07-28."""

    def __init__(self, command, sessions, environment=None):
        self.sessions, self.last = sessions, 0
        begin = time.monotonic()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=environment, **pipes)
        if sessions:
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
            answer = self.request("initialize", hello)
            assert answer["serverInfo"]["name"] == "mcp-filesystem-guarded", answer
            self.send({"method": "notifications/initialized"})
        else:
            answer = self.request("server/discover", {})
            assert "2026-07-28" in answer["supportedVersions"], answer
        self.milliseconds = (time.monotonic() - begin) * 1000

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        # A server ends when its client closes its input.
        _, errors = self.process.communicate(timeout=30)
        if failure[0]:
            sys.stderr.write(errors.decode(errors="replace"))
        else:
            assert self.process.returncode == 0, (self.process.returncode, errors)

    def send(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()

    def request(self, method, params):
        self.last += 1
        if not self.sessions:
            prefix = "io.modelcontextprotocol"
            meta = {f"{prefix}/protocolVersion": "2026-07-28", f"{prefix}/clientInfo": CLIENT}
            params = params | {"_meta": meta | {f"{prefix}/clientCapabilities": {}}}
        self.send({"id": self.last, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.last:
                assert "result" in message, message
                return message["result"]
        raise AssertionError(f"{method}: the server ended")

    def call(self, tool, expected, **arguments):
        """Calls a tool, whose text must contain `expected`."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        text = result["content"][0]["text"]
        is_refusal = "not inside the allowed directories" == expected
        assert expected in text and result.get("isError", False) == is_refusal, (tool, text)


def ten_calls(server, directory, seen, join=lambda *names: "/".join(names)):
    """`seen` is the server's path of `directory`."""
    at = lambda *names: join(seen, *names)
    edit = [{"oldText": "two", "newText": "three"}]
    server.call("list_allowed_directories", "Allowed directories")
    server.call("create_directory", "", path=at("notes"))
    server.call("write_file", "", path=at("notes", "a.txt"), content="one\ntwo\n")
    server.call("edit_file", "+three", path=at("notes", "a.txt"), edits=edit)
    server.call("read_text_file", "one\nthree", path=at("notes", "a.txt"))
    server.call("move_file", "", source=at("notes", "a.txt"), destination=at("notes", "b.txt"))
    server.call("list_directory", "[FILE] b.txt", path=at("notes"))
    server.call("search_files", "b.txt", path=seen, pattern="**/b.txt")
    server.call("search_content", "three", path=seen, pattern="thr.e")
    refusal = "not inside the allowed directories"
    server.call("read_text_file", refusal, path=at("..", "secret.txt"))
    written = directory / "notes/b.txt"
    assert written.read_bytes() == b"one\nthree\n"
    written.unlink()
    written.parent.rmdir()


def drive(command, directory, seen=None, environment=None, **options):
    """Drives a server in both eras, and returns the median of the times that it took to start."""
    for sessions in (True, False):
        with Server(command, sessions, environment) as server:
            ten_calls(server, directory, seen or str(directory), **options)
    starts = []
    for _ in range(STARTS):
        with Server(command, True, environment) as server:
            starts.append(server.milliseconds)
    return statistics.median(starts)


if __name__ == "__main__":
    directory, *command = sys.argv[1:]
    took = drive(command, pathlib.Path(directory).resolve(), os.environ.get("SEEN"))
    print(f"20 calls passed, and a start took {took:.0f} ms")
