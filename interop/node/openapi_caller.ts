// Calls the main operations with the generated client, beside which this lies: node openapi_caller.js URL KEY

import { Configuration, DevicesApi, EventsApi, NotificationsApi, UsersApi } from "./index";

declare const process: { argv: string[]; exit(code: number): never };

function check(what: string, found: unknown, expected: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    console.error(`${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);
    process.exit(1);
  }
  console.log(`ok ${what}`);
}

async function main(): Promise<void> {
  const configuration = new Configuration({ basePath: process.argv[2], accessToken: process.argv[3] });
  const users = new UsersApi(configuration);
  const put = await users.putUser({ user: "ann", userPut: { email: "ann@example.com", attributes: { plan: "pro" } } });
  check("a user is put", [put.userId, put.attributes], ["ann", { plan: "pro" }]);
  const deviceRegister = { userId: "ann", deviceId: "phone", platform: "android", token: "tok-ann" } as const;
  const device = await new DevicesApi(configuration).registerDevice({ deviceRegister });
  check("a device is registered", device.deviceId, "phone");
  const content = { title: "Hello", body: "Ann" };
  const notifications = new NotificationsApi(configuration);
  const notificationSend = {
    notificationId: "hello",
    content,
    recipients: [{ userId: "ann" }],
    channels: ["push" as const, "inApp" as const],
  };
  const accepted = await notifications.sendNotification({ notificationSend });
  check("a notification is sent", [accepted.notificationId, accepted.recipientCount], ["hello", 1]);
  const again = await notifications.sendNotification({ notificationSend });
  check("a repeat is the same", again.eventId, accepted.eventId);
  const status = await notifications.getNotificationStatus({ notification: "hello" });
  check("its status is read", status.eventId, accepted.eventId);
  const data = { audience: { users: ["ann"] }, content };
  const cloudEvent = { specversion: "1.0", id: "1", source: "/interop", type: "post.created", data };
  const posted = await new EventsApi(configuration).postEvents({ cloudEvent });
  check("an event is posted", "eventId" in posted, true);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
