"""aioapns: batches of a thousand pushes until the time is over. Prints one line of JSON."""
import asyncio, json, ssl, sys, time

from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsProductionClientProtocol
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

directory, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
APNsProductionClientProtocol.APNS_SERVER = "localhost"
APNsProductionClientProtocol.APNS_PORT = port
key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
MESSAGE = {
    "aps": {"alert": {"title": "Order A-42 is on its way", "body": "2 parcels for you"}},
    "orderId": "A-42",
}


async def main():
    client = APNs(
        key=key.decode(), key_id="ABC123DEFG", team_id="DEF123GHIJ", topic="com.example.app",
        use_sandbox=False, max_connections=1,
        ssl_context=ssl.create_default_context(cafile=f"{directory}/ca.pem"),
    )

    async def push(no):
        request = NotificationRequest(
            device_token=f"{no:064x}", message=MESSAGE, collapse_key="order-42", push_type=PushType.ALERT
        )
        result = await client.send_notification(request)
        assert result.is_successful, result.description

    await push(0)
    pushes, began, cpu = 0, time.monotonic(), time.process_time()
    while time.monotonic() - began < seconds:
        await asyncio.gather(*(push(no) for no in range(1000)))
        pushes += 1000
    spent = {"pushes": pushes, "seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps(spent))


asyncio.run(main())
