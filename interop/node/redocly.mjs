// redocly judges /openapi.json by its rules `recommended`.
//
// fixes: interop F3
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { check } from "./sandbox.mjs";

const directory = process.env.CASE_DIRECTORY;
const binary = JSON.parse(process.env.FANTAIL_BINS).fantail_command;
const server = spawn(binary, ["serve", "--data", path.join(directory, "data"), "--listen", "127.0.0.1:0"], {
  stdio: ["ignore", "pipe", "ignore"],
});
let url;
for await (const line of readline.createInterface({ input: server.stdout })) {
  url ??= line.match(/openapi +(http:\S+)/)?.[1];
  if (line.trim() === "ready") break;
}
const file = path.join(directory, "openapi.json");
fs.writeFileSync(file, await (await fetch(url)).text());
server.kill("SIGKILL");

const redocly = path.join(import.meta.dirname, "node_modules", "@redocly", "cli", "bin", "cli.js");
const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
const linted = spawnSync("node", [redocly, "lint", "--extends", "recommended", "--format", "json", file], { env });
const found = JSON.parse(linted.stdout.toString());
const worst = found.problems.filter((problem) => problem.severity === "error");
const told = worst.map((problem) => `${problem.ruleId} ${problem.location?.[0]?.pointer}: ${problem.message}`);
console.log(`${found.totals.warnings} warnings`);
check("the document has no error", told, []);
