"""Calls the main operations with the generated client: python openapi_caller.py CLIENT URL KEY"""

import sys

sys.path.insert(0, sys.argv[1])

import fantail_client as api  # noqa: E402
from sandbox import check  # noqa: E402


def main():
    configuration = api.Configuration(host=sys.argv[2], access_token=sys.argv[3])
    with api.ApiClient(configuration) as client:
        users, devices = api.UsersApi(client), api.DevicesApi(client)
        notifications, events = api.NotificationsApi(client), api.EventsApi(client)
        put = users.put_user("ann", user_put=api.UserPut(email="ann@example.com", attributes={"plan": "pro"}))
        check("a user is put", (put.user_id, put.attributes), ("ann", {"plan": "pro"}))
        device = api.DeviceRegister(user_id="ann", device_id="phone", platform="android", token="tok-ann")
        check("a device is registered", devices.register_device(device).device_id, "phone")
        content = api.Content(title="Hello", body="Ann")
        send = api.NotificationSend(
            notification_id="hello",
            content=content,
            recipients=[api.RecipientSend(user_id="ann")],
            channels=["push", "inApp"],
        )
        accepted = notifications.send_notification(send)
        check("a notification is sent", (accepted.notification_id, accepted.recipient_count), ("hello", 1))
        check("a repeat is the same", notifications.send_notification(send).event_id, accepted.event_id)
        status = notifications.get_notification_status("hello")
        check("its status is read", status.event_id, accepted.event_id)
        data = api.EventData(audience=api.Audience(api.AudienceOneOf(users=["ann"])), content=content)
        event = api.CloudEvent(specversion="1.0", id="1", source="/interop", type="post.created", data=data)
        posted = events.post_events(event)
        check("an event is posted", type(posted.actual_instance).__name__, "EventAccepted")


main()
