// @modelcontextprotocol/sdk: the TypeScript SDK for the era with sessions.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { drive, recordedFetch, stdio, url } from "./checks.mjs";

await drive({
    era: "2025-11-25",
    version: (client) => client.negotiated,
    async connect(answer) {
        const capabilities = answer ? { roots: { listChanged: true } } : {};
        const client = new Client({ name: "checks", version: "1" }, { capabilities });
        if (answer) client.setRequestHandler(ListRootsRequestSchema, answer);
        const transport = url
            ? new StreamableHTTPClientTransport(url, { fetch: recordedFetch })
            : new StdioClientTransport(stdio);
        // The SDK passes the negotiated version only to the transport.
        const setVersion = transport.setProtocolVersion?.bind(transport);
        transport.setProtocolVersion = (version) => {
            client.negotiated = version;
            setVersion?.(version);
        };
        await client.connect(transport);
        return client;
    },
    changed: (client) => client.sendRootsListChanged(),
});
