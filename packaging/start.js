#!/usr/bin/env node
// Starts the program that npm installed for this platform.
"use strict";
const { spawn } = require("node:child_process");

const name = "mcp-filesystem-guarded";
const platform = `${process.platform}-${process.arch}`;
const args = process.argv.slice(2);

function find() {
  try {
    const end = process.platform === "win32" ? ".exe" : "";
    return require.resolve(`@${name}/${platform}/${name}${end}`);
  } catch {
    console.error(
      `${name}: the package @${name}/${platform} is not installed. Either there is none for this ` +
        "platform, or npm omitted optional dependencies.",
    );
    process.exit(1);
  }
}

const program = find();
if (process.execve && process.platform !== "win32") {
  // The program takes the place of Node.js, which then needs no memory.
  process.execve(program, [name, ...args], process.env);
}
const child = spawn(program, args, { stdio: "inherit" });
const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
for (const signal of signals) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`${name}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  for (const each of signals) process.removeAllListeners(each);
  if (signal) process.kill(process.pid, signal);
  else process.exit(code);
});
