// Starts our sender: one shipment by one provider, and its answers.

import { spawn } from "node:child_process";

/// The answers, in the order of the messages.
export function sendOne(ask) {
  return new Promise((resolve, reject) => {
    const child = spawn(JSON.parse(process.env.FANTAIL_BINS).send_one, { stdio: ["pipe", "pipe", "inherit"] });
    let text = "";
    child.stdout.on("data", (data) => (text += data));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code !== 0) return reject(new Error(`send_one ended with ${code}`));
      resolve(text.trim().split("\n").filter(Boolean).map((line) => JSON.parse(line)));
    });
    child.stdin.end(JSON.stringify(ask));
  });
}
