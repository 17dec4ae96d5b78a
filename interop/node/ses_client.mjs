// @aws-sdk/client-sesv2 against the sandbox's SES, and sns-validator as the judge of the events that follow.

import { GetAccountCommand, SendBulkEmailCommand, SendEmailCommand, SESv2Client } from "@aws-sdk/client-sesv2";
import { spawn } from "node:child_process";
import http from "node:http";
import readline from "node:readline";
import MessageValidator from "sns-validator";
import { check, control, judge } from "./sandbox.mjs";

const credentials = { accessKeyId: "AKIDSANDBOX", secretAccessKey: "sandbox-secret" };
const ses = new SESv2Client({ region: "eu-west-1", credentials, maxAttempts: 1 });

function mail(to, reference) {
  return {
    FromEmailAddress: "Shop <news@shop.example>",
    Destination: { ToAddresses: [to] },
    Content: { Simple: { Subject: { Data: "Grüße" }, Body: { Html: { Data: "<p>Hallo" } } } },
    EmailTags: [{ Name: "fantail-reference", Value: reference }],
  };
}

async function failure(promise) {
  return promise.then(
    () => null,
    (error) => [error.name, error.$metadata?.httpStatusCode],
  );
}

/// Everything that SNS posts, in order.
function listener() {
  const waiting = [];
  const posted = [];
  const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (data) => (body += data));
    request.on("end", () => {
      response.end();
      const next = waiting.shift();
      if (next) next(body);
      else posted.push(body);
    });
  });
  const next = () => (posted.length > 0 ? Promise.resolve(posted.shift()) : new Promise((resolve) => waiting.push(resolve)));
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ server, next, url: `http://127.0.0.1:${server.address().port}/` })));
}

function validated(body) {
  return new Promise((resolve) => new MessageValidator().validate(body, (error) => resolve(error ? error.message : "valid")));
}

/// What our own reader says about a message.
function ours(body, topic) {
  const desk = spawn(JSON.parse(process.env.FANTAIL_BINS).mail_desk, { stdio: ["pipe", "pipe", "inherit"] });
  const settings = { fromAddress: "news@shop.example", region: "eu-west-1", eventTopics: [topic], caPem: process.env.CA };
  desk.stdin.end(`${JSON.stringify({ sns: body, settings })}\n`);
  return new Promise((resolve) => readline.createInterface({ input: desk.stdout }).once("line", (line) => resolve(JSON.parse(line))));
}

const sent = await ses.send(new SendEmailCommand(mail("ann@a.example", "r1")));
check("a mail is taken", sent.MessageId.startsWith("0100"), true);
const entries = ["bob@a.example", "sandbox-TooManyRequestsException@a.example"];
const bulk = await ses.send(
  new SendBulkEmailCommand({
    FromEmailAddress: "news@shop.example",
    DefaultContent: { Template: { TemplateContent: { Subject: "Hi", Text: "x" }, TemplateData: "{}" } },
    BulkEmailEntries: entries.map((to) => ({
      Destination: { ToAddresses: [to] },
      ReplacementTags: [{ Name: "fantail-reference", Value: "r2" }],
    })),
  }),
);
check("many at once", bulk.BulkEmailEntryResults.map((entry) => entry.Status), ["SUCCESS", "ACCOUNT_THROTTLED"]);
check("the account", (await ses.send(new GetAccountCommand({}))).SendQuota.SentLast24Hours, 2);
check("a refusal", await failure(ses.send(new SendEmailCommand(mail("sandbox-MessageRejected@a.example", "r3")))), ["MessageRejected", 400]);
const guessed = new SESv2Client({ region: "eu-west-1", credentials: { ...credentials, secretAccessKey: "guess" }, maxAttempts: 1 });
check("a wrong secret", await failure(guessed.send(new GetAccountCommand({}))), ["SignatureDoesNotMatch", 403]);

const { server, next, url } = await listener();
const topic = (await control("POST", "/sns/topics", { region: "eu-west-1", name: "mail" })).id;
await control("PUT", "/ses/events", { topic });
await control("POST", "/sns/subscriptions", { topic, url });
process.env.CA = await (await fetch(`${process.env.SANDBOX_CONTROL}/ca.pem`)).text();
const confirmation = await next();
check("a question whether we want it", [JSON.parse(confirmation).Type, await validated(confirmation)], ["SubscriptionConfirmation", "valid"]);
check("our reader confirms it", (await ours(confirmation, topic)).told?.startsWith("Confirm"), true);
await ses.send(new SendEmailCommand(mail("bounce@simulator.amazonses.com", "r4")));
const events = {};
for (let no = 0; no < 2; no += 1) {
  const body = await next();
  events[JSON.parse(JSON.parse(body).Message).eventType] = body;
}
check("events come", Object.keys(events).sort(), ["Bounce", "Send"]);
check("signed as SNS signs", [await validated(events.Bounce), await validated(events.Send)], ["valid", "valid"]);
const forged = events.Bounce.replace("Permanent", "Transient");
check("and not otherwise", (await validated(forged)) !== "valid", true);
const bounce = (await ours(events.Bounce, topic)).told ?? "";
check("our reader knows what it means", [bounce.includes('"r4"'), bounce.includes("Bounced { hard: true }")], [true, true]);
check("and does not believe a forged one", (await ours(forged, topic)).error, "the signature is not that of the certificate");
server.close();
await judge([
  { id: "r1", recipient: "ann@a.example" },
  { id: "r2", recipient: "bob@a.example" },
  { id: "r4", recipient: "bounce@simulator.amazonses.com" },
]);
