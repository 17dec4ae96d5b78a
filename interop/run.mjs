// Runs other people's clients and verifiers against Fantail, in a network of its own: nothing can leave this machine.
//
//   node interop/run.mjs            all cases; fails if one fails or could not be run
//   node interop/run.mjs --fast     the quick ones; where nothing can be run, says so, and fails if CI is set
//   node interop/run.mjs NAME...    these only
//
// Outside it installs pinned versions, checked by their hashes, and builds; then it starts itself again inside `unshare -n -m`, where the names of the
// providers mean this machine.

import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.dirname(HERE);
const VENV = path.join(HERE, "python", ".venv");
/// Packages of Python without a wheel.
const SOURCE_ONLY = "dkimpy,http-ece";
/// Unpacked packages of the system.
const TOOLS = path.join(HERE, ".tools");
const INSIDE = "FANTAIL_INTEROP_INSIDE";
const CASE_MS_MAX = 180_000;
const START_MS_MAX = 20_000;
const OUTPUT_LINES_MAX = 60;

/// Names that mean this machine inside.
const NAMES = [
  "localhost",
  "api.push.apple.com",
  "api.sandbox.push.apple.com",
  "api.development.push.apple.com",
  "api-manage-broadcast.push.apple.com",
  "fcm.googleapis.com",
  "oauth2.googleapis.com",
  "iid.googleapis.com",
  "updates.push.services.mozilla.com",
  "web.push.apple.com",
  "email.eu-west-1.amazonaws.com",
  "sns.eu-west-1.amazonaws.com",
  "email.us-east-1.amazonaws.com",
  "sns.us-east-1.amazonaws.com",
  "api.twilio.com",
];

// Where `ip` and servers live, which is not in everybody's path.
process.env.PATH += `:/usr/sbin:/sbin:${path.join(TOOLS, "usr", "bin")}`;

const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const isFast = process.argv.includes("--fast");
const cases = JSON.parse(fs.readFileSync(path.join(HERE, "cases.json"), "utf8")).filter((one) =>
  wanted.length > 0 ? wanted.includes(one.name) : !isFast || one.fast,
);

if (process.env[INSIDE]) {
  process.exit(await inside(JSON.parse(process.env[INSIDE])));
} else {
  process.exit(outside());
}

function outside() {
  if (cases.length === 0) return fail(`no case is named ${wanted.join(", ")}`);
  install();
  const bins = build();
  const unshare = [["-n", "-m"], ["-r", "-n", "-m"]].find(
    (flags) => spawnSync("unshare", [...flags, "true"]).status === 0,
  );
  if (!unshare) {
    return notRun("this system permits no network namespace (unshare -n -m)");
  }
  const env = { ...process.env, [INSIDE]: JSON.stringify(bins) };
  const self = [process.execPath, fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  return spawnSync("unshare", [...unshare, ...self], { stdio: "inherit", env }).status ?? 1;
}

/// A contributor may work where no namespace is permitted. A change is never taken without a foreign judge.
function notRun(why) {
  const line = "!".repeat(72);
  console.log(`${line}\ninterop: NOT RUN: ${why}\ninterop: no other software has judged this build\n${line}`);
  const isCi = !["", "0", "false"].includes(process.env.CI ?? "");
  return isFast && !isCi ? 0 : 1;
}

/// Again only if what is wanted changed. Nothing runs that a package brings to be run at its installation, but for the setup of
/// two packages that exist as source only.
function install() {
  const node = path.join(HERE, "node");
  if (isStale(path.join(node, "node_modules", ".fantail"), path.join(node, "package-lock.json"))) {
    must("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--prefix", node]);
    mark(path.join(node, "node_modules", ".fantail"), path.join(node, "package-lock.json"));
  }
  const requirements = path.join(HERE, "python", "requirements.txt");
  if (isStale(path.join(VENV, ".fantail"), requirements)) {
    if (spawnSync("python3", ["-m", "venv", VENV]).status !== 0) {
      apt("python3-venv");
      must("python3", ["-m", "venv", VENV]);
    }
    pip("-r", path.join(HERE, "python", "build.txt"));
    pip(`--no-binary=${SOURCE_ONLY}`, "--no-build-isolation", "-r", requirements);
    mark(path.join(VENV, ".fantail"), requirements);
  }
  if (!isThere("ip")) apt("iproute2");
  for (const one of cases) {
    for (const [command, name] of Object.entries(one.apt ?? {})) {
      if (!isThere(command)) apt(name);
    }
    for (const [command, name] of Object.entries(one.unpack ?? {})) {
      if (!isThere(command)) unpack(name);
    }
  }
  download();
}

function pip(...wanted) {
  const strictly = ["--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary=:all:"];
  must(path.join(VENV, "bin", "pip"), ["install", ...strictly, ...wanted]);
}

/// Packages of Go, checked against go.sum.
function download() {
  if (cases.some((one) => one.go)) must("go", ["mod", "download"], { cwd: path.join(HERE, "go") });
}

function apt(name) {
  aptUpdate();
  aptGet("install", "-y", "-qq", "--no-install-recommends", name);
}

function aptUpdate() {
  aptGet("update", "-qq");
}

function aptGet(...words) {
  const sudo = process.getuid() === 0 ? [] : ["sudo"];
  must("env", [...sudo, "apt-get", ...words], { env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } });
}

/// A package whose installation would start a service: its programs only, in a directory of ours.
function unpack(name) {
  fs.rmSync(TOOLS, { recursive: true, force: true });
  fs.mkdirSync(TOOLS);
  const download = () => spawnSync("apt-get", ["download", "-qq", name], { cwd: TOOLS }).status === 0;
  if (!download()) {
    aptUpdate();
    if (!download()) process.exit(fail(`${name} could not be downloaded`));
  }
  const [file] = fs.readdirSync(TOOLS).filter((entry) => entry.endsWith(".deb"));
  must("dpkg-deb", ["-x", file, "."], { cwd: TOOLS });
}

function isThere(command) {
  return spawnSync("sh", ["-c", `command -v ${command}`]).status === 0;
}

function isStale(stamp, source) {
  return !fs.existsSync(stamp) || fs.readFileSync(stamp, "utf8") !== fs.readFileSync(source, "utf8");
}

function mark(stamp, source) {
  fs.copyFileSync(source, stamp);
}

/// Examples of our crates that the cases need, by name. Built with the features of the whole workspace, as the tests are,
/// so that nothing is compiled twice.
function build() {
  const examples = [...new Set(["sandbox", ...cases.flatMap((one) => one.builds ?? [])])];
  const flags = ["build", "--locked", "--workspace", "--message-format=json-render-diagnostics"];
  const built = spawnSync(process.env.CARGO ?? "cargo", [...flags, ...examples.flatMap((name) => ["--example", name])], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 1 << 28,
  });
  if (built.status !== 0) process.exit(fail(`${examples.join(", ")} could not be built`));
  const messages = built.stdout.toString().split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const made = messages.filter((message) => message.executable && message.target?.kind.includes("example"));
  return Object.fromEntries(made.map((message) => [message.target.name, message.executable]));
}

function must(command, flags, options = {}) {
  const done = spawnSync(command, flags, { stdio: ["ignore", "inherit", "inherit"], cwd: HERE, ...options });
  if (done.status !== 0) process.exit(fail(`${command} ${flags.join(" ")} failed`));
}

function fail(text) {
  console.error(`interop: ${text}`);
  return 1;
}

async function inside(bins) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "fantail-interop-"));
  fs.writeFileSync(path.join(directory, "hosts"), NAMES.map((name) => `127.0.0.1 ${name}\n`).join(""));
  must("ip", ["link", "set", "lo", "up"]);
  must("mount", ["--bind", path.join(directory, "hosts"), "/etc/hosts"]);
  const results = [];
  for (const one of cases) {
    const began = Date.now();
    const result = await runCase(one, bins, fs.mkdtempSync(path.join(directory, "case-")));
    results.push({ ...one, ...result, ms: Date.now() - began });
    const word = result.isGood ? "ok  " : "FAIL";
    console.log(`${word} ${one.name.padEnd(28)} ${one.direction.padEnd(28)} ${String(Date.now() - began).padStart(6)} ms`);
    if (!result.isGood) console.log(result.output.split("\n").slice(-OUTPUT_LINES_MAX).join("\n"));
  }
  fs.rmSync(directory, { recursive: true, force: true });
  const failed = results.filter((result) => !result.isGood).length;
  const checks = results.reduce((sum, result) => sum + result.checks, 0);
  console.log(`interop: ${results.length - failed} of ${results.length} cases passed, ${checks} checks`);
  return failed === 0 ? 0 : 1;
}

/// A sandbox of its own for every case.
async function runCase(one, bins, directory) {
  const sandbox = spawn(bins.sandbox, ["443", directory], { stdio: ["pipe", "pipe", "inherit"] });
  try {
    const places = JSON.parse(await firstLine(sandbox));
    const ca = path.join(directory, "ca.pem");
    const env = {
      ...process.env,
      [INSIDE]: "",
      PATH: `${path.join(VENV, "bin")}:${process.env.PATH}`,
      SANDBOX_CONTROL: `http://${places.control}`,
      SANDBOX_PLACES: JSON.stringify(places),
      SANDBOX_CA: ca,
      NODE_EXTRA_CA_CERTS: ca,
      SSL_CERT_FILE: ca,
      REQUESTS_CA_BUNDLE: ca,
      AWS_CA_BUNDLE: ca,
      FANTAIL_BINS: JSON.stringify(bins),
      CASE_DIRECTORY: directory,
    };
    const child = spawn(one.run[0], one.run.slice(1), { cwd: HERE, env, stdio: ["ignore", "pipe", "pipe"] });
    return await finished(child, one.minutes ? one.minutes * 60_000 : CASE_MS_MAX);
  } catch (error) {
    return { isGood: false, checks: 0, output: String(error) };
  } finally {
    sandbox.stdin.end();
    sandbox.kill("SIGKILL");
  }
}

function firstLine(child) {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error("the sandbox did not start")), START_MS_MAX);
    readline.createInterface({ input: child.stdout }).once("line", (line) => {
      clearTimeout(late);
      resolve(line);
    });
    child.once("exit", (code) => reject(new Error(`the sandbox ended with ${code}`)));
    child.once("error", reject);
  });
}

/// A case is good if it ends with 0 and made at least one check: lines that begin with `ok `.
function finished(child, limit) {
  return new Promise((resolve) => {
    let output = "";
    child.stdout.on("data", (data) => (output += data));
    child.stderr.on("data", (data) => (output += data));
    const late = setTimeout(() => {
      output += "\nthe case took too long";
      child.kill("SIGKILL");
    }, limit);
    child.once("error", (error) => resolve({ isGood: false, checks: 0, output: String(error) }));
    child.once("close", (code) => {
      clearTimeout(late);
      const checks = output.split("\n").filter((line) => line.startsWith("ok ")).length;
      resolve({ isGood: code === 0 && checks > 0, checks, output });
    });
  });
}
