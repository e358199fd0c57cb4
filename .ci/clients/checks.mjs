// What every client must see, over both transports and in both eras. A driver says how its SDK connects.
//
// node DRIVER (URL | COMMAND...), with TREE, what .ci/clients/run planted, and RECORD, where to keep what passes over HTTP.

import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const server = process.argv.slice(2);
const record = process.env.RECORD;
const op = `${process.env.TREE}/op`;
const REFUSED = "not inside the allowed directories";
/** For so long the stdio server goes by what a client of the stateless era told: TIME_TO_LIVE_KEYED, and what the machine is slow by. */
const REMEMBERED_MS = 5_000 + 700;

export const url = server[0].startsWith("http:") ? new URL(server[0]) : undefined;
export const stdio = { command: server[0], args: server.slice(1) };

/** `fetch`, and each body of both directions in RECORD. */
export async function recordedFetch(input, init) {
    if (init?.body) appendFileSync(record, `${init.body}\n`);
    const response = await fetch(input, init);
    if (!response.body) return response;
    const keep = new TransformStream({
        transform(chunk, out) {
            appendFileSync(record, chunk);
            out.enqueue(chunk);
        },
    });
    return new Response(response.body.pipeThrough(keep), response);
}

/** The client's roots, and how often it was asked for them. */
const roots = { dirs: ["a", "b"], asked: 0 };
function answer() {
    roots.asked += 1;
    return { roots: roots.dirs.map((dir) => ({ uri: pathToFileURL(`${op}/${dir}`).href, name: dir })) };
}

let failed = 0;
function check(what, holds, seen) {
    if (!holds) failed += 1;
    console.log(holds ? `ok   ${what}` : `FAIL ${what}: ${JSON.stringify(seen)}`);
}

/**
 * `connect(answer)` gives a connected client of the SDK, which declares roots if there is an `answer`; `version` tells what it speaks.
 * `changed(client)` says that its roots changed, in the era that has this.
 */
export async function drive({ version, era, connect, changed }) {
    let client = await connect(answer);
    const call = (path) => client.callTool({ name: "read_file", arguments: { path: `${op}/${path}` } });
    const reads = async (what, path) => {
        const result = await call(path);
        check(`reads ${what}`, !result.isError && result.content[0].text === `inside ${path}\n`, result);
    };
    const refuses = async (what, path) => {
        const result = await call(path);
        check(`is refused ${what}`, result.isError === true && result.content[0].text.includes(REFUSED), result);
    };
    const asked = (what, times) => check(`was asked for its roots ${what}`, times(roots.asked), roots.asked);

    check(`speaks ${era}`, version(client) === era, version(client));
    await reads("in its first root", "a/in.txt");
    await reads("in its second root", "b/in.txt");
    await refuses("beside the allowed directory", "../secret.txt");
    await refuses("in the allowed directory, outside its roots", "c/secret.txt");
    await refuses("through a link that leaves", "a/link");
    if (changed) asked("once", (times) => times === 1);
    else if (url) asked("in each call", (times) => times === 5);
    else asked("once for a burst of calls", (times) => times >= 1 && times < 5);

    const before = roots.asked;
    roots.dirs = ["b"];
    if (changed) await changed(client);
    else if (!url) await sleep(REMEMBERED_MS);
    await refuses("in the root that it withdrew", "a/in.txt");
    await reads("in the root that it kept", "b/in.txt");
    asked("again", (times) => times > before);
    await client.close();

    client = await connect();
    await reads("without roots of its own, all that is the operator's", "c/in.txt");
    await refuses("without roots of its own, beside it", "../secret.txt");
    await client.close();
    process.exitCode = failed ? 1 : 0;
}
