"""Our SES sender before moto's server, which other people wrote to stand for Amazon."""

import subprocess
import sys
import time
import urllib.request

import boto3

from desk import Desk
from sandbox import check

URL = "http://127.0.0.1:5055"


def wait_for_moto():
    for _ in range(200):
        try:
            return urllib.request.urlopen(URL + "/moto-api/data.json", timeout=1).status
        except OSError:
            time.sleep(0.1)
    raise AssertionError("moto did not start")


def main():
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "5055"], stderr=subprocess.DEVNULL)
    try:
        wait_for_moto()
        keys = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "secret", "region_name": "eu-west-1"}
        boto3.client("ses", endpoint_url=URL, **keys).verify_email_identity(EmailAddress="news@shop.example")
        desk = Desk()
        settings = {"fromAddress": "news@shop.example", "region": "eu-west-1", "endpoint": URL}
        secrets = {"accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "secret"}
        content = {"subject": "Grüße", "html": "<p>Hallo</p>"}
        ask = {"send": "ses", "secrets": secrets, "content": content, "messages": [{"reference": "r1", "to": "ann@a.example"}]}
        [answer] = desk.ask(settings=settings, **ask)["answers"]
        check("moto takes our mail", answer.startswith("accepted ") and len(answer) > 15, True)
        other = {**settings, "fromAddress": "news@other.example"}
        check("not from somebody it does not know", desk.ask(settings=other, **ask)["answers"], ["rejected Message MessageRejected"])
        desk.close()
        kept = urllib.request.urlopen(URL + "/moto-api/data.json").read().decode()
        check("and has it", "ann@a.example" in kept or "SESMessage" in kept or "RawMessage" in kept, True)
    finally:
        server.terminate()
        server.wait(timeout=10)


main()
