"""standardwebhooks verifies what we sign (v1); cryptography verifies and makes signatures of private keys (v1a)."""

import base64
import random
import time

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from sandbox import check
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from verdicts import Verdicts

dice = random.Random(13)
ours = Verdicts()


def believes(secret, headers, body):
    try:
        Webhook(secret).verify(body, headers)
        return True
    except WebhookVerificationError:
        return False


def fits(public, signature, said):
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(base64.b64decode(signature), said)
        return True
    except InvalidSignature:
        return False


counts = dict.fromkeys(["shared", "changed", "private", "other", "theirs"], 0)
for no in range(100):
    shared = "whsec_" + base64.b64encode(dice.randbytes(32)).decode()
    seed = dice.randbytes(32)
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    private = "whsk_" + base64.b64encode(seed + public).decode()
    now, body = int(time.time()), f'{{"no":{no}}}'
    said = f"ref{no}.{now}.{body}".encode()
    question = {"ask": "sign", "secrets": [shared, private], "id": f"ref{no}", "timestamp": now, "body": body}
    signature = ours.ask(question)["signature"]
    headers = {"webhook-id": f"ref{no}", "webhook-timestamp": str(now), "webhook-signature": signature}
    counts["shared"] += believes(shared, headers, body)
    counts["changed"] += not believes(shared, headers, body + " ")
    v1a = [one[4:] for one in signature.split(" ") if one.startswith("v1a,")]
    counts["private"] += len(v1a) == 1 and fits(public, v1a[0], said)
    counts["other"] += not fits(public, v1a[0], said + b" ")
    # The other way round: theirs, by the public key alone.
    whpk = ours.ask({"ask": "public", "secret": private})["public"]
    headers["webhook-signature"] = "v1a," + base64.b64encode(key.sign(said)).decode()
    asked = {"ask": "verify", "secret": whpk, "headers": headers, "now": now}
    good, bad = ours.ask({**asked, "body": body})["trusted"], ours.ask({**asked, "body": body + " "})["trusted"]
    counts["theirs"] += whpk == "whpk_" + base64.b64encode(public).decode() and good and not bad
check("standardwebhooks verifies our shared signatures beside private ones", counts["shared"], 100)
check("and refuses what was changed", counts["changed"], 100)
check("cryptography verifies our private signatures", counts["private"], 100)
check("and refuses what was changed, too", counts["other"], 100)
check("we verify what it signs, by the public key", counts["theirs"], 100)
ours.end()
