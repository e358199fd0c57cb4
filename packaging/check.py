"""Checks what the packages say about themselves, without building anything: check.py TOOLS [TAG]

TOOLS is where packaging/tools has installed skillsaw and mcpb. TAG is that of a release, for which
everything must be filled in.
"""

import json
import re
import subprocess
import tempfile

import bundle
import npm
import registry
from archive import stem
from common import *

failed = []


def check(holds, claim):
    print("ok  " if holds else "FAIL", claim)
    if not holds:
        failed.append(claim)


def passes(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr)
    return done.returncode == 0


tools, *tags = sys.argv[1:]
manifests = {
    name: tomllib.loads((TOP / folder / "Cargo.toml").read_text())
    for name, folder in [("guarded-fs", "crates/guarded-fs"), ("guarded-process", "crates/process"),
                         ("mcp-roots-guard", "."), (NAME, "server")]
}
versions = {name: manifest["package"]["version"] for name, manifest in manifests.items()}
check(VERSION == versions["mcp-roots-guard"], f"{NAME} has the version of mcp-roots-guard")
required = [
    (name, crate, of["version"])
    for name, manifest in manifests.items()
    for crate, of in manifest["dependencies"].items()
    if crate in versions
]
# Exactly these, because they call `guarded_fs::host`, which any version may change.
wrong = [it for it in required if it[2] != f"={versions[it[1]]}"]
check(required and not wrong, f"packages require exactly the current versions {wrong or ''}")
texts = [(name, manifest["package"]) for name, manifest in manifests.items()]
lacking = [(name, key) for name, package in texts
           for key in ("description", "license", "repository", "readme", "categories", "keywords")
           if key not in package]
check(not lacking, f"each Cargo.toml has what the crates' registry shows {lacking or ''}")
rust = PACKAGE["rust-version"]
readme = (TOP / "server/README.md").read_text()
check(f"Rust {rust}" in readme, f"server/README.md names the minimum Rust version, {rust}")

binstall = MANIFEST["package"]["metadata"]["binstall"]


def expand(template, target):
    values = {"repo": REPOSITORY, "version": VERSION, "name": NAME, "target": target}
    return re.sub(r"\{ ([a-z]+) \}", lambda found: values[found[1]], template)


for platform in PLATFORMS:
    is_windows = platform.npm[0] == "win32"
    fields = binstall["overrides"]["x86_64-pc-windows-msvc"] if is_windows else binstall
    end = "zip" if is_windows else "tar.gz"
    address = expand(fields["pkg-url"], platform.target).rsplit("/", 1)[1]
    check(address == f"{stem(platform)}.{end}", f"cargo binstall finds {address}")

with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "server.json").write_text(json.dumps(registry.server))
    # It must name the same server as server.json.
    (folder / "package.json").write_text(json.dumps(npm.manifest(NAME, npm.MAIN)))
    check(passes(f"{tools}/bin/skillsaw", "lint", "--strict", "--no-custom-rules", str(folder)),
          "server.json follows the schema and the rules of the MCP registry")
    for platform in {platform.npm[0]: platform for platform in PLATFORMS}.values():
        (folder / "manifest.json").write_text(json.dumps(bundle.manifest(platform)))
        check(passes(f"{tools}/node_modules/.bin/mcpb", "validate", str(folder / "manifest.json")),
              f"the bundle's manifest is valid: {platform.npm[0]}")
check(f"mcp-name: {MCP_NAME}" in description(), "the wheel's description names the server")

for tag in tags:
    check(tag == f"v{VERSION}", f"the tag {tag} is the version")
    check(OWNER != "OWNER", f"Cargo.toml has the repository's address: {REPOSITORY}")
    changes = (TOP / "CHANGELOG.md").read_text()
    check(re.search(rf"^## .*\b{re.escape(VERSION)}\b", changes, re.M), "CHANGELOG.md names it")
sys.exit(f"{len(failed)} checks failed" if failed else 0)
