"""Our signatures of requests beside botocore's, for many requests of every kind; and its model of a bulk call."""

import datetime
import json
import pathlib
import random

import botocore.auth
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.session import Session
from botocore.validate import ParamValidator

from desk import Desk
from sandbox import check

ROUNDS = 200
SAFE = "abcXYZ019-._~"
BULK = pathlib.Path(__file__).parents[2] / "crates/channels/tests/golden/ses"


def text(dice, letters, longest):
    return "".join(dice.choice(letters) for _ in range(dice.randrange(1, longest)))


def encoded(dice):
    return "".join(dice.choice([dice.choice(SAFE), f"%{dice.randrange(0x20, 0x7f):02X}"]) for _ in range(dice.randrange(1, 9)))


def modelled():
    """The bulk calls that our tests hold on to, by the model of the service: no field that it does not know, none missing."""
    operation = Session().get_service_model("sesv2").operation_model("SendBulkEmail")
    check("where a bulk call goes", (operation.http["method"], operation.http["requestUri"]), ("POST", "/v2/email/outbound-bulk-emails"))
    for path in sorted(BULK.glob("*.json")):
        payload = json.loads(path.read_text())["payload"]
        report = ParamValidator().validate(payload, operation.input_shape)
        check(f"{path.name} is as the model says", report.generate_report(), "")


def main():
    modelled()
    desk = Desk()
    dice = random.Random(7)
    same = 0
    for _ in range(ROUNDS):
        service = dice.choice(["ses", "sns", "s3"])
        at = datetime.datetime.fromtimestamp(dice.randrange(1_500_000_000, 2_000_000_000), datetime.timezone.utc)
        botocore.auth.get_current_datetime = lambda *_, **__: at.replace(tzinfo=None)
        method = dice.choice(["GET", "POST", "PUT", "DELETE"])
        host = dice.choice([f"{service}.eu-west-1.amazonaws.com", "127.0.0.1:4566", "bucket.s3.local"])
        path = "/" + "/".join(text(dice, SAFE, 9) if service == "s3" else encoded(dice) for _ in range(dice.randrange(0, 4)))
        path = path.replace("/.", "/x")
        query = "&".join(f"{text(dice, SAFE, 6)}={text(dice, SAFE, 9)}" for _ in range(dice.randrange(0, 4)))
        url = f"https://{host}{path}" + (f"?{query}" if query else "")
        headers = {"content-type": "application/json", "x-amz-meta-one": " two  words "} if dice.random() < 0.5 else {}
        body = text(dice, SAFE + " {}\"ü", 60) if method in ("POST", "PUT") else ""
        token = text(dice, SAFE + "+/=", 40) if dice.random() < 0.3 else None
        credentials = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token)
        request = AWSRequest(method=method, url=url, headers=dict(headers), data=body.encode())
        kind = S3SigV4Auth if service == "s3" else SigV4Auth
        kind(credentials, service, "eu-west-1").add_auth(request)
        ours = desk.ask(
            sign={
                "method": method,
                "url": url,
                "headers": headers,
                "body": body,
                "service": service,
                "region": "eu-west-1",
                "seconds": int(at.timestamp()),
                "accessKeyId": "AKIDEXAMPLE",
                "secretAccessKey": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                "sessionToken": token,
            }
        )
        assert ours.get("authorization") == request.headers["Authorization"], (url, headers, ours, request.headers["Authorization"])
        same += 1
    check("requests that botocore signs the same", same, ROUNDS)
    desk.close()


main()
