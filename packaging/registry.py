"""Writes server.json, with which the MCP registry lists the packages."""

import json

from common import *

argument = {
    "type": "positional",
    "valueHint": "directory",
    "description": "A directory that the model may read and change",
    "format": "filepath",
    "isRequired": True,
    "isRepeated": True,
}


def package(kind, identifier, **fields):
    arguments = {"transport": {"type": "stdio"}, "packageArguments": [argument]}
    return {"registryType": kind, "identifier": identifier} | fields | arguments


mount = {
    "type": "named",
    "name": "--mount",
    "value": "type=bind,src={directory},dst=/workspace",
    "isRequired": True,
    "variables": {
        "directory": {
            "description": "The directory that the model may read and change",
            "format": "filepath",
            "isRequired": True,
        }
    },
}
image = package("oci", f"{IMAGE}:{VERSION}", runtimeHint="docker", runtimeArguments=[mount])
image["packageArguments"] = [{"type": "positional", "value": "/workspace"}]
server = {
    "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
    "name": MCP_NAME,
    "title": "Guarded filesystem",
    "description": DESCRIPTION,
    "version": VERSION,
    "repository": {"url": REPOSITORY, "source": "github", "subfolder": "server"},
    "packages": [
        package("npm", NAME, version=VERSION, runtimeHint="npx"),
        package("pypi", NAME, version=VERSION, runtimeHint="uvx"),
        image,
    ],
}
if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "server.json"
    path.write_text(json.dumps(server, indent=2) + "\n")
    report(path)
