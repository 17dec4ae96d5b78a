// @parse/node-apn against the sandbox: one session, then another after a GOAWAY.

import fs from "node:fs";
import apn from "@parse/node-apn";
import { check, control, device, judge, providerKey, uuid } from "./sandbox.mjs";

const key = providerKey();
await control("PUT", "/apns/keys/ABC123DEFG", { team: "DEF123GHIJ", publicKey: key.public });

const provider = new apn.Provider({
  token: { key: key.private, keyId: "ABC123DEFG", teamId: "DEF123GHIJ" },
  production: true,
  ca: fs.readFileSync(process.env.SANDBOX_CA),
});

function note(id) {
  const made = new apn.Notification();
  made.alert = "hello";
  made.topic = "com.example.app";
  made.pushType = "alert";
  made.id = id;
  return made;
}

const sends = [];
async function send(token) {
  const id = uuid();
  const result = await provider.send(note(id), token);
  for (const sent of result.sent) sends.push({ id, recipient: sent.device });
  return result;
}

// Node opens a hundred streams before it has seen the settings.
const cold = await send(Array.from({ length: 300 }, (_, no) => device(`ac${String(no).padStart(4, "0")}`)));
check("a burst over a cold connection is taken", [cold.sent.length, cold.failed.length], [300, 0]);

const good = await send(device("aa01"));
check("a push is taken", [good.sent.length, good.failed.length], [1, 0]);

const dead = await send(device("dead0410"));
const [gone] = dead.failed;
check("a dead device is 410", [String(gone.status), gone.response.reason], ["410", "Unregistered"]);
check("with the time in milliseconds", gone.response.timestamp > 1_700_000_000_000, true);

const bad = await send(device("bad00400"));
check("a bad token is 400", [String(bad.failed[0].status), bad.failed[0].response.reason], ["400", "BadDeviceToken"]);

const much = await send(device("bad00429"));
check("too many is 429", [String(much.failed[0].status), much.failed[0].response.reason], ["429", "TooManyRequests"]);

const many = await send(Array.from({ length: 200 }, (_, no) => device(`ab${String(no).padStart(4, "0")}`)));
check("a burst is taken", [many.sent.length, many.failed.length], [200, 0]);

const told = await control("POST", "/goaway/apns", {});
check("a session is told to go away", told.connections >= 1, true);
// It may use the old session once more before it has read that it goes away; that push fails on its side.
let again = await send(device("aa02"));
for (let no = 0; again.sent.length === 0 && no < 5; no++) again = await send(device("aa02"));
check("and the next push goes over another", [again.sent.length, again.failed.length], [1, 0]);

await judge(sends);
provider.shutdown();
process.exit(0);
