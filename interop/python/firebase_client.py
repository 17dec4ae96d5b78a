"""firebase-admin for Python against the sandbox: HTTP/1.1 for single messages, HTTP/2 for many, tokens, fids and topics."""

import asyncio

import firebase_admin
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from firebase_admin import credentials, exceptions, messaging

from sandbox import check, control, judge, uuid

EMAIL = "sender@demo.iam.gserviceaccount.com"


def account():
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    control("PUT", f"/fcm/accounts/{EMAIL}", {"project": "demo", "publicKey": public.decode()})
    return {
        "type": "service_account",
        "project_id": "demo",
        "private_key_id": "1",
        "private_key": private.decode(),
        "client_email": EMAIL,
        "token_uri": "https://oauth2.googleapis.com/token",
    }


def failure(**target):
    try:
        return messaging.send(messaging.Message(data={"id": uuid()}, **target))
    except exceptions.FirebaseError as error:
        return type(error).__name__


def main():
    firebase_admin.initialize_app(credentials.Certificate(account()))
    sends = []

    def message(recipient, **target):
        sends.append({"id": uuid(), "recipient": recipient})
        notification = messaging.Notification(title="hello")
        return messaging.Message(data={"id": sends[-1]["id"]}, notification=notification, **target)

    name = messaging.send(message("device-1", token="device-1"))
    check("a message is taken", name.startswith("projects/demo/messages/"), True)
    messaging.send(message("installation-1", fid="installation-1"))
    messaging.send(message("topic:news", topic="news"))
    condition = "'news' in topics"
    messaging.send(message(f"condition:{condition}", condition=condition))

    many = [message(f"device-{no}", token=f"device-{no}") for no in range(2, 52)]
    batch = asyncio.run(messaging.send_each_async(many))
    check("many over HTTP/2", (batch.success_count, batch.failure_count), (50, 0))

    check("a dead token", failure(token="sandbox-unregistered"), "UnregisteredError")
    check("another sender's token", failure(token="sandbox-sender-id-mismatch"), "SenderIdMismatchError")
    check("a bad argument", failure(token="sandbox-invalid-token"), "InvalidArgumentError")
    check("the key behind it is bad", failure(token="sandbox-third-party-auth"), "ThirdPartyAuthError")
    check("no details", failure(token="sandbox-too-big"), "InvalidArgumentError")

    result = messaging.subscribe_to_topic(["device-1", "device-2"], "news")
    check("devices subscribe", (result.success_count, result.failure_count), (2, 0))
    result = messaging.unsubscribe_from_topic(["device-1"], "news")
    check("and leave", (result.success_count, result.failure_count), (1, 0))

    judge(sends)


main()
