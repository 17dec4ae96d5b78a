// firebase-admin for Node against the sandbox. Its sendEach over HTTP/2 writes a `:scheme` with a colon in it, which every
// strict server refuses; so HTTP/1.1 is asked for.

import crypto from "node:crypto";
import admin from "firebase-admin";
import { check, control, judge, uuid } from "./sandbox.mjs";

const { privateKey, publicKey } = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 });
const email = "sender@demo.iam.gserviceaccount.com";
await control("PUT", `/fcm/accounts/${email}`, {
  project: "demo",
  publicKey: publicKey.export({ type: "spki", format: "pem" }),
});

admin.initializeApp({
  credential: admin.credential.cert({
    projectId: "demo",
    clientEmail: email,
    privateKey: privateKey.export({ type: "pkcs8", format: "pem" }),
  }),
});
const messaging = admin.messaging();
messaging.enableLegacyHttpTransport();

const sends = [];
function message(target) {
  const id = uuid();
  sends.push({ id, recipient: target.token ?? `topic:${target.topic}` });
  return { ...target, data: { id }, notification: { title: "hello" }, android: { ttl: 60_000, priority: "high" } };
}

async function failure(target) {
  try {
    await messaging.send({ ...target, data: { id: uuid() } });
    return "sent";
  } catch (error) {
    return error.code;
  }
}

const name = await messaging.send(message({ token: "device-1" }));
check("a message is taken", name.startsWith("projects/demo/messages/"), true);
await messaging.send(message({ topic: "news" }));

const batch = await messaging.sendEach([message({ token: "device-2" }), message({ token: "device-3" })]);
check("several are taken", [batch.successCount, batch.failureCount], [2, 0]);

const dead = "messaging/registration-token-not-registered";
check("a dead token", await failure({ token: "sandbox-unregistered" }), dead);
check("another sender's token", await failure({ token: "sandbox-sender-id-mismatch" }), "messaging/mismatched-credential");
check("a bad argument", await failure({ token: "sandbox-invalid-argument" }), "messaging/invalid-argument");
check("too much for a minute", await failure({ token: "sandbox-quota" }), "messaging/message-rate-exceeded");
check("a broken server", await failure({ token: "sandbox-internal" }), "messaging/internal-error");

const joined = await messaging.subscribeToTopic(["device-1", "sandbox-unregistered"], "news");
check("devices subscribe", [joined.successCount, joined.failureCount], [1, 1]);
check("but for the dead", joined.errors[0].error.code, dead);
const left = await messaging.unsubscribeFromTopic(["device-1"], "news");
check("and leave", [left.successCount, left.failureCount], [1, 0]);

await judge(sends);
process.exit(0);
