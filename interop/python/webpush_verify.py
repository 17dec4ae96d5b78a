"""Our Web Push sender, judged by http-ece (does a browser's key open it?), py-vapid and PyJWT (is the token ours?)."""

import base64
import http.server
import json
import os
import threading
import time

import http_ece
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02

from sandbox import check
from send_one import send_one


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def point(key):
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


class PushService(http.server.BaseHTTPRequestHandler):
    seen = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.seen.append((self.path, self.headers, body))
        self.send_response(201)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), PushService)
threading.Thread(target=server.serve_forever, daemon=True).start()
port = server.server_address[1]

vapid = ec.generate_private_key(ec.SECP256R1())
browsers = [(ec.generate_private_key(ec.SECP256R1()), os.urandom(16)) for _ in range(3)]
texts = ["Hello", "Grüße 👋 " * 20, "x" * 9_000]
answers = send_one({
    "provider": "webpush",
    "settings": {
        "subject": "mailto:push@example.com",
        "padTo": 64,
    },
    "secrets": {"vapidPrivateKey": b64(vapid.private_numbers().private_value.to_bytes(32, "big"))},
    "lane": "high",
    "ttlMs": 90_500,
    "collapseKey": "a key that is too long for a topic, and has blanks",
    "messages": [
        {
            "reference": f"r{number}",
            "endpoint": f"web 0 {b64(point(key))} {b64(auth)} http://127.0.0.1:{port}/browser/{number}",
            "content": {"title": "T", "body": text, "data": {"number": number}},
        }
        for number, ((key, auth), text) in enumerate(zip(browsers, texts))
    ],
})
check("everything was taken", [one["answer"] for one in answers], ["accepted"] * 3)

for path, headers, body in PushService.seen:
    number = int(path.rsplit("/", 1)[1])
    key, auth = browsers[number]
    opened = json.loads(http_ece.decrypt(body, private_key=key, auth_secret=auth, version="aes128gcm"))
    shown = (opened["title"], opened["data"], opened["reference"])
    check(f"http-ece opens {number}", shown, ("T", {"number": number}, f"r{number}"))
    fits = opened["body"] == texts[number] or (opened["body"].endswith("…") and len(body) == 4096)
    check(f"the text of {number} is whole, or cut to fit", fits, True)
    wanted = [headers[name] for name in ("ttl", "urgency", "content-encoding", "content-type")]
    check(f"the headers of {number}", wanted, ["90", "high", "aes128gcm", "application/octet-stream"])
    check(f"the topic of {number}", len(headers["topic"]), 32)
    authorization = headers["authorization"]
    # py-vapid takes the parts without a blank between them only.
    check(f"py-vapid believes {number}", Vapid02.verify(authorization.replace(", ", ",")), True)
    parts = dict(part.strip().split("=", 1) for part in authorization.removeprefix("vapid ").split(","))
    check(f"the key of {number}", parts["k"], b64(point(vapid)))
    claims = jwt.decode(
        parts["t"], vapid.public_key(), algorithms=["ES256"], audience=f"http://127.0.0.1:{port}",
        options={"require": ["exp", "aud", "sub"]},
    )
    check(f"PyJWT: the subject of {number}", claims["sub"], "mailto:push@example.com")
    check(f"PyJWT: {number} ends within a day", time.time() < claims["exp"] < time.time() + 86_400, True)
check("no two bodies share key or salt", len({body[:86] for _, _, body in PushService.seen}), 3)
