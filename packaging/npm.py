"""Writes the npm packages, so that `npx mcp-filesystem-guarded DIRECTORY` starts the program.

Each program is a package that npm installs only on its platform. The package
mcp-filesystem-guarded depends on all of them, and contains a script that starts the installed one.
Nothing is downloaded after the installation, and no script runs during it.
"""

import json

from common import *

# What is particular to the main package.
MAIN = {
    "mcpName": MCP_NAME,
    "keywords": PACKAGE["keywords"],
    "bin": {NAME: "start.js"},
    "engines": {"node": ">=18"},
    "optionalDependencies": {platform.npm_name: VERSION for platform in PLATFORMS},
}


def manifest(name, fields):
    common = {"name": name, "version": VERSION, "description": DESCRIPTION, "license": LICENSE}
    return common | {"repository": {"type": "git", "url": f"git+{REPOSITORY}.git"}} | fields


def write(name, fields, files):
    described = json.dumps(manifest(name, fields), indent=2).encode()
    files = [("package.json", described, False), *files]
    files += [(file.name, file.read_bytes(), False) for file in LICENSES]
    files = [(f"package/{name}", content, mode) for name, content, mode in files]
    file = f"{name.removeprefix('@').replace('/', '-')}-{VERSION}.tgz"
    report(write_tar_gz(OUT / "npm" / file, files))


if __name__ == "__main__":
    for platform in built():
        os, cpu = platform.npm
        readme = f"The program of the package {NAME} for {os} on {cpu}.\n"
        files = [(platform.file, platform.program.read_bytes(), True)]
        files.append(("README.md", readme.encode(), False))
        write(platform.npm_name, {"os": [os], "cpu": [cpu], "preferUnplugged": True}, files)
    start = (TOP / "packaging/start.js").read_bytes()
    files = [("start.js", start, True), ("README.md", description().encode(), False)]
    write(NAME, MAIN, files)
