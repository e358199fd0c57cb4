// The checks for every TypeScript client, over both transports and in both eras of the protocol.
// Each driver imports this file and connects the client of its SDK.
//
// node DRIVER (URL | COMMAND...). The environment variable TREE names the directory that
// .ci/interop/clients/run prepared, and RECORD names the file for the messages over HTTP.

import { appendFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const server = process.argv.slice(2);
const record = process.env.RECORD;
const op = `${process.env.TREE}/op`;
const REFUSED = "not inside the allowed directories";

export const url = server[0].startsWith("http:") ? new URL(server[0]) : undefined;
export const stdio = { command: server[0], args: server.slice(1) };

/** `fetch` that appends the bodies of requests and responses to RECORD. */
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

/** The client's roots, and the number of requests for them. */
const roots = { dirs: ["a", "b"], requests: 0 };
function answer() {
    roots.requests += 1;
    const root = (dir) => ({ uri: pathToFileURL(`${op}/${dir}`).href, name: dir });
    return { roots: roots.dirs.map(root) };
}

let failed = 0;
function check(claim, holds, seen) {
    if (!holds) failed += 1;
    console.log(holds ? `ok   ${claim}` : `FAIL ${claim}: ${JSON.stringify(seen)}`);
}

/**
 * `connect(answer)` returns a connected client of the SDK. The client declares roots if `answer` is
 * given. `version(client)` is the protocol version that it negotiated. `changed(client)` sends
 * `list_changed`, in the era that has it.
 */
export async function drive({ version, era, connect, changed }) {
    let client = await connect(answer);
    const call = (path) =>
        client.callTool({ name: "read_file", arguments: { path: `${op}/${path}` } });
    const reads = async (where, path) => {
        const result = await call(path);
        const holds = !result.isError && result.content[0].text === `inside ${path}\n`;
        check(`reads ${where}`, holds, result);
    };
    const refuses = async (where, path) => {
        const result = await call(path);
        const holds = result.isError === true && result.content[0].text.includes(REFUSED);
        check(`is refused ${where}`, holds, result);
    };
    const requested = (when, holds) =>
        check(`its roots were requested ${when}`, holds(roots.requests), roots.requests);

    check(`speaks ${era}`, version(client) === era, version(client));
    await reads("in its first root", "a/in.txt");
    await reads("in its second root", "b/in.txt");
    await refuses("next to the allowed directory", "../secret.txt");
    await refuses("in the allowed directory, outside its roots", "c/secret.txt");
    await refuses("through a symlink out of the allowed directory", "a/link");
    if (changed) requested("once", (times) => times === 1);
    else requested("for each call", (times) => times === 5);

    const before = roots.requests;
    roots.dirs = ["b"];
    if (changed) await changed(client);
    await refuses("in the root that it withdrew", "a/in.txt");
    await reads("in the root that it kept", "b/in.txt");
    requested("again", (times) => times > before);
    await client.close();

    client = await connect();
    await reads("in the whole allowed directory when it declares no roots", "c/in.txt");
    await refuses("next to the allowed directory when it declares no roots", "../secret.txt");
    await client.close();
    process.exitCode = failed ? 1 : 0;
}
