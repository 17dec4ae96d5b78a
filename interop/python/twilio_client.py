"""twilio's client sends through the sandbox; its validator judges callbacks, SHA-1 and SharedKey SHA-256, and ours agrees."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl

from sandbox import check, control
from twilio.base.exceptions import TwilioRestException
from twilio.request_validator import RequestValidator, get_signature_algorithm
from twilio.rest import Client
from verdicts import Verdicts

SID = "AC00000000000000000000000000000002"
TOKEN = "token-of-the-sandbox"
FROM, TO = "+12025550100", "+12025550199"
told = []
arrived = threading.Condition()


class Listener(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        settings = self.headers.get("x-twilio-webhooks-signature-settings")
        with arrived:
            told.append((self.path, self.headers["x-twilio-signature"], settings, body))
            arrived.notify_all()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}"
ours = Verdicts()


def wait_for(count):
    with arrived:
        assert arrived.wait_for(lambda: len(told) >= count, timeout=20), "no callback came"


def believed(one, secret):
    """By their validator and by ours."""
    path, signature, settings, body = one
    params = dict(parse_qsl(body, keep_blank_values=True))
    theirs = RequestValidator(secret).validate(base + path, params, signature, get_signature_algorithm(settings))
    secrets = {"authToken": TOKEN, "webhookKeys": {"key1": secret}} if settings else {"authToken": secret}
    question = {"ask": "callback", "url": base + path, "signature": signature, "settings": settings, "body": body}
    return theirs, ours.ask({**question, "secrets": secrets})["trusted"]


client = Client(SID, TOKEN)
made = client.messages.create(to=TO, from_=FROM, body="Hi", status_callback=f"{base}/callbacks/ref1")
check("a message is taken", [made.sid[:2], made.status, made.num_segments], ["SM", "queued", "1"])
wait_for(2)
check("signed with SHA-1, both believe", [believed(one, TOKEN) for one in told], [(True, True)] * 2)
check("with another token neither does", [believed(one, "other") for one in told], [(False, False)] * 2)

account = {"authToken": TOKEN, "sharedKey": {"id": "key1", "secret": "shared-secret"}}
control("PUT", f"/twilio/accounts/{SID}", account)
control("PUT", "/twilio/senders/%2B12025550100", {"perSecond": 100})
client.messages.create(to=TO, from_=FROM, body="Hi", status_callback=f"{base}/callbacks/ref2")
wait_for(4)
check("they are signed with a SharedKey", [one[2] for one in told[2:]], ["key=key1,algorithm=HMAC_SHA256"] * 2)
check("with SHA-256, both believe", [believed(one, "shared-secret") for one in told[2:]], [(True, True)] * 2)
check("with another secret neither does", [believed(one, "other") for one in told[2:]], [(False, False)] * 2)

control("POST", "/twilio/inbound", {"from": TO, "to": FROM, "body": "STOP", "account": SID, "url": f"{base}/inbound"})
wait_for(5)
check("STOP comes in, signed", believed(told[4], "shared-secret"), (True, True))
try:
    client.messages.create(to=TO, from_=FROM, body="Hi")
    check("then nothing is taken", True, False)
except TwilioRestException as error:
    check("then the recipient gets nothing", [error.status, error.code], [400, 21610])
ours.end()
server.shutdown()
