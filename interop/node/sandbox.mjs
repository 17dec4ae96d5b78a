// What every script in Node needs: the control API of the sandbox, checks that are counted, and ids.

import assert from "node:assert/strict";
import crypto from "node:crypto";

/// Asks the control API.
export async function control(method, path, body) {
  const response = await fetch(process.env.SANDBOX_CONTROL + path, {
    method,
    headers: { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const value = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(value)}`);
  return value;
}

/// Fails the script if the two differ.
export function check(what, found, expected) {
  assert.deepEqual(found, expected, what);
  console.log(`ok ${what}`);
}

/// Every send arrived exactly once, and nothing else did.
export async function judge(sends) {
  const verdict = await control("POST", "/judge", sends);
  check(
    "the judge: everything once",
    [verdict.complete, verdict.unique, verdict.repeatedCount, verdict.missingCount, verdict.unexpectedCount],
    [true, sends.length, 0, 0, 0],
  );
}

/// A key of Apple's kind: P-256.
export function providerKey() {
  const { privateKey, publicKey } = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" });
  return {
    private: privateKey.export({ type: "pkcs8", format: "pem" }),
    public: publicKey.export({ type: "spki", format: "pem" }),
  };
}

/// A device token that begins so.
export function device(first) {
  return first.padEnd(64, "0");
}

export const uuid = () => crypto.randomUUID();
