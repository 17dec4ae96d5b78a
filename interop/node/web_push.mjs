// web-push against the sandbox, which plays push service and browser.

import webpush from "web-push";
import { check, control, judge, uuid } from "./sandbox.mjs";

const keys = webpush.generateVAPIDKeys();
webpush.setVapidDetails("mailto:ops@example.org", keys.publicKey, keys.privateKey);

async function subscribe(wish = {}) {
  return control("POST", "/webpush/subscriptions", { applicationServerKey: keys.publicKey, ...wish });
}

const sends = [];
async function send(subscription, options = {}) {
  const id = uuid();
  try {
    const result = await webpush.sendNotification(subscription, JSON.stringify({ id, title: "hello" }), options);
    sends.push({ id, recipient: subscription.endpoint });
    return result.statusCode;
  } catch (error) {
    return error.statusCode ?? String(error);
  }
}

const good = await subscribe();
check("a message is taken", await send(good, { TTL: 60, urgency: "high", topic: "news" }), 201);
check("another with its topic too", await send(good, { TTL: 60, topic: "news" }), 201);
const { waiting } = await control("GET", `/webpush/subscriptions/${good.id}`);
check("and takes its place", waiting.length, 1);
check("opened by the browser", JSON.parse(waiting[0].text).title, "hello");

check("a service that is strict takes it", await send(await subscribe({ service: "apple" })), 201);
const ended = await subscribe();
await control("DELETE", `/webpush/subscriptions/${ended.id}`);
check("an ended subscription is 410", await send(ended), 410);
check("an unknown one is 404", await send({ ...good, endpoint: good.endpoint + "x" }), 404);
check("too many is 429", await send(await subscribe({ outcome: "quota" })), 429);

const others = webpush.generateVAPIDKeys();
const foreign = await subscribe({ applicationServerKey: others.publicKey });
check("a subscription of another key is 403", await send(foreign), 403);
webpush.setVapidDetails("mailto:me@localhost", keys.publicKey, keys.privateKey);
check("a strict service wants a real mailbox", await send(await subscribe({ service: "apple" })), 403);

await judge(sends);
