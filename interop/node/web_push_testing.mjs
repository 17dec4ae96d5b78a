// Our Web Push sender against npm web-push-testing: a push service that checks the token, decrypts, and can end subscriptions.

import { createRequire } from "node:module";
import { check } from "./sandbox.mjs";
import { sendOne } from "./send_one.mjs";

const require = createRequire(import.meta.url);
const Server = require("web-push-testing/src/server.js");
const { PushApiModel } = require("web-push-testing/src/PushApiModel.js");
const { generateVAPIDKeys } = require("web-push");

const PORT = 18_090;
const BASE = `http://localhost:${PORT}`;
const vapid = generateVAPIDKeys();
new Server(new PushApiModel(), PORT).startServer();

async function post(path, body = {}) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(BASE + path, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  return text.startsWith("{") ? JSON.parse(text).data : text;
}

const subscribe = () => post("/subscribe", { userVisibleOnly: "true", applicationServerKey: vapid.publicKey });

async function send(subscriptions, secrets) {
  const answers = await sendOne({
    provider: "webpush",
    settings: { subject: "mailto:push@example.com" },
    secrets,
    content: { title: "Hello", body: "Grüße 👋", data: { order: 42 } },
    messages: subscriptions.map(({ endpoint, keys }, number) => ({
      reference: `r${number}`,
      endpoint: `web 0 ${keys.p256dh} ${keys.auth} ${endpoint}`,
    })),
  });
  return answers.map(({ answer, refusal, code }) => [answer, refusal, code].filter(Boolean).join(" "));
}

const secrets = { vapidPrivateKey: vapid.privateKey, vapidPublicKey: vapid.publicKey };
const subscriptions = [await subscribe(), await subscribe(), await subscribe()];
check("taken", await send(subscriptions, secrets), ["accepted", "accepted", "accepted"]);
for (const [number, { clientHash }] of subscriptions.entries()) {
  const { messages } = await post("/get-notifications", { clientHash });
  const expected = { title: "Hello", body: "Grüße 👋", data: { order: 42 }, reference: `r${number}` };
  check(`browser ${number} reads it`, messages.map((text) => JSON.parse(text)), [expected]);
}

await post(`/expire-subscription/${subscriptions[1].clientHash}`);
check("an ended subscription is dead", (await send(subscriptions, secrets))[1], "rejected DeadEndpoint 410");

const other = generateVAPIDKeys();
const refused = await send([subscriptions[0]], { vapidPrivateKey: other.privateKey });
check("another key is not taken", refused, ["rejected Malformed 400"]);
process.exit(0);
