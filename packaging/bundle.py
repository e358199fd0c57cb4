"""Writes an MCP bundle for each program: a user opens it in a desktop application, and chooses the
directories in a form. https://github.com/modelcontextprotocol/mcpb describes the format.
"""

import json

from common import *


def manifest(platform):
    program = f"server/{platform.file}"
    return {
        "manifest_version": "0.3",
        "name": NAME,
        "display_name": "Guarded filesystem",
        "version": VERSION,
        "description": DESCRIPTION,
        "author": {"name": OWNER, "url": f"https://{HOST}/{OWNER}"},
        "repository": {"type": "git", "url": f"{REPOSITORY}.git"},
        "documentation": f"{REPOSITORY}/blob/main/server/README.md",
        "license": LICENSE,
        "server": {
            "type": "binary",
            "entry_point": program,
            "mcp_config": {
                "command": "${__dirname}/" + program,
                "args": ["${user_config.allowed_directories}"],
            },
        },
        "tools_generated": True,
        "compatibility": {"platforms": [platform.npm[0]]},
        "user_config": {
            "allowed_directories": {
                "type": "directory",
                "title": "Allowed directories",
                "description": "The directories that the model may read and change",
                "multiple": True,
                "required": True,
            }
        },
    }


if __name__ == "__main__":
    for platform in built():
        files = [("manifest.json", json.dumps(manifest(platform), indent=2).encode(), False)]
        files.append((f"server/{platform.file}", platform.program.read_bytes(), True))
        files += [(file.name, file.read_bytes(), False) for file in LICENSES]
        name = f"{NAME}-{VERSION}-{'-'.join(platform.npm)}.mcpb"
        report(write_zip(OUT / "bundles" / name, files))
