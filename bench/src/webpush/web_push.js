// npm web-push: requests made, encrypted and signed until the time is over; nothing is sent. Prints one line of JSON.
const webpush = require("web-push");
const { createECDH, randomBytes } = require("node:crypto");

const seconds = Number(process.argv.slice(1)[2]);
const keys = webpush.generateVAPIDKeys();
const browsers = Array.from({ length: 1000 }, (_, no) => {
  const ecdh = createECDH("prime256v1");
  const p256dh = ecdh.generateKeys().toString("base64url");
  return { endpoint: `https://localhost/push/${no}`, keys: { p256dh, auth: randomBytes(16).toString("base64url") } };
});
const text = JSON.stringify({
  body: "2 parcels for you", data: { orderId: "A-42" }, tag: "order-42", title: "Order A-42 is on its way",
  reference: "0".repeat(38),
});
const options = {
  vapidDetails: { subject: "mailto:push@example.com", ...keys }, TTL: 3600, urgency: "normal", topic: "order-42",
};
const make = (no) => webpush.generateRequestDetails(browsers[no % browsers.length], text, options);
for (let no = 0; no < 500; no++) make(no);
const began = process.hrtime.bigint();
const before = process.cpuUsage();
const elapsed = () => Number(process.hrtime.bigint() - began) / 1e9;
let pushes = 0;
while (elapsed() < seconds) for (let no = 0; no < 100; no++, pushes++) make(no);
const cpu = process.cpuUsage(before);
console.log(JSON.stringify({ pushes, seconds: elapsed(), cpu_seconds: (cpu.user + cpu.system) / 1e6 }));
