// @parse/node-apn: batches of a thousand devices until the time is over. Prints one line of JSON.
const fs = require("node:fs");
const apn = require("@parse/node-apn");
const { generateKeyPairSync } = require("node:crypto");

const [directory, port, seconds] = process.argv.slice(1);
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const provider = new apn.Provider({
  token: { key: privateKey.export({ type: "pkcs8", format: "pem" }), keyId: "ABC123DEFG", teamId: "DEF123GHIJ" },
  address: "localhost",
  port: Number(port),
  ca: fs.readFileSync(`${directory}/ca.pem`),
});
const note = new apn.Notification();
note.alert = { title: "Order A-42 is on its way", body: "2 parcels for you" };
note.payload = { orderId: "A-42" };
note.topic = "com.example.app";
note.pushType = "alert";
note.collapseId = "order-42";
const devices = Array.from({ length: 1000 }, (_, no) => no.toString(16).padStart(64, "0"));

(async () => {
  await provider.send(note, devices);
  const began = process.hrtime.bigint();
  const before = process.cpuUsage();
  let pushes = 0;
  const elapsed = () => Number(process.hrtime.bigint() - began) / 1e9;
  while (elapsed() < Number(seconds)) {
    const result = await provider.send(note, devices);
    if (result.failed.length > 0) throw new Error(JSON.stringify(result.failed[0]));
    pushes += result.sent.length;
  }
  const cpu = process.cpuUsage(before);
  console.log(JSON.stringify({ pushes, seconds: elapsed(), cpu_seconds: (cpu.user + cpu.system) / 1e6 }));
  process.exit(0);
})();
