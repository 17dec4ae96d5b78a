// standardwebhooks verifies what we sign, and we verify what it signs.

import crypto from "node:crypto";
import { Webhook } from "standardwebhooks";
import { check } from "./sandbox.mjs";
import { dice, verdicts } from "./verdicts.mjs";

const random = dice(11);
const ours = verdicts();
const secret = () => `whsec_${crypto.randomBytes(24 + random.below(41)).toString("base64")}`;

function believes(text, headers, body) {
  try {
    new Webhook(text).verify(body, headers);
    return true;
  } catch {
    return false;
  }
}

const results = { theirs: 0, changed: 0, old: 0, ours: 0 };
for (let no = 0; no < 200; no += 1) {
  const [current, previous] = [secret(), secret()];
  const now = Math.floor(Date.now() / 1000);
  const body = JSON.stringify({ no, text: random.text([..."aé😀\"\\"], random.below(40)) });
  const question = { ask: "sign", secrets: [current, previous], id: `ref${no}`, timestamp: now, body };
  const { signature } = await ours.ask(question);
  const headers = { "webhook-id": `ref${no}`, "webhook-timestamp": String(now), "webhook-signature": signature };
  if (believes(current, headers, body) && believes(previous, headers, body)) results.theirs += 1;
  if (!believes(current, headers, `${body} `) && !believes(secret(), headers, body)) results.changed += 1;
  const stale = await ours.ask({ ...question, timestamp: now - 400 });
  const staleHeaders = { ...headers, "webhook-timestamp": String(now - 400), "webhook-signature": stale.signature };
  if (!believes(current, staleHeaders, body)) results.old += 1;
  const theirs = { ...headers, "webhook-signature": new Webhook(current).sign(`ref${no}`, new Date(now * 1000), body) };
  const verdict = await ours.ask({ ask: "verify", secret: current, headers: theirs, body, now });
  if (verdict.trusted) results.ours += 1;
}
check("they verify both secrets of a rotation", results.theirs, 200);
check("they refuse what was changed", results.changed, 200);
check("and what is old", results.old, 200);
check("we verify what they sign", results.ours, 200);
ours.end();
