"""aioapns against the sandbox: no ALPN, `host` instead of `:authority`, and every DATA frame is parsed as JSON."""

import asyncio
import os
import ssl

from aioapns import APNs, NotificationRequest, PushType
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sandbox import check, control, device, judge, uuid

BURST = 200


def key():
    made = ec.generate_private_key(ec.SECP256R1())
    private = made.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = made.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()


async def main():
    private, public = key()
    control("PUT", "/apns/keys/ABC123DEFG", {"team": "DEF123GHIJ", "publicKey": public})
    client = APNs(
        key=private,
        key_id="ABC123DEFG",
        team_id="DEF123GHIJ",
        topic="com.example.app",
        use_sandbox=False,
        max_connections=1,
        ssl_context=ssl.create_default_context(cafile=os.environ["SANDBOX_CA"]),
    )
    sends = []

    async def send(token):
        request = NotificationRequest(
            device_token=token,
            message={"aps": {"alert": "hello"}},
            notification_id=uuid(),
            push_type=PushType.ALERT,
        )
        result = await client.send_notification(request)
        if result.is_successful:
            sends.append({"id": request.notification_id, "recipient": token})
        return result

    good = await send(device("aa01"))
    check("a push is taken", (good.status, good.description), ("200", None))
    dead = await send(device("dead0410"))
    check("a dead device is 410", (dead.status, dead.description), ("410", "Unregistered"))
    check("with the time in milliseconds", int(dead.timestamp) > 1_700_000_000_000, True)
    bad = await send(device("bad00400"))
    check("a bad token is 400", (bad.status, bad.description), ("400", "BadDeviceToken"))
    much = await send(device("bad00429"))
    check("too many is 429", (much.status, much.description), ("429", "TooManyRequests"))
    results = await asyncio.gather(*(send(device(f"ab{no:04}")) for no in range(BURST)))
    check("a burst is taken", sum(result.is_successful for result in results), BURST)
    told = control("POST", "/goaway/apns", {})
    check("the connection is told to go away", told["connections"], 1)
    again = await send(device("aa02"))
    check("and the next push goes over another", again.status, "200")
    judge(sends)


asyncio.run(main())
