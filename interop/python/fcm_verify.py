"""The assertion and the messages of our FCM sender, judged by google-auth and PyJWT."""

import http.server
import json
import threading
import time
import urllib.parse

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from google.auth import jwt as google_jwt

from sandbox import check
from send_one import send_one


class Google(http.server.BaseHTTPRequestHandler):
    assertions = []
    sends = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/token":
            form = urllib.parse.parse_qs(body.decode())
            self.assertions.append(form)
            answer = {"access_token": "access", "expires_in": 3599, "token_type": "Bearer"}
        else:
            self.sends.append((self.path, self.headers["authorization"], json.loads(body)))
            answer = {"name": "projects/p1/messages/1"}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Google)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_address[1]}"
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
answers = send_one({
    "provider": "fcm",
    "settings": {"endpoint": base},
    "secrets": {"serviceAccount": {
        "type": "service_account",
        "project_id": "p1",
        "private_key_id": "key-1",
        "private_key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        "client_email": "sender@p1.iam.example",
        "token_uri": base + "/token",
    }},
    "content": {"title": "T", "data": {"a": {"b": 1}}},
    "messages": [{"reference": f"r{number}", "endpoint": f"fcm token 0 - device-{number}"} for number in range(20)],
})
check("everything was taken", {one["answer"] for one in answers}, {"accepted"})
check("one question for a token", len(Google.assertions), 1)
form = Google.assertions[0]
check("the grant", form["grant_type"], ["urn:ietf:params:oauth:grant-type:jwt-bearer"])
(assertion,) = form["assertion"]
check("its header", google_jwt.decode_header(assertion), {"alg": "RS256", "kid": "key-1", "typ": "JWT"})
by_google = dict(google_jwt.decode(assertion, certs={"key-1": public}, audience=base + "/token"))
by_pyjwt = jwt.decode(assertion, public, algorithms=["RS256"], audience=base + "/token")
check("google-auth and PyJWT read the same", by_google, by_pyjwt)
check("who asks", by_google["iss"], "sender@p1.iam.example")
check("for what", by_google["scope"], "https://www.googleapis.com/auth/firebase.messaging")
check("for an hour", by_google["exp"] - by_google["iat"], 3600)
check("from now on", abs(time.time() - by_google["iat"]) < 60, True)
check("each message once", sorted(one["message"]["token"] for _, _, one in Google.sends), sorted(f"device-{n}" for n in range(20)))
check("under its path and token", {one[:2] for one in Google.sends}, {("/v1/projects/p1/messages:send", "Bearer access")})
check("data is strings", {one["message"]["data"]["a"] for _, _, one in Google.sends}, {'{"b":1}'})
