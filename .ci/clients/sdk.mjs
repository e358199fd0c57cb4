// @modelcontextprotocol/sdk: the TypeScript SDK of the session era.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { drive, recordedFetch, stdio, url } from "./checks.mjs";

await drive({
    era: "2025-11-25",
    version: (client) => client.spoken,
    async connect(answer) {
        const capabilities = answer ? { roots: { listChanged: true } } : {};
        const client = new Client({ name: "checks", version: "1" }, { capabilities });
        if (answer) client.setRequestHandler(ListRootsRequestSchema, answer);
        const transport = url
            ? new StreamableHTTPClientTransport(url, { fetch: recordedFetch })
            : new StdioClientTransport(stdio);
        // The client tells its transport, and nobody else, what was agreed on.
        const told = transport.setProtocolVersion?.bind(transport);
        transport.setProtocolVersion = (version) => {
            client.spoken = version;
            told?.(version);
        };
        await client.connect(transport);
        return client;
    },
    changed: (client) => client.sendRootsListChanged(),
});
