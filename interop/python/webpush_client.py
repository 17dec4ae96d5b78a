"""pywebpush against the sandbox, which plays push service and browser."""

import json

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import Vapid
from py_vapid.utils import b64urlencode
from pywebpush import WebPushException, webpush

from sandbox import check, control, judge, uuid

VAPID = Vapid(ec.generate_private_key(ec.SECP256R1()))
PUBLIC = b64urlencode(
    VAPID.public_key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
)


def subscribe(**wish):
    return control("POST", "/webpush/subscriptions", {"applicationServerKey": PUBLIC, **wish})


def main():
    sends = []

    def send(subscription, **options):
        reference = uuid()
        info = {"endpoint": subscription["endpoint"], "keys": subscription["keys"]}
        options.setdefault("vapid_claims", {"sub": "mailto:ops@example.org"})
        try:
            response = webpush(
                info, json.dumps({"id": reference, "title": "hello"}), vapid_private_key=VAPID, ttl=60, **options
            )
        except WebPushException as error:
            return error.response.status_code
        sends.append({"id": reference, "recipient": subscription["endpoint"]})
        return response.status_code

    good = subscribe()
    check("a message is taken", send(good, headers={"Topic": "news", "Urgency": "high"}), 201)
    check("another with its topic too", send(good, headers={"Topic": "news"}), 201)
    waiting = control("GET", f"/webpush/subscriptions/{good['id']}")["waiting"]
    check("and takes its place", len(waiting), 1)
    check("opened by the browser", json.loads(waiting[0]["text"])["title"], "hello")
    check("a service that is strict takes it", send(subscribe(service="apple")), 201)
    check("two urgencies are refused", send(good, headers={"Urgency": "high, low"}), 400)
    check("a long topic is refused", send(good, headers={"Topic": "x" * 33}), 400)
    ended = subscribe()
    control("DELETE", f"/webpush/subscriptions/{ended['id']}")
    check("an ended subscription is 410", send(ended), 410)
    check("too many is 429", send(subscribe(outcome="quota")), 429)
    judge(sends)


main()
