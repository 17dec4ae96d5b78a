// Asks our own code (crates/channels/examples/verdicts.rs): one question in, one answer out, in their order.

import { spawn } from "node:child_process";
import readline from "node:readline";

export function verdicts() {
  const child = spawn(JSON.parse(process.env.FANTAIL_BINS).verdicts, { stdio: ["pipe", "pipe", "inherit"] });
  const waiting = [];
  readline.createInterface({ input: child.stdout }).on("line", (line) => waiting.shift()(JSON.parse(line)));
  return {
    ask: (question) =>
      new Promise((resolve) => {
        waiting.push(resolve);
        child.stdin.write(`${JSON.stringify(question)}\n`);
      }),
    end: () => child.stdin.end(),
  };
}

/// The same numbers in every run.
export function dice(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  return {
    below: (most) => next() % most,
    pick: (list) => list[next() % list.length],
    text(letters, length) {
      return Array.from({ length }, () => this.pick(letters)).join("");
    },
  };
}
