// @modelcontextprotocol/client: the TypeScript SDK for both eras, which negotiates the version.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { drive, recordedFetch, stdio, url } from "./checks.mjs";

await drive({
    era: "2026-07-28",
    version: (client) => client.getNegotiatedProtocolVersion(),
    async connect(answer) {
        const capabilities = answer ? { roots: {} } : {};
        const options = { capabilities, versionNegotiation: { mode: "auto" } };
        const client = new Client({ name: "checks", version: "1" }, options);
        if (answer) client.setRequestHandler("roots/list", answer);
        const transport = url
            ? new StreamableHTTPClientTransport(url, { fetch: recordedFetch })
            : new StdioClientTransport(stdio);
        await client.connect(transport);
        return client;
    },
});
