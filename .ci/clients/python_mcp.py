"""The Python SDK in either era, over stdio: what checks.mjs demands of the TypeScript ones.

python_mcp.py (auto | legacy) COMMAND..., with TREE, what .ci/clients/run planted.
"""

import os
import sys
import warnings
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters
from mcp_types import ListRootsResult, Root

REFUSED = "not inside the allowed directories"
# For so long the server goes by what a client of the stateless era told: TIME_TO_LIVE_KEYED, and what the machine is slow by.
REMEMBERED = 5 + 0.7

mode, command, *args = sys.argv[1:]
op = Path(os.environ["TREE"]) / "op"
server = StdioServerParameters(command=command, args=args)


class Roots:
    """The client's roots, and how often it was asked for them."""

    dirs = ["a", "b"]
    asked = 0

    async def answer(self, _context) -> ListRootsResult:
        self.asked += 1
        return ListRootsResult(roots=[Root(uri=(op / dir).as_uri(), name=dir) for dir in self.dirs])


failed = 0


def check(what: str, holds: bool, seen: object) -> None:
    global failed
    failed += not holds
    print(f"ok   {what}" if holds else f"FAIL {what}: {seen!r}", flush=True)


async def call(client: Client, path: str):
    return await client.call_tool("read_file", {"path": f"{op}/{path}"})


async def reads(client: Client, what: str, path: str) -> None:
    result = await call(client, path)
    check(f"reads {what}", not result.is_error and result.content[0].text == f"inside {path}\n", result)


async def refuses(client: Client, what: str, path: str) -> None:
    result = await call(client, path)
    check(f"is refused {what}", result.is_error is True and REFUSED in result.content[0].text, result)


async def drive() -> None:
    sessions = mode == "legacy"
    era = "2025-11-25" if sessions else "2026-07-28"
    roots = Roots()
    async with Client(server, mode=mode, list_roots_callback=roots.answer) as client:
        check(f"speaks {era}", client.protocol_version == era, client.protocol_version)
        await reads(client, "in its first root", "a/in.txt")
        await reads(client, "in its second root", "b/in.txt")
        await refuses(client, "beside the allowed directory", "../secret.txt")
        await refuses(client, "in the allowed directory, outside its roots", "c/secret.txt")
        await refuses(client, "through a link that leaves", "a/link")
        if sessions:
            check("was asked for its roots once", roots.asked == 1, roots.asked)
        else:
            check("was asked for its roots once for a burst of calls", 1 <= roots.asked < 5, roots.asked)

        before = roots.asked
        roots.dirs = ["b"]
        if sessions:
            await client.send_roots_list_changed()
        else:
            await anyio.sleep(REMEMBERED)
        await refuses(client, "in the root that it withdrew", "a/in.txt")
        await reads(client, "in the root that it kept", "b/in.txt")
        check("was asked for its roots again", roots.asked > before, roots.asked)

    async with Client(server, mode=mode) as client:
        await reads(client, "without roots of its own, all that is the operator's", "c/in.txt")
        await refuses(client, "without roots of its own, beside it", "../secret.txt")


warnings.simplefilter("ignore")  # roots are deprecated since 2026-07-28, and what is checked here
anyio.run(drive)
sys.exit(failed > 0)
