// Callbacks signed by twilio's own library, seeded: ours believes them, and nothing that was changed.

import crypto from "node:crypto";
import querystring from "node:querystring";
import twilio from "twilio";
import { check } from "./sandbox.mjs";
import { dice, verdicts } from "./verdicts.mjs";

const TOKEN = "f3f1c0ffee0000000000000000000001";
const secrets = { authToken: TOKEN };
const random = dice(7);
const ours = verdicts();
const letters = [..."abcXYZ019+ &=%#é😀'\"-_."];
const urls = [
  "https://notify.example.com/callbacks/twilio/main/ref",
  "https://notify.example.com:443/callbacks/twilio/main/ref?a=b&c=%20d",
  "https://notify.example.com:8443/callbacks/twilio/main/ref",
  "http://notify.example.com/callbacks/twilio/main/ref?x",
];

/// The port may have been there or not when it was signed: both libraries try both.
function portless(url) {
  return url.replace(/^(https?:\/\/[^/:]+):\d+/, "$1");
}

let refused = [];
let believed = [];
for (let no = 0; no < 500; no += 1) {
  const params = {};
  for (let field = random.below(12); field >= 0; field -= 1) {
    const name = random.text([..."ABCabc012"], 1 + random.below(8));
    const values = Array.from({ length: 1 + random.below(3) }, () => random.text(letters, random.below(20)));
    params[name] = values.length > 1 ? values : values[0];
  }
  const url = random.pick(urls);
  const signature = twilio.getExpectedTwilioSignature(TOKEN, random.below(2) ? url : portless(url), params);
  const body = querystring.stringify(params);
  const good = { ask: "callback", url, signature, body, secrets };
  if (!(await ours.ask(good)).trusted) refused.push(good);
  const changed = random.pick([
    { ...good, body: `${body}x` },
    { ...good, body: `${body}&Extra=1` },
    { ...good, url: `${url}x` },
    { ...good, signature: crypto.randomBytes(20).toString("base64") },
    { ...good, secrets: { authToken: `${TOKEN}0` } },
  ]);
  if ((await ours.ask(changed)).trusted) believed.push(changed);
  if (!twilio.validateRequest(TOKEN, signature, url, params)) refused.push({ theirs: good });
}
check("500 forms signed by them are believed", refused.slice(0, 2), []);
check("none that was changed is", believed.slice(0, 2), []);

const body = JSON.stringify({ a: "ü" });
const url = `https://notify.example.com/x?bodySHA256=${twilio.getExpectedBodyHash(body)}`;
const signature = twilio.getExpectedTwilioSignature(TOKEN, url, {});
check("a JSON body with its hash is believed by both", [
  twilio.validateRequestWithBody(TOKEN, signature, url, body),
  (await ours.ask({ ask: "callback", url, signature, body, isForm: false, secrets })).trusted,
], [true, true]);
check("another body by neither", [
  twilio.validateRequestWithBody(TOKEN, signature, url, `${body} `),
  (await ours.ask({ ask: "callback", url, signature, body: `${body} `, isForm: false, secrets })).trusted,
], [false, false]);
ours.end();
