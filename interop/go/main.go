// Calls the main operations with the generated client, which lies in the directory fantail: call URL KEY
package main

import (
	"caller/fantail"
	"context"
	"fmt"
	"os"
)

func check(what string, found, expected any) {
	if found != expected {
		fmt.Fprintf(os.Stderr, "%s: %v instead of %v\n", what, found, expected)
		os.Exit(1)
	}
	fmt.Println("ok " + what)
}

func must[T any](value T, _ any, err error) T {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		os.Exit(1)
	}
	return value
}

func main() {
	configuration := fantail.NewConfiguration()
	configuration.Servers = fantail.ServerConfigurations{{URL: os.Args[1]}}
	client := fantail.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), fantail.ContextAccessToken, os.Args[2])

	user := fantail.NewUserPut()
	user.SetEmail("ann@example.com")
	put := must(client.UsersAPI.PutUser(ctx, "ann").UserPut(*user).Execute())
	check("a user is put", put.GetUserId(), "ann")

	device := fantail.NewDeviceRegister("phone", "ann")
	device.SetPlatform(fantail.PLATFORM_ANDROID)
	device.SetToken("tok-ann")
	registered := must(client.DevicesAPI.RegisterDevice(ctx).DeviceRegister(*device).Execute())
	check("a device is registered", registered.GetDeviceId(), "phone")

	recipient := fantail.NewRecipientSend()
	recipient.SetUserId("ann")
	content := fantail.NewContent("Hello")
	content.SetBody("Ann")
	send := fantail.NewNotificationSend([]fantail.RecipientSend{*recipient})
	send.SetNotificationId("hello")
	send.SetContent(*content)
	send.SetChannels([]fantail.Channel{fantail.CHANNEL_PUSH, fantail.CHANNEL_IN_APP})
	accepted := must(client.NotificationsAPI.SendNotification(ctx).NotificationSend(*send).Execute())
	check("a notification is sent", accepted.GetNotificationId(), "hello")
	again := must(client.NotificationsAPI.SendNotification(ctx).NotificationSend(*send).Execute())
	check("a repeat is the same", again.GetEventId(), accepted.GetEventId())
	status := must(client.NotificationsAPI.GetNotificationStatus(ctx, "hello").Execute())
	check("its status is read", status.GetEventId(), accepted.GetEventId())

	audience := fantail.AudienceOneOfAsAudience(fantail.NewAudienceOneOf([]string{"ann"}))
	data := fantail.NewEventData(audience)
	data.SetContent(*content)
	event := fantail.NewCloudEvent(*data, "1", "/interop", "1.0", "post.created")
	posted := must(client.EventsAPI.PostEvents(ctx).CloudEvent(*event).Execute())
	check("an event is posted", posted.EventAccepted != nil, true)
}
