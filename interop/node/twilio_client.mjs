// twilio's client sends through the sandbox, and its validator judges the callbacks.

import http from "node:http";
import twilio from "twilio";
import { check, control } from "./sandbox.mjs";

const SID = "AC00000000000000000000000000000001";
const TOKEN = "token-of-the-sandbox";
const FROM = "+12025550100";
const TO = "+12025550199";
const client = twilio(SID, TOKEN);

const told = [];
let wake = () => {};
const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (data) => (body += data));
  request.on("end", () => {
    told.push({ path: request.url, signature: request.headers["x-twilio-signature"], body });
    response.end();
    wake();
  });
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const base = `http://127.0.0.1:${server.address().port}`;

async function next(count) {
  while (told.length < count) await new Promise((resolve) => (wake = resolve));
}

async function code(promise) {
  try {
    await promise;
    return "taken";
  } catch (error) {
    return error.code;
  }
}

const send = (more) => client.messages.create({ to: TO, from: FROM, body: "Hi", ...more });

await control("PUT", `/twilio/senders/${encodeURIComponent(FROM)}`, { perSecond: 100 });
const made = await send({ body: "€".repeat(81), statusCallback: `${base}/callbacks/ref1`, validityPeriod: 60 });
check("a message is taken", [made.sid.slice(0, 2), made.status, made.numSegments, made.errorCode], ["SM", "queued", "2", null]);
check("with the time that their library reads", made.dateCreated instanceof Date && made.dateCreated.getTime() > 0, true);

await next(2);
const parsed = (one) => Object.fromEntries(new URLSearchParams(one.body));
check("it is told about", told.map((one) => parsed(one).MessageStatus), ["sent", "delivered"]);
check(
  "their validator believes the callbacks",
  told.map((one) => twilio.validateRequest(TOKEN, one.signature, base + one.path, parsed(one))),
  [true, true],
);
check("and no changed one", twilio.validateRequest(TOKEN, told[0].signature, base + told[0].path, { ...parsed(told[0]), To: "+1" }), false);
check("fetched later it is delivered", (await client.messages(made.sid).fetch()).status, "delivered");
check("and listed", (await client.messages.list({ to: TO, limit: 5 })).map((one) => one.sid), [made.sid]);

await control("POST", "/twilio/inbound", { from: TO, to: FROM, body: "STOP", account: SID, url: `${base}/inbound` });
await next(3);
check("STOP comes in, signed", [
  parsed(told[2]).Body,
  twilio.validateRequest(TOKEN, told[2].signature, `${base}/inbound`, parsed(told[2])),
], ["STOP", true]);
check("then the recipient gets nothing", await code(send({})), 21610);
await control("POST", "/twilio/inbound", { from: TO, to: FROM, body: "START", account: SID, url: `${base}/inbound` });
check("until START", await code(send({})), "taken");

for (const [to, expected] of [["+15005550001", 21211], ["+15005550002", 21612], ["+15005550003", 21408], ["+15005550009", 21614]]) {
  check(`${to} is refused with ${expected}`, await code(send({ to })), expected);
}
await control("PUT", "/faults/twilio", { errors: { 20429: 1 } });
check("too many requests are 20429", await code(send({})), 20429);
await control("PUT", "/faults/twilio", {});
await control("PUT", `/twilio/accounts/${SID}`, { authToken: "another" });
check("a wrong token is 20003", await code(send({})), 20003);
server.close();
process.exit(0);
