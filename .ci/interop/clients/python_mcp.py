"""The checks of checks.mjs for the client of the Python SDK, in either era of the protocol, over
stdio.

python_mcp.py (auto | legacy) COMMAND... The environment variable TREE names the directory that
.ci/interop/clients/run prepared.
"""

import os
import sys
import warnings
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters
from mcp_types import ListRootsResult, Root

REFUSED = "not inside the allowed directories"

mode, command, *args = sys.argv[1:]
op = Path(os.environ["TREE"]) / "op"
server = StdioServerParameters(command=command, args=args)


class Roots:
    """The client's roots, and the number of requests for them."""

    dirs = ["a", "b"]
    requests = 0

    async def answer(self, _context) -> ListRootsResult:
        self.requests += 1
        roots = [Root(uri=(op / name).as_uri(), name=name) for name in self.dirs]
        return ListRootsResult(roots=roots)


failed = 0


def check(claim: str, holds: bool, seen: object) -> None:
    global failed
    failed += not holds
    print(f"ok   {claim}" if holds else f"FAIL {claim}: {seen!r}", flush=True)


async def call(client: Client, path: str):
    return await client.call_tool("read_file", {"path": f"{op}/{path}"})


async def reads(client: Client, where: str, path: str) -> None:
    result = await call(client, path)
    holds = not result.is_error and result.content[0].text == f"inside {path}\n"
    check(f"reads {where}", holds, result)


async def refuses(client: Client, where: str, path: str) -> None:
    result = await call(client, path)
    holds = result.is_error is True and REFUSED in result.content[0].text
    check(f"is refused {where}", holds, result)


async def drive() -> None:
    sessions = mode == "legacy"
    era = "2025-11-25" if sessions else "2026-07-28"
    roots = Roots()
    async with Client(server, mode=mode, list_roots_callback=roots.answer) as client:
        check(f"speaks {era}", client.protocol_version == era, client.protocol_version)
        await reads(client, "in its first root", "a/in.txt")
        await reads(client, "in its second root", "b/in.txt")
        await refuses(client, "next to the allowed directory", "../secret.txt")
        await refuses(client, "in the allowed directory, outside its roots", "c/secret.txt")
        await refuses(client, "through a symlink out of the allowed directory", "a/link")
        when, expected = ("once", 1) if sessions else ("for each call", 5)
        check(f"its roots were requested {when}", roots.requests == expected, roots.requests)

        before = roots.requests
        roots.dirs = ["b"]
        if sessions:
            await client.send_roots_list_changed()
        await refuses(client, "in the root that it withdrew", "a/in.txt")
        await reads(client, "in the root that it kept", "b/in.txt")
        check("its roots were requested again", roots.requests > before, roots.requests)

    async with Client(server, mode=mode) as client:
        await reads(client, "in the whole allowed directory when it declares no roots", "c/in.txt")
        where = "next to the allowed directory when it declares no roots"
        await refuses(client, where, "../secret.txt")


warnings.simplefilter("ignore")  # roots are deprecated since 2026-07-28
anyio.run(drive)
sys.exit(failed > 0)
