"""Starts the file server and both proxies, and sends requests through each proxy.

The configurations are those in server/deploy. Only addresses, certificates and paths are replaced.
"""

import http.client
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
DEPLOY = REPOSITORY / "server/deploy"
HOST = "files.example.com"
# Longer than nginx keeps an idle connection to the server.
IDLE = 65


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def replaced(text, *pairs):
    """Replaces each pattern, which must occur."""
    for pattern, new in pairs:
        text, places = re.subn(pattern, new, text, flags=re.M)
        assert places, f"{pattern} does not occur"
    return text


def nginx(work, port):
    """The command of nginx for its site."""
    site = replaced(
        (DEPLOY / "nginx.conf").read_text(),
        (r"^ *ssl_.*\n", ""),
        (r"listen 443 ssl", f"listen 127.0.0.1:{port}"),
        (r"/run/mcp-files", str(work / "run")),
    )
    user = "user root;\n" if work.owner() == "root" else ""
    temporary = "".join(
        f"{kind}_temp_path {work}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = work / "nginx.conf"
    config.write_text(
        f"{user}daemon off;\npid {work}/nginx.pid;\nerror_log stderr warn;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{site}}}\n"
    )
    return ["nginx", "-p", str(work), "-c", str(config)]


def caddy(work, port):
    """The command of Caddy for its site."""
    site = replaced(
        (DEPLOY / "Caddyfile").read_text(),
        (rf"^{HOST} ", f"http://{HOST}:{port} "),
        (r"/run/mcp-files", str(work / "run")),
    )
    config = work / "Caddyfile"
    config.write_text(f"{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n}}\n{site}")
    return ["caddy", "run", "--config", str(config), "--adapter", "caddyfile"]


class Client:
    def __init__(self, port, token="CHANGE-ME"):
        self.port, self.token, self.session = port, token, None

    def headers(self):
        headers = {
            "Host": HOST,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        }
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        return headers

    def connect(self, method="POST", body=None, path="/mcp"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body and json.dumps(body), self.headers())
        return connection.getresponse()

    def call(self, method, params, number=1):
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        response = self.connect(body=body)
        self.session = response.getheader("Mcp-Session-Id") or self.session
        text = response.read().decode()
        if response.status != 200:
            return response.status
        data = [line[5:] for line in text.splitlines() if line.startswith("data:")]
        return json.loads([line for line in data if line.strip()][-1] if data else text)

    def notify(self, method):
        response = self.connect(body={"jsonrpc": "2.0", "method": method})
        response.read()
        assert response.status == 202, response.status

    def read(self, path):
        called = self.call("tools/call", {"name": "read_text_file", "arguments": {"path": path}})
        result = called["result"]
        return result["isError"], result["content"][0]["text"]


def check(name, port, served):
    who = {"name": name, "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who}
    for token in (None, "wrong", "CHANGE-ME2", "change-me", "XCHANGE-ME"):
        assert Client(port, token).call("initialize", hello) == 401, token
    assert Client(port).connect("GET", path="/health").status in (401, 404)
    client = Client(port)
    assert "serverInfo" in client.call("initialize", hello)["result"]
    client.notify("notifications/initialized")
    assert client.read("a.txt") == (False, "inside")
    is_error, text = client.read("/etc/passwd")
    assert is_error and "root:" not in text, text
    arguments = {"path": f"{name}.large", "content": "x" * (3 << 20)}
    large = {"name": "write_file", "arguments": arguments}
    assert not client.call("tools/call", large)["result"]["isError"]
    # A notification arrives although its response has not ended.
    uri = (served / f"{name}.txt").as_uri()
    stream = client.connect("GET")
    assert stream.status == 200, stream.status
    assert "result" in client.call("resources/subscribe", {"uri": uri})
    change = {"name": "write_file", "arguments": {"path": f"{name}.txt", "content": "new"}}
    client.call("tools/call", change)
    start = time.monotonic()
    for line in stream:
        if line.startswith(b"data:") and b"notifications/resources/updated" in line:
            break
    took = time.monotonic() - start
    assert took < 10, took
    time.sleep(IDLE)
    assert client.read("a.txt") == (False, "inside")
    # What keeps the stream open has arrived, so neither side has closed it.
    assert stream.fp.read1(1 << 10)
    print(f"{name}: refused without a token, served with it; a notification after {took:.1f} s; "
          f"served after {IDLE} s of silence")


def main(program):
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        served = work / "served"
        served.mkdir()
        (served / "a.txt").write_text("inside")
        for name in ("nginx", "caddy"):
            (served / f"{name}.txt").write_text("old")
        processes = []
        try:
            config = replaced(
                (DEPLOY / "mcp-files.toml").read_text(),
                (r"/srv/files", str(served)),
                (r"/run/mcp-files", str(work / "run")),
                (r"/var/log/mcp-files", str(work / "log")),
            )
            (work / "run").mkdir(0o700)
            (work / "log").mkdir(0o700)
            check_only = [program, "--check", "--confine", served]
            can_confine = subprocess.run(check_only, capture_output=True)
            if can_confine.returncode != 0:
                print("skipped: this kernel cannot confine the server")
                config = replaced(config, (r"^confine = true\n", ""))
            (work / "mcp-files.toml").write_text(config)
            processes.append(subprocess.Popen([program, "--config", str(work / "mcp-files.toml")]))
            wait_for(lambda: (work / "run/socket").exists())
            failures, threads = [], []
            for name, command in (("nginx", nginx), ("caddy", caddy)):
                port = free_port()
                env = {"HOME": directory, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
                processes.append(subprocess.Popen(command(work, port), env=env))
                wait_for(lambda port=port: not socket.socket().connect_ex(("127.0.0.1", port)))

                def run(name=name, port=port):
                    try:
                        check(name, port, served)
                    except BaseException as error:  # noqa: BLE001 - reported below
                        failures.append(f"{name}: {error!r}")
                        raise

                threads.append(threading.Thread(target=run))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            refused = [json.loads(line)["request"] for line in (work / "log/audit.log").open()
                       if json.loads(line)["event"] == "refused"]
            assert set(refused) == {"/etc/passwd"}, refused
            if failures:
                sys.exit("\n".join(failures))
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(timeout=30)
        assert not (work / "run/socket").exists()
    print("proxies: 2 of 2 served")


def wait_for(condition):
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    sys.exit("not ready after 30 seconds")


main(sys.argv[1])
