"""Writes a Python wheel for each program, so that `uvx mcp-filesystem-guarded DIRECTORY` starts it.

The wheel contains no Python: pip and uv copy the program into the environment's `bin`.
"""

import base64
import hashlib

from common import *


def metadata():
    lines = ["Metadata-Version: 2.4", f"Name: {NAME}", f"Version: {VERSION}"]
    lines += [f"Summary: {DESCRIPTION}", f"License-Expression: {LICENSE}"]
    lines += [f"License-File: {file.name}" for file in LICENSES]
    lines += [f"Project-URL: Source, {REPOSITORY}", "Requires-Python: >=3.8"]
    lines += ["Description-Content-Type: text/markdown", "", description()]
    return "\n".join(lines).encode()


def record(files, own):
    def row(name, content):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        return f"{name},sha256={digest},{len(content)}\n"

    return ("".join(row(name, content) for name, content, _ in files) + f"{own},,\n").encode()


for platform in built():
    stem = f"{NAME.replace('-', '_')}-{VERSION}"
    info = f"{stem}.dist-info"
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.wheel.split("."))
    wheel = f"Wheel-Version: 1.0\nGenerator: packaging\nRoot-Is-Purelib: false\n{tags}"
    files = [(f"{stem}.data/scripts/{platform.file}", platform.program.read_bytes(), True)]
    files += [(f"{info}/licenses/{file.name}", file.read_bytes(), False) for file in LICENSES]
    files += [(f"{info}/METADATA", metadata(), False), (f"{info}/WHEEL", wheel.encode(), False)]
    own = f"{info}/RECORD"
    files.append((own, record(files, own), False))
    report(write_zip(OUT / "pypi" / f"{stem}-py3-none-{platform.wheel}.whl", files))
