"""Installs each package from its file as a new user would, drives the program, and removes it.

Each form has an empty environment and an empty home directory of its own. Prints a table: the size
of the package and what it takes when it is installed, and the median time to the first response.
"""

import contextlib
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import urllib.parse
import zipfile
from pathlib import Path

from client import drive
from common import *

WINDOWS = next(platform for platform in PLATFORMS if platform.npm[0] == "win32")
X86 = next(platform for platform in PLATFORMS if platform.image == "amd64")
ARM = next(platform for platform in PLATFORMS if platform.image == "arm64")


class Form:
    """An empty home directory, and an empty directory that the server serves."""

    def __init__(self, title, *packages):
        self.title, self.packages = title, packages
        self.top = Path(tempfile.mkdtemp(prefix="rehearsal-")).resolve()
        self.home, self.served = self.top / "home", self.top / "served"
        self.home.mkdir()
        self.served.mkdir()
        (self.top / "secret.txt").write_text("secret")
        self.environment = {"HOME": str(self.home), "PATH": os.environ["PATH"]}
        # How this machine reaches the registries.
        names = ("PIP_", "npm_config_", "NPM_CONFIG_", "UV_", "SSL_", "http", "HTTP", "NODE_EXTRA")
        self.environment |= {k: v for k, v in os.environ.items() if k.startswith(names)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top)

    def run(self, *command, **options):
        """Prints a command as a user would type it, and runs it."""
        typed = " ".join(map(str, command)).replace(f"{TOP}/", "").replace(str(self.top), "~")
        print("$", typed, flush=True)
        options = {"env": self.environment, "check": True} | options
        return subprocess.run([str(word) for word in command], **options)

    def drive(self, command, installed, seen=None, **options):
        command = [str(word) for word in command]
        if seen is None:
            command.append(str(self.served))
        took = drive(command, self.served, seen, self.environment, **options)
        size = sum(package.stat().st_size for package in self.packages)
        row = f"{size / 1e6:.1f} MB | {taken(installed) / 1e6:.1f} MB | {took:.0f} ms"
        print(f"ok: {self.title}: 20 calls | {row}", flush=True)
        rows.append(f"| {self.title} | {row} |")


rows = []
QUIET_PIP = ["--quiet", "--disable-pip-version-check"]


def taken(path):
    """Returns the bytes of the files at a path."""
    if path.is_file():
        return path.stat().st_size
    files = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return sum(file.stat().st_size for file in files)


def the(pattern):
    """Returns the package whose file matches."""
    (found,) = OUT.glob(pattern)
    return found


def archive():
    file = the(f"archives/*-{X86.target}.tar.gz")
    with Form("archive", file) as form:
        form.run("tar", "--extract", "--file", file, "--directory", form.home)
        (unpacked,) = form.home.iterdir()
        form.drive([unpacked / NAME], unpacked)
        form.run("bash", "-n", unpacked / f"completions/{NAME}.bash")
        if shutil.which("man"):
            page = f"{unpacked}/man/{NAME}.1"
            shown = form.run("man", "--warnings", "-l", page, stdout=subprocess.PIPE)
            assert b"read-only-dir" in shown.stdout


def wheel():
    file = the("pypi/*manylinux*x86_64*.whl")
    with Form("pip", file) as form:
        venv = form.home / "venv"
        form.run("python3", "-m", "venv", venv)
        form.run(venv / "bin/pip", *QUIET_PIP, "install", "--no-index", file)
        form.drive([venv / "bin" / NAME], venv / "bin" / NAME)
        form.run(venv / "bin/pip", *QUIET_PIP, "uninstall", "--yes", NAME)
        left = [*venv.rglob("*filesystem?guarded*")]
        assert not left, f"pip left files behind: {left}"
    # There is no Python for musl here, so pip is told that it installs for one. The program needs
    # no C library, which the container image shows.
    with Form("pip, for musl", file) as form:
        venv, target = form.home / "venv", form.home / "target"
        form.run("python3", "-m", "venv", venv)
        musl = ["--platform", "musllinux_1_1_x86_64", "--only-binary", ":all:", "--target", target]
        form.run(venv / "bin/pip", *QUIET_PIP, "install", "--no-index", *musl, file)
        form.drive([target / "bin" / NAME], target)


def uvx():
    uv = TOP / "target/packages/tools/bin/uvx"
    file = the("pypi/*manylinux*x86_64*.whl")
    with Form("uvx", file) as form:
        first = ["--offline", "--from", file, NAME]
        form.run(uv, *first, "--version")
        form.drive([uv, *first], form.home)


class Registry(http.server.BaseHTTPRequestHandler):
    """An npm registry with the packages of the rehearsal. It knows no other."""

    def do_GET(self):
        name = urllib.parse.unquote(self.path).removeprefix("/")
        file = OUT / name
        if name.startswith("npm/") and file.parent == OUT / "npm" and file.exists():
            return self.answer(file.read_bytes(), "application/octet-stream")
        versions = {}
        for file in OUT.glob("npm/*.tgz"):
            with tarfile.open(file) as package:
                manifest = json.load(package.extractfile("package/package.json"))
            if manifest["name"] == name:
                digest = hashlib.sha1(file.read_bytes()).hexdigest()
                tarball = f"http://{self.headers['Host']}/npm/{file.name}"
                versions[VERSION] = manifest | {"dist": {"tarball": tarball, "shasum": digest}}
        if not versions:
            return self.send_error(404)
        known = {"name": name, "versions": versions, "dist-tags": {"latest": VERSION}}
        self.answer(json.dumps(known).encode(), "application/json")

    def answer(self, content, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def npm_registry():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"--registry=http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


def npm():
    files = [the(f"npm/{NAME}-{VERSION}.tgz"), the("npm/*-linux-x64-*.tgz")]
    with npm_registry() as registry, Form("npm", *files) as form:
        quiet = [registry, "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
        form.run("npm", "install", *quiet, "--prefix", form.home / "app", NAME)
        modules = form.home / "app/node_modules"
        names = sorted(file.name for file in (modules / f"@{NAME}").iterdir())
        assert names == ["linux-x64"], f"npm installed {names}"
        form.drive([modules / ".bin" / NAME], modules)
        form.run("npm", "uninstall", *quiet, "--prefix", form.home / "app", NAME)
        assert not (modules / NAME).exists(), "npm left the package behind"
    with npm_registry() as registry, Form("npx", *files) as form:
        form.drive(["npx", "--yes", registry, "--no-update-notifier", NAME], form.home)


def bundle():
    file = the("bundles/*-linux-x64.mcpb")
    with Form("bundle", file) as form:
        with zipfile.ZipFile(file) as packed:
            for entry in packed.infolist():
                target = Path(packed.extract(entry, form.home))
                target.chmod(entry.external_attr >> 16)
        # What a host does: it replaces the variables, and a list takes the place of its argument.
        config = json.loads((form.home / "manifest.json").read_text())["server"]["mcp_config"]
        assert config["args"] == ["${user_config.allowed_directories}"]
        form.drive([config["command"].replace("${__dirname}", str(form.home))], form.home)


def unpack_image(path, into):
    """Unpacks the layers of an image, checks all digests, and returns its configuration."""
    with tarfile.open(path) as image:
        def blob(described):
            kind, digest = described["digest"].split(":")
            content = image.extractfile(f"blobs/{kind}/{digest}").read()
            assert hashlib.new(kind, content).hexdigest() == digest
            assert len(content) == described["size"]
            return content

        index = json.loads(blob(json.load(image.extractfile("index.json"))["manifests"][0]))
        (found,) = (it for it in index["manifests"]
                    if it["platform"] == {"os": "linux", "architecture": X86.image})
        manifest = json.loads(blob(found))
        config = json.loads(blob(manifest["config"]))
        for layer, plain in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            content = gzip.decompress(blob(layer))
            assert f"sha256:{hashlib.sha256(content).hexdigest()}" == plain
            tarfile.open(fileobj=io.BytesIO(content)).extractall(into)
        return config["config"]


def image():
    """Runs the image from its own file system, as its own user, in new namespaces."""
    file = the("*-image.tar")
    with Form("container image", file) as form:
        root = form.home / "root"
        config = unpack_image(file, root)
        user, group = config["User"].split(":")
        as_root = [] if os.geteuid() == 0 else ["sudo"]
        # The image's user can write, and whoever runs this can remove what it wrote.
        form.served.chmod(0o777)
        form.top.chmod(0o755)
        alias = f"--alias={form.served}=/workspace"
        mount = f'umask 0 && mount --bind "{form.served}" "{root}/workspace" && exec "$@"'
        separate = [*as_root, "unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork"]
        inside = ["chroot", f"--userspec={user}:{group}", "--groups=", root, *config["Entrypoint"]]
        command = [*separate, "sh", "-c", mount, "sh", *inside, alias, *config["Cmd"]]
        form.drive(command, root, seen=str(form.served))


def emulated():
    """Runs the program for ARM, whose emulator passes system calls on to this kernel."""
    emulator = shutil.which("qemu-aarch64-static")
    if not emulator or not ARM.program.exists():
        return print("skipped: aarch64: the program is not built, or there is no emulator")
    file = the(f"archives/*-{ARM.target}.tar.gz")
    with Form("aarch64, emulated", file) as form:
        form.run("tar", "--extract", "--file", file, "--directory", form.home)
        (unpacked,) = form.home.iterdir()
        form.drive([emulator, unpacked / NAME], unpacked)


def wine():
    if not shutil.which("wine") or not WINDOWS.program.exists():
        return print("skipped: Windows: the program is not built, or there is no Wine")
    file = the(f"archives/*-{WINDOWS.target}.zip")
    with Form("Windows, under Wine", file) as form:
        form.run("python3", "-m", "zipfile", "--extract", file, form.home)
        (unpacked,) = (path for path in form.home.iterdir() if path.is_dir())
        prefix = TOP / "target/packages/wine"
        form.environment |= {"WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEARCH": "win64"}
        form.environment["WINEDLLOVERRIDES"] = "mscoree=;mshtml=;winemenubuilder.exe="
        form.run("wineboot", "--init", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Wine 8 lacks this library, from which std takes random numbers.
        library = prefix / "drive_c/windows/system32/bcryptprimitives.dll"
        if not library.exists():
            form.run("x86_64-w64-mingw32-gcc", "-shared", "-O1", "-s", "-o", library,
                     TOP / ".ci/windows/bcryptprimitives.c", "-ladvapi32")
        seen = "Z:" + str(form.served).replace("/", "\\")
        program = ["wine", unpacked / WINDOWS.file, seen]
        form.drive(program, unpacked, seen=seen, join=lambda *names: "\\".join(names))
        form.run("wineserver", "--kill", check=False)


def main():
    forms = [archive, wheel, uvx, npm, bundle, image, emulated, wine]
    chosen = [form for form in forms if form.__name__ in sys.argv[1:]] or forms
    for form in chosen:
        form()
    print("\n| form | package | installed | start |\n| --- | --- | --- | --- |")
    print(*rows, sep="\n")


main()
