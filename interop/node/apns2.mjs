// apns2 against the sandbox, at its fixed port and over undici's HTTP/2.

import { ApnsClient, Errors, Notification } from "apns2";
import { check, control, device, judge, providerKey, uuid } from "./sandbox.mjs";

const key = providerKey();
await control("PUT", "/apns/keys/ABC123DEFG", { team: "DEF123GHIJ", publicKey: key.public });

const client = new ApnsClient({
  team: "DEF123GHIJ",
  keyId: "ABC123DEFG",
  signingKey: key.private,
  defaultTopic: "com.example.app",
});

async function outcome(token) {
  try {
    await client.send(new Notification(token, { alert: "hello" }));
    return ["sent"];
  } catch (error) {
    return [error.statusCode ?? String(error.cause ?? error), error.reason, error.response?.timestamp];
  }
}

check("a push is taken", await outcome(device("aa01")), ["sent"]);
const gone = await outcome(device("dead0410"));
check("a dead device is 410", gone.slice(0, 2), [410, Errors.unregistered]);
check("with the time in milliseconds", gone[2] > 1_700_000_000_000, true);
check("a bad token is 400", (await outcome(device("bad00400"))).slice(0, 2), [400, Errors.badDeviceToken]);
check("too many is 429", (await outcome(device("bad00429"))).slice(0, 2), [429, Errors.tooManyRequests]);

const tokens = Array.from({ length: 100 }, (_, no) => device(`ab${String(no).padStart(4, "0")}`));
const many = await Promise.all(tokens.map(outcome));
check("a burst is taken", many.filter(([word]) => word === "sent").length, 100);
const { connections } = await control("POST", "/goaway/apns", {});
check("sessions are told to go away", connections >= 1, true);
// undici fails the request that is at the head of a session's queue when the frame comes, whether it left or not.
const word = await nextSent(connections);
check("after them a push is taken", word, "sent");

async function nextSent(failuresMax) {
  for (let failures = 0; ; failures += 1) {
    const [word] = await outcome(device("aa02"));
    if (!String(word).includes("GOAWAY") || failures === failuresMax) return word;
  }
}

// It sends no apns-id: recipients have to do.
const { messages } = await control("GET", "/messages?limit=1000");
const taken = messages.filter((message) => message.refused === null);
await judge(taken.map(({ id, recipient }) => ({ id, recipient })));
const expected = [device("aa01"), device("aa02"), ...tokens];
check("each device once", taken.map((message) => message.recipient).sort(), expected.sort());
check("an id was given to each", taken.every((message) => message.id.length === uuid().length), true);
await client.close();
process.exit(0);
